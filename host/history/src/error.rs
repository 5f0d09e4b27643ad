//! Errors of the history.

use std::path::PathBuf;

use thiserror::Error;

/// The result of an operation on the history.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why the history cannot be opened, written or queried.
#[derive(Debug, Error)]
pub enum Error {
    /// The file does not exist.
    #[error(
        "there is no history at {}: no call has been recorded there yet. `wrap` and `stdio` record \
         calls there, and `serve` where its setting `history` says",
        .0.display()
    )]
    Missing(PathBuf),
    /// The file cannot be created, or its permissions cannot be set.
    #[error("the history file {} cannot be opened: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A later version of the program has written the file.
    #[error(
        "the history file has schema version {found}, and this program knows {known}: update it, or name another file"
    )]
    Version {
        /// The version of the file.
        found: i64,
        /// The latest version that this program knows.
        known: i64,
    },
    /// SQLite failed.
    #[error("the history file cannot be used: {0}")]
    Database(#[from] rusqlite::Error),
    /// A query is invalid. Contains the error, and the valid values.
    #[error("{0}")]
    Query(String),
    /// The writer thread cannot start.
    #[error("the writer of the history cannot start: {0}")]
    Thread(std::io::Error),
}
