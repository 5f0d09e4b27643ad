//! Upstreams (MCP servers and HTTP APIs): transports, connections, protocol handshakes and
//! failures.

pub(crate) mod availability;
mod child_process;
mod circuit;
pub(crate) mod client;
pub(crate) mod connection;
mod connector;
mod credentials;
pub(crate) mod environment;
mod error_output;
mod http_connector;
pub(crate) mod http_upstream;
mod inbox;
mod legacy_sse;
mod line_writer;
pub(crate) mod process_command;
mod process_limits;
pub(crate) mod processes;
pub(crate) mod request_table;
pub(crate) mod resource_subscriptions;
mod resumption;
mod sandbox;
pub(crate) mod server;
pub(crate) mod statuses;
mod streamable_http;
mod subscriber_counts;
pub(crate) mod turns;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use thiserror::Error;

use crate::stream_limits::StreamLimits;

/// The client on whose behalf the gateway sends requests to an upstream.
#[derive(Clone, Debug)]
pub(crate) struct CallerHeaders {
    /// The principal. An upstream with OAuth receives the token of this principal.
    pub(crate) principal: Arc<str>,
    /// The owner of the client's share of processes: the principal, or the address of an anonymous
    /// caller.
    pub(crate) owner: Arc<str>,
    /// The client's headers that are sent with every request.
    pub(crate) headers: HeaderMap,
    /// The limits of streams that wait for changes. An event stream of the upstream counts as one.
    pub(crate) streams: Arc<StreamLimits>,
}

/// The reason why an upstream did not answer a request.
#[derive(Clone, Debug, Error)]
pub(crate) enum Failure {
    /// The gateway cannot connect to the upstream, or cannot start its process, whatever the
    /// request is.
    #[error("{0}")]
    Unreachable(String),
    /// The upstream closed the connection, or answered that it is unavailable.
    #[error("{0}")]
    Unavailable(String),
    /// The upstream refuses the client.
    #[error("{0}")]
    Refused(String),
    /// The gateway has no place for the process now.
    #[error("{0}")]
    NoCapacity(String),
    /// The gateway ended the idle process before the request was sent, because another process
    /// needed its place.
    #[error("{0}")]
    Evicted(String),
    /// The upstream has ended the session and has not processed the request.
    #[error("{0}")]
    SessionEnded(String),
    /// The upstream did not answer in time.
    #[error("{0}")]
    Timeout(String),
    /// The upstream's answer exceeds the size limit.
    #[error("{0}")]
    TooLarge(String),
    /// The upstream's answer is not a valid JSON-RPC response.
    #[error("{0}")]
    InvalidAnswer(String),
    /// The upstream does not speak MCP, or speaks no version that the gateway can translate.
    #[error("{0}")]
    NotTranslatable(String),
}

impl Failure {
    /// Returns the failure of an upstream that receives no requests for the time `wait`, because it
    /// failed repeatedly.
    fn circuit_open(upstream: &str, wait: Duration) -> Self {
        Self::Unavailable(format!(
            "The upstream `{upstream}` has failed several times in a row and is left alone for {} s more, or until it is back.",
            wait.as_secs() + 1
        ))
    }

    /// Returns the failure of an upstream whose idle process was ended for another process.
    fn evicted(upstream: &str) -> Self {
        Self::Evicted(format!(
            "The idle process of the upstream `{upstream}` was ended, because its place was needed \
             (limits.processes). Repeat the request, which starts it again."
        ))
    }

    /// Returns true if the gateway itself had no process for the request, so that the upstream is
    /// not at fault.
    pub(crate) fn is_of_capacity(&self) -> bool {
        matches!(self, Self::NoCapacity(_) | Self::Evicted(_))
    }

    /// Returns the failure of an upstream that ended the session before it processed the request.
    fn session_ended(upstream: &str) -> Self {
        Self::SessionEnded(format!(
            "The upstream `{upstream}` ended the session: send the request again, which opens a new session."
        ))
    }

    /// Returns the failure of an upstream that closed its event stream before it answered.
    pub(crate) fn stream_ended(upstream: &str) -> Self {
        Self::Unavailable(format!("The upstream `{upstream}` ended its stream without an answer."))
    }

    /// Returns the failure of an upstream whose answer is no valid response. `reason` is a clause,
    /// such as `has no result`.
    pub(crate) fn invalid_answer(upstream: &str, reason: &str) -> Self {
        let subject = match upstream {
            "" => "The server".to_owned(),
            name => format!("The upstream `{name}`"),
        };
        Self::InvalidAnswer(format!(
            "{subject} sent an answer that is not valid JSON-RPC: it {reason}."
        ))
    }

    /// Returns the failure of a call that was not finished within the time `limit`.
    pub(crate) fn call_too_long(upstream: &str, limit: Duration) -> Self {
        Self::Timeout(format!(
            "The upstream `{upstream}` did not finish the call within {} s \
             (upstreams[].limits.callSeconds).",
            limit.as_secs()
        ))
    }

    /// Returns the JSON-RPC error code that clients receive for this failure.
    pub(crate) fn code(&self) -> i64 {
        use super::reply;
        match self {
            Self::Unreachable(_)
            | Self::Unavailable(_)
            | Self::Refused(_)
            | Self::NoCapacity(_)
            | Self::Evicted(_)
            | Self::SessionEnded(_)
            | Self::InvalidAnswer(_) => reply::UPSTREAM_UNAVAILABLE,
            Self::Timeout(_) => reply::UPSTREAM_TIMEOUT,
            Self::TooLarge(_) => reply::TOO_LARGE,
            Self::NotTranslatable(_) => reply::NOT_TRANSLATABLE,
        }
    }
}
