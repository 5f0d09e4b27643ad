//! Continues event streams that an upstream ended before the answer (MCP 2025-11-25, SEP-1699).

use std::time::Duration;

use context_guard_protocol::sse::Event;
use http::header::HeaderValue;

/// The pause before an upstream's common stream is opened again after it ended.
pub(super) const REOPEN_PAUSE: Duration = Duration::from_secs(1);
/// The maximum pause before an ended stream is continued. It limits the pause that the server
/// proposes.
const MAX_RESUME_PAUSE: Duration = Duration::from_secs(30);

/// The position in an ended event stream from which the stream can be continued.
pub(super) struct Resumption {
    /// The id of the last received event.
    pub(super) last_event: HeaderValue,
    /// The pause before the stream is continued.
    pub(super) pause: Duration,
}

impl Resumption {
    /// Sets `resumption` to the position after `event`. An event without an id changes the pause
    /// only, if it proposes one.
    pub(super) fn update(resumption: &mut Option<Self>, event: &Event) {
        let pause = event.retry().or_else(|| resumption.as_ref().map(|known| known.pause));
        let pause = pause.unwrap_or(REOPEN_PAUSE).min(MAX_RESUME_PAUSE);
        if let Some(id) = event.id().and_then(|id| HeaderValue::from_bytes(id).ok()) {
            *resumption = Some(Self { last_event: id, pause });
        } else if let Some(resumption) = resumption {
            resumption.pause = pause;
        }
    }
}
