//! Sessions of browsers: signing in with the key of the endpoint, and signing out.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, SET_COOKIE};
use http::request::Parts;
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use serde_json::json;

use super::console::{Console, peer};
use crate::access::Refusal;
use crate::reply::value as reply;
use crate::{header, problem};

/// The maximum size of a request to sign in, in bytes.
const MAX_BODY_BYTES: usize = 4_096;

/// A request to sign in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    key: String,
}

/// Answers whether the browser is signed in, and whether it must.
pub(super) async fn state(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let access = match console.access() {
        Ok(access) => access,
        Err(response) => return *response,
    };
    if let Err(refusal) = access.admit_page(&parts) {
        return console.refuse(peer(&parts), &refusal);
    }
    reply(&json!({
        "needs_key": access.has_token(),
        "signed_in": access.has_session(&parts),
        "gateway": console.is_gateway(),
        "alerts": console.serves_alerts,
    }))
}

/// Begins a session, if the body has the key.
pub(super) async fn begin(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let access = match console.access() {
        Ok(access) => access,
        Err(response) => return *response,
    };
    // A form of another site cannot send this content type.
    if !header(&parts.headers, CONTENT_TYPE).starts_with("application/json") {
        let detail = "Send {\"key\": …} as application/json.";
        return problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_request", detail);
    }
    let credentials = match read(body).await {
        Ok(credentials) => credentials,
        Err(detail) => return problem(StatusCode::BAD_REQUEST, "bad_request", &detail),
    };
    with_cookie(&console, &parts, access.sign_in(peer(&parts), &parts, credentials.key.trim()))
}

/// Ends the session of the browser.
pub(super) async fn end(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let access = match console.access() {
        Ok(access) => access,
        Err(response) => return *response,
    };
    with_cookie(&console, &parts, access.sign_out(&parts))
}

fn with_cookie(console: &Console, parts: &Parts, cookie: Result<String, Refusal>) -> Response {
    let cookie = match cookie {
        Ok(cookie) => cookie,
        Err(refusal) => return console.refuse(peer(parts), &refusal),
    };
    let Ok(cookie) = HeaderValue::from_str(&cookie) else {
        return problem(StatusCode::INTERNAL_SERVER_ERROR, "failed", "The cookie is invalid.");
    };
    let mut response = reply(&json!({}));
    response.headers_mut().insert(SET_COOKIE, cookie);
    response
}

async fn read(body: Body) -> Result<Credentials, String> {
    let body = Limited::new(body, MAX_BODY_BYTES).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}
