//! HTTP headers that MCP and the gateway define, and helpers to read and forward headers.

use std::borrow::Cow;
use std::sync::Arc;

use context_guard_protocol::client::{CLIENT_HEADER, cut_name};
use http::header::{AUTHORIZATION, AsHeaderName, COOKIE, HeaderMap, HeaderName, HeaderValue};

use crate::access::{API_KEY, remove_key};
use crate::config::{Authorization, Upstream};
use crate::engine::digest;
use crate::message::Head;
use crate::store::{own_scope, scope};

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

/// Returns a header as text, or an empty text if it is missing or not visible ASCII.
pub(crate) fn header(headers: &HeaderMap, name: impl AsHeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Returns the name of the client whose profile a request chooses by a header. `None` if it chooses
/// none.
pub(crate) fn client_override(headers: &HeaderMap) -> Option<String> {
    cut_name(header(headers, CLIENT_HEADER))
}

/// The headers with a client's credentials, which only upstreams with `authorization: forward`
/// receive.
pub(crate) const CREDENTIALS: [HeaderName; 3] = [AUTHORIZATION, COOKIE, API_KEY];

/// Returns the owner under which the guard stores a client's answers. It is the principal, with a
/// digest of the credentials other than `authenticator`, the header that authenticates it.
///
/// The gateway may forward credentials to the upstream. Callers with different credentials may then
/// see different data, so they must not share stored answers, not even behind one API key.
pub(crate) fn storage_scope(
    principal: &Arc<str>,
    authenticator: Option<&HeaderName>,
    headers: &HeaderMap,
) -> Arc<str> {
    let given = credential_lines(headers, |name| Some(name) != authenticator);
    if given.is_empty() {
        return match own_scope(principal) {
            Cow::Borrowed(_) => Arc::clone(principal),
            Cow::Owned(own) => own.into(),
        };
    }
    scope(principal, &digest(&given.join(&b'\n'))).into()
}

/// Returns the credentials in headers for whose names `is_chosen` returns true, each as a line. A
/// client may send several values of one header (RFC 9113, section 8.2.3).
pub(crate) fn credential_lines(
    headers: &HeaderMap,
    is_chosen: impl Fn(&HeaderName) -> bool,
) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for name in CREDENTIALS.iter().filter(|name| is_chosen(name)) {
        for value in headers.get_all(name) {
            lines.push([name.as_str().as_bytes(), b": ", value.as_bytes()].concat());
        }
    }
    lines
}

/// The credentials of clients that an upstream receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardedCredentials {
    /// The upstream receives no credentials of the client.
    None,
    /// The upstream receives all credentials but the key that authenticates the caller at
    /// this gateway.
    AllButKey,
    /// The upstream receives all credentials: the gateway has no keys of its own.
    All,
}

impl ForwardedCredentials {
    /// Returns the credentials that an upstream receives. `by_default` is true if it receives them
    /// unless it is configured otherwise, and `has_keys` if the gateway has keys of its own.
    pub(crate) fn for_upstream(upstream: &Upstream, by_default: bool, has_keys: bool) -> Self {
        let is_http = upstream.url.is_some() || upstream.rest.is_some();
        let is_forwarded = is_http
            && upstream.oauth.is_none()
            && match upstream.authorization {
                Authorization::Auto => by_default,
                Authorization::Forward => true,
                Authorization::Drop => false,
            };
        match (is_forwarded, has_keys) {
            (false, _) => Self::None,
            (true, true) => Self::AllButKey,
            (true, false) => Self::All,
        }
    }

    /// Removes the credentials that the upstream must not receive.
    pub(crate) fn retain(self, headers: &mut HeaderMap) {
        match self {
            Self::None => CREDENTIALS.iter().for_each(|name| drop(headers.remove(name))),
            Self::AllButKey => remove_key(headers),
            Self::All => {}
        }
    }
}

/// Returns the client's headers that the aggregator may also send to upstreams: credentials, the
/// trace context, and tool parameters that are sent as headers.
pub(crate) fn forwarded_headers(headers: &HeaderMap) -> HeaderMap {
    let trace = ["traceparent", "tracestate"].map(HeaderName::from_static);
    let is_forwarded = |name: &HeaderName| {
        CREDENTIALS.contains(name)
            || trace.contains(name)
            || name.as_str().starts_with(PARAM_PREFIX)
    };
    headers
        .iter()
        .filter(|(name, _)| is_forwarded(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Updates the headers that repeat parts of a stateless request, because the guard may have changed
/// the request to `message`.
pub(crate) fn update_routing(headers: &mut Cow<'_, HeaderMap>, message: &[u8]) {
    let values = Head::read(message).map(|head| head.routing_headers());
    for (name, value) in values.into_iter().flatten() {
        if headers.contains_key(name) {
            let headers = headers.to_mut();
            headers.remove(name);
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
                headers.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::store::scope_principal;

    #[test]
    fn named_principals_do_not_share_the_quota_of_others() {
        let (bob, odd): (Arc<str>, Arc<str>) =
            ("key:bob".into(), "key:bob#0123456789abcdef".into());
        let own = storage_scope(&bob, None, &HeaderMap::new());
        assert_eq!(own, bob);
        let mut headers = HeaderMap::new();
        let odd_own = storage_scope(&odd, None, &headers);
        headers.insert(COOKIE, HeaderValue::from_static("a=b"));
        let scopes = [odd_own, storage_scope(&odd, None, &headers)];
        let quotas = scopes.each_ref().map(|scope| scope_principal(scope));
        assert_eq!(quotas, ["key:bob#0123456789abcdef#"; 2]);
        assert_eq!(scope_principal(&storage_scope(&bob, None, &headers)), "key:bob");
    }
}
