//! Admin routes that show and change revisions, policy and the answer cache at run time. Changes
//! need the admin token and are disabled if none is configured.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post, put};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{HeaderName, StatusCode};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde_json::json;

use crate::cache::Purge;
use crate::dashboard::{Console, authorized};
use crate::policy::Source;
use crate::reply::value as reply;
use crate::revision::{Actor, Candidate, Error, Mode, Result, Revision, VerificationPolicy};
use crate::{Gateway, header, problem};

/// The maximum size of an uploaded guard component, in bytes.
const MAX_COMPONENT_BYTES: usize = 64 << 20;
/// The header with the checksum or signature file of an uploaded component, in base64.
const VERIFICATION: HeaderName = HeaderName::from_static("x-context-guard-verify");

/// The query parameters of an upload of a policy or component.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct UploadQuery {
    /// The rollout mode of the uploaded revision. `None` selects the configured default.
    mode: Option<Mode>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApproveRequest {
    /// The tools whose current definitions are approved: a glob over `server::tool`.
    tool: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RollBackRequest {
    /// The number of the revision to roll back to. `None` selects the previous one.
    to: Option<u64>,
}

/// Returns the routes that change revisions, policy or cache, and those that show their state.
pub(super) fn router(gateway: &Arc<Gateway>, console: &Arc<Console>) -> Router<Arc<Gateway>> {
    let changes = Router::new()
        .route("/admin/reload", post(reload))
        .route("/admin/rollback", post(roll_back))
        .route("/admin/promote", post(promote))
        .route("/admin/policy", put(policy))
        .route("/admin/component", put(component))
        .route("/admin/cache/purge", post(purge))
        .route("/admin/catalogue/approve", post(approve))
        .route("/admin/catalogue/recompute", post(recompute))
        .route_layer(from_fn_with_state(Arc::clone(gateway), has_token));
    Router::new()
        .route("/admin/generations", get(revisions))
        .route("/admin/sources", get(sources))
        .route("/admin/policy", get(active_policy))
        .route("/admin/cache", get(cache))
        .route("/admin/catalogue/definitions", get(definitions))
        .merge(changes)
        .route_layer(from_fn_with_state(Arc::clone(console), authorized))
}

/// Middleware that rejects changes if no admin token is configured. The loopback interface is not
/// enough, because a page in a browser on this machine could send the request.
async fn has_token(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    if gateway.config.admin.as_ref().is_some_and(|admin| admin.token.is_some()) {
        return next.run(request).await;
    }
    problem(
        StatusCode::FORBIDDEN,
        "no_token",
        "Changes need a token, and none is configured: set admin.token, and send it as `Authorization: Bearer …`.",
    )
}

async fn revisions(State(gateway): State<Arc<Gateway>>) -> Response {
    reply(&gateway.filter.revisions().report())
}

async fn sources(State(gateway): State<Arc<Gateway>>) -> Response {
    reply(&match gateway.sources.get() {
        Some(sources) => sources.report(gateway.filter.revisions()),
        None => json!({"sources": []}),
    })
}

async fn active_policy(State(gateway): State<Arc<Gateway>>) -> Response {
    let policy = &gateway.filter.revisions().active().policy;
    reply(&serde_json::from_str(policy).unwrap_or_else(|_| json!({})))
}

/// Runs `work`, which deploys a revision or returns `None` if nothing has changed, on a blocking
/// thread. Returns the HTTP response that reports the result.
async fn change(
    gateway: Arc<Gateway>,
    work: impl FnOnce(&Gateway) -> Result<Option<Arc<Revision>>> + Send + 'static,
) -> Response {
    let worker = Arc::clone(&gateway);
    let result = tokio::task::spawn_blocking(move || work(&worker)).await;
    match result {
        Ok(Ok(changed)) => {
            let report = gateway.filter.revisions().report();
            let number = changed.map(|revision| revision.number);
            reply(
                &json!({"changed": number.is_some(), "generation": number, "active": report.get("active"), "trial": report.get("trial")}),
            )
        }
        Ok(Err(error)) => problem(StatusCode::UNPROCESSABLE_ENTITY, "refused", &error.to_string()),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, "failed", &error.to_string()),
    }
}

async fn reload(State(gateway): State<Arc<Gateway>>) -> Response {
    change(gateway, |gateway| match gateway.sources.get() {
        Some(sources) => sources.reload_all(gateway.filter.revisions()),
        None => Err(Error::Refused("this gateway has no files to reload".to_owned())),
    })
    .await
}

async fn roll_back(State(gateway): State<Arc<Gateway>>, body: Bytes) -> Response {
    match parse::<RollBackRequest>(&body) {
        Ok(RollBackRequest { to }) => {
            change(gateway, move |gateway| {
                gateway.filter.revisions().roll_back(to, "an operator asked for it").map(Some)
            })
            .await
        }
        Err(response) => *response,
    }
}

async fn promote(State(gateway): State<Arc<Gateway>>) -> Response {
    change(gateway, |gateway| {
        gateway.filter.revisions().promote(Actor::Operator, "an operator asked for it").map(Some)
    })
    .await
}

async fn policy(
    State(gateway): State<Arc<Gateway>>,
    Query(query): Query<UploadQuery>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let format = match header(&headers, CONTENT_TYPE) {
        kind if kind.contains("yaml") => Some("policy.yaml"),
        kind if kind.contains("toml") => Some("policy.toml"),
        kind if kind.contains("json") => Some("policy.json"),
        // curl sends application/x-www-form-urlencoded unless an option says otherwise.
        _ => None,
    };
    let text = String::from_utf8_lossy(&body).into_owned();
    change(gateway, move |gateway| {
        let source = match format {
            Some(name) => Source::parse(name.as_ref(), text),
            None => Source::detect(text),
        }?;
        gateway.filter.revisions().deploy(&Candidate {
            source: "admin call".to_owned(),
            policy: Some(source),
            mode: query.mode,
            actor: Actor::Operator,
            ..Candidate::default()
        })
    })
    .await
}

async fn component(
    State(gateway): State<Arc<Gateway>>,
    Query(query): Query<UploadQuery>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, MAX_COMPONENT_BYTES).collect().await else {
        return problem(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            &format!("A component has at most {MAX_COMPONENT_BYTES} bytes."),
        );
    };
    let bytes = body.to_bytes().to_vec();
    let file = header(&parts.headers, VERIFICATION);
    let file = STANDARD.decode(file).map(|text| String::from_utf8_lossy(&text).into_owned());
    change(gateway, move |gateway| {
        let policy = VerificationPolicy::configured(&gateway.config.component)?;
        policy.verify(&bytes, &file.unwrap_or_default())?;
        gateway.filter.revisions().deploy(&Candidate {
            source: "admin call".to_owned(),
            component: Some(bytes),
            mode: query.mode,
            actor: Actor::Operator,
            ..Candidate::default()
        })
    })
    .await
}

async fn cache(State(gateway): State<Arc<Gateway>>) -> Response {
    let (entries, bytes) = gateway.filter.cache().map(|cache| cache.size()).unwrap_or_default();
    reply(&json!({"entries": entries, "bytes": bytes}))
}

async fn purge(State(gateway): State<Arc<Gateway>>, body: Bytes) -> Response {
    let purge = match parse::<Purge>(&body) {
        Ok(purge) => purge,
        Err(response) => return *response,
    };
    let Some(cache) = gateway.filter.cache() else {
        return problem(
            StatusCode::CONFLICT,
            "no_cache",
            "The answer cache is disabled: set `cache`.",
        );
    };
    let purged = cache.purge(&purge);
    gateway.recorder.cache_purged(&serde_json::to_string(&purge).unwrap_or_default(), purged);
    let (entries, bytes) = cache.size();
    reply(&json!({"purged": purged, "entries": entries, "bytes": bytes}))
}

async fn definitions(State(gateway): State<Arc<Gateway>>) -> Response {
    reply(&gateway.aggregator.definitions_report())
}

async fn approve(State(gateway): State<Arc<Gateway>>, body: Bytes) -> Response {
    match parse::<ApproveRequest>(&body) {
        Ok(ApproveRequest { tool }) if !tool.is_empty() => {
            reply(&json!({"approved": gateway.aggregator.approve_definitions(&tool)}))
        }
        Ok(_) => {
            let detail = "no tool: send {\"tool\": \"server::tool\"}, where * matches any text";
            problem(StatusCode::BAD_REQUEST, "bad_request", detail)
        }
        Err(response) => *response,
    }
}

async fn recompute(State(gateway): State<Arc<Gateway>>) -> Response {
    let worker = Arc::clone(&gateway);
    let recomputed = tokio::task::spawn_blocking(move || worker.aggregator.recompute_scores());
    match recomputed.await {
        Ok((tools, is_changed)) => {
            gateway.recorder.scores_recomputed(tools, is_changed);
            reply(&json!({"changed": is_changed, "tools": tools}))
        }
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, "failed", &error.to_string()),
    }
}

/// Parses a JSON request body. An empty body gives the default value.
///
/// # Errors
/// The response that refuses an invalid body.
fn parse<T: Default + for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Box<Response>> {
    if body.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| {
        let detail = format!("invalid body: {error}");
        Box::new(problem(StatusCode::BAD_REQUEST, "bad_request", &detail))
    })
}
