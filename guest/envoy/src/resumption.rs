//! Event streams that end before their answer, and that the client resumes by a GET with
//! `last-event-id`.
//!
//! The answer then arrives in an exchange without information about the request. The filter
//! therefore stores the request under the ids of the events that the client received. When the
//! client resumes the stream, the request passes through the guard again, so that the guard expects
//! the answer.

use std::collections::VecDeque;

use context_guard_protocol::Settings;

use crate::guard::Shared;

/// The header with the id of the last event that the client received.
pub(crate) const LAST_EVENT_ID: &str = "last-event-id";
/// The time, in milliseconds, during which a stream can be resumed.
const TTL_MS: u64 = 600_000;
/// The number of events, counted from the last, from which a stream can be resumed.
const MAX_EVENTS: usize = 16;
/// The maximum size, in bytes, of a request that is stored.
const MAX_REQUEST_BYTES: usize = 65_536;

/// The owner of a stream: the data that a client must send again to resume it, as JSON.
#[derive(Clone)]
pub(crate) struct StreamOwner(String);

impl StreamOwner {
    /// Reads the path, the session and the credentials from the head of a request.
    pub(crate) fn new(
        settings: &Settings,
        target: &str,
        header: &dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let path = target.split('?').next().unwrap_or_default();
        let session = header("mcp-session-id").unwrap_or_default();
        let credentials =
            settings.principal_headers.iter().map(|name| header(&name.to_lowercase()));
        let credentials: Vec<Option<String>> =
            if settings.principal.is_some() { Vec::new() } else { credentials.collect() };
        Self(serde_json::json!(["stream", path, session, credentials]).to_string())
    }

    fn key(&self, event: &str) -> String {
        format!("{}{event}", self.0)
    }

    /// Returns the request whose stream the client resumes after the event with this id. `None` if
    /// none is stored.
    pub(crate) fn load(&self, shared: &Shared, event: &str) -> Option<Vec<u8>> {
        let key = self.key(event);
        let value = shared.store?.get(&key, shared.now_ms())?;
        // The store finds entries by a hash. The value repeats the key, so that no other caller's
        // request is returned.
        value.strip_prefix(key.as_bytes())?.strip_prefix(b"\n").map(<[u8]>::to_vec)
    }
}

/// A stream that the client may resume while a request is pending.
pub(crate) struct ResumableStream {
    owner: StreamOwner,
    request: Vec<u8>,
    events: VecDeque<String>,
}

impl ResumableStream {
    /// Creates the state of a stream without events. `None` if the request is too long to be
    /// stored.
    pub(crate) fn new(owner: StreamOwner, request: &[u8]) -> Option<Self> {
        let is_short = request.len() <= MAX_REQUEST_BYTES;
        is_short.then(|| Self { owner, request: request.to_vec(), events: VecDeque::new() })
    }

    /// Records the ids of the complete events in `sent`.
    pub(crate) fn on_events(&mut self, sent: &[u8]) {
        let lines = sent.split(|byte| matches!(byte, b'\n' | b'\r'));
        for id in lines.filter_map(|line| line.strip_prefix(b"id:")) {
            let Ok(id) = std::str::from_utf8(id.strip_prefix(b" ").unwrap_or(id)) else { continue };
            if self.events.len() == MAX_EVENTS {
                self.events.pop_front();
            }
            self.events.push_back(id.to_owned());
        }
    }

    /// Stores the request, so that the client can resume the stream.
    pub(crate) fn save(&self, shared: &Shared) {
        let Some(store) = shared.store else { return };
        let now_ms = shared.now_ms();
        for event in &self.events {
            let key = self.owner.key(event);
            let value = [key.as_bytes(), b"\n", &self.request].concat();
            if store.put(&key, &value, now_ms + TTL_MS, now_ms).is_err() {
                shared.metrics.store_full();
            }
        }
    }
}
