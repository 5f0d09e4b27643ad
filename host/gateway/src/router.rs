//! The checks of an HTTP request to the gateway before its dispatch: authentication, size limit,
//! concurrency limit.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use http::header::{CONNECTION, HeaderValue, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Version};
use serde_json::json;

use crate::access::{Refusal, append_forwarded_for};
use crate::admin;
use crate::admission::{Admission, Rate, caller, owner};
use crate::fair_queue::QueueFull;
use crate::front::cors;
use crate::front::request_body::{self, BodyError};
use crate::reply;
use crate::rest::problem;
use crate::serve::Gateway;
use crate::trace_context;

/// The error message for a caller whose request neither gets a permit nor fits into the queue.
pub(crate) const BUSY: &str = "The gateway has as many requests as it can take (limits.concurrency, limits.perPrincipal, limits.perSession, limits.queue). Try again soon.";

/// Returns the router of the HTTP front. It has one handler for all paths, because the paths depend
/// on the configuration.
pub(crate) fn router(gateway: Arc<Gateway>) -> Router {
    Router::new().fallback(handle).with_state(gateway)
}

async fn handle(State(gateway): State<Arc<Gateway>>, request: Request) -> Response {
    let headers = request.headers().clone();
    trace_context::with_headers(&headers, answer(gateway, request)).await
}

async fn answer(gateway: Arc<Gateway>, request: Request) -> Response {
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
    let address = gateway.access.client_address(peer, &parts.headers);
    if gateway.access.check_origin(address, &parts).is_err() {
        return admit_and_dispatch(&gateway, peer, parts, body).await;
    }
    let origin = parts.headers.get(ORIGIN).cloned();
    if cors::is_preflight(&parts) {
        let mut response = cors::preflight(&parts.headers);
        cors::allow(&mut response, origin);
        return response;
    }
    let mut response = admit_and_dispatch(&gateway, peer, parts, body).await;
    cors::allow(&mut response, origin);
    response
}

/// Returns the refusal of a request, as MCP clients (`mcp`) or clients of JSON APIs read it.
fn refusal(mcp: bool, status: StatusCode, code: &str, text: &str) -> Response {
    if mcp {
        reply::refuse(status, "null", reply::REFUSED, text)
    } else {
        problem(status, code, text)
    }
}

/// Admits a request and serves it.
async fn admit_and_dispatch(gateway: &Gateway, peer: IpAddr, parts: Parts, body: Body) -> Response {
    let mcp = gateway.is_mcp(&parts.uri);
    let refuse = |status: StatusCode, code: &str, text: &str| refusal(mcp, status, code, text);
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
        Err(refusal) => return refused(gateway, address, &parts, &refusal, &refuse),
    };
    let caller = AdmittedCaller { peer, address, principal, is_replica: false };
    serve_admitted(gateway, caller, parts, body).await
}

/// Serves a request of the client `principal` at `address` that another replica has admitted.
pub(crate) async fn serve_replica(
    gateway: &Gateway,
    address: IpAddr,
    principal: Arc<str>,
    parts: Parts,
    body: Body,
) -> Response {
    let headers = parts.headers.clone();
    let caller = AdmittedCaller { peer: address, address, principal, is_replica: true };
    let served = serve_admitted(gateway, caller, parts, body);
    trace_context::with_headers(&headers, served).await
}

/// A caller that has authenticated.
struct AdmittedCaller {
    /// The address of the connection.
    peer: IpAddr,
    /// The address of the client.
    address: IpAddr,
    principal: Arc<str>,
    /// True if another replica has already admitted and counted the request, and checked its
    /// headers.
    is_replica: bool,
}

/// Reads the body of a request within all limits, and dispatches it.
async fn serve_admitted(
    gateway: &Gateway,
    admitted: AdmittedCaller,
    mut parts: Parts,
    body: Body,
) -> Response {
    let AdmittedCaller { peer, address, principal, is_replica } = admitted;
    let mcp = gateway.is_mcp(&parts.uri);
    let refuse = |status: StatusCode, code: &str, text: &str| refusal(mcp, status, code, text);
    let unavailable = |principal: &str, reason: &'static str, text: &str| {
        gateway.recorder.refused(principal, reason, "");
        try_again(refuse(StatusCode::SERVICE_UNAVAILABLE, "busy", text))
    };
    // The end of a session frees memory.
    if gateway.memory.is_short() && parts.method != Method::DELETE {
        let text = "The gateway has too little memory (limits.memoryPercent). Try again soon.";
        return unavailable(&principal, "memory", text);
    }
    if gateway.recorder.lacks_audit() {
        // The refusal is an entry too, which shows if the log can be written again.
        let text = "The audit log cannot be written, and it is required (audit.required).";
        return unavailable(&principal, "audit", text);
    }
    let session = match gateway.open_fleet_session(&principal, address, &mut parts) {
        Ok(session) => session,
        Err(refusal) => return *refusal,
    };
    let caller = caller(&principal, address, gateway.session_id(&parts));
    // A GET of the MCP endpoint opens a stream that waits for events. It does no work that needs
    // limiting.
    let is_stream = mcp && parts.method == Method::GET;
    if !is_stream && !gateway.places.has_room(&caller, is_replica) {
        return unavailable(&principal, "busy", BUSY);
    }
    // The body is read before the request has a place: clients that send slowly would otherwise
    // occupy the places of others. The memory for bodies and the time to send them are limited.
    let (limits, timeouts) = (&gateway.config.limits, &gateway.config.timeouts);
    let memory = &gateway.body_memory;
    let (body, memory) =
        match request_body::read(body, &caller.principal, limits, timeouts, memory).await {
            Ok(read) => read,
            Err(error) => {
                let mut response = unread(gateway, &principal, error, &refuse);
                // HTTP/1 cannot go on without the rest of the body.
                if parts.version < Version::HTTP_2 {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                return response;
            }
        };
    let version = session.as_ref().map(|session| session.state.client.version.as_str());
    let messages = match gateway.count_messages(&principal, &parts, &body, version) {
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
        && !is_replica
        && let Err(refusal) =
            gateway.access.charge(&principal, address, &parts.headers, others).await
    {
        return refused(gateway, address, &parts, &refusal, &refuse);
    }
    let place = if is_stream {
        None
    } else {
        let entered = match is_replica {
            true => gateway.places.enter_forwarded(&caller, messages).await,
            false => gateway.places.enter(&caller, messages).await,
        };
        match entered {
            Ok(place) => Some(place),
            Err(QueueFull) => return unavailable(&principal, "busy", BUSY),
        }
    };
    if !is_replica {
        gateway.access.strip_forwarding(peer, &mut parts.headers);
        if !mcp {
            append_forwarded_for(&mut parts.headers, peer);
        }
    }
    let rate = match gateway.config.code.enabled {
        true => later_calls(gateway, &principal, address, &parts.headers),
        false => Rate::default(),
    };
    let admission = Admission {
        rate,
        owner: owner(&principal, address),
        authenticator: gateway.access.authenticator(&parts.headers),
        principal,
        caller,
        messages,
        streams: Arc::clone(&gateway.streams),
        has_headers: true,
        _place: place.map(Arc::new),
        memory: Some(Arc::new(memory)),
    };
    gateway.dispatch_in_fleet(&admission, session, address, is_replica, parts, body).await
}

/// Returns the caller's rate limit, for the calls that its programs will make.
fn later_calls(
    gateway: &Gateway,
    principal: &Arc<str>,
    address: IpAddr,
    headers: &HeaderMap,
) -> Rate {
    let (access, principal) = (Arc::clone(&gateway.access), Arc::clone(principal));
    let headers = Arc::new(headers.clone());
    Rate::new(move || {
        let (access, principal) = (Arc::clone(&access), Arc::clone(&principal));
        let headers = Arc::clone(&headers);
        Box::pin(async move { access.charge(&principal, address, &headers, 1).await.is_ok() })
    })
}

/// Returns the error response to a request whose body could not be read because of `error`.
/// `refuse` creates the response from status, code and text.
fn unread(
    gateway: &Gateway,
    principal: &str,
    error: BodyError,
    refuse: &(dyn Fn(StatusCode, &str, &str) -> Response + Sync),
) -> Response {
    let (limits, timeouts) = (&gateway.config.limits, &gateway.config.timeouts);
    let (reason, response) = match error {
        BodyError::TooLarge => {
            let limit = limits.request_bytes;
            let text = format!("The request is longer than {limit} bytes (limits.requestBytes).");
            ("size", refuse(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", &text))
        }
        BodyError::TooSlow => {
            let text = format!(
                "The request body did not arrive in time: {} s for each part (timeouts.bodyPartSeconds), {} s in total (timeouts.bodySeconds).",
                timeouts.body_part_seconds, timeouts.body_seconds
            );
            ("slow", refuse(StatusCode::REQUEST_TIMEOUT, "request_timeout", &text))
        }
        BodyError::NoMemory => {
            let text = "The gateway is receiving as many bytes as it can take (limits.bufferedBytes). Try again soon.";
            ("memory", try_again(refuse(StatusCode::SERVICE_UNAVAILABLE, "busy", text)))
        }
        BodyError::Broken => return reply::empty(StatusCode::BAD_REQUEST),
    };
    gateway.recorder.refused(principal, reason, "");
    response
}

/// Adds a `Retry-After` header of one second.
fn try_again(mut response: Response) -> Response {
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn refused(
    gateway: &Gateway,
    address: IpAddr,
    parts: &Parts,
    refusal: &Refusal,
    refuse: &(dyn Fn(StatusCode, &str, &str) -> Response + Sync),
) -> Response {
    let (status, reason, text) = match refusal {
        Refusal::Malformed(text) => (StatusCode::BAD_REQUEST, "malformed", text.clone()),
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
