//! Checks of queries before they run.

use super::Query;
use super::aggregate::Aggregates;
use super::condition::Condition;
use super::grep::Pattern;
use super::path::Path;
use crate::fields::mask::Mask;

impl Query {
    /// Checks the syntax of the query, and the combination of its parts. A build without jq does
    /// not check programs.
    ///
    /// # Errors
    /// Returns a message for the caller that states the invalid part.
    pub fn validate(&self) -> Result<(), String> {
        if let Some(path) = &self.path {
            Path::parse(path)?;
        }
        if let Some(fields) = &self.fields {
            Mask::parse(fields)?;
        }
        if let Some(pattern) = &self.grep {
            Pattern::for_search(pattern, self.ignore_case)?;
        }
        // Statements inside others are checked on their own.
        if let Some(query) =
            self.with_results_of(&mut |query| query.validate().map(|()| b"[1]".to_vec()))?
        {
            return query.validate();
        }
        if let Some(aggregate) = &self.aggregate {
            Aggregates::parse(aggregate)?;
        }
        if let Some(condition) = &self.condition {
            Condition::parse(condition)?;
        }
        #[cfg(feature = "jq")]
        if let Some(program) = &self.jq {
            super::jq::validate(program)?;
        }
        let others = self.fields.is_some()
            || self.aggregate.is_some()
            || self.mode.is_some()
            || self.grep.is_some();
        if self.jq.is_some() && others {
            return Err("jq cannot be combined with fields, aggregate, grep and response_mode: the program selects and computes itself; path and where choose its input".to_owned());
        }
        if self.aggregate.is_some() && (self.mode.is_some() || self.fields.is_some()) {
            return Err("aggregate returns totals, so fields and response_mode cannot be asked for together with it: make a call for each".to_owned());
        }
        let has_context = self.context.is_some_and(|context| context > 0);
        let ignores_case = self.condition.is_some() && self.ignore_case == Some(true);
        if self.grep.is_none() && (has_context || (self.ignore_case.is_some() && !ignores_case)) {
            return Err("context and ignoreCase belong to grep, which is missing; ignoreCase: true also to where".to_owned());
        }
        if self.grep.is_some() && has_context && (self.filters() || self.greps_records()) {
            return Err("context shows what is around matches: leave it out with where, fields, aggregate and response_mode".to_owned());
        }
        Ok(())
    }
}
