//! The front: what clients talk to. Lets requests in, bounds them, and hands them to what serves them.

pub(crate) mod gate;
pub(crate) mod listen;
pub(crate) mod modern;
mod router;

pub(crate) use router::{Caller, not_found, router};

use http::header::{AsHeaderName, HeaderMap, HeaderName};

/// A header as text; empty where there is none.
pub(crate) fn header(headers: &HeaderMap, name: impl AsHeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The session of a stateful client.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The revision that a client speaks.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a stateless request.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt or resource of a stateless request.
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// An API key, where Authorization is for the upstream.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
