//! The admin endpoint: health, metrics, telemetry records, and changes of policy, component and
//! cache at run time.

mod changes;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use serde_json::{Value, json};

use crate::access::Refusal;
use crate::telemetry;
use crate::{Gateway, header, history, problem};

/// Returns the routes of the admin endpoint.
pub(crate) fn router(gateway: Arc<Gateway>) -> Router {
    let admin = Router::new()
        .route("/admin/telemetry", get(records))
        .route("/admin/upstreams", get(upstreams))
        .route("/admin/v1/query", get(query))
        .route("/admin/v1/alerts", get(alerts))
        .route("/metrics", get(metrics))
        .route_layer(from_fn_with_state(Arc::clone(&gateway), authorized));
    Router::new()
        .route("/healthz", get(async || healthy()))
        .route("/readyz", get(readyz))
        .merge(admin)
        .merge(changes::router(&gateway))
        .with_state(gateway)
}

/// Answers `/healthz`: the process runs.
pub(crate) fn healthy() -> Response {
    body(StatusCode::OK, "text/plain", "ok\n".to_owned())
}

/// Answers `/readyz` with this state of the gateway. The status is 503 if it cannot serve.
pub(crate) fn ready(state: &Value) -> Response {
    let is_ready = state.get("ready") == Some(&Value::Bool(true));
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    body(status, "application/json", state.to_string())
}

async fn readyz(State(gateway): State<Arc<Gateway>>) -> Response {
    ready(&gateway.state())
}

async fn metrics(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response {
    gateway.recorder.metrics.store_is(gateway.filter.store_is_up());
    gateway.recorder.metrics.store_faults(gateway.filter.store_faults());
    let text = gateway.recorder.metrics_text();
    if header(&headers, ACCEPT).contains("application/openmetrics-text") {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        return body(StatusCode::OK, kind, text);
    }
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    body(StatusCode::OK, kind, telemetry::prometheus_text(&text))
}

async fn upstreams(State(gateway): State<Arc<Gateway>>) -> Response {
    let all = gateway.upstreams();
    json(&json!({ "upstreams": all }))
}

async fn alerts(State(gateway): State<Arc<Gateway>>) -> Response {
    json(&json!(gateway.recorder.alerts().map(|alerts| alerts.report()).unwrap_or_default()))
}

async fn records(
    State(gateway): State<Arc<Gateway>>,
    query: Result<Query<telemetry::RecordQuery>, QueryRejection>,
) -> Response {
    match query {
        Ok(Query(query)) => {
            let records = gateway.recorder.query(&query);
            let records: Vec<_> = records.iter().map(|record| json!(**record)).collect();
            json(&json!({ "records": records }))
        }
        Err(error) => {
            let detail = format!(
                "{}. There are endpoint, from, to, outcome and limit; times are milliseconds since 1970.",
                error.body_text()
            );
            problem(StatusCode::BAD_REQUEST, "bad_query", &detail)
        }
    }
}

/// Answers a query of the history.
async fn query(
    State(gateway): State<Arc<Gateway>>,
    parameters: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Response {
    let Some(history) = gateway.recorder.history().cloned() else {
        let detail = "This gateway records no history: add `history: {}` to its file.";
        return problem(StatusCode::NOT_FOUND, "no_history", detail);
    };
    let parameters = match parameters {
        Ok(Query(parameters)) => parameters,
        Err(error) => return problem(StatusCode::BAD_REQUEST, "bad_query", &error.body_text()),
    };
    let answer = tokio::task::spawn_blocking(move || history::query(&history, &parameters)).await;
    match answer {
        Ok(Ok(answer)) => json(&answer),
        Ok(Err(context_guard_history::Error::Query(text))) => {
            problem(StatusCode::BAD_REQUEST, "bad_query", &text)
        }
        Ok(Err(error)) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            problem(status, "history_unavailable", &error.to_string())
        }
        Err(error) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            problem(status, "history_unavailable", &error.to_string())
        }
    }
}

/// Middleware that lets a request pass if the rules of the endpoint admit it.
async fn authorized(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<SocketAddr>().map(SocketAddr::ip);
    let peer = peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let Some(access) = &gateway.admin_access else {
        return problem(StatusCode::NOT_FOUND, "no_admin", "This gateway has no admin endpoint.");
    };
    let (parts, request_body) = request.into_parts();
    let refusal = match access.admit(peer, &parts) {
        Ok(()) => return next.run(Request::from_parts(parts, request_body)).await,
        Err(refusal) => refusal,
    };
    let (status, text) = match &refusal {
        Refusal::Malformed(text) => (StatusCode::BAD_REQUEST, text.clone()),
        Refusal::Forbidden(_, text) => (StatusCode::FORBIDDEN, text.clone()),
        Refusal::Unauthorized(text) => (StatusCode::UNAUTHORIZED, text.clone()),
        Refusal::InsufficientScope(text) => (StatusCode::FORBIDDEN, text.clone()),
        Refusal::TooMany(wait) => (
            StatusCode::TOO_MANY_REQUESTS,
            format!("too many wrong admin tokens: try again in {} s", wait.as_secs() + 1),
        ),
    };
    gateway.recorder.refused(&peer.to_string(), "admin", &text);
    let mut response = body(status, "text/plain", format!("{text}\n"));
    if let Refusal::TooMany(wait) = refusal {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
    }
    response
}

fn json(value: &Value) -> Response {
    body(StatusCode::OK, "application/json", value.to_string())
}

fn body(status: StatusCode, kind: &'static str, text: String) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
