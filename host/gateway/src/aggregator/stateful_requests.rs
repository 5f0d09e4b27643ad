//! Runs a stateful client's requests. The requests continue if the client's connection is lost. The
//! client can resume the stream to receive the answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::Aggregator;
use super::client::{Client, MAX_WAITING_BYTES, Origin};
use super::client_presence::ClientPresence;
use super::client_session::ClientSession;
use super::event_response::event_response;
use crate::admission::Admission;
use crate::byte_channel::{MAX_ATTEMPTS, RETRY_PAUSE, byte_channel};
use crate::message::{Head, Kind};
use crate::reply;
use crate::trace_context;
use axum::response::Response;
use context_guard_protocol::batch::join_batch;
use http::StatusCode;

/// The time without an answer after which an HTTP response becomes an event stream. A faster answer
/// is sent as plain JSON.
const STREAM_AFTER: Duration = Duration::from_secs(2);
/// The maximum time that a client without support for event streams waits for an answer.
const MAX_WAIT: Duration = Duration::from_secs(86_400);

impl Aggregator {
    /// Runs the JSON-RPC requests of one HTTP request concurrently, and returns the HTTP response.
    /// `accepts_events` is true if the client accepts an event stream.
    pub(super) async fn run_requests(
        self: &Arc<Self>,
        client: Client,
        session: &Arc<ClientSession>,
        requests: Vec<Vec<u8>>,
        accepts_events: bool,
        admission: &Admission,
    ) -> Response {
        // Dropped with this future, or with the response, when the client disconnects.
        let (presence, connected) = ClientPresence::connected();
        let (stream_id, mut events) = session.streams().open();
        let is_batch = requests.len() > 1;
        let unfinished = Arc::new(AtomicUsize::new(requests.len()));
        let client = Arc::new(client);
        for request in requests {
            let (client, session) = (Arc::clone(&client), Arc::clone(session));
            let (presence, admission) = (Arc::clone(&presence), admission.clone());
            let (aggregator, unfinished) = (Arc::clone(self), Arc::clone(&unfinished));
            tokio::spawn(trace_context::for_task(async move {
                // The requests occupy their places until all are answered, even if the client
                // disconnects.
                let _admission = admission;
                tokio::select! {
                    () = aggregator.run_request(&client, &session, stream_id, &request) => {}
                    () = presence.abandoned() => session.cancel(raw_id(&request)),
                }
                if unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
                    session.streams().end(stream_id);
                }
            }));
        }
        if accepts_events && is_batch {
            return event_response(session, stream_id, None, events, connected);
        }
        let wait = if accepts_events { STREAM_AFTER } else { MAX_WAIT };
        let mut answers = Vec::new();
        while let Ok(event) = tokio::time::timeout(wait, events.next()).await {
            let Some((id, message)) = event else {
                // All requests have ended; those that were cancelled have no answer.
                session.streams().forget(stream_id);
                if answers.is_empty() {
                    return reply::empty(StatusCode::ACCEPTED);
                }
                return reply::json(StatusCode::OK, join_batch(&answers));
            };
            let kind = Head::read(&message).and_then(|head| head.kind());
            if kind == Some(Kind::Response) {
                if !is_batch {
                    session.streams().forget(stream_id);
                    return reply::json(StatusCode::OK, message.into());
                }
                answers.push(message);
            } else if accepts_events {
                // A message precedes the answer, so the response must be a stream.
                let first = Some((id, message));
                return event_response(session, stream_id, first, events, connected);
            }
        }
        event_response(session, stream_id, None, events, connected)
    }

    /// Runs a request. Sends its notifications, server-to-client requests and answer on the event
    /// stream `stream_id`.
    pub(super) async fn run_request(
        &self,
        client: &Client,
        session: &ClientSession,
        stream_id: u64,
        request: &[u8],
    ) {
        let id = raw_id(request).to_owned();
        let cancelled = session.begin(&id);
        let (out, mut related) = byte_channel(MAX_WAITING_BYTES);
        let origin = Origin::new(client, &out);
        let mut is_patient = true;
        let mut answer = std::pin::pin!(self.answer(&origin, request));
        let answer = loop {
            tokio::select! {
                // Biased, so that messages in the course of the request precede its answer.
                biased;
                () = cancelled.cancelled() => break None,
                Some(message) = related.recv() => {
                    // A client that reads slowly keeps its upstream waiting for a second. Then its
                    // notifications are dropped until it goes on.
                    is_patient = session.streams().has_room(stream_id, message.len())
                        || is_patient && wait_for_room(session, stream_id, message.len()).await;
                    if !is_patient {
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                    send_related(session, stream_id, message);
                }
                answer = &mut answer => break Some(answer),
            }
        };
        session.finish(&id);
        while let Some(message) = related.try_recv() {
            send_related(session, stream_id, message);
        }
        if let Some(answer) = answer {
            session.streams().send(stream_id, answer, false);
        }
    }
}

/// Sends a message that belongs to a running request to the client.
fn send_related(session: &ClientSession, stream_id: u64, message: Vec<u8>) {
    let kind = Head::read(&message).and_then(|head| head.kind());
    session.streams().send(stream_id, message, kind == Some(Kind::Notification));
}

/// Waits until the client has read enough for a message of `bytes` bytes. Returns false after a
/// second.
async fn wait_for_room(session: &ClientSession, stream_id: u64, bytes: usize) -> bool {
    for _ in 0..MAX_ATTEMPTS {
        if session.streams().has_room(stream_id, bytes) {
            return true;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    false
}

fn raw_id(request: &[u8]) -> &str {
    Head::read(request).map_or("null", |head| head.raw_id())
}
