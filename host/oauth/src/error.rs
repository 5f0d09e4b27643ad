//! Errors of logins and of the token store.

use thiserror::Error;

use crate::config;

/// The result of an OAuth operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a login failed, or a token cannot be stored or read.
#[derive(Debug, Error)]
pub enum Error {
    /// A file cannot be read, written or decrypted.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A server is unreachable, or its response is not a valid answer.
    #[error("{0}")]
    Unavailable(String),
    /// The metadata of the upstream or of its authorization server do not permit a login.
    #[error("{0}")]
    Discovery(String),
    /// The authorization server or the user refused, or a check of the response failed.
    #[error("{0}")]
    Refused(String),
    /// A setting or an option is invalid.
    #[error("{0}")]
    Setup(String),
    /// The operating system cannot provide random bytes, a port or a lock.
    #[error("input or output failed: {0}")]
    Io(#[from] std::io::Error),
}
