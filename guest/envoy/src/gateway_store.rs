//! The cursor store of a gateway, which all Envoys of a fleet share. Calls are asynchronous.

use std::cell::Cell;
use std::time::Duration;

use context_guard_protocol::store_message::{
    MEDIA_TYPE, READ_PATH, ReadRequest, WRITE_PATH, WriteRequest, WrittenEntry,
};
use log::{info, warn};
use proxy_wasm::hostcalls::{
    dispatch_http_call, get_buffer, get_current_time, get_map_value_bytes,
};
use proxy_wasm::types::{BufferType, MapType};
use serde_json::Value;

/// The time, in milliseconds, without calls to the store after a failure.
const PAUSE_MS: u64 = 1_000;
/// The maximum number of bytes of a refusal that are quoted in the log.
const MAX_REASON_BYTES: usize = 300;

/// The settings of a gateway's store.
pub(crate) struct GatewaySettings {
    /// The name of Envoy's cluster of gateways.
    pub(crate) cluster: String,
    /// The value of the header `:authority`.
    pub(crate) authority: String,
    /// One of the secrets that the gateway accepts.
    pub(crate) secret: String,
    /// The maximum time of a call, in milliseconds.
    pub(crate) timeout_ms: u32,
}

/// The store of a gateway, with its state from the perspective of a worker.
pub(crate) struct GatewayStore {
    settings: GatewaySettings,
    authorization: String,
    is_down: Cell<bool>,
    /// The time of the next call, in milliseconds since 1970, while the store is down.
    retry_at_ms: Cell<u64>,
}

/// The outcome of a call.
pub(crate) enum CallOutcome {
    /// The gateway has completed the call. Holds the body of its answer.
    Done(Vec<u8>),
    /// The gateway's store is too full for the entries.
    Full,
    /// The gateway cannot be reached, or refuses all calls.
    Unavailable,
}

impl GatewayStore {
    pub(crate) fn new(settings: GatewaySettings) -> Self {
        let authorization = format!("Bearer {}", settings.secret);
        Self { settings, authorization, is_down: Cell::new(false), retry_at_ms: Cell::new(0) }
    }

    /// Returns true if an exchange may call the store. While the store is down, one call per second
    /// is allowed, so that no other exchange waits for it.
    pub(crate) fn can_call(&self) -> bool {
        !self.is_down.get() || clock_ms() >= self.retry_at_ms.get()
    }

    /// Starts to read the values of keys. Returns the token of the call. `None` if it failed at
    /// once.
    pub(crate) fn read(&self, principal: &str, keys: &[String]) -> Option<u32> {
        self.call(READ_PATH, &ReadRequest::encode(principal, keys))
    }

    /// Starts to write entries. Returns the token of the call. `None` if it failed at once.
    pub(crate) fn write(&self, principal: &str, entries: &[WrittenEntry]) -> Option<u32> {
        self.call(WRITE_PATH, &WriteRequest::encode(principal, entries))
    }

    fn call(&self, path: &str, body: &[u8]) -> Option<u32> {
        let headers = vec![
            (":method", "POST"),
            (":path", path),
            (":authority", self.settings.authority.as_str()),
            ("authorization", self.authorization.as_str()),
            ("content-type", MEDIA_TYPE),
        ];
        let timeout = Duration::from_millis(self.settings.timeout_ms.into());
        let cluster = &self.settings.cluster;
        match dispatch_http_call(cluster, headers, Some(body), Vec::new(), timeout) {
            Ok(token) => {
                // Until this call has an outcome, no other tries a store that was down.
                self.retry_at_ms.set(clock_ms() + PAUSE_MS + u64::from(self.settings.timeout_ms));
                Some(token)
            }
            Err(_) => {
                self.failed("Envoy has no such cluster, or no endpoint of it is reachable");
                None
            }
        }
    }

    /// Reads the answer to a call, in Envoy's callback for it. `headers` is the number of its
    /// headers, 0 if there is no answer.
    pub(crate) fn outcome(&self, headers: usize, body_bytes: usize) -> CallOutcome {
        if headers == 0 {
            self.failed("no answer");
            return CallOutcome::Unavailable;
        }
        let status = get_map_value_bytes(MapType::HttpCallResponseHeaders, ":status");
        let status = status.ok().flatten().unwrap_or_default();
        let body = get_buffer(BufferType::HttpCallResponseBody, 0, body_bytes);
        let body = body.ok().flatten().unwrap_or_default();
        match status.as_slice() {
            b"200" | b"204" => {
                if self.is_down.replace(false) {
                    let cluster = &self.settings.cluster;
                    info!(
                        "context-guard: the store of the gateway (cluster {cluster}) works again"
                    );
                }
                CallOutcome::Done(body)
            }
            b"413" | b"507" => CallOutcome::Full,
            status => {
                let status = String::from_utf8_lossy(status);
                self.failed(&format!("status {status}: {}", reason(&body)));
                CallOutcome::Unavailable
            }
        }
    }

    /// Records a failure. Logs it once until the store works again.
    pub(crate) fn failed(&self, reason: &str) {
        self.retry_at_ms.set(clock_ms() + PAUSE_MS);
        if !self.is_down.replace(true) {
            let cluster = &self.settings.cluster;
            warn!(
                "context-guard: the store of the gateway (cluster {cluster}) cannot be used: {reason}; answers still fit, cursors work at this Envoy only or repeat the call"
            );
        }
    }
}

/// Returns the reason in the body of a refusal: its member `detail`, or else the body as text.
fn reason(body: &[u8]) -> String {
    let problem: Option<Value> = serde_json::from_slice(body).ok();
    let detail = problem.as_ref().and_then(|problem| problem.get("detail")?.as_str());
    let text = detail.map_or_else(|| String::from_utf8_lossy(body), Into::into);
    let end = text.floor_char_boundary(MAX_REASON_BYTES);
    text.get(..end).unwrap_or_default().trim().to_owned()
}

/// Returns the time, in milliseconds since 1970. Tests may set another time for cursors.
fn clock_ms() -> u64 {
    let now = get_current_time().ok();
    let since = now.and_then(|now| now.duration_since(std::time::UNIX_EPOCH).ok());
    since.and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or_default()
}
