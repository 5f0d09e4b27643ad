//! Calls with a jq program, in builds of the core without jq.

use super::Call;
use crate::guard::jq_build::JqBuild;
use crate::guard::{Fault, Plan};
use crate::query::{NO_JQ, Query};

/// The reason why the guard's arguments of a call are rejected.
pub(super) enum ArgumentError {
    /// Another build of the core must decide.
    NeedsJq,
    /// An argument is invalid. Holds a message for the caller.
    Invalid(String),
}

impl Call<'_> {
    /// Checks that this build can run the jq program of a query, if the query has one. Fails with
    /// [`ArgumentError`] otherwise.
    pub(super) fn check_program(&self, query: &Query) -> Result<(), ArgumentError> {
        if !query.needs_jq() {
            return Ok(());
        }
        Err(match self.cx.jq_build {
            JqBuild::Loadable => ArgumentError::NeedsJq,
            JqBuild::Absent => ArgumentError::Invalid(query.jq_error(NO_JQ)),
            JqBuild::Failed(reason) => ArgumentError::Invalid(query.jq_error(reason)),
        })
    }

    /// Returns a plan that answers the call of the tool `name` with the reason why its arguments
    /// are rejected.
    ///
    /// # Errors
    /// Returns [`Fault::NeedsJq`] if another build of the core must decide.
    pub(super) fn refuse_arguments(&self, name: &str, error: ArgumentError) -> Result<Plan, Fault> {
        match error {
            ArgumentError::NeedsJq => Err(Fault::NeedsJq),
            ArgumentError::Invalid(reason) => Ok(self.refuse(name, &reason)),
        }
    }
}
