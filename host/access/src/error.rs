//! Errors of access control.

use context_guard_config as config;
use thiserror::Error;

/// The result of setting up access control.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why access control cannot start.
#[derive(Debug, Error)]
pub enum Error {
    /// A file cannot be read, written or parsed.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A setting or a name is invalid, or the name already has a key. Contains the message for the
    /// operator.
    #[error("{0}")]
    Setup(String),
    /// The operating system cannot start a thread or provide random bytes.
    #[error("input or output failed: {0}")]
    Io(#[from] std::io::Error),
}
