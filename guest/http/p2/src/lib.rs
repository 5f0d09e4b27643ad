//! The middleware for WASI 0.2, which has no chain of handlers: requests come by the incoming handler and go on, by the outgoing one, to `CONTEXT_GUARD_UPSTREAM`.
#![cfg(target_os = "wasi")]
#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    clippy::expect_used,
    reason = "what the macro of the server makes of the function below"
)]

use context_guard_http::{Sent, serve};
use http::header::{CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{Request, Response, Uri};
use wstd::http::{Body, Client, Error};

/// Where requests go on to: scheme and authority, such as `http://127.0.0.1:3001`.
const UPSTREAM: &str = "CONTEXT_GUARD_UPSTREAM";

type Boxed = http_body_util::combinators::UnsyncBoxBody<wstd::http::body::Bytes, Error>;

#[wstd::http_server]
async fn main(request: Request<Body>) -> Result<Response<Body>, Error> {
    let response = serve(request.map(Body::into_boxed_body), send).await?;
    Ok(response.map(Body::from_http_body))
}

/// Sends a request to the upstream.
async fn send(request: Request<Sent<Boxed>>) -> Result<Response<Boxed>, Error> {
    let (mut head, body) = request.into_parts();
    let upstream = std::env::var(UPSTREAM).map_err(|_| {
        Error::msg(format!("{UPSTREAM} is not set: scheme and authority of the server behind this"))
    })?;
    let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
    head.uri = format!("{}{target}", upstream.trim_end_matches('/'))
        .parse::<Uri>()
        .map_err(|error| Error::msg(format!("{UPSTREAM} is no URL: {error}")))?;
    // These belong to one connection each, and are the host's.
    for name in [CONNECTION, HOST, TRANSFER_ENCODING, UPGRADE] {
        head.headers.remove(name);
    }
    let request = Request::from_parts(head, Body::from_http_body(body));
    let response = Client::new().send(request).await?;
    Ok(response.map(Body::into_boxed_body))
}
