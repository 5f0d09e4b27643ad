//! The aggregator's Streamable HTTP endpoint for clients.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use context_guard_protocol::request_fault;
use futures_util::{Stream, StreamExt, stream};
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};

use super::Aggregator;
use super::client::Client;
use super::client_session::ClientSession;
use super::event_response::{event_body, keep_alive};
use crate::admission::Admission;
use crate::front::batches::is_batch;
use crate::headers::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID, forwarded_headers, header};
use crate::message::{Head, Kind, STATELESS_VERSION, is_stateless_version, split_batch};
use crate::protocol_mode::{ClientInfo, ProtocolMode, STATEFUL_VERSIONS};
use crate::reply;
use crate::upstream::CallerHeaders;
use crate::upstream::server::UpstreamServer;

impl Aggregator {
    /// Serves a client's HTTP request: POST runs messages, GET opens an event stream, DELETE ends
    /// the session.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        admission: &Admission,
        parts: &Parts,
        body: Bytes,
    ) -> Response {
        match parts.method {
            Method::POST => self.post(admission, parts, body).await,
            Method::GET => self.get(admission, parts),
            Method::DELETE => match self.session(&admission.principal, &parts.headers) {
                Ok(session) => {
                    self.connections.release_session(&session.id);
                    self.end_session(&session.id);
                    reply::empty(StatusCode::OK)
                }
                Err(refusal) => *refusal,
            },
            _ => {
                let mut response = reply::empty(StatusCode::METHOD_NOT_ALLOWED);
                let allowed = HeaderValue::from_static("GET, POST, DELETE");
                response.headers_mut().insert(ALLOW, allowed);
                response
            }
        }
    }

    async fn post(self: &Arc<Self>, admission: &Admission, parts: &Parts, body: Bytes) -> Response {
        let messages = match read_messages(&parts.headers, &body) {
            Ok(messages) => messages,
            Err(refusal) => return *refusal,
        };
        let [(_, first), ..] = messages.as_slice() else {
            return bad_request(StatusCode::BAD_REQUEST, "No message of JSON-RPC.");
        };
        if is_batch(&body) && messages.iter().any(|(_, head)| head.method() == "initialize") {
            let text = "Invalid Request: initialize must not be part of a batch.";
            return bad_request(StatusCode::BAD_REQUEST, text);
        }
        if let Some(version) = first.parameters().version()
            && messages.len() == 1
        {
            if version != STATELESS_VERSION {
                return super::stateless::unsupported_version(first, &version);
            }
            return self.post_stateless(admission, parts, body.to_vec()).await;
        }
        if is_stateless_version(header(&parts.headers, PROTOCOL_VERSION)) {
            let text = "A request of this revision names it in params._meta.";
            let (status, code) = (StatusCode::BAD_REQUEST, reply::INVALID_PARAMS);
            return reply::refuse(status, first.raw_id(), code, text);
        }
        self.post_stateful(admission, parts, &messages).await
    }

    async fn post_stateful(
        self: &Arc<Self>,
        admission: &Admission,
        parts: &Parts,
        messages: &[(&[u8], Head<'_>)],
    ) -> Response {
        let principal = &admission.principal;
        let opening = messages.first().filter(|(_, head)| head.method() == "initialize");
        let session = match opening {
            Some((_, head)) => match self.open_session(admission, head) {
                Ok(session) => session,
                Err(refusal) => return *refusal,
            },
            None => match self.session(principal, &parts.headers) {
                Ok(session) => session,
                Err(refusal) => return *refusal,
            },
        };
        session.touch();
        let client = Client::stateful(&session, admission, &parts.headers);
        let mut requests = Vec::new();
        for (message, head) in messages {
            match head.kind() {
                Some(Kind::Request) => requests.push(message.to_vec()),
                Some(Kind::Notification) => self.receive_notification(&client, head, message).await,
                Some(Kind::Response) => session.deliver_answer(message),
                None => {}
            }
        }
        if requests.is_empty() {
            return reply::empty(StatusCode::ACCEPTED);
        }
        let accept = header(&parts.headers, ACCEPT);
        let accepts_events = accept.contains("text/event-stream") || accept.contains("*/*");
        let run = self.run_requests(client, &session, requests, accepts_events, admission);
        let mut response = run.await;
        if opening.is_some()
            && let Ok(id) = HeaderValue::from_str(&session.id)
        {
            let failed = response.status() != StatusCode::OK;
            response.headers_mut().insert(SESSION_ID, id);
            if failed {
                self.end_session(&session.id);
            }
        }
        response
    }

    /// Opens a session for the client that an `initialize` request describes.
    ///
    /// # Errors
    /// The HTTP response that refuses the request.
    pub(super) fn open_session(
        &self,
        admission: &Admission,
        head: &Head<'_>,
    ) -> Result<Arc<ClientSession>, Box<Response>> {
        let info = ClientInfo::from_initialize(head).map_err(|reason| {
            let (status, code) = (StatusCode::BAD_REQUEST, reply::INVALID_PARAMS);
            Box::new(reply::refuse(status, head.raw_id(), code, &reason))
        })?;
        // Without random numbers, there is no id that others cannot guess.
        let opened = self.sessions.open(admission, info);
        let (session, evicted) =
            opened.ok_or_else(|| Box::new(reply::empty(StatusCode::INTERNAL_SERVER_ERROR)))?;
        if let Some(evicted) = evicted {
            self.end_session(&evicted);
        }
        Ok(session)
    }

    /// Returns true if the upstream speaks a protocol mode. Tries the mode if that is not known
    /// yet. `None` if the upstream cannot be reached.
    pub(crate) async fn probe_mode(
        &self,
        server: &Arc<UpstreamServer>,
        admission: &Admission,
        mode: ProtocolMode,
        headers: &HeaderMap,
    ) -> Option<bool> {
        server.probe_mode(mode, &caller_headers(admission, headers)).await
    }

    /// Returns the protocol version of the principal's session whose id is in the headers. `None`
    /// without such a session.
    pub(crate) fn session_version(
        &self,
        principal: &Arc<str>,
        headers: &HeaderMap,
    ) -> Option<String> {
        let session = self.sessions.find(principal, header(headers, SESSION_ID))?;
        Some(session.info.version.clone())
    }

    /// Returns true if an upstream speaks HTTP+SSE. Tries that transport if the upstream's
    /// transport is not known yet.
    pub(crate) async fn detect_legacy_sse(
        &self,
        server: &Arc<UpstreamServer>,
        admission: &Admission,
        headers: &HeaderMap,
    ) -> bool {
        server.detect_legacy_sse(&caller_headers(admission, headers)).await
    }

    /// Marks the session whose id is in the headers as used. A session over stdio is marked
    /// repeatedly, because it lasts as long as the process.
    pub(crate) fn touch_session(&self, principal: &Arc<str>, headers: &HeaderMap) {
        if let Some(session) = self.sessions.find(principal, header(headers, SESSION_ID)) {
            session.touch();
        }
    }

    /// Returns true if the headers contain the id of an open session.
    pub(crate) fn has_session(&self, headers: &HeaderMap) -> bool {
        self.sessions.contains(header(headers, SESSION_ID))
    }

    /// Returns the session whose id is in the headers.
    ///
    /// # Errors
    /// The HTTP response that refuses the request.
    fn session(
        &self,
        principal: &Arc<str>,
        headers: &HeaderMap,
    ) -> Result<Arc<ClientSession>, Box<Response>> {
        let id = header(headers, SESSION_ID);
        if id.is_empty() {
            let text = "Bad Request: the Mcp-Session-Id header is missing. Begin with initialize. Clients of HTTP+SSE (2024-11-05) connect to the path sse beside this one.";
            return Err(Box::new(bad_request(StatusCode::BAD_REQUEST, text)));
        }
        let version = header(headers, PROTOCOL_VERSION);
        if !version.is_empty() && !STATEFUL_VERSIONS.contains(&version) {
            let known = STATEFUL_VERSIONS.join(", ");
            let text = format!(
                "Bad Request: unsupported MCP-Protocol-Version `{version}`. Supported are {known}."
            );
            return Err(Box::new(bad_request(StatusCode::BAD_REQUEST, &text)));
        }
        self.sessions.find(principal, id).ok_or_else(|| {
            let text = "Session not found: begin again with initialize.";
            let refusal = reply::refuse(StatusCode::NOT_FOUND, "null", reply::REFUSED, text);
            Box::new(refusal)
        })
    }

    /// Handles a stateful client's notification, such as a cancellation.
    pub(super) async fn receive_notification(
        &self,
        client: &Client,
        head: &Head<'_>,
        message: &[u8],
    ) {
        let Some(session) = &client.session else { return };
        match head.method() {
            // Each connection to an upstream has its own handshake.
            "notifications/initialized" => {}
            "notifications/cancelled" => {
                if let Some(id) = head.parameters().request_id {
                    session.cancel(id.get());
                }
            }
            _ => {
                for server in 0..self.connections.servers.len() {
                    if let Ok(connection) = self.connections.get(client, server).await
                        && connection.mode == ProtocolMode::Stateful
                    {
                        connection.send_in_background(message.to_vec());
                    }
                }
            }
        }
    }

    /// Answers a stateful client's GET request. Opens the stream of messages that belong to no
    /// request, or resumes a stream after its connection was lost.
    fn get(&self, admission: &Admission, parts: &Parts) -> Response {
        if !header(&parts.headers, ACCEPT).contains("text/event-stream") {
            let text = "Not Acceptable: the client must accept text/event-stream.";
            return bad_request(StatusCode::NOT_ACCEPTABLE, text);
        }
        if is_stateless_version(header(&parts.headers, PROTOCOL_VERSION)) {
            return reply::empty(StatusCode::METHOD_NOT_ALLOWED);
        }
        let session = match self.session(&admission.principal, &parts.headers) {
            Ok(session) => session,
            Err(refusal) => return *refusal,
        };
        session.touch();
        let last_event = header(&parts.headers, LAST_EVENT_ID);
        if !last_event.is_empty() {
            let Some(events) = session.streams().resume(last_event) else {
                let text = "The event is not kept here any more: send the request again.";
                return bad_request(StatusCode::BAD_REQUEST, text);
            };
            let events = event_body(events, None, None);
            return self.until_closing(stream::iter([keep_alive()]).chain(events));
        }
        let Some(events) = session.streams().listen() else {
            let text = "Conflict: the session has this stream open already.";
            return bad_request(StatusCode::CONFLICT, text);
        };
        let client = Client::stateful(&session, admission, &parts.headers);
        let subscription = self.subscriptions.subscribe_to_lists(&session, client);
        let events = event_body(events, Some(subscription), None);
        self.until_closing(stream::iter([keep_alive()]).chain(events))
    }

    /// Returns an event-stream response with `events`. The stream ends when the gateway stops,
    /// because it would otherwise delay the shutdown.
    pub(super) fn until_closing(
        &self,
        events: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
    ) -> Response {
        let closing = self.closing.clone().cancelled_owned();
        reply::events(Body::from_stream(events.take_until(closing)))
    }
}

/// Returns the JSON-RPC messages in the body of a POST.
///
/// # Errors
/// The HTTP response that refuses the request.
pub(super) fn read_messages<'b>(
    headers: &HeaderMap,
    body: &'b [u8],
) -> Result<Vec<(&'b [u8], Head<'b>)>, Box<Response>> {
    if !header(headers, CONTENT_TYPE).starts_with("application/json") {
        let text = "Content-Type must be application/json.";
        return Err(Box::new(bad_request(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)));
    }
    if serde_json::from_slice::<serde::de::IgnoredAny>(body).is_err() {
        let text = "Parse error: the body is not JSON.";
        let (status, code) = (StatusCode::BAD_REQUEST, reply::PARSE_ERROR);
        return Err(Box::new(reply::refuse(status, "null", code, text)));
    }
    if let Some(fault) = request_fault(body) {
        return Err(Box::new(reply::fault(&fault)));
    }
    let messages = split_batch(body).into_iter();
    Ok(messages.filter_map(|message| Some((message, Head::read(message)?))).collect())
}

fn caller_headers(admission: &Admission, headers: &HeaderMap) -> CallerHeaders {
    CallerHeaders {
        principal: Arc::clone(&admission.principal),
        owner: Arc::clone(&admission.owner),
        headers: forwarded_headers(headers),
        streams: Arc::clone(&admission.streams),
    }
}

pub(super) fn bad_request(status: StatusCode, text: &str) -> Response {
    reply::refuse(status, "null", reply::INVALID_REQUEST, text)
}
