//! Queries that are a program of jq.

#[cfg(feature = "jq")]
use super::jq;
use super::{Query, QueryResult};

/// The reason for an error in a build without jq.
#[cfg(not(feature = "jq"))]
pub(super) const NO_JQ: &str = "this build has no jq: use where, aggregate, path and grep";

impl Query {
    /// Returns true if the query is a program for the whole document.
    pub(super) fn is_program(&self) -> bool {
        self.jq.is_some() && self.path.is_none() && !self.filters()
    }

    /// Runs the program of jq on a JSON document, which may be a list of lines or of the records
    /// that a condition chose.
    #[cfg(feature = "jq")]
    pub(super) fn run_jq(&self, document: &[u8], is_lines: bool) -> Result<QueryResult, String> {
        let program = self.jq.as_deref().unwrap_or_default();
        let run = if is_lines { jq::run_on_lines } else { jq::run };
        let results = run(program, document)?;
        let shown: String = program.chars().take(80).collect();
        let count = match results.count {
            1 => String::new(),
            count => format!(", {count} results as a list"),
        };
        let notes: String = results.notes.iter().map(|note| format!("; {note}")).collect();
        let what = format!("jq {shown:?}{count}{notes}");
        Ok(QueryResult::new(results.bytes, results.is_text, what))
    }

    /// Refuses the program of jq, which this build cannot run.
    #[cfg(not(feature = "jq"))]
    pub(super) fn run_jq(&self, _: &[u8], _: bool) -> Result<QueryResult, String> {
        Err(NO_JQ.to_owned())
    }
}
