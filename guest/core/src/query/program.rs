//! Queries with a jq program.

#[cfg(feature = "jq")]
use super::jq;
use super::{Query, QueryResult};

/// True if this build runs jq programs. In other builds, the linker removes the code that only
/// programs need.
const HAS_JQ: bool = cfg!(feature = "jq");

/// The error for a jq program in a build without jq.
pub const NO_JQ: &str = "this build has no jq";

impl Query {
    /// Returns true if the query is only a jq program, for the whole document.
    pub(super) fn is_program(&self) -> bool {
        self.runs_jq() && self.path.is_none() && !self.filters()
    }

    /// Returns true if the query has a jq program, and this build cannot run it.
    #[must_use]
    pub fn needs_jq(&self) -> bool {
        !HAS_JQ && self.jq.is_some()
    }

    /// Returns true if the query has a jq program, and this build can run it.
    pub(super) fn runs_jq(&self) -> bool {
        HAS_JQ && self.jq.is_some()
    }

    /// Returns the error for a jq program that cannot run, with `reason`.
    #[must_use]
    pub fn jq_error(&self, reason: &str) -> String {
        let program = self.jq.as_deref().unwrap_or_default();
        format!("{reason}: use where, aggregate, path and grep: {program:?}")
    }

    /// Runs the jq program on a JSON document. `is_lines` is true if the document is a list of
    /// lines, or of the records that a condition selected.
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

    /// Returns an error. Never called, because [`Query::run`] rejects jq programs first.
    #[cfg(not(feature = "jq"))]
    pub(super) fn run_jq(&self, _: &[u8], _: bool) -> Result<QueryResult, String> {
        Err(NO_JQ.to_owned())
    }
}
