//! Browser sessions: signing in with the key of the endpoint, and signing out.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, SET_COOKIE};
use http::request::Parts;
use http_body_util::{BodyExt as _, Limited};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::console::{Console, peer};
use crate::access::Refusal;
use crate::reply::value as reply;
use crate::{header, problem};

/// The maximum size of a request to sign in, in bytes.
const MAX_BODY_BYTES: usize = 4_096;
/// The maximum time for the body of a request to sign in.
const MAX_BODY_TIME: Duration = Duration::from_secs(10);

/// A request to sign in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    key: String,
}

/// Answers with flags for the page: a key is needed, the browser is signed in, a gateway serves the
/// page, and the gateway has alerts.
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

/// Begins a session if the body of the request contains the key.
pub(super) async fn begin(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let access = match console.access() {
        Ok(access) => access,
        Err(response) => return *response,
    };
    // The address of the page is checked before its body is read.
    if let Err(refusal) = access.admit_page(&parts) {
        return console.refuse(peer(&parts), &refusal);
    }
    // A form of another site cannot send this content type.
    if !header(&parts.headers, CONTENT_TYPE).starts_with("application/json") {
        let detail = "Send {\"key\": …} as application/json.";
        return problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_request", detail);
    }
    let credentials = match timeout(MAX_BODY_TIME, read(body)).await {
        Ok(Ok(credentials)) => credentials,
        Ok(Err(detail)) => return problem(StatusCode::BAD_REQUEST, "bad_request", &detail),
        Err(_) => {
            let detail = "The request did not arrive in time.";
            return problem(StatusCode::REQUEST_TIMEOUT, "timeout", detail);
        }
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::stream;

    use super::*;
    use crate::access::AdminAccess;
    use crate::config::{Access, Admin, Secret};
    use crate::store::clock::SystemClock;
    use crate::telemetry::Recorder;

    #[tokio::test]
    async fn bodies_of_other_pages_are_not_read() {
        let token = Some(Secret::new("right"));
        let admin = Admin { listen: "127.0.0.1:8809".to_owned(), token, tls: None };
        let access = Arc::new(AdminAccess::new(&admin, &Access::default()));
        let recorder = Arc::new(Recorder::new(0, None, Arc::new(SystemClock)));
        let console = Arc::new(Console::of_file("history.db".into(), access, recorder));
        // A body that never arrives.
        let body = Body::from_stream(stream::pending::<std::io::Result<Bytes>>());
        let request = Request::builder().uri("/session").header("host", "evil.example");
        let request = request.header(CONTENT_TYPE, "application/json").body(body).unwrap();
        assert_eq!(begin(State(console), request).await.status(), StatusCode::FORBIDDEN);
    }
}
