//! HTTP headers that MCP and the gateway define, and helpers to read and forward headers.

use std::sync::Arc;

use http::header::{AUTHORIZATION, AsHeaderName, COOKIE, HeaderMap, HeaderName, HeaderValue};

use crate::access::{ANONYMOUS, API_KEY};
use crate::engine::digest;

/// The header with the session id of a stateful client.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The header with the protocol version that the client speaks.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The header that repeats the JSON-RPC method of a stateless request.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The header that repeats the tool, prompt or resource that a stateless request names.
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The prefix of the headers that repeat arguments of a tool call.
pub(crate) const PARAM_PREFIX: &str = "mcp-param-";
/// The header with the id of the last event that a client received before its stream broke.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Returns a header as text, or an empty text if it is missing.
pub(crate) fn header(headers: &HeaderMap, name: impl AsHeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The headers with a client's credentials, which only upstreams with `authorization: forward`
/// receive.
pub(crate) const CREDENTIALS: [HeaderName; 3] = [AUTHORIZATION, COOKIE, API_KEY];

/// Returns the owner under which the guard stores a client's answers. It is the principal, with a
/// digest of the credentials that do not authenticate it.
///
/// The gateway may forward credentials to the upstream. Callers with different credentials may then
/// see different data, so they must not share stored answers, not even behind one API key.
pub(crate) fn storage_scope(principal: &Arc<str>, headers: &HeaderMap) -> Arc<str> {
    // The gateway authenticates a principal by its API key, or else by the Authorization header.
    let authenticator = match principal.as_ref() {
        ANONYMOUS => None,
        _ if headers.contains_key(API_KEY) => Some(API_KEY),
        _ => Some(AUTHORIZATION),
    };
    let given = CREDENTIALS.map(|name| headers.get(&name).filter(|_| Some(name) != authenticator));
    if given.iter().all(Option::is_none) {
        return Arc::clone(principal);
    }
    let credentials: Vec<&[u8]> =
        given.into_iter().map(|value| value.map_or(&b""[..], HeaderValue::as_bytes)).collect();
    let digest = digest(&credentials.join(&b'\n'));
    format!("{principal}#{}", digest.get(..16).unwrap_or_default()).into()
}

/// Returns the client's headers that the aggregator also sends to upstreams: authorization, the
/// trace context, and tool parameters that are sent as headers.
pub(crate) fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    let names = [
        AUTHORIZATION,
        HeaderName::from_static("traceparent"),
        HeaderName::from_static("tracestate"),
    ];
    let is_forwarded =
        |name: &HeaderName| names.contains(name) || name.as_str().starts_with(PARAM_PREFIX);
    headers
        .iter()
        .filter(|(name, _)| is_forwarded(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
