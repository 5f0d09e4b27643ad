//! Headers of stateless requests: they must say what the body says.

use axum::body::Body;
use axum::response::Response;
use context_guard_protocol::header::decode_value;
use context_guard_protocol::sse::Framer;
use http::HeaderMap;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{METHOD, NAME, PROTOCOL_VERSION};
use crate::gateway::upstream::connection::ProtocolMode;
use crate::gateway::upstream::http_upstream::is_refusal;
use crate::gateway::wire::reply;
use crate::message::{Head, Kind, is_modern};

/// The era of a request, and whether its answer shows whether an upstream speaks that.
pub(crate) fn mode_of(headers: &HeaderMap, heads: &[Head<'_>]) -> (ProtocolMode, bool) {
    let named = headers.get(PROTOCOL_VERSION).and_then(|value| value.to_str().ok());
    let stateless = named.is_some_and(is_modern)
        || heads.iter().any(|head| head.parameters().version().is_some());
    if stateless {
        let asks = heads.iter().any(|head| head.kind() == Some(Kind::Request));
        (ProtocolMode::Stateless, asks)
    } else {
        (ProtocolMode::Stateful, heads.iter().any(|head| head.method() == "initialize"))
    }
}

/// Errors that only a stateless server knows.
const OF_STATELESS: [i64; 3] =
    [reply::HEADER_MISMATCH, reply::MISSING_CAPABILITY, reply::UNSUPPORTED_VERSION];
/// The longest answer to `server/discover` that is looked at, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Whether an error says that its server speaks the stateless mode.
pub(crate) fn is_of_stateless(error: &RawValue) -> bool {
    let error: Value = serde_json::from_str(error.get()).unwrap_or_default();
    error.get("code").and_then(Value::as_i64).is_some_and(|code| OF_STATELESS.contains(&code))
}

/// Whether the response to `server/discover` shows a stateless server; not where it shows nothing but that one is not let in.
pub(crate) async fn shown(response: Response) -> (Response, Option<bool>) {
    let status = response.status();
    if is_refusal(status) {
        return (response, None);
    }
    let (head, body) = response.into_parts();
    let Ok(body) = axum::body::to_bytes(body, MAX_BYTES).await else {
        return (Response::from_parts(head, Body::empty()), None);
    };
    let mut framer = Framer::default();
    framer.push(&body);
    let data: Vec<Vec<u8>> = std::iter::from_fn(|| framer.next_event())
        .filter_map(|event| event.data().map(std::borrow::Cow::into_owned))
        .collect();
    let messages = data.iter().map(Vec::as_slice).chain([body.as_ref()]);
    let shows = messages
        .filter_map(Head::read)
        .any(|head| head.result.is_some() || head.error.is_some_and(is_of_stateless));
    (Response::from_parts(head, Body::from(body)), Some(shows))
}

/// What does not fit, if anything.
pub(crate) fn mismatch(headers: &HeaderMap, head: &Head<'_>) -> Option<String> {
    let version = head.parameters().version()?;
    if !is_modern(&version) || head.kind() != Some(Kind::Request) {
        return None;
    }
    let header = |name: &http::HeaderName| {
        headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
    };
    let name = head.subject();
    let wanted = [
        (PROTOCOL_VERSION, Some(version.as_str())),
        (METHOD, Some(head.method())),
        (NAME, name.as_deref()),
    ];
    for (header_name, body) in wanted {
        let Some(body) = body else { continue };
        match header(&header_name) {
            None => {
                return Some(format!(
                    "the header {header_name} is missing; the body says `{body}`"
                ));
            }
            Some(value) if decode_value(value).as_deref() != Some(body) => {
                return Some(format!("the header {header_name} says `{value}`, the body `{body}`"));
            }
            Some(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_must_say_what_the_body_says() {
        let body = r#"{"id":1,"method":"tools/call","params":{"name":"größe","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let head = Head::read(body.as_bytes()).unwrap();
        let headers = |name: &str, method: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(PROTOCOL_VERSION, "2026-07-28".parse().unwrap());
            headers.insert(METHOD, method.parse().unwrap());
            headers.insert(NAME, name.parse().unwrap());
            headers
        };
        assert_eq!(mismatch(&headers("=?base64?Z3LDtsOfZQ==?=", "tools/call"), &head), None);
        assert!(mismatch(&headers("=?base64?!!?=", "tools/call"), &head).is_some());
        assert!(mismatch(&headers("other", "tools/call"), &head).unwrap().contains("mcp-name"));
        assert!(mismatch(&headers("=?base64?Z3LDtsOfZQ==?=", "TOOLS/CALL"), &head).is_some());
        assert!(mismatch(&HeaderMap::new(), &head).is_some());
        let stateful =
            Head::read(br#"{"id":1,"method":"tools/call","params":{"name":"x"}}"#).unwrap();
        assert_eq!(mismatch(&HeaderMap::new(), &stateful), None);
    }
}
