//! An upstream that speaks Streamable HTTP, as a connection: a session of the stateful mode, or requests that stand for themselves.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use hyper::body::Incoming;
use tracing::debug;

use super::Failure;
use super::connection::{AbortOnDrop, ProtocolMode, UpstreamConnection};
use super::http_upstream::{HttpUpstream, data, is_refusal};
use crate::gateway::front::{METHOD, NAME, PROTOCOL_VERSION, SESSION_ID};
use crate::gateway::wire::sse::Framer;
use crate::message::{Head, Kind, MODERN, as_text, each, with_member};

/// How long to wait before a stream that ended is asked for again.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// The way to an HTTP upstream.
pub(crate) struct StreamableHttp {
    http: Arc<HttpUpstream>,
    mode: ProtocolMode,
    /// Headers of the client that go along: Authorization, and what proxies added.
    headers: HeaderMap,
    session: Mutex<Session>,
    listener: Mutex<Option<AbortOnDrop>>,
}

impl StreamableHttp {
    pub(super) fn new(http: Arc<HttpUpstream>, mode: ProtocolMode, headers: HeaderMap) -> Self {
        Self { http, mode, headers, session: Mutex::default(), listener: Mutex::default() }
    }

    fn session(&self) -> std::sync::MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The revision is named on every request from now on.
    pub(super) fn agreed_on(&self, version: &str) {
        self.session().version = HeaderValue::from_str(version).ok();
    }

    fn headers(&self, message: &[u8]) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        match self.mode {
            ProtocolMode::Stateful => {
                let session = self.session();
                for (name, value) in
                    [(SESSION_ID, &session.id), (PROTOCOL_VERSION, &session.version)]
                {
                    if let Some(value) = value {
                        headers.insert(name, value.clone());
                    }
                }
            }
            ProtocolMode::Stateless => {
                headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(MODERN));
                if let Some(head) = Head::read(message) {
                    let name = head.subject();
                    for (header, value) in [(METHOD, Some(head.method())), (NAME, name.as_deref())]
                    {
                        if let Some(value) = value.and_then(encoded) {
                            headers.insert(header, value);
                        }
                    }
                }
            }
        }
        headers
    }

    /// Sends a request. What comes back on its stream is handed to those who wait, until the reader is dropped.
    pub(super) fn request(
        &self,
        connection: &Arc<UpstreamConnection>,
        id: u64,
        message: Vec<u8>,
    ) -> AbortOnDrop {
        let (connection, http) = (Arc::downgrade(connection), Arc::clone(&self.http));
        let headers = self.headers(&message);
        let patient =
            Head::read(&message).is_some_and(|head| head.method() == "subscriptions/listen");
        AbortOnDrop(tokio::spawn(async move {
            let sent = http.send(Method::POST, None, &headers, Bytes::from(message)).await;
            let read = match sent {
                Ok(response) => read(&connection, &http, response, Some(id), patient).await,
                Err(failure) => Err(failure),
            };
            if let Some(connection) = connection.upgrade() {
                let failure = read.err().unwrap_or_else(|| {
                    Failure::Unavailable(format!(
                        "The upstream `{}` ended its stream without an answer.",
                        http.name
                    ))
                });
                connection.requests.fail(id, failure);
            }
        }))
    }

    /// Sends a notification or an answer.
    pub(super) async fn send(&self, message: Vec<u8>) -> Result<(), Failure> {
        let headers = self.headers(&message);
        let response = self.http.send(Method::POST, None, &headers, message.into()).await?;
        if response.status().is_success() {
            Ok(())
        } else {
            Err(Failure::Unavailable(format!(
                "The upstream `{}` refused a message: {}.",
                self.http.name,
                response.status()
            )))
        }
    }

    /// Reads the stream of messages that belong to no request, where the upstream has one.
    pub(super) fn listen(&self, connection: &Arc<UpstreamConnection>) {
        if self.mode == ProtocolMode::Stateless {
            return;
        }
        let mut headers = self.headers(b"");
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.remove(CONTENT_TYPE);
        let (weak, http) = (Arc::downgrade(connection), Arc::clone(&self.http));
        let task = tokio::spawn(async move {
            while weak.strong_count() > 0 {
                let sent = http.send(Method::GET, None, &headers, Bytes::new()).await;
                match sent {
                    Ok(response) if response.status() == StatusCode::OK => {
                        if let Err(failure) = read(&weak, &http, response, None, true).await {
                            debug!(upstream = http.name, "The stream ended: {failure}");
                        }
                    }
                    // Most have none, and say so.
                    Ok(_) => return,
                    Err(_) => {}
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(AbortOnDrop(task));
    }

    /// Notes the session that an upstream opened.
    fn opened(&self, headers: &HeaderMap) {
        if let Some(id) = headers.get(SESSION_ID) {
            self.session().id = Some(id.clone());
        }
    }
}

impl Drop for StreamableHttp {
    fn drop(&mut self) {
        // A session that nobody uses is ended in order.
        if self.session().id.is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (http, headers) = (Arc::clone(&self.http), self.headers(b""));
            runtime.spawn(async move {
                let _ = http.send(Method::DELETE, None, &headers, Bytes::new()).await;
            });
        }
    }
}

/// Reads a response to its end.
async fn read(
    connection: &Weak<UpstreamConnection>,
    http: &HttpUpstream,
    response: http::Response<Incoming>,
    of: Option<u64>,
    patient: bool,
) -> Result<(), Failure> {
    let (head, mut body) = response.into_parts();
    if let Some(connection) = connection.upgrade()
        && let super::connection::Transport::StreamableHttp(remote) = &connection.transport
    {
        remote.opened(&head.headers);
    }
    // Not to be let in, or not now, is no answer to what was asked.
    if is_refusal(head.status) {
        return Err(Failure::Unavailable(format!(
            "The upstream `{}` answered with {}.",
            http.name, head.status
        )));
    }
    let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        let answer = http.collect(body).await?;
        let answer = as_text(&answer);
        let mut answered = false;
        for message in each(&answer) {
            let Some(head) = Head::read(message) else { continue };
            // An error before the request was read has no id: it is the answer all the same.
            let message = match (head.kind(), of) {
                (None, _) => continue,
                (Some(Kind::Response), Some(of)) if head.id.is_none() => {
                    let text = String::from_utf8_lossy(message);
                    with_member(&text, "id", Some(&of.to_string())).into_bytes()
                }
                _ => message.to_vec(),
            };
            answered = true;
            arrived(connection, message, of).await;
        }
        if head.status == StatusCode::NOT_FOUND
            && let Some(connection) = connection.upgrade()
            && connection.mode == ProtocolMode::Stateful
        {
            // The upstream has forgotten the session: a new one has to be opened.
            let failure =
                Failure::Unavailable(format!("The upstream `{}` ended the session.", http.name));
            connection.requests.end(&failure);
            return Err(failure);
        }
        if !answered && of.is_some() {
            return Err(Failure::Unavailable(format!(
                "The upstream `{}` answered with {} and no message.",
                http.name, head.status
            )));
        }
        return Ok(());
    }
    let mut framer = Framer::default();
    loop {
        let part = if patient {
            data(&mut body).await.map_err(|reason| {
                Failure::Unavailable(format!("The upstream `{}` broke off: {reason}.", http.name))
            })?
        } else {
            http.part(&mut body).await?
        };
        let Some(part) = part else { return Ok(()) };
        framer.push(&part);
        while let Some(event) = framer.next_event() {
            if let Some(data) = event.data() {
                let data = as_text(&data);
                for message in each(&data) {
                    arrived(connection, message.to_vec(), of).await;
                }
            }
        }
        if framer.pending_bytes() > http.max_bytes() {
            return Err(http.too_large());
        }
        if of.is_some_and(|of| {
            connection.upgrade().is_none_or(|connection| !connection.requests.is_in_flight(of))
        }) {
            return Ok(());
        }
    }
}

async fn arrived(connection: &Weak<UpstreamConnection>, message: Vec<u8>, of: Option<u64>) {
    let Some(connection) = connection.upgrade() else { return };
    if of.is_none() && Head::read(&message).is_some_and(|head| head.kind() == Some(Kind::Response))
    {
        // An answer on the common stream: its id tells whose it is.
        connection.requests.arrived(message, None);
        return;
    }
    let answer = match of {
        Some(_) => {
            UpstreamConnection::arrived(&connection.requests, &connection.unrelated, message, of)
        }
        // What comes on the common stream belongs to no request.
        None => {
            let ping = Head::read(&message).filter(|head| head.method() == "ping");
            match ping {
                Some(head) => Some(crate::gateway::wire::reply::result(head.raw_id(), "{}")),
                None => {
                    let _ = connection.unrelated.send(Arc::new(message));
                    None
                }
            }
        }
    };
    if let Some(answer) = answer {
        connection.send_in_background(answer);
    }
}

/// A value as a header can hold it: encoded where it is not plain.
fn encoded(value: &str) -> Option<HeaderValue> {
    let plain = value.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        && value.trim() == value
        && !value.starts_with("=?base64?");
    if plain {
        HeaderValue::from_str(value).ok()
    } else {
        HeaderValue::from_str(&format!("=?base64?{}?=", STANDARD.encode(value))).ok()
    }
}
