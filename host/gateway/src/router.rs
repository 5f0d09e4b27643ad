//! The checks of an HTTP request to the gateway before its dispatch: authentication, size limit,
//! concurrency limit.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::json;

use crate::access::Refusal;
use crate::admin;
use crate::admission::{Admission, caller};
use crate::fair_queue::QueueFull;
use crate::reply;
use crate::rest::problem;
use crate::serve::Gateway;

/// Returns the router of the HTTP front. It has one handler for all paths, because the paths depend
/// on the configuration.
pub(crate) fn router(gateway: Arc<Gateway>) -> Router {
    Router::new().fallback(handle).with_state(gateway)
}

async fn handle(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let peer =
        request.extensions().get::<SocketAddr>().map_or(IpAddr::from([0, 0, 0, 0]), SocketAddr::ip);
    let path = request.uri().path();
    // Load balancers probe without credentials.
    match path {
        "/healthz" if request.method() == Method::GET => return admin::healthy(),
        // The names and faults of upstreams are for operators only.
        "/readyz" if request.method() == Method::GET => {
            return admin::ready(&json!({"ready": gateway.is_ready()}));
        }
        _ => {}
    }
    let (parts, body) = request.into_parts();
    let mcp = gateway.is_mcp(parts.uri.path());
    let refuse = |status: StatusCode, code: &str, text: &str| {
        if mcp {
            reply::refuse(status, "null", reply::REFUSED, text)
        } else {
            problem(status, code, text)
        }
    };
    let address = gateway.access.client_address(peer, &parts.headers);
    // Clients read the metadata before they have a token.
    if parts.method == Method::GET
        && gateway.access.check_origin(address, &parts).is_ok()
        && let Some(metadata) = gateway.access.resource_metadata(&parts)
    {
        return reply::json(StatusCode::OK, metadata.to_string().into_bytes());
    }
    let principal = match gateway.access.admit(address, &parts).await {
        Ok(principal) => principal,
        Err(refusal) => return refused(&gateway, address, &parts, &refusal, &refuse),
    };
    let body = match Limited::new(body, gateway.config.limits.request_bytes).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            gateway.recorder.refused(&principal, "size", "");
            let limit = gateway.config.limits.request_bytes;
            return refuse(
                StatusCode::PAYLOAD_TOO_LARGE,
                "request_too_large",
                &format!("The request is longer than {limit} bytes (limits.requestBytes)."),
            );
        }
        Err(_) => return reply::empty(StatusCode::BAD_REQUEST),
    };
    let messages = match gateway.count_messages(&principal, &parts, &body) {
        Ok(messages) => messages,
        Err(reason) => {
            gateway.recorder.refused(&principal, "batch", &reason);
            let (status, code) = (StatusCode::BAD_REQUEST, reply::INVALID_REQUEST);
            return reply::refuse(status, "null", code, &format!("Invalid Request: {reason}."));
        }
    };
    // The first message was charged before the body was read.
    let others = u32::try_from(messages - 1).unwrap_or(u32::MAX);
    if others > 0
        && let Err(refusal) = gateway.access.charge(&principal, address, &parts.headers, others)
    {
        return refused(&gateway, address, &parts, &refusal, &refuse);
    }
    let caller = caller(&principal, address, &parts.headers);
    // A GET of the MCP endpoint opens a stream that waits for events. It does no work that needs
    // limiting.
    let place = if mcp && parts.method == Method::GET {
        None
    } else {
        match gateway.places.enter(&caller, messages).await {
            Ok(place) => Some(Arc::new(place)),
            Err(QueueFull) => {
                gateway.recorder.refused(&principal, "busy", "");
                let mut response = refuse(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "busy",
                    "The gateway has as many requests as it can take (limits.concurrency, limits.perPrincipal, limits.perSession, limits.queue). Try again soon.",
                );
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                return response;
            }
        }
    };
    let admission = Admission { principal, caller, messages, _place: place };
    gateway.dispatch(&admission, parts, body).await
}

fn refused(
    gateway: &Gateway,
    address: IpAddr,
    parts: &Parts,
    refusal: &Refusal,
    refuse: &(dyn Fn(StatusCode, &str, &str) -> Response + Sync),
) -> Response {
    let (status, reason, text) = match refusal {
        Refusal::Forbidden(reason, text) => (StatusCode::FORBIDDEN, *reason, text.clone()),
        Refusal::Unauthorized(text) => (StatusCode::UNAUTHORIZED, "key", text.clone()),
        Refusal::InsufficientScope(text) => (StatusCode::FORBIDDEN, "scope", text.clone()),
        Refusal::TooMany(wait) => (
            StatusCode::TOO_MANY_REQUESTS,
            "rate",
            format!(
                "more than {} requests a minute (access.rateLimit): try again in {} s",
                gateway.config.access.rate_limit.per_minute(),
                wait.as_secs() + 1
            ),
        ),
    };
    gateway.recorder.refused(&address.to_string(), reason, &text);
    let mut response = refuse(status, reason, &text);
    let headers = response.headers_mut();
    if let Refusal::TooMany(wait) = refusal {
        headers.insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
    }
    if let Some(challenge) = gateway.access.challenge(refusal, parts) {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
    response
}
