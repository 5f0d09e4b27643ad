//! The protocol mode of a client's request, and the validation of its messages.

use axum::body::Body;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use context_guard_protocol::header::decode_value;
use futures_util::{StreamExt, stream};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use crate::headers::{METHOD, NAME, PROTOCOL_VERSION, header};
use crate::message::{Head, Kind, is_stateless_version, split_batch};
use crate::protocol_mode::{ProtocolMode, is_stateless_error};
use crate::reply;
use crate::upstream::statuses::is_refusal;
use context_guard_protocol::sse::Framer;

/// The maximum length of the name of a tool or prompt in a request, in bytes. MCP recommends at
/// most 128 characters; the name of the upstream precedes them.
const MAX_NAME_BYTES: usize = 256;

/// Parses the JSON-RPC messages in the body of a POST request. Other HTTP methods have none.
pub(crate) fn heads<'a>(parts: &Parts, body: &'a Bytes) -> Vec<Head<'a>> {
    if parts.method == Method::POST {
        split_batch(body).into_iter().filter_map(Head::read).collect()
    } else {
        Vec::new()
    }
}

/// Returns the protocol mode of an HTTP request with the messages `heads`. The flag is true if the
/// status of the upstream's response will show if the upstream supports the mode.
pub(crate) fn mode_of(headers: &HeaderMap, heads: &[Head<'_>]) -> (ProtocolMode, bool) {
    let is_stateless = is_stateless_version(header(headers, PROTOCOL_VERSION))
        || heads.iter().any(|head| head.parameters().version().is_some());
    if is_stateless {
        let has_request = heads.iter().any(|head| head.kind() == Some(Kind::Request));
        (ProtocolMode::Stateless, has_request)
    } else {
        (ProtocolMode::Stateful, heads.iter().any(|head| head.method() == "initialize"))
    }
}

/// The maximum size of a response to `server/discover` that is inspected, in bytes.
const MAX_DISCOVER_BYTES: usize = 1 << 20;

/// Returns the response to `server/discover` with a flag: true if a stateless server sent it. The
/// flag is `None` if the server refused the request, or the body is too long or unreadable.
pub(crate) async fn inspect_discovery(response: Response) -> (Response, Option<bool>) {
    let status = response.status();
    if is_refusal(status) {
        return (response, None);
    }
    let (head, body) = response.into_parts();
    let (mut start, mut rest) = (BytesMut::new(), body.into_data_stream());
    while start.len() <= MAX_DISCOVER_BYTES {
        match rest.next().await {
            Some(Ok(chunk)) => start.extend_from_slice(&chunk),
            None => break,
            Some(Err(error)) => {
                // The client receives the same broken response.
                let start = stream::iter([Ok(start.freeze()), Err(error)]);
                return (Response::from_parts(head, Body::from_stream(start)), None);
            }
        }
    }
    let body = start.freeze();
    if body.len() > MAX_DISCOVER_BYTES {
        let body = Body::from_stream(stream::iter([Ok(body)]).chain(rest));
        return (Response::from_parts(head, body), None);
    }
    let mut framer = Framer::default();
    framer.push(&body);
    let data: Vec<Vec<u8>> = std::iter::from_fn(|| framer.next_event())
        .filter_map(|event| event.data().map(std::borrow::Cow::into_owned))
        .collect();
    let messages = data.iter().map(Vec::as_slice).chain([body.as_ref()]);
    let shows = messages
        .filter_map(Head::read)
        .any(|head| head.result.is_some() || head.error.is_some_and(is_stateless_error));
    (Response::from_parts(head, Body::from(body)), Some(shows))
}

/// Returns the error response to a request with an invalid message. `None` if all messages are
/// valid.
pub(crate) fn refuse_invalid(parts: &Parts, body: &Bytes) -> Option<Response> {
    heads(parts, body).iter().find_map(|head| {
        let (code, reason) = if let Some(length) = overlong_name(head) {
            let limit = MAX_NAME_BYTES;
            let reason = format!("A name has at most {limit} bytes, and this one has {length}.");
            (reply::INVALID_PARAMS, reason)
        } else {
            let reason = header_mismatch(&parts.headers, head)?;
            (reply::HEADER_MISMATCH, format!("Header mismatch: {reason}."))
        };
        Some(reply::refuse(StatusCode::BAD_REQUEST, head.raw_id(), code, &reason))
    })
}

/// Returns the length of the name of a tool or prompt, in bytes, if it exceeds the maximum.
fn overlong_name(head: &Head<'_>) -> Option<usize> {
    if !matches!(head.method(), "tools/call" | "prompts/get") {
        return None;
    }
    head.subject().map(|name| name.len()).filter(|length| *length > MAX_NAME_BYTES)
}

/// Returns a description of the first difference between the headers and the body of a stateless
/// request. `None` if they agree.
fn header_mismatch(headers: &HeaderMap, head: &Head<'_>) -> Option<String> {
    let version = head.parameters().version()?;
    if !is_stateless_version(&version) || head.kind() != Some(Kind::Request) {
        return None;
    }
    let name = head.subject();
    let wanted = [
        (PROTOCOL_VERSION, Some(version.as_str())),
        (METHOD, Some(head.method())),
        (NAME, name.as_deref()),
    ];
    for (header_name, body) in wanted {
        let Some(body) = body else { continue };
        let value = headers.get(&header_name).and_then(|value| value.to_str().ok());
        match value.map(str::trim) {
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

    #[tokio::test]
    async fn long_discovery_passes_whole() {
        let answer = |bytes: usize| {
            let text = "x".repeat(bytes);
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"instructions":"{text}"}}}}"#)
        };
        for (bytes, expected) in [(10, Some(true)), (3 << 20, None)] {
            let body = answer(bytes);
            let chunks: Vec<Result<Vec<u8>, std::io::Error>> =
                body.as_bytes().chunks(100_000).map(|chunk| Ok(chunk.to_vec())).collect();
            let response = Response::new(Body::from_stream(stream::iter(chunks)));
            let (response, shows) = inspect_discovery(response).await;
            assert_eq!(shows, expected);
            let passed = axum::body::to_bytes(response.into_body(), 1 << 30).await.unwrap();
            assert!(passed == body.as_bytes(), "{} of {} bytes", passed.len(), body.len());
        }
    }

    #[test]
    fn headers_must_match_body() {
        let body = r#"{"id":1,"method":"tools/call","params":{"name":"größe","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let head = Head::read(body.as_bytes()).unwrap();
        let headers = |name: &str, method: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(PROTOCOL_VERSION, "2026-07-28".parse().unwrap());
            headers.insert(METHOD, method.parse().unwrap());
            headers.insert(NAME, name.parse().unwrap());
            headers
        };
        assert_eq!(header_mismatch(&headers("=?base64?Z3LDtsOfZQ==?=", "tools/call"), &head), None);
        assert!(header_mismatch(&headers("=?base64?!!?=", "tools/call"), &head).is_some());
        assert!(
            header_mismatch(&headers("other", "tools/call"), &head).unwrap().contains("mcp-name")
        );
        assert!(
            header_mismatch(&headers("=?base64?Z3LDtsOfZQ==?=", "TOOLS/CALL"), &head).is_some()
        );
        assert!(header_mismatch(&HeaderMap::new(), &head).is_some());
        let stateful =
            Head::read(br#"{"id":1,"method":"tools/call","params":{"name":"x"}}"#).unwrap();
        assert_eq!(header_mismatch(&HeaderMap::new(), &stateful), None);
    }
}
