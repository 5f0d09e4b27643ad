//! Replies of the gateway's own: protocol errors and the bodies of HTTP responses.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::message::Head;

/// The revision named is not one that is spoken here.
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
/// Headers and body say different things.
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const PARSE_ERROR: i64 = -32700;
/// The codes of our own lie outside of what JSON-RPC reserves.
pub(crate) const UPSTREAM_UNAVAILABLE: i64 = -31001;
/// An upstream did not answer in time.
pub(crate) const UPSTREAM_TIMEOUT: i64 = -31002;
/// An answer is longer than the limit.
pub(crate) const TOO_LARGE: i64 = -31003;
/// What is asked cannot be said in the other's revision of the protocol.
pub(crate) const NOT_TRANSLATABLE: i64 = -31004;
/// Refused before it was looked at: who, how often, how much.
pub(crate) const REFUSED: i64 = -31005;

/// A JSON-RPC error under an id that is spelt so.
pub(crate) fn error(id: &str, code: i64, message: &str) -> Vec<u8> {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{}}}}}"#,
        Value::from(message)
    )
    .into_bytes()
}

/// A JSON-RPC error with data.
pub(crate) fn error_with(id: &str, code: i64, message: &str, data: &Value) -> Vec<u8> {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{},"data":{data}}}}}"#,
        Value::from(message)
    )
    .into_bytes()
}

/// A result under an id that is spelt so.
pub(crate) fn result(id: &str, result: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into_bytes()
}

/// The answer to a request that an upstream failed on. The model has to see why a tool failed, so a tool's failure is a result; everything else is a
/// protocol error.
pub(crate) fn failure(request: &[u8], code: i64, reason: &str) -> Vec<u8> {
    let Some(head) = Head::read(request) else { return error("null", code, reason) };
    if head.method() != "tools/call" {
        return error(head.raw_id(), code, reason);
    }
    let modern = head.parameters().version().is_some();
    let mut reply = json!({"content": [{"type": "text", "text": format!("[context-guard] {reason}")}], "isError": true});
    if modern && let Some(members) = reply.as_object_mut() {
        members.insert("resultType".to_owned(), "complete".into());
    }
    result(head.raw_id(), &reply.to_string())
}

/// A JSON body.
pub(crate) fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// No body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A JSON-RPC error as the body of an HTTP response.
pub(crate) fn refuse(status: StatusCode, id: &str, code: i64, message: &str) -> Response {
    json(status, error(id, code, message))
}

/// An event stream.
pub(crate) fn events(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // Some proxies buffer whatever does not say otherwise.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
