//! HTTP responses and bodies for event streams (SSE).

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};

use super::client_presence::ConnectedClient;
use super::client_session::ClientSession;
use super::event_streams::{EventReader, StreamEvent};
use crate::reply;
use crate::tasks::AbortOnDrop;
use context_guard_protocol::sse::Event;

/// The maximum silence on an event stream before the gateway sends an SSE comment. Proxies close
/// connections that are idle for longer.
pub(super) const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The first protocol version whose streams begin with an empty event, from which clients can
/// resume (SEP-1699).
const PRIMED_SINCE: &str = "2025-11-25";

/// Returns an event stream as the response to a stateful client. `first` is an event that was
/// already received from `events`.
pub(super) fn event_response(
    session: &ClientSession,
    stream_id: u64,
    first: Option<StreamEvent>,
    events: EventReader,
    connected: ConnectedClient,
) -> Response {
    let mut start = Vec::new();
    if session.info.version.as_str() >= PRIMED_SINCE {
        start.extend_from_slice(format!("id: {stream_id}-0\nretry: 1000\ndata: \n\n").as_bytes());
    }
    if let Some((id, message)) = first {
        start.extend_from_slice(&Event::message(Some(&id), &message).0);
    }
    if start.is_empty() {
        // No event yet, so that the client cannot resume.
        start.extend_from_slice(b": \n\n");
    } else {
        connected.set_resumable();
    }
    let start = stream::iter([Ok::<_, Infallible>(Bytes::from(start))]);
    reply::events(Body::from_stream(start.chain(event_body(events, None, Some(connected)))))
}

/// Returns a response body with the events of a stream. Adds comments while the stream is silent.
/// Dropping the body aborts the task `subscription`, and drops `connected`, the client's handle.
pub(super) fn event_body(
    events: EventReader,
    subscription: Option<AbortOnDrop>,
    connected: Option<ConnectedClient>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let state = (events, subscription, connected);
    stream::unfold(state, |(mut events, subscription, connected)| async move {
        let bytes = tokio::select! {
            event = events.next() => {
                let (id, message) = event?;
                if let Some(connected) = &connected {
                    connected.set_resumable();
                }
                Ok(Bytes::from(Event::message(Some(&id), &message).0))
            }
            () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => keep_alive(),
        };
        Some((bytes, (events, subscription, connected)))
    })
}

/// Returns a message as an SSE event without an id, from which clients cannot resume.
pub(super) fn event(message: &[u8]) -> Result<Bytes, Infallible> {
    Ok(Bytes::from(Event::message(None, message).0))
}

/// Returns an SSE comment, which clients ignore.
pub(super) fn keep_alive() -> Result<Bytes, Infallible> {
    Ok(Bytes::from_static(b": \n\n"))
}
