//! Errors of the engine.

use context_guard_cursor_store::StoreError;
use thiserror::Error;

use crate::PolicyIssue;

/// The result of an engine operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why the engine or a component cannot serve.
#[derive(Debug, Error)]
pub enum Error {
    /// The engine cannot run on this machine.
    #[error("cannot start the WebAssembly engine: {0}")]
    Engine(String),
    /// The bytes are not a component, or an import is not available on this host.
    #[error("invalid guard component: {0}")]
    Load(String),
    /// The guard trapped, ran out of memory, reported an internal fault, or found no free instance.
    #[error("the guard failed: {0}")]
    Trap(String),
    /// The guard was interrupted at its deadline.
    #[error("the guard failed: it did not finish within its deadline")]
    Deadline,
    /// The guard refused its input, with this reason: a message that is malformed, too deep or too
    /// large, or a cursor that it cannot read.
    #[error("the guard cannot process this message: {0}")]
    Fault(String),
    /// The guard could not write to or read from the cursor store.
    #[error("the cursor store failed: {0}")]
    Store(StoreError),
    /// The policy is invalid. Contains all errors of the policy.
    #[error("invalid policy: {}", paths(.0))]
    Policy(Vec<PolicyIssue>),
}

fn paths(issues: &[PolicyIssue]) -> String {
    let line = |issue: &PolicyIssue| format!("{}: {}", issue.path, issue.reason);
    issues.iter().map(line).collect::<Vec<_>>().join("; ")
}
