//! The middleware for WASI 0.3: it exports the handler that it also imports, so that it can stand before any other.
#![cfg(target_os = "wasi")]
#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    reason = "what the macro of the service makes of the function below"
)]

use spin_sdk::http::{IntoResponse, Request, next};
use spin_sdk::http_service;
use spin_sdk::wasip3::http::types::ErrorCode;

#[http_service]
async fn handle(request: Request) -> Result<impl IntoResponse, ErrorCode> {
    context_guard_http::serve(request, async |request| next(request).await).await
}
