//! Errors of logins and of the token store.

use thiserror::Error;

use crate::config;

/// The result of an OAuth operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a login failed, or a token cannot be stored or read.
#[derive(Debug, Error)]
pub enum Error {
    /// A file cannot be read or written, or cannot be decrypted.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A server cannot be reached, or its answer is no answer to the question.
    #[error("{0}")]
    Unavailable(String),
    /// The metadata of the upstream or of its authorization server do not permit a login.
    #[error("{0}")]
    Discovery(String),
    /// The authorization server or the user refused, or the answer fails a check.
    #[error("{0}")]
    Refused(String),
    /// A setting or an option does not fit.
    #[error("{0}")]
    Setup(String),
    /// The operating system refused random bytes, a port or a lock.
    #[error("input or output failed: {0}")]
    Io(#[from] std::io::Error),
}
