//! Errors of telemetry.

use context_guard_config as config;
use thiserror::Error;

/// The result of setting up telemetry.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why telemetry cannot start.
#[derive(Debug, Error)]
pub enum Error {
    /// A file cannot be read, written or parsed.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A setting has an invalid value. Contains the message.
    #[error("{0}")]
    Setup(String),
    /// The operating system cannot start a thread or provide random bytes.
    #[error("input or output failed: {0}")]
    Io(#[from] std::io::Error),
}
