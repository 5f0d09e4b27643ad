//! What operators change while the gateway runs: revisions, and what is kept of answers. Changes need the admin token; without one configured there are none.

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

use super::{authorized, json as reply};
use crate::cache::Purge;
use crate::policy::Source;
use crate::revision::{Candidate, Error, Mode, Result, Revision, VerificationPolicy};
use crate::{Gateway, header, problem};

/// The largest component, in bytes.
const LARGEST: usize = 64 << 20;
/// The checksum or signature of a component that is sent, base64 of the file that would stand beside it.
const BESIDE: HeaderName = HeaderName::from_static("x-context-guard-verify");

/// How something that is sent comes in.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct How {
    mode: Option<Mode>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Back {
    /// The number of a revision that is kept.
    to: Option<u64>,
}

/// The paths of this part.
pub(super) fn router(gateway: &Arc<Gateway>) -> Router<Arc<Gateway>> {
    let changes = Router::new()
        .route("/admin/reload", post(reload))
        .route("/admin/rollback", post(roll_back))
        .route("/admin/promote", post(promote))
        .route("/admin/policy", put(policy))
        .route("/admin/component", put(component))
        .route("/admin/cache/purge", post(purge))
        .route_layer(from_fn_with_state(Arc::clone(gateway), has_token));
    Router::new()
        .route("/admin/generations", get(revisions))
        .route("/admin/policy", get(active_policy))
        .route("/admin/cache", get(cache))
        .merge(changes)
        .route_layer(from_fn_with_state(Arc::clone(gateway), authorized))
}

/// Without a token nobody can be told from anybody: a page in a browser on this machine could ask, too.
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

async fn active_policy(State(gateway): State<Arc<Gateway>>) -> Response {
    let policy = &gateway.filter.revisions().active().policy;
    reply(&serde_json::from_str(policy).unwrap_or_else(|_| json!({})))
}

/// Does work that takes a while where no request waits for it, and tells what came of it.
async fn change(
    gateway: Arc<Gateway>,
    work: impl FnOnce(&Gateway) -> Result<Option<Arc<Revision>>> + Send + 'static,
) -> Response {
    let worker = Arc::clone(&gateway);
    let done = tokio::task::spawn_blocking(move || work(&worker)).await;
    match done {
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
        Some(sources) => sources.reload(gateway.filter.revisions(), true),
        None => Err(Error::Refused("this gateway was made of no files".to_owned())),
    })
    .await
}

async fn roll_back(State(gateway): State<Arc<Gateway>>, body: Bytes) -> Response {
    match parse::<Back>(&body) {
        Ok(Back { to }) => {
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
        gateway.filter.revisions().promote("an operator asked for it").map(Some)
    })
    .await
}

async fn policy(
    State(gateway): State<Arc<Gateway>>,
    Query(how): Query<How>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let format = match header(&headers, CONTENT_TYPE) {
        kind if kind.contains("yaml") => "policy.yaml",
        kind if kind.contains("toml") => "policy.toml",
        _ => "policy.json",
    };
    let text = String::from_utf8_lossy(&body).into_owned();
    change(gateway, move |gateway| {
        let source = Source::parse(format.as_ref(), text)?;
        gateway.filter.revisions().deploy(&Candidate {
            source: "admin call".to_owned(),
            policy: Some(source),
            mode: how.mode,
            component: None,
        })
    })
    .await
}

async fn component(
    State(gateway): State<Arc<Gateway>>,
    Query(how): Query<How>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, LARGEST).collect().await else {
        return problem(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            &format!("A component has at most {LARGEST} bytes."),
        );
    };
    let bytes = body.to_bytes().to_vec();
    let beside = header(&parts.headers, BESIDE);
    let beside = STANDARD.decode(beside).map(|text| String::from_utf8_lossy(&text).into_owned());
    change(gateway, move |gateway| {
        let trust = VerificationPolicy::configured(&gateway.config.component)?;
        trust.verify(&bytes, &beside.unwrap_or_default())?;
        gateway.filter.revisions().deploy(&Candidate {
            source: "admin call".to_owned(),
            component: Some(bytes),
            mode: how.mode,
            policy: None,
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
        return problem(StatusCode::CONFLICT, "no_cache", "No answers are kept: set `cache`.");
    };
    let gone = cache.purge(&purge);
    let (entries, bytes) = cache.size();
    reply(&json!({"purged": gone, "entries": entries, "bytes": bytes}))
}

/// A body; an empty one means nothing special.
fn parse<T: Default + for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, Box<Response>> {
    if body.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| {
        let detail = format!("The body is not understood: {error}.");
        Box::new(problem(StatusCode::BAD_REQUEST, "bad_request", &detail))
    })
}
