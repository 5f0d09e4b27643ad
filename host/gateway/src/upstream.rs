//! The upstreams: transports, connections, protocol handshakes and failures.

mod child_process;
pub(crate) mod connection;
mod connector;
pub(crate) mod http_upstream;
mod inbox;
pub(crate) mod request_table;
pub(crate) mod server;
mod streamable_http;

use std::time::Duration;

use thiserror::Error;

/// The reason why an upstream gave no answer.
#[derive(Clone, Debug, Error)]
pub(crate) enum Failure {
    /// The upstream cannot be reached, or closed the connection.
    #[error("{0}")]
    Unavailable(String),
    /// The upstream did not answer in time.
    #[error("{0}")]
    Timeout(String),
    /// The answer exceeds the size limit.
    #[error("{0}")]
    TooLarge(String),
    /// The upstream does not speak MCP, or no version that the gateway can translate.
    #[error("{0}")]
    NotTranslatable(String),
}

impl Failure {
    /// The failure of an upstream whose circuit is open.
    fn circuit_open(upstream: &str, wait: Duration) -> Self {
        Self::Unavailable(format!(
            "The upstream `{upstream}` has failed several times in a row and is left alone for {} s more.",
            wait.as_secs() + 1
        ))
    }

    /// The failure of an upstream that closed its event stream too early.
    pub(crate) fn stream_ended(upstream: &str) -> Self {
        Self::Unavailable(format!("The upstream `{upstream}` ended its stream without an answer."))
    }

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
