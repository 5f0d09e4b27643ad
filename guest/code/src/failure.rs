//! Failures of programs, with their positions.

use rquickjs::{CatchResultExt, CaughtError, Ctx, Result};

use crate::bindings::context_guard::code::types::{Failure, FailureKind};

/// The name of the program in stack traces.
pub(crate) const FILE: &str = "program";
/// The number of lines that the sandbox adds before the program.
const LINES_BEFORE: u32 = 1;
/// The maximum size of the message of an error, in bytes.
const MAX_MESSAGE_BYTES: usize = 2_000;

/// Returns a failure without a position.
pub(crate) fn without_position(kind: FailureKind, message: &str) -> Failure {
    Failure { kind, message: shortened(message), line: 0, column: 0 }
}

/// Returns the failure for an error that the engine reported, with the position from the stack
/// trace.
pub(crate) fn of_error<T>(ctx: &Ctx<'_>, error: Result<T>, kind: FailureKind) -> Failure {
    match error.catch(ctx) {
        Ok(_) => without_position(kind, "The program failed."),
        Err(CaughtError::Exception(exception)) => {
            let name: Option<String> = exception.as_object().get("name").ok();
            let message = exception.message().unwrap_or_default();
            let name = name.unwrap_or_else(|| "Error".to_owned());
            let (line, column) = position(&exception.stack().unwrap_or_default());
            let kind = if name == "SyntaxError" && kind == FailureKind::Syntax {
                FailureKind::Syntax
            } else {
                FailureKind::Thrown
            };
            Failure { kind, message: shortened(&format!("{name}: {message}")), line, column }
        }
        Err(CaughtError::Value(value)) => {
            let text = ctx.json_stringify(value).ok().flatten();
            let text = text.and_then(|text| text.to_string().ok()).unwrap_or_default();
            without_position(FailureKind::Thrown, &format!("The program threw {text}"))
        }
        Err(CaughtError::Error(error)) => without_position(kind, &error.to_string()),
    }
}

/// Returns the line and the column, from 1, of the first stack frame inside the program. Zeros if
/// there is none.
fn position(stack: &str) -> (u32, u32) {
    let found = stack.lines().find_map(|line| {
        let (_, at) = line.rsplit_once(&format!("{FILE}:"))?;
        let mut numbers = at.trim_end_matches(')').split(':');
        let line: u32 = numbers.next()?.parse().ok()?;
        let column = numbers.next().and_then(|column| column.parse().ok()).unwrap_or(0);
        Some((line.checked_sub(LINES_BEFORE)?, column))
    });
    found.unwrap_or((0, 0))
}

fn shortened(message: &str) -> String {
    match message.char_indices().map(|(at, _)| at).find(|at| *at >= MAX_MESSAGE_BYTES) {
        Some(end) => format!("{}…", message.get(..end).unwrap_or_default()),
        None => message.to_owned(),
    }
}
