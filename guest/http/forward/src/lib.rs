//! The end of a chain of handlers: requests go on to `CONTEXT_GUARD_UPSTREAM` by the client of the host.
#![cfg(target_os = "wasi")]
#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    reason = "what the macro of the service makes of the function below"
)]

use spin_sdk::http::{IntoResponse, Request, Response, send};
use spin_sdk::http_service;
use spin_sdk::wasip3::http::types::ErrorCode;

/// Where requests go on to: scheme and authority, such as `http://127.0.0.1:3001`.
const UPSTREAM: &str = "CONTEXT_GUARD_UPSTREAM";

#[http_service]
async fn handle(request: Request) -> Result<impl IntoResponse, ErrorCode> {
    forward(request).await
}

async fn forward(request: Request) -> Result<Response, ErrorCode> {
    let internal = |what: String| ErrorCode::InternalError(Some(what));
    let (mut head, body) = request.into_parts();
    let upstream =
        std::env::var(UPSTREAM).map_err(|_| internal(format!("{UPSTREAM} is not set")))?;
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    head.uri = format!("{}{target}", upstream.trim_end_matches('/'))
        .parse::<http::Uri>()
        .map_err(|error| internal(format!("{UPSTREAM} is no URL: {error}")))?;
    // These belong to one connection each, and are the host's.
    for name in ["connection", "host", "transfer-encoding", "upgrade"] {
        head.headers.remove(name);
    }
    send(http::Request::from_parts(head, body)).await
}
