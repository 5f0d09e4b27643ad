//! The endpoint for filters in other proxies, whose entries are in the store of this gateway.
//!
//! A filter authenticates by a secret and names the principal of its caller, as a replica does.
//! These principals are separate from those of the gateway, whose callers authenticate here.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use context_guard_protocol::store_message::{
    MEDIA_TYPE, READ_PATH, ReadRequest, WRITE_PATH, WriteRequest, WrittenEntry, encode_values,
};
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap};
use subtle::{Choice, ConstantTimeEq};
use tokio::sync::Semaphore;
use tokio::task::block_in_place;
use tracing::warn;

use crate::config::{FilterStore, Limits, Secret, Timeouts};
use crate::front::request_body::{self, BodyError, BodyMemory, Reservation};
use crate::reply;
use crate::rest::problem;
use crate::serve::Gateway;
use crate::store::{CursorStore, StoreError, own_scope};

/// The number of requests of the maximum size whose bodies may be in memory at once.
const MAX_BODIES: usize = 8;
/// The maximum number of calls of the store at once: each occupies a thread.
const MAX_CALLS: usize = 32;
/// The prefix of a principal of filters. The control character keeps it apart from those of callers
/// of the gateway.
const PRINCIPAL_PREFIX: &str = "\u{0}filter:";

/// The state of the endpoint.
struct Endpoint {
    gateway: Arc<Gateway>,
    secrets: Vec<Secret>,
    /// The limits of request bodies.
    limits: Limits,
    timeouts: Timeouts,
    memory: Arc<BodyMemory>,
    store: Arc<dyn CursorStore>,
    calls: Semaphore,
    /// True if the log has already reported a wrong secret. It is reported once.
    is_refusal_reported: AtomicBool,
}

/// Returns the routes of the endpoint.
pub(crate) fn router(gateway: &Arc<Gateway>, settings: &FilterStore) -> Router {
    let limits = Limits {
        request_bytes: settings.max_bytes,
        buffered_bytes: settings.max_bytes.saturating_mul(MAX_BODIES),
        ..gateway.config.limits.clone()
    };
    let endpoint = Endpoint {
        secrets: settings.secrets.clone(),
        memory: BodyMemory::new(&limits),
        limits,
        timeouts: gateway.config.timeouts.clone(),
        store: Arc::clone(&gateway.filter.revisions().services().store),
        calls: Semaphore::new(MAX_CALLS),
        gateway: Arc::clone(gateway),
        is_refusal_reported: AtomicBool::new(false),
    };
    Router::new()
        .route("/healthz", get(health))
        .route(READ_PATH, post(read))
        .route(WRITE_PATH, post(write))
        .with_state(Arc::new(endpoint))
}

/// Answers health checks of proxies. The status is 503 while the gateway stops or its store is
/// down, so that a proxy uses another gateway.
async fn health(State(endpoint): State<Arc<Endpoint>>) -> Response {
    if endpoint.gateway.closing.is_cancelled() || !endpoint.store.is_up() {
        return reply::empty(StatusCode::SERVICE_UNAVAILABLE);
    }
    reply::body(StatusCode::OK, "text/plain", "ok\n".to_owned())
}

async fn read(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    let (body, _reserved) = match endpoint.receive(request).await {
        Ok(received) => received,
        Err(refusal) => return *refusal,
    };
    let ReadRequest { principal, keys } = match ReadRequest::decode(&body) {
        Ok(request) => request,
        Err(error) => return invalid(&error.to_string()),
    };
    let mut names: Vec<&String> = keys.iter().collect();
    names.sort_unstable();
    names.dedup();
    if names.len() < keys.len() {
        return invalid("a key occurs twice");
    }
    let Ok(_turn) = endpoint.calls.acquire().await else { return busy() };
    match block_in_place(|| endpoint.store.get(&stored_principal(&principal), &keys)) {
        Ok(values) => reply::body(StatusCode::OK, MEDIA_TYPE, encode_values(&values)),
        Err(error) => failed(&error),
    }
}

async fn write(State(endpoint): State<Arc<Endpoint>>, request: Request) -> Response {
    let (body, _reserved) = match endpoint.receive(request).await {
        Ok(received) => received,
        Err(refusal) => return *refusal,
    };
    let WriteRequest { principal, entries } = match WriteRequest::decode(&body) {
        Ok(request) => request,
        Err(error) => return invalid(&error.to_string()),
    };
    let principal = stored_principal(&principal);
    let Ok(_turn) = endpoint.calls.acquire().await else { return busy() };
    match block_in_place(|| write_entries(&*endpoint.store, &principal, entries)) {
        Ok(()) => reply::empty(StatusCode::NO_CONTENT),
        Err(error) => failed(&error),
    }
}

/// The changes of entries that have the same time to live.
#[derive(Default)]
struct Changes {
    written: Vec<(String, Vec<u8>)>,
    extended: Vec<String>,
}

/// Stores entries and extends lifetimes, with at most one store operation of each kind for each
/// time to live. Entries of earlier operations remain if a later one fails.
fn write_entries(
    store: &dyn CursorStore,
    principal: &str,
    entries: Vec<WrittenEntry>,
) -> Result<(), StoreError> {
    let mut by_ttl: BTreeMap<u64, Changes> = BTreeMap::new();
    for WrittenEntry { key, value, ttl_ms } in entries {
        let changes = by_ttl.entry(ttl_ms).or_default();
        match value {
            Some(value) => changes.written.push((key, value)),
            None => changes.extended.push(key),
        }
    }
    for (ttl_ms, Changes { written, extended }) in by_ttl {
        let ttl = Duration::from_millis(ttl_ms);
        if !extended.is_empty() {
            store.extend(principal, &extended, ttl)?;
        }
        if !written.is_empty() {
            store.put(principal, written, ttl)?;
        }
    }
    Ok(())
}

fn busy() -> Response {
    let detail = "too many requests are in memory: try again";
    problem(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
}

/// Returns the principal under which the store holds the entries of a filter's principal.
fn stored_principal(principal: &str) -> String {
    own_scope(&format!("{PRINCIPAL_PREFIX}{principal}")).into_owned()
}

impl Endpoint {
    /// Authenticates a request, and reads its body. Returns it with the memory reserved for it.
    ///
    /// # Errors
    /// The response that refuses the request.
    async fn receive(&self, request: Request) -> Result<(Bytes, Reservation), Box<Response>> {
        let peer = request.extensions().get::<SocketAddr>().map(SocketAddr::ip);
        let peer = peer.unwrap_or(IpAddr::from([0, 0, 0, 0]));
        let (parts, body) = request.into_parts();
        if !is_authorized(&self.secrets, &parts.headers) {
            if !self.is_refusal_reported.swap(true, Ordering::Relaxed) {
                warn!(
                    "a filter at {peer} has none of filterStore.secrets: give it one of them. Further refusals are not logged"
                );
            }
            let detail = "a secret of filterStore.secrets is needed, as `Authorization: Bearer …`";
            self.gateway.recorder.refused(&peer.to_string(), "filter", detail);
            return Err(Box::new(problem(StatusCode::UNAUTHORIZED, "wrong_secret", detail)));
        }
        let caller = peer.to_string().into();
        let read =
            request_body::read(body, &caller, &self.limits, &self.timeouts, &self.memory).await;
        read.map_err(|error| Box::new(self.refuse_body(error)))
    }

    fn refuse_body(&self, error: BodyError) -> Response {
        match error {
            BodyError::TooLarge => {
                let detail = format!(
                    "the request is longer than {} bytes (filterStore.maxBytes)",
                    self.limits.request_bytes
                );
                problem(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &detail)
            }
            BodyError::TooSlow => {
                let detail = "the request did not arrive in time (timeouts.bodySeconds)";
                problem(StatusCode::REQUEST_TIMEOUT, "timeout", detail)
            }
            BodyError::NoMemory => busy(),
            BodyError::Broken => invalid("the body did not arrive"),
        }
    }
}

/// Returns true if a request carries one of the secrets. Compares with all of them, in constant
/// time.
fn is_authorized(secrets: &[Secret], headers: &HeaderMap) -> bool {
    let given = headers.get(AUTHORIZATION).map_or(b"".as_slice(), |value| value.as_bytes());
    let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
    let matches = secrets.iter().map(|secret| secret.expose().as_bytes().ct_eq(given));
    matches.fold(Choice::from(0), |one, other| one | other).into()
}

fn invalid(detail: &str) -> Response {
    problem(StatusCode::BAD_REQUEST, "bad_request", detail)
}

/// Returns the response to a request that the store cannot serve.
fn failed(error: &StoreError) -> Response {
    let (status, code) = match error {
        StoreError::QuotaExceeded => (StatusCode::INSUFFICIENT_STORAGE, "quota_exceeded"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
    };
    problem(status, code, &error.to_string())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::store::clock::ManualClock;
    use crate::store::{MemoryLimits, MemoryStore};

    #[test]
    fn one_of_the_secrets_is_needed() {
        let secrets = ["first secret", "second secret"].map(Secret::new);
        let is_authorized = |value: &'static str| {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
            is_authorized(&secrets, &headers)
        };
        assert!(is_authorized("Bearer first secret") && is_authorized("Bearer second secret"));
        for value in ["", "Bearer ", "Bearer first", "first secret", "Bearer second secret "] {
            assert!(!is_authorized(value), "{value}");
        }
        assert!(!super::is_authorized(&secrets, &HeaderMap::new()));
        assert!(!super::is_authorized(&[], &HeaderMap::new()));
    }

    #[test]
    fn entries_have_their_own_lifetimes() {
        let clock = Arc::new(ManualClock::at_ms(1_000));
        let store = MemoryStore::new(clock.clone(), MemoryLimits::default());
        let entry = |key: &str, value: Option<&[u8]>, ttl_ms| WrittenEntry {
            key: key.to_owned(),
            value: value.map(<[u8]>::to_vec),
            ttl_ms,
        };
        let keys = ["short", "long"].map(str::to_owned);
        let has = || store.get("p", &keys).unwrap().iter().map(Option::is_some).collect::<Vec<_>>();
        let entries = vec![entry("short", Some(b"1"), 10), entry("long", Some(b"2"), 100)];
        write_entries(&store, "p", entries).unwrap();
        clock.advance_ms(5);
        write_entries(&store, "p", vec![entry("short", None, 10)]).unwrap();
        clock.advance_ms(9);
        assert_eq!(has(), [true, true]);
        clock.advance_ms(1);
        assert_eq!(has(), [false, true]);
        assert!(store.get("other", &keys).unwrap().iter().all(Option::is_none));
    }
}
