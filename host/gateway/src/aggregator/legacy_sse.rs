//! The aggregator's HTTP+SSE endpoints for clients of MCP 2024-11-05. A GET opens the event stream
//! of a session; messages are sent by POST, and all answers arrive on the stream.

use std::convert::Infallible;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use context_guard_protocol::sse::Event;
use futures_util::future::join_all;
use futures_util::{Stream, StreamExt, stream};
use http::header::{ALLOW, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Aggregator;
use super::client::Client;
use super::client_session::ClientSession;
use super::event_response::{KEEP_ALIVE_INTERVAL, keep_alive};
use super::event_streams::EventReader;
use super::http::{bad_request, read_messages};
use super::sse_connections::SseConnection;
use crate::admission::Admission;
use crate::front::sse_paths::SseEndpoint;
use crate::message::{Head, Kind};
use crate::reply;
use crate::tasks::AbortOnDrop;

/// Ends a connection and its session when its event stream is dropped: the client has left.
struct ConnectionGuard {
    aggregator: Arc<Aggregator>,
    connection: Arc<SseConnection>,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.aggregator.sse_connections.remove(&self.connection.id);
        self.connection.end();
        if let Some(session) = self.connection.session() {
            self.aggregator.end_session(&session.id);
        }
    }
}

impl Aggregator {
    /// Serves a client's HTTP request of the HTTP+SSE transport. The requests in it
    /// occupy the places of `admission` until they are answered.
    pub(crate) async fn serve_sse(
        self: &Arc<Self>,
        admission: &Admission,
        parts: &Parts,
        body: Bytes,
        endpoint: SseEndpoint,
    ) -> Response {
        match (endpoint, &parts.method) {
            (SseEndpoint::Stream(url), &Method::GET) => {
                self.open_stream(&admission.principal, &url)
            }
            (SseEndpoint::Messages(id), &Method::POST) => {
                self.post_message(admission, parts, &body, &id).await
            }
            (SseEndpoint::Stream(_), _) => method_not_allowed("GET"),
            (SseEndpoint::Messages(_), _) => method_not_allowed("POST"),
        }
    }

    /// Opens a connection. Its event stream begins with the URL for messages, `url` and the id of
    /// the connection.
    fn open_stream(self: &Arc<Self>, principal: &Arc<str>, url: &str) -> Response {
        let Some((connection, messages)) = self.sse_connections.open(principal) else {
            return reply::empty(StatusCode::INTERNAL_SERVER_ERROR);
        };
        let start = format!("event: endpoint\ndata: {url}{}\n\n", connection.id);
        let ended = connection.ended.clone().cancelled_owned();
        let guard = ConnectionGuard { aggregator: Arc::clone(self), connection };
        let events = stream::iter([Ok(Bytes::from(start))]).chain(events(messages, guard));
        self.until_closing(events.take_until(ended))
    }

    async fn post_message(
        self: &Arc<Self>,
        admission: &Admission,
        parts: &Parts,
        body: &Bytes,
        id: &str,
    ) -> Response {
        let Some(connection) = self.sse_connections.find(&admission.principal, id) else {
            let text = "Session not found: connect to the event stream again.";
            return reply::refuse(StatusCode::NOT_FOUND, "null", reply::REFUSED, text);
        };
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
                    Some(session) => session,
                    None => return reply::empty(StatusCode::INTERNAL_SERVER_ERROR),
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

    /// Opens the session that an `initialize` request describes, and relays its messages to the
    /// event stream. `None` if the system has no random numbers for its id.
    fn begin_session(
        self: &Arc<Self>,
        connection: &Arc<SseConnection>,
        admission: &Admission,
        parts: &Parts,
        head: &Head<'_>,
    ) -> Option<Arc<ClientSession>> {
        let session = self.open_session(admission, head)?;
        let client = Client::stateful(&session, admission, &parts.headers);
        let mut tasks = vec![self.subscriptions.subscribe_to_lists(&session, client)];
        let common = session.streams().listen();
        tasks.extend(
            common.map(|events| AbortOnDrop(tokio::spawn(relay(events, Arc::clone(connection))))),
        );
        let (ended, connection_ended) = (session.ended.clone(), connection.ended.clone());
        tasks.push(AbortOnDrop(tokio::spawn(async move {
            ended.cancelled().await;
            connection_ended.cancel();
        })));
        if !connection.begin(&session, tasks) {
            // Another `initialize` was faster.
            self.end_session(&session.id);
        }
        connection.session().cloned()
    }

    /// Runs requests concurrently, and sends their notifications, questions and answers on the
    /// event stream of the connection.
    async fn run_on_stream(
        self: Arc<Self>,
        client: Client,
        connection: Arc<SseConnection>,
        requests: Vec<Vec<u8>>,
        admission: Admission,
    ) {
        let Some(session) = client.session.clone() else { return };
        let (stream_id, events) = session.streams().open();
        let relaying = tokio::spawn(relay(events, connection));
        let running =
            requests.iter().map(|request| self.run_request(&client, &session, stream_id, request));
        join_all(running).await;
        // The reader takes the remaining events before it ends.
        session.streams().end(stream_id);
        let _ = relaying.await;
        session.streams().forget(stream_id);
        // The requests occupy their places until all are answered.
        drop(admission);
    }
}

/// Sends the messages of a session's stream on the event stream of a connection.
async fn relay(mut events: EventReader, connection: Arc<SseConnection>) {
    while let Some((_, message)) = events.next().await {
        connection.send(message);
    }
}

/// Returns the events of a connection, with comments while it is silent. As long as the client
/// reads them, its session is in use. Dropping the stream ends the connection.
fn events(
    messages: UnboundedReceiver<Bytes>,
    guard: ConnectionGuard,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((messages, guard), |(mut messages, guard)| async move {
        let connection = &guard.connection;
        let bytes = tokio::select! {
            message = messages.recv() => {
                let message = message?;
                connection.written(&message);
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
