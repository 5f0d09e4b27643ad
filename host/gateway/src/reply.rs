//! HTTP and JSON-RPC responses that the gateway itself writes.

use axum::body::Body;
use axum::response::Response;
use context_guard_protocol::RequestFault;
pub(crate) use context_guard_protocol::code::{
    HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY,
    NOT_TRANSLATABLE, PARSE_ERROR, REFUSED, TOO_LARGE, UNSUPPORTED_VERSION, UPSTREAM_TIMEOUT,
    UPSTREAM_UNAVAILABLE,
};
pub(crate) use context_guard_protocol::response::{
    error, error_with_data as error_with, failure, result,
};
use http::{HeaderValue, StatusCode, header};
use serde_json::Value;

use crate::message::Head;

/// Returns an HTTP response with a JSON body.
pub(crate) fn json(status: StatusCode, json: Vec<u8>) -> Response {
    body(status, "application/json", json)
}

/// Returns an HTTP response of status 200 with a JSON value.
pub(crate) fn value(value: &Value) -> Response {
    json(StatusCode::OK, value.to_string().into_bytes())
}

/// Returns an HTTP response with a body of a media type.
pub(crate) fn body(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Returns an HTTP response without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Returns an HTTP response whose body is a JSON-RPC error for the request with this id (raw JSON).
pub(crate) fn refuse(status: StatusCode, id: &str, code: i64, message: &str) -> Response {
    json(status, error(id, code, message))
}

/// Returns the HTTP response to a request that a server may read differently than the guard.
pub(crate) fn fault(fault: &RequestFault) -> Response {
    let status = StatusCode::from_u16(fault.status()).unwrap_or(StatusCode::BAD_REQUEST);
    json(status, fault.error())
}

/// Returns the error response to a call of a tool that the client must not call.
pub(crate) fn unknown_tool(request: &[u8], name: &str) -> Vec<u8> {
    let id = Head::read(request).map_or("null", |head| head.raw_id());
    error(id, INVALID_PARAMS, &format!("no tool {name:?}"))
}

/// Returns an HTTP response with the body as an event stream.
pub(crate) fn events(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    // nginx and others buffer event streams unless this header forbids it.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Returns the response to a request for an unknown path. `endpoint` is the path of the MCP
/// endpoint.
pub(crate) fn not_found(path: &str, endpoint: &str) -> Response {
    let mut response = Response::new(Body::from(format!(
        "Nothing is at {path}. The MCP endpoint is {endpoint}.\n"
    )));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
