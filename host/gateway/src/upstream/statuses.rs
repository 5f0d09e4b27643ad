//! The interpretation of the statuses of an upstream's HTTP responses.

use http::{HeaderMap, StatusCode};

use super::Failure;
use super::credentials::describe_challenge;

/// Returns true if the status refuses the client or reports a server error. Such a response does
/// not show which protocol modes the upstream speaks.
pub(crate) fn is_refusal(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 401 | 403 | 407 | 429)
}

/// Returns the failure for a response that [`is_refusal`] recognizes.
pub(super) fn refusal(upstream: &str, status: StatusCode, headers: &HeaderMap) -> Failure {
    let challenge = describe_challenge(headers);
    let text = format!("The upstream `{upstream}` answered with {status}{challenge}.");
    if status.is_server_error() { Failure::Unavailable(text) } else { Failure::Refused(text) }
}

/// Returns true if a response reports that the server does not know the session of the request, and
/// has therefore not processed the request.
///
/// The status is 404 (MCP 2025-11-25, transports). Many servers answer 400 instead, with a text
/// such as "No valid session ID provided" or "Server not initialized".
pub(super) fn is_session_error(status: StatusCode, body: &[u8]) -> bool {
    if status != StatusCode::BAD_REQUEST {
        return status == StatusCode::NOT_FOUND;
    }
    let text = String::from_utf8_lossy(body.get(..1_000).unwrap_or(body)).to_lowercase();
    text.contains("session") || text.contains("not initialized")
}

/// Returns true if the status of the response to `initialize` may mean that the upstream does not
/// speak Streamable HTTP.
pub(crate) fn may_be_legacy_sse(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 404 | 405)
}
