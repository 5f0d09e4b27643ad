//! What stands behind the gateway: how it is reached, and when it is left alone.

mod child_process;
pub(crate) mod connection;
pub(crate) mod http_upstream;
pub(crate) mod request_table;
pub(crate) mod server;
mod streamable_http;

use thiserror::Error;

/// Why an upstream gave no answer.
#[derive(Clone, Debug, Error)]
pub(crate) enum Failure {
    /// It cannot be reached, or went away.
    #[error("{0}")]
    Unavailable(String),
    /// It did not answer in time.
    #[error("{0}")]
    Timeout(String),
    /// Its answer is longer than the gateway takes.
    #[error("{0}")]
    TooLarge(String),
    /// What it said is not MCP, or cannot be said in the client's revision.
    #[error("{0}")]
    NotTranslatable(String),
}

impl Failure {
    /// The code of the protocol error.
    pub(crate) fn code(&self) -> i64 {
        use super::wire::reply;
        match self {
            Self::Unavailable(_) => reply::UPSTREAM_UNAVAILABLE,
            Self::Timeout(_) => reply::UPSTREAM_TIMEOUT,
            Self::TooLarge(_) => reply::TOO_LARGE,
            Self::NotTranslatable(_) => reply::NOT_TRANSLATABLE,
        }
    }
}
