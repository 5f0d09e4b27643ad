//! The reasons why a program returns no value.

use thiserror::Error;

/// The reason why a run failed, for the author of the program.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RunError {
    /// The program is not valid JavaScript.
    #[error("{0}")]
    Syntax(Excerpt),
    /// The program threw an error.
    #[error("{0}")]
    Thrown(Excerpt),
    /// The program waits for a promise that is never settled. Contains the message.
    #[error("{0}")]
    Stuck(String),
    /// The returned value is missing, too large or not JSON. Contains the message.
    #[error("{0}")]
    Value(String),
    /// The program did not end before its deadline.
    #[error("The program did not end before its deadline.")]
    Deadline,
    /// The run was cancelled.
    #[error("The run was cancelled.")]
    Cancelled,
    /// The program exceeded its memory limit. Contains the limit in units of 1,048,576 bytes.
    #[error(
        "The program used more than {0} MB of memory. Read records with open(cursor).rows() or keep fewer of them."
    )]
    Memory(usize),
    /// The program recursed too deeply.
    #[error("The program recursed too deeply. Use a loop.")]
    Recursion,
    /// The sandbox failed. Contains the message.
    #[error("The sandbox failed: {0}")]
    Sandbox(String),
}

/// An error at a position of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The message of the error.
    pub message: String,
    /// The line of the error, counted from 1. 0 if it is unknown.
    pub line: u32,
    /// The column of the error, counted from 1. 0 if it is unknown.
    pub column: u32,
    /// The text of the line with the error: at most 160 characters around the column. Empty if the
    /// line is unknown.
    pub source: String,
}

/// The maximum length of a line of the program in an excerpt, in characters.
const MAX_SOURCE_CHARACTERS: usize = 160;

impl Excerpt {
    /// Returns the error at `line` and `column` of `program`. Both are counted from 1, and 0 means
    /// unknown.
    pub(crate) fn new(program: &str, message: String, line: u32, column: u32) -> Self {
        let at = usize::try_from(line).ok().and_then(|line| line.checked_sub(1));
        let source = at.and_then(|at| program.lines().nth(at)).unwrap_or_default();
        // Of a long line, the part around the position is shown.
        let skipped = (column as usize).saturating_sub(MAX_SOURCE_CHARACTERS / 2);
        let source = source.chars().skip(skipped).take(MAX_SOURCE_CHARACTERS).collect();
        Self { message, line, column, source }
    }
}

impl std::fmt::Display for Excerpt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        if self.line > 0 {
            write!(f, "\nat line {}, column {}: {}", self.line, self.column, self.source.trim())?;
        }
        Ok(())
    }
}
