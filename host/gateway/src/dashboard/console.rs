//! The access rules, the history and the state of the gateway, which the dashboard and its data
//! share.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::StatusCode;
use http::header::{HeaderValue, RETRY_AFTER};
use http::request::Parts;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::access::{AdminAccess, Refusal};
use crate::history::HistorySource;
use crate::reply::body;
use crate::telemetry::Recorder;
use crate::{Gateway, problem};

/// The access rules, the history and the state that an endpoint for operators shows.
pub(crate) struct Console {
    /// The access rules. `None` if the gateway has no admin endpoint.
    pub(super) access: Option<Arc<AdminAccess>>,
    /// The history to show. `None` if no history is recorded.
    pub(super) history: Option<HistorySource>,
    pub(super) recorder: Arc<Recorder>,
    /// A token that is cancelled when event streams must end.
    pub(super) closing: CancellationToken,
    /// True if the endpoint has `/admin/v1/alerts`. The dashboard must not try the path, because
    /// browsers log each failed request.
    pub(super) serves_alerts: bool,
    /// A function that returns the state of the gateway. `None` without a gateway.
    state: Option<Box<dyn Fn() -> Value + Send + Sync>>,
}

impl Console {
    /// Returns the console of a gateway.
    pub(crate) fn of_gateway(gateway: &Arc<Gateway>) -> Self {
        let recorder = Arc::clone(&gateway.recorder);
        let history = recorder.history().cloned().map(HistorySource::Recorded);
        let closing = gateway.closing.clone();
        let access = gateway.admin_access.clone();
        let gateway = Arc::clone(gateway);
        let state = move || {
            let faults = gateway.filter.store_faults();
            json!({
                "ready": gateway.is_ready(),
                "revision": gateway.filter.revisions().active().number,
                "store": {
                    "state": if gateway.filter.store_is_up() { "up" } else { "down" },
                    "unavailable": faults.unavailable,
                    "full": faults.full,
                    "evicted": faults.evicted,
                    "rejected": faults.rejected,
                },
                "upstreams": gateway.upstreams(),
            })
        };
        let state: Box<dyn Fn() -> Value + Send + Sync> = Box::new(state);
        Self { access, history, recorder, closing, serves_alerts: true, state: Some(state) }
    }

    /// Returns the console of a history file, without a gateway.
    pub(super) fn of_file(
        path: PathBuf,
        access: Arc<AdminAccess>,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self {
            access: Some(access),
            history: Some(HistorySource::File(path)),
            recorder,
            closing: CancellationToken::new(),
            serves_alerts: false,
            state: None,
        }
    }

    /// Returns true if a gateway serves the dashboard. False if a command serves it over a history
    /// file.
    pub(super) fn is_gateway(&self) -> bool {
        self.state.is_some()
    }

    /// Returns the state of the gateway. Null without a gateway.
    pub(super) fn state(&self) -> Value {
        self.state.as_ref().map_or(Value::Null, |state| state())
    }

    /// Returns the response to a refused request, and records the refusal.
    pub(super) fn refuse(&self, peer: IpAddr, refusal: &Refusal) -> Response {
        let (status, text) = match refusal {
            Refusal::Malformed(text) => (StatusCode::BAD_REQUEST, text.clone()),
            Refusal::Forbidden(_, text) => (StatusCode::FORBIDDEN, text.clone()),
            Refusal::Unauthorized(text) => (StatusCode::UNAUTHORIZED, text.clone()),
            Refusal::InsufficientScope(text) => (StatusCode::FORBIDDEN, text.clone()),
            Refusal::TooMany(wait) => (
                StatusCode::TOO_MANY_REQUESTS,
                format!("too many wrong admin tokens: try again in {} s", wait.as_secs() + 1),
            ),
        };
        self.recorder.refused(&peer.to_string(), "admin", &text);
        let mut response = body(status, "text/plain", format!("{text}\n"));
        if let Refusal::TooMany(wait) = refusal {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
        }
        response
    }

    /// Returns the access rules.
    ///
    /// # Errors
    /// The response for a gateway without an admin endpoint.
    pub(super) fn access(&self) -> Result<&AdminAccess, Box<Response>> {
        self.access.as_deref().ok_or_else(|| {
            let detail = "This gateway has no admin endpoint.";
            Box::new(problem(StatusCode::NOT_FOUND, "no_admin", detail))
        })
    }
}

/// Returns the address of the connection on which a request arrived.
pub(crate) fn peer(parts: &Parts) -> IpAddr {
    let peer = parts.extensions.get::<SocketAddr>().map(SocketAddr::ip);
    peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

/// Middleware that passes a request only if the access rules admit it.
pub(crate) async fn authorized(
    State(console): State<Arc<Console>>,
    request: Request,
    next: Next,
) -> Response {
    let access = match console.access() {
        Ok(access) => access,
        Err(response) => return *response,
    };
    let (parts, request_body) = request.into_parts();
    let peer = peer(&parts);
    match access.admit(peer, &parts) {
        Ok(()) => next.run(Request::from_parts(parts, request_body)).await,
        Err(refusal) => console.refuse(peer, &refusal),
    }
}
