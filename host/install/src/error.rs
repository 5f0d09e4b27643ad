//! The errors of this crate.

use std::path::PathBuf;

/// The result of an operation on a client configuration.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a client configuration cannot be edited. The configuration was not written,
/// unless [`crate::Journal::restore`] fails after it has written the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not valid in the client's format.
    #[error("{0}")]
    Format(String),
    /// The edited text would differ from the intended result, so it is discarded.
    #[error(
        "the edit of server \"{server}\" cannot be verified: {reason}; put `wrap --` before its command by hand"
    )]
    Verify {
        /// The name of the server.
        server: String,
        /// The difference between the expected and the actual result.
        reason: String,
    },
    /// The servers are written in a form that edits do not support. Contains the message.
    #[error("{0}")]
    Unsupported(String),
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A safety rule forbids the edit.
    #[error("{path}: {reason}", path = path.display())]
    Refused {
        /// The path of the file.
        path: PathBuf,
        /// The rule, and the way to satisfy it.
        reason: String,
    },
}
