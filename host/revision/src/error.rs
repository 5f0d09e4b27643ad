//! Errors of revisions.

use context_guard_config::document::{Issue, Issues};
use thiserror::Error;

use crate::{config, engine};

/// The result of a change of revisions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a revision cannot serve.
#[derive(Debug, Error)]
pub enum Error {
    /// The WebAssembly engine, the guard component or a call of it failed.
    #[error(transparent)]
    Engine(engine::Error),
    /// A policy or another file of the operator is invalid or unreadable.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A component, policy or key was rejected, or there is no revision to promote or to roll back
    /// to. The active revision continues to serve.
    #[error("{0}")]
    Refused(String),
    /// The operating system cannot provide a thread, a file watch or random bytes.
    #[error("input or output failed: {0}")]
    Io(#[from] std::io::Error),
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        match error {
            engine::Error::Policy(issues) => config::Error::Policy(policy_issues(&issues)).into(),
            error => Self::Engine(error),
        }
    }
}

/// Converts the issues that the guard component reports on a policy to issues of a file, without
/// line numbers.
#[must_use]
pub fn policy_issues(issues: &[engine::PolicyIssue]) -> Issues {
    Issues(issues.iter().map(|issue| Issue::at_path(&issue.path, &issue.reason)).collect())
}
