//! The aggregator's HTTP+SSE endpoints for clients of MCP 2024-11-05. A GET opens the event stream
//! of a session; messages are sent by POST, and all answers arrive on the stream.

use std::convert::Infallible;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use context_guard_protocol::sse::Event;
use futures_util::future::{join, join_all};
use futures_util::{Stream, StreamExt, stream};
use http::header::{ALLOW, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use tokio::sync::mpsc::Receiver;
use tracing::debug;

use super::Aggregator;
use super::client::Client;
use super::client_session::ClientSession;
use super::event_response::{KEEP_ALIVE_INTERVAL, keep_alive};
use super::event_streams::EventReader;
use super::http::{bad_request, read_messages};
use super::sse_connections::{OpenedSseConnection, SseConnection};
use crate::admission::Admission;
use crate::fleet::OWNER_MARK;
use crate::front::batches::is_batch;
use crate::front::sse_paths::SseEndpoint;
use crate::message::{Head, Kind};
use crate::reply;
use crate::tasks::AbortOnDrop;

/// Ends a connection and its session when the connection's event stream is dropped, because the
/// client has disconnected.
struct ConnectionGuard {
    aggregator: Arc<Aggregator>,
    connection: Arc<SseConnection>,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.aggregator.end_connection(&self.connection);
    }
}

impl Aggregator {
    /// Serves a client's HTTP request of the HTTP+SSE transport. The JSON-RPC requests in it hold
    /// the permits of `admission` until they are answered.
    pub(crate) async fn serve_sse(
        self: &Arc<Self>,
        admission: &Admission,
        parts: &Parts,
        body: Bytes,
        endpoint: SseEndpoint,
    ) -> Response {
        match (endpoint, &parts.method) {
            (SseEndpoint::Stream(url), &Method::GET) => self.open_stream(admission, &url),
            (SseEndpoint::Messages(id), &Method::POST) => {
                self.post_message(admission, parts, &body, &id).await
            }
            (SseEndpoint::Stream(_), _) => method_not_allowed("GET"),
            (SseEndpoint::Messages(_), _) => method_not_allowed("POST"),
        }
    }

    /// Opens a connection. Its event stream begins with the URL for messages: `url` with the id of
    /// the connection.
    fn open_stream(self: &Arc<Self>, admission: &Admission, url: &str) -> Response {
        let Some(opened) = self.sse_connections.open(admission) else {
            return reply::empty(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let OpenedSseConnection { connection, messages, evicted } = opened;
        if let Some(evicted) = evicted {
            self.end_connection(&evicted);
        }
        let start =
            format!("event: endpoint\ndata: {url}{}{}\n\n", self.tag.prefix(), connection.id);
        let ended = connection.ended.clone().cancelled_owned();
        let guard = ConnectionGuard { aggregator: Arc::clone(self), connection };
        let events = stream::iter([Ok(Bytes::from(start))]).chain(events(messages, guard));
        self.until_closing(events.take_until(ended))
    }

    /// Ends a connection and its session.
    fn end_connection(&self, connection: &SseConnection) {
        self.sse_connections.remove(&connection.id);
        connection.end();
        if let Some(session) = connection.session() {
            self.end_session(&session.id);
        }
    }

    async fn post_message(
        self: &Arc<Self>,
        admission: &Admission,
        parts: &Parts,
        body: &Bytes,
        id: &str,
    ) -> Response {
        // The tag of this replica precedes the id in a fleet.
        let id = id.rsplit(OWNER_MARK).next().unwrap_or(id);
        let Some(connection) = self.sse_connections.find(&admission.principal, id) else {
            let text = "Session not found: connect to the event stream again.";
            return reply::refuse(StatusCode::NOT_FOUND, "null", reply::REFUSED, text);
        };
        if is_batch(body) {
            let text = "Invalid Request: HTTP+SSE has no JSON-RPC batches.";
            return bad_request(StatusCode::BAD_REQUEST, text);
        }
        let messages = match read_messages(&parts.headers, body) {
            Ok(messages) => messages,
            Err(refusal) => return *refusal,
        };
        let Some((_, first)) = messages.first() else {
            return bad_request(StatusCode::BAD_REQUEST, "No message of JSON-RPC.");
        };
        let session = match (connection.session(), first.method()) {
            (Some(_), "initialize") => {
                let text = "The session is initialized already.";
                return bad_request(StatusCode::BAD_REQUEST, text);
            }
            (Some(session), _) => Arc::clone(session),
            (None, "initialize") => {
                match self.begin_session(&connection, admission, parts, first) {
                    Ok(session) => session,
                    Err(refusal) => return *refusal,
                }
            }
            (None, _) => {
                let text = "The session is not initialized: begin with initialize.";
                return bad_request(StatusCode::BAD_REQUEST, text);
            }
        };
        session.touch();
        let client = Client::stateful(&session, admission, &parts.headers);
        let mut requests = Vec::new();
        for (message, head) in &messages {
            match head.kind() {
                Some(Kind::Request) => requests.push(message.to_vec()),
                Some(Kind::Notification) => self.receive_notification(&client, head, message).await,
                Some(Kind::Response) => session.deliver_answer(message),
                None => {}
            }
        }
        if !requests.is_empty() {
            // The client may send its next message only after this response: an answer to a
            // question of the upstream, for example, or a cancellation.
            tokio::spawn(Arc::clone(self).run_on_stream(
                client,
                connection,
                requests,
                admission.clone(),
            ));
        }
        reply::empty(StatusCode::ACCEPTED)
    }

    /// Opens the session that an `initialize` request describes, and relays the session's messages
    /// to the event stream.
    ///
    /// # Errors
    /// The HTTP response that refuses the request.
    fn begin_session(
        self: &Arc<Self>,
        connection: &Arc<SseConnection>,
        admission: &Admission,
        parts: &Parts,
        head: &Head<'_>,
    ) -> Result<Arc<ClientSession>, Box<Response>> {
        let session = self.open_session(admission, head)?;
        let client = Client::stateful(&session, admission, &parts.headers);
        let mut tasks = vec![self.subscriptions.subscribe_to_lists(&session, client)];
        let common = session.streams().listen();
        tasks.extend(common.map(|events| {
            let connection = Arc::clone(connection);
            AbortOnDrop(tokio::spawn(async move {
                let _reader = relay(events, &connection).await;
                connection.ended.cancel();
            }))
        }));
        let (ended, connection_ended) = (session.ended.clone(), connection.ended.clone());
        tasks.push(AbortOnDrop(tokio::spawn(async move {
            ended.cancelled().await;
            connection_ended.cancel();
        })));
        if !connection.begin(&session, tasks) {
            // Another `initialize` was faster.
            self.end_session(&session.id);
        }
        // The client may have left before the connection had a session to end.
        if connection.ended.is_cancelled() {
            self.end_connection(connection);
        }
        let session = connection.session().cloned();
        session.ok_or_else(|| Box::new(reply::empty(StatusCode::INTERNAL_SERVER_ERROR)))
    }

    /// Runs requests concurrently. Sends their notifications, server-to-client requests and answers
    /// on the event stream of the connection.
    async fn run_on_stream(
        self: Arc<Self>,
        client: Client,
        connection: Arc<SseConnection>,
        requests: Vec<Vec<u8>>,
        admission: Admission,
    ) {
        let Some(session) = client.session.clone() else { return };
        let (stream_id, events) = session.streams().open();
        let running = async {
            let run = |request| self.run_request(&client, &session, stream_id, request);
            join_all(requests.iter().map(|request| run(request))).await;
            // The reader takes the remaining events before it ends.
            session.streams().end(stream_id);
        };
        let relaying = async {
            let _reader = relay(events, &connection).await;
            let is_complete = session.streams().forget(stream_id);
            if !is_complete && !connection.ended.is_cancelled() {
                debug!("a client does not read its event stream: its connection is closed");
                self.end_connection(&connection);
            }
        };
        join(running, relaying).await;
        // The requests occupy their places until the client has read all answers: each may hold a
        // message that the bounds of the session do not count.
        drop(admission);
    }
}

/// Sends the messages of a session's stream on the event stream of a connection, until either ends.
/// Returns the reader, so that the caller determines when it is disconnected.
async fn relay(mut events: EventReader, connection: &SseConnection) -> EventReader {
    loop {
        let event = tokio::select! {
            () = connection.ended.cancelled() => None,
            event = events.next() => event,
        };
        let Some((_, message)) = event else { return events };
        if !connection.send(message).await {
            return events;
        }
    }
}

/// Returns the events of a connection, with comments while it is silent. Each read by the client
/// marks the session as used. Dropping the stream ends the connection.
fn events(
    messages: Receiver<Bytes>,
    guard: ConnectionGuard,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((messages, guard), |(mut messages, guard)| async move {
        let connection = &guard.connection;
        let bytes = tokio::select! {
            message = messages.recv() => {
                let message = message?;
                Ok(Bytes::from(Event::message(None, &message).0))
            }
            () = tokio::time::sleep(KEEP_ALIVE_INTERVAL) => keep_alive(),
        };
        if let Some(session) = connection.session() {
            session.touch();
        }
        Some((bytes, (messages, guard)))
    })
}

fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response = reply::empty(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}
