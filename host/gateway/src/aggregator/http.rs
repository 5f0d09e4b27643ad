//! Streamable HTTP before the aggregator: sessions and streams of stateful clients, single requests of stateless ones.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use tokio::sync::mpsc;

use super::client_session::ClientSession;
use super::event_streams::Sent;
use super::subscriptions::Filter;
use super::{Aggregator, Ask, Client};
use crate::gateway::front::{Caller, PROTOCOL_VERSION, SESSION_ID, header, scope};
use crate::gateway::upstream::connection::{AbortOnDrop, ClientInfo, ProtocolMode};
use crate::gateway::upstream::server::Server;
use crate::gateway::wire::reply;
use crate::gateway::wire::sse::Event;
use crate::message::{Head, Kind, MODERN, each, is_modern, members};

/// How long an answer may take before its stream begins without it.
const SOON: Duration = Duration::from_secs(2);
/// How long a stream may be silent.
pub(super) const SILENCE: Duration = Duration::from_secs(15);
/// From this revision on streams begin with an event that clients come back to.
const PRIMED: &str = "2025-11-25";
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

impl Aggregator {
    /// Serves a request of a client.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        caller: &Caller,
        parts: &Parts,
        body: Bytes,
    ) -> Response {
        match parts.method {
            Method::POST => self.post(caller, parts, body).await,
            Method::GET => self.get(caller, parts),
            Method::DELETE => match self.session(caller, &parts.headers) {
                Ok(session) => {
                    self.end(&session.id);
                    reply::empty(StatusCode::OK)
                }
                Err(refused) => *refused,
            },
            _ => {
                let mut response = reply::empty(StatusCode::METHOD_NOT_ALLOWED);
                response
                    .headers_mut()
                    .insert(http::header::ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
                response
            }
        }
    }

    async fn post(self: &Arc<Self>, caller: &Caller, parts: &Parts, body: Bytes) -> Response {
        let bad =
            |code: i64, text: &str| reply::refuse(StatusCode::BAD_REQUEST, "null", code, text);
        if !header(&parts.headers, CONTENT_TYPE).starts_with("application/json") {
            let text = "Content-Type must be application/json.";
            return reply::refuse(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "null",
                reply::INVALID_REQUEST,
                text,
            );
        }
        if serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_err() {
            return bad(reply::PARSE_ERROR, "Parse error: the body is not JSON.");
        }
        let messages: Vec<(&[u8], Head<'_>)> = each(&body)
            .into_iter()
            .filter_map(|message| Some((message, Head::read(message)?)))
            .collect();
        let [(_, first), ..] = messages.as_slice() else {
            return bad(reply::INVALID_REQUEST, "No message of JSON-RPC.");
        };
        let version = first.parameters().version();
        let header_version = header(&parts.headers, PROTOCOL_VERSION);
        if let Some(version) = &version
            && messages.len() == 1
        {
            if version != MODERN {
                return super::stateless::unsupported(first, version);
            }
            return self.stateless(caller, parts, body.to_vec()).await;
        }
        if is_modern(header_version) {
            let text = "A request of this revision names it in params._meta.";
            return reply::refuse(
                StatusCode::BAD_REQUEST,
                first.raw_id(),
                reply::INVALID_PARAMS,
                text,
            );
        }
        let opens = first.method() == "initialize";
        let session = if opens {
            match self.open(caller, first) {
                Some(session) => session,
                None => return reply::empty(StatusCode::INTERNAL_SERVER_ERROR),
            }
        } else {
            match self.session(caller, &parts.headers) {
                Ok(session) => session,
                Err(refused) => return *refused,
            }
        };
        session.touch();
        let client = stateful(&session, &parts.headers);
        let mut requests = Vec::new();
        for (message, head) in &messages {
            match head.kind() {
                Some(Kind::Request) => requests.push(message.to_vec()),
                Some(Kind::Notification) => self.notified(&client, head, message).await,
                Some(Kind::Response) => session.answered(message),
                None => {}
            }
        }
        if requests.is_empty() {
            return reply::empty(StatusCode::ACCEPTED);
        }
        let streams = header(&parts.headers, ACCEPT).contains("text/event-stream")
            || header(&parts.headers, ACCEPT).contains("*/*");
        let mut response = self.run(client, session.clone(), requests, streams).await;
        if opens && let Ok(id) = HeaderValue::from_str(&session.id) {
            let failed = response.status() != StatusCode::OK;
            response.headers_mut().insert(SESSION_ID, id);
            if failed {
                self.end(&session.id);
            }
        }
        response
    }

    /// Opens a session.
    fn open(&self, caller: &Caller, head: &Head<'_>) -> Option<Arc<ClientSession>> {
        let mut random = [0u8; 24];
        getrandom::fill(&mut random).ok()?;
        let id = URL_SAFE_NO_PAD.encode(random);
        let params = head.params.map(|params| members(params.get())).unwrap_or_default();
        let member = |name: &str, default: &str| {
            let found = params.iter().find(|(key, _)| key == name);
            found.map_or_else(|| default.to_owned(), |(_, value)| value.get().to_owned())
        };
        let asked: String =
            serde_json::from_str(&member("protocolVersion", "\"\"")).unwrap_or_default();
        let info = ClientInfo {
            version: super::handshake::negotiated(&asked).to_owned(),
            capabilities: member("capabilities", "{}"),
            implementation: member("clientInfo", r#"{"name":"unknown","version":"0"}"#),
        };
        let session = Arc::new(ClientSession::new(id.clone(), Arc::clone(&caller.principal), info));
        let evicted = {
            let mut sessions = self.sessions();
            let evicted = (sessions.len() >= sessions.cap().get())
                .then(|| sessions.peek_lru().map(|(id, _)| id.clone()))
                .flatten();
            sessions.put(id, Arc::clone(&session));
            self.recorder.metrics.sessions(sessions.len());
            evicted
        };
        if let Some(evicted) = evicted {
            self.end(&evicted);
        }
        Some(session)
    }

    /// Asks an upstream whether it speaks a mode, where that is not known.
    pub(crate) async fn probe_mode(
        &self,
        server: &Arc<Server>,
        mode: ProtocolMode,
        headers: &HeaderMap,
    ) -> Option<bool> {
        server.probe_mode(mode, &along(headers)).await
    }

    /// Whether a request names a session of the aggregator's.
    pub(crate) fn has_session(&self, headers: &HeaderMap) -> bool {
        self.sessions().contains(header(headers, SESSION_ID))
    }

    /// The session that a request names, if it is this principal's.
    fn session(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
    ) -> Result<Arc<ClientSession>, Box<Response>> {
        let id = header(headers, SESSION_ID);
        if id.is_empty() {
            let text = "Bad Request: the Mcp-Session-Id header is missing. Begin with initialize.";
            return Err(Box::new(reply::refuse(
                StatusCode::BAD_REQUEST,
                "null",
                reply::INVALID_REQUEST,
                text,
            )));
        }
        let found = self.sessions().get(id).cloned();
        // Somebody else's is one that there is not.
        found.filter(|session| session.principal == caller.principal).ok_or_else(|| {
            Box::new(reply::refuse(
                StatusCode::NOT_FOUND,
                "null",
                reply::REFUSED,
                "Session not found: begin again with initialize.",
            ))
        })
    }

    /// A notification of a stateful client.
    async fn notified(self: &Arc<Self>, client: &Client, head: &Head<'_>, message: &[u8]) {
        let Some(session) = &client.session else { return };
        match head.method() {
            // Each connection says that it is ready when it is.
            "notifications/initialized" => {}
            "notifications/cancelled" => {
                if let Some(id) = head.parameters().request_id {
                    session.cancel(id.get());
                }
            }
            _ => {
                for server in 0..self.servers.len() {
                    if let Ok(connection) = self.connection(client, server).await
                        && connection.mode == ProtocolMode::Stateful
                    {
                        connection.send_in_background(message.to_vec());
                    }
                }
            }
        }
    }

    /// Runs requests of a stateful client. They go on when its connection breaks, and it can come back for the answers.
    async fn run(
        self: &Arc<Self>,
        client: Client,
        session: Arc<ClientSession>,
        requests: Vec<Vec<u8>>,
        streams: bool,
    ) -> Response {
        let (id, mut events) = session.streams().open();
        let left = Arc::new(std::sync::atomic::AtomicUsize::new(requests.len()));
        let many = requests.len() > 1;
        for request in requests {
            let (aggregator, client, session) =
                (Arc::clone(self), client.clone(), Arc::clone(&session));
            let left = Arc::clone(&left);
            tokio::spawn(async move {
                let raw = Head::read(&request).map_or("null", |head| head.raw_id()).to_owned();
                let cancelled = session.begin(&raw);
                let (out, mut related) = mpsc::unbounded_channel();
                let ask = Ask { client: &client, out: &out };
                let mut answer = std::pin::pin!(aggregator.answer(&ask, &request));
                let answer = loop {
                    tokio::select! {
                        biased;
                        () = cancelled.cancelled() => break None,
                        Some(message) = related.recv() => session.streams().send(id, message),
                        answer = &mut answer => break Some(answer),
                    }
                };
                session.finish(&raw);
                let mut streams = session.streams();
                while let Ok(message) = related.try_recv() {
                    streams.send(id, message);
                }
                if let Some(answer) = answer {
                    streams.send(id, answer);
                }
                if left.fetch_sub(1, std::sync::atomic::Ordering::AcqRel) == 1 {
                    streams.end(id);
                }
            });
        }
        if !streams || !many {
            let soon = if streams { SOON } else { Duration::from_secs(86_400) };
            let mut answers = Vec::new();
            loop {
                match tokio::time::timeout(soon, events.recv()).await {
                    Ok(Some((event, message))) => {
                        if Head::read(&message)
                            .is_some_and(|head| head.kind() == Some(Kind::Response))
                        {
                            answers.push(message);
                            if !many {
                                session.streams().forget(id);
                                return reply::json(StatusCode::OK, answers.concat());
                            }
                        } else if streams {
                            let first = Some((event, message));
                            return event_stream(&session, id, first, events);
                        }
                    }
                    Ok(None) => {
                        session.streams().forget(id);
                        if answers.is_empty() {
                            return reply::empty(StatusCode::ACCEPTED);
                        }
                        return reply::json(
                            StatusCode::OK,
                            context_guard_protocol::batch::join_batch(&answers),
                        );
                    }
                    Err(_) => break,
                }
            }
        }
        event_stream(&session, id, None, events)
    }

    /// The common stream of a stateful client, or one that it takes up again.
    fn get(self: &Arc<Self>, caller: &Caller, parts: &Parts) -> Response {
        if !header(&parts.headers, ACCEPT).contains("text/event-stream") {
            let text = "Not Acceptable: the client must accept text/event-stream.";
            return reply::refuse(StatusCode::NOT_ACCEPTABLE, "null", reply::INVALID_REQUEST, text);
        }
        if is_modern(header(&parts.headers, PROTOCOL_VERSION)) {
            return reply::empty(StatusCode::METHOD_NOT_ALLOWED);
        }
        let session = match self.session(caller, &parts.headers) {
            Ok(session) => session,
            Err(refused) => return *refused,
        };
        session.touch();
        let last = header(&parts.headers, LAST_EVENT);
        let events = if last.is_empty() {
            session.streams().listen()
        } else {
            let resumed = session.streams().resume(last);
            if resumed.is_none() {
                let text = "The event is not kept here any more: send the request again.";
                return reply::refuse(
                    StatusCode::BAD_REQUEST,
                    "null",
                    reply::INVALID_REQUEST,
                    text,
                );
            }
            resumed
        };
        let Some(events) = events else {
            let text = "Conflict: the session has this stream open already.";
            return reply::refuse(StatusCode::CONFLICT, "null", reply::INVALID_REQUEST, text);
        };
        let watching = last.is_empty().then(|| self.watch_lists(&session, &parts.headers));
        let rest = stream_of(events, watching.unwrap_or_default());
        // A stream that only waits does not hold up the end of the gateway.
        let rest = rest.take_until(self.closing.clone().cancelled_owned());
        reply::events(Body::from_stream(stream::iter([comment()]).chain(rest)))
    }

    /// Stateless upstreams tell of changes only when they are asked to.
    fn watch_lists(
        self: &Arc<Self>,
        session: &Arc<ClientSession>,
        headers: &HeaderMap,
    ) -> Vec<AbortOnDrop> {
        let client = stateful(session, headers);
        let (aggregator, weak) = (Arc::clone(self), Arc::downgrade(session));
        let watching = tokio::spawn(async move {
            let (to, mut changes) = mpsc::unbounded_channel::<Vec<u8>>();
            let mut tasks = Vec::new();
            for server in 0..aggregator.servers.len() {
                if let Ok(connection) = aggregator.connection(&client, server).await
                    && connection.mode == ProtocolMode::Stateless
                {
                    let (aggregator, client, to) =
                        (Arc::clone(&aggregator), client.clone(), to.clone());
                    tasks.push(AbortOnDrop(tokio::spawn(async move {
                        let (ready, _heard) = mpsc::unbounded_channel();
                        aggregator
                            .watch_connection(&client, &connection, &Filter::lists(), &to, &ready)
                            .await;
                    })));
                }
            }
            drop((to, client));
            while let Some(change) = changes.recv().await {
                let Some(session) = weak.upgrade() else { return };
                session.streams().send(super::event_streams::COMMON, change);
            }
        });
        vec![AbortOnDrop(watching)]
    }
}

/// The client of a session. Sessions are used by their own principal alone.
fn stateful(session: &Arc<ClientSession>, headers: &HeaderMap) -> Client {
    Client {
        principal: Arc::clone(&session.principal),
        scope: scope(&session.principal, headers),
        mode: ProtocolMode::Stateful,
        info: session.info.clone(),
        session: Some(Arc::clone(session)),
        headers: along(headers),
    }
}

fn event_stream(
    session: &ClientSession,
    id: u64,
    first: Option<Sent>,
    events: mpsc::UnboundedReceiver<Sent>,
) -> Response {
    let mut begin = Vec::new();
    if session.info.version.as_str() >= PRIMED {
        begin.extend_from_slice(format!("id: {id}-0\nretry: 1000\ndata: \n\n").as_bytes());
    }
    if let Some((event, message)) = first {
        begin.extend_from_slice(&Event::message(Some(&event), &message).0);
    }
    if begin.is_empty() {
        begin.extend_from_slice(b": \n\n");
    }
    let rest = stream_of(events, Vec::new());
    let body = stream::iter([Ok::<_, Infallible>(Bytes::from(begin))]).chain(rest);
    reply::events(Body::from_stream(body))
}

fn stream_of(
    events: mpsc::UnboundedReceiver<Sent>,
    watching: Vec<AbortOnDrop>,
) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((events, watching), |(mut events, watching)| async move {
        let bytes = tokio::select! {
            sent = events.recv() => {
                let (id, message) = sent?;
                Ok(Bytes::from(Event::message(Some(&id), &message).0))
            }
            () = tokio::time::sleep(SILENCE) => comment(),
        };
        Some((bytes, (events, watching)))
    })
}

pub(super) fn event(message: &[u8]) -> Result<Bytes, Infallible> {
    Ok(Bytes::from(Event::message(None, message).0))
}

pub(super) fn comment() -> Result<Bytes, Infallible> {
    Ok(Bytes::from_static(b": \n\n"))
}

/// Headers of a client that concern upstreams too.
pub(super) fn along(headers: &HeaderMap) -> HeaderMap {
    let names = [
        AUTHORIZATION,
        HeaderName::from_static("traceparent"),
        HeaderName::from_static("tracestate"),
    ];
    let named = |name: &HeaderName| names.contains(name) || name.as_str().starts_with("mcp-param-");
    headers
        .iter()
        .filter(|(name, _)| named(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
