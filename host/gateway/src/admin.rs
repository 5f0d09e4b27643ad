//! The admin endpoint: health, metrics, telemetry records, and changes of policy, component and
//! cache at run time.

mod changes;

use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use http::header::{ACCEPT, HeaderMap};
use http::request::Parts;
use serde_json::{Value, json};

use crate::access::AdminAccess;
use crate::dashboard::{self, Console, authorized, peer};
use crate::reply::{body, value};
use crate::telemetry;
use crate::{Gateway, header, problem};

/// Returns the routes of the admin endpoint.
pub(crate) fn router(gateway: Arc<Gateway>) -> Router {
    let console = Arc::new(Console::of_gateway(&gateway));
    let admin = Router::new()
        .route("/admin/telemetry", get(records))
        .route("/admin/upstreams", get(upstreams))
        .route("/admin/v1/alerts", get(alerts))
        .route("/admin/v1/catalogue/{*route}", get(catalogue))
        .route("/metrics", get(metrics))
        .route_layer(from_fn_with_state(Arc::clone(&console), authorized));
    Router::new()
        .route("/healthz", get(async || healthy()))
        .route("/readyz", get(readyz))
        .merge(admin)
        .merge(changes::router(&gateway, &console))
        .with_state(gateway)
        .merge(dashboard::router(&console))
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

async fn readyz(State(gateway): State<Arc<Gateway>>, parts: Parts) -> Response {
    ready(&visible_state(gateway.admin_access.as_deref(), &parts, gateway.state()))
}

/// Returns the part of the state that a request may see. A request that the admin endpoint does not
/// admit sees the readiness only, because the reason of a failure may contain secrets. An example
/// is a load balancer's probe without a token.
fn visible_state(access: Option<&AdminAccess>, parts: &Parts, state: Value) -> Value {
    let is_admitted = access.is_some_and(|access| access.admit(peer(parts), parts).is_ok());
    if is_admitted { state } else { json!({"ready": state.get("ready")}) }
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
    value(&json!({ "upstreams": all }))
}

async fn catalogue(
    State(gateway): State<Arc<Gateway>>,
    Path(_): Path<String>,
    parts: Parts,
) -> Response {
    if gateway.aggregator.servers().is_empty() {
        let detail = "this gateway has no MCP servers, so that it has no catalogue of tools";
        return problem(StatusCode::NOT_FOUND, "no_catalogue", detail);
    }
    // The path is decoded where it is split.
    let path = parts.uri.path().strip_prefix("/admin/v1/catalogue/").unwrap_or_default();
    gateway.aggregator.serve_admin_route(&parts, path).await
}

async fn alerts(State(gateway): State<Arc<Gateway>>) -> Response {
    value(&json!(gateway.recorder.alerts().map(|alerts| alerts.report()).unwrap_or_default()))
}

async fn records(
    State(gateway): State<Arc<Gateway>>,
    query: Result<Query<telemetry::RecordQuery>, QueryRejection>,
) -> Response {
    match query {
        Ok(Query(query)) => {
            let records = gateway.recorder.query(&query);
            let records: Vec<_> = records.iter().map(|record| json!(**record)).collect();
            value(&json!({ "records": records }))
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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::config::{Access, Admin, Secret};

    #[test]
    fn state_of_upstreams_needs_the_token() {
        let token = Some(Secret::new("right"));
        let admin = Admin { listen: "127.0.0.1:8809".to_owned(), token, tls: None };
        let access = AdminAccess::new(&admin, &Access::default());
        let state = json!({"ready": true, "upstreams": [{"name": "git", "reason": "secret"}]});
        let seen = |host: &str, token: &str| {
            let peer = SocketAddr::from(([127, 0, 0, 1], 50_000));
            let request = http::Request::get("/readyz").header("host", host).extension(peer);
            let request = request.header("authorization", token).body(()).unwrap();
            visible_state(Some(&access), &request.into_parts().0, state.clone())
        };
        assert_eq!(seen("127.0.0.1:8809", "Bearer right"), state);
        assert_eq!(seen("127.0.0.1:8809", "Bearer wrong"), json!({"ready": true}));
        assert_eq!(seen("evil.example", "Bearer right"), json!({"ready": true}));
    }
}
