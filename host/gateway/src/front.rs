//! The front: what clients talk to. Lets requests in, bounds them, and hands them to what serves them.

pub(crate) mod concurrency_limiter;
pub(crate) mod listener;
pub(crate) mod request_mode;
mod router;

pub(crate) use router::{Caller, not_found, router};

use std::sync::Arc;

use http::header::{AUTHORIZATION, AsHeaderName, COOKIE, HeaderMap, HeaderName, HeaderValue};

use crate::access::{ANONYMOUS, API_KEY};
use crate::engine::digest;

/// A header as text; empty where there is none.
pub(crate) fn header(headers: &HeaderMap, name: impl AsHeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Whose answers these are: the principal's. Where the gateway asks nobody who they are, whoever brings other credentials for the upstream is somebody else: what one is shown is
/// never kept for another.
pub(crate) fn scope(principal: &Arc<str>, headers: &HeaderMap) -> Arc<str> {
    let given = [AUTHORIZATION, COOKIE, API_KEY].map(|name| headers.get(name));
    if principal.as_ref() != ANONYMOUS || given.iter().all(Option::is_none) {
        return Arc::clone(principal);
    }
    let credentials: Vec<&[u8]> =
        given.into_iter().map(|value| value.map_or(&b""[..], HeaderValue::as_bytes)).collect();
    let digest = digest(&credentials.join(&b'\n'));
    format!("{principal}#{}", digest.get(..16).unwrap_or_default()).into()
}

/// The session of a stateful client.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The revision that a client speaks.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a stateless request.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt or resource of a stateless request.
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
