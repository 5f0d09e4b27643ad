//! The Streamable HTTP transport to an upstream: a session with a stateful upstream, or
//! self-contained requests to a stateless one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use context_guard_protocol::header::{encode_value, is_event_stream};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use hyper::body::Incoming;
use tracing::debug;

use super::Failure;
use super::http_upstream::{HttpUpstream, is_refusal, next_chunk};
use super::inbox::Inbox;
use crate::headers::{METHOD, NAME, PROTOCOL_VERSION, SESSION_ID, header};
use crate::message::{
    Head, Kind, STATELESS_VERSION, replace_invalid_utf8, split_batch, with_member,
};
use crate::protocol_mode::ProtocolMode;
use crate::tasks::AbortOnDrop;
use context_guard_protocol::sse::Framer;

/// The pause before an upstream's common stream is opened again after it ended.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// The session id and protocol version that every request to a stateful upstream carries after the
/// handshake.
#[derive(Default)]
struct UpstreamSession {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// Sends messages to an upstream over HTTP. Its tasks refer to it weakly, so that they end with the
/// connection.
pub(super) struct StreamableHttp {
    http: Arc<HttpUpstream>,
    mode: ProtocolMode,
    /// The client's headers that every request to the upstream carries.
    headers: HeaderMap,
    inbox: Arc<Inbox>,
    session: Mutex<UpstreamSession>,
    listener: Mutex<Option<AbortOnDrop>>,
}

impl StreamableHttp {
    pub(super) fn new(
        http: &Arc<HttpUpstream>,
        mode: ProtocolMode,
        headers: HeaderMap,
        inbox: &Arc<Inbox>,
    ) -> Arc<Self> {
        Arc::new(Self {
            http: Arc::clone(http),
            mode,
            headers,
            inbox: Arc::clone(inbox),
            session: Mutex::default(),
            listener: Mutex::default(),
        })
    }

    fn session(&self) -> MutexGuard<'_, UpstreamSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the protocol version from the handshake, which every later request carries.
    pub(super) fn set_version(&self, version: &str) {
        self.session().version = HeaderValue::from_str(version).ok();
    }

    fn headers_for(&self, message: &[u8]) -> HeaderMap {
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
            // A stateless server rejects a request whose headers differ from its body.
            ProtocolMode::Stateless => {
                headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(STATELESS_VERSION));
                if let Some(head) = Head::read(message) {
                    let name = head.subject();
                    for (header, value) in [(METHOD, Some(head.method())), (NAME, name.as_deref())]
                    {
                        if let Some(value) =
                            value.and_then(|value| HeaderValue::from_str(&encode_value(value)).ok())
                        {
                            headers.insert(header, value);
                        }
                    }
                }
            }
        }
        headers
    }

    /// Sends a request under the gateway's id `id`, and reads the response into the inbox. Dropping
    /// the returned task stops reading.
    pub(super) fn request(self: &Arc<Self>, id: u64, message: Vec<u8>) -> AbortOnDrop {
        let headers = self.headers_for(&message);
        let is_long_lived =
            Head::read(&message).is_some_and(|head| head.method() == "subscriptions/listen");
        let reader = ResponseReader::new(self, Some(id), is_long_lived);
        AbortOnDrop(tokio::spawn(async move {
            let http = Arc::clone(&reader.http);
            let read = match http.send(Method::POST, None, &headers, Bytes::from(message)).await {
                Ok(response) => reader.read(response).await,
                Err(failure) => Err(failure),
            };
            // Has no effect if the response contained the answer.
            let failure = read.err().unwrap_or_else(|| Failure::stream_ended(&http.name));
            reader.inbox.requests.fail(id, failure);
        }))
    }

    /// Sends a notification, or an answer to a request of the upstream.
    pub(super) async fn send(&self, message: Vec<u8>) -> Result<(), Failure> {
        let headers = self.headers_for(&message);
        let response = self.http.send(Method::POST, None, &headers, message.into()).await?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(Failure::Unavailable(format!(
            "The upstream `{}` refused a message: {}.",
            self.http.name,
            response.status()
        )))
    }

    /// Starts to read a stateful upstream's common stream, which has the messages that belong to no
    /// request. Has no effect if the upstream has no such stream.
    pub(super) fn listen(self: &Arc<Self>) {
        if self.mode == ProtocolMode::Stateless {
            return;
        }
        let mut headers = self.headers_for(b"");
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.remove(CONTENT_TYPE);
        let reader = ResponseReader::new(self, None, true);
        let task = tokio::spawn(async move {
            while reader.transport.strong_count() > 0 {
                match reader.http.send(Method::GET, None, &headers, Bytes::new()).await {
                    Ok(response) if response.status() == StatusCode::OK => {
                        if let Err(failure) = reader.read(response).await {
                            debug!(upstream = reader.http.name, "event stream ended: {failure}");
                        }
                    }
                    // The stream is optional: 405 is the usual answer.
                    Ok(_) => return,
                    Err(_) => {}
                }
                tokio::time::sleep(REOPEN_PAUSE).await;
            }
        });
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(AbortOnDrop(task));
    }
}

impl Drop for StreamableHttp {
    fn drop(&mut self) {
        // The server holds state for a session. DELETE frees it.
        if self.session().id.is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (http, headers) = (Arc::clone(&self.http), self.headers_for(b""));
            runtime.spawn(async move {
                let _ = http.send(Method::DELETE, None, &headers, Bytes::new()).await;
            });
        }
    }
}

/// Reads HTTP responses of the upstream into the inbox.
struct ResponseReader {
    transport: Weak<StreamableHttp>,
    http: Arc<HttpUpstream>,
    inbox: Arc<Inbox>,
    mode: ProtocolMode,
    /// The gateway's id of the request that the response answers. `None` for the common stream.
    request: Option<u64>,
    /// True if the stream may be silent for any length of time, as for a subscription.
    is_long_lived: bool,
}

impl ResponseReader {
    fn new(transport: &Arc<StreamableHttp>, request: Option<u64>, is_long_lived: bool) -> Self {
        Self {
            transport: Arc::downgrade(transport),
            http: Arc::clone(&transport.http),
            inbox: Arc::clone(&transport.inbox),
            mode: transport.mode,
            request,
            is_long_lived,
        }
    }

    /// Reads a response to its end, and delivers each message in it to the inbox.
    async fn read(&self, response: http::Response<Incoming>) -> Result<(), Failure> {
        let (head, body) = response.into_parts();
        if let (Some(transport), Some(id)) =
            (self.transport.upgrade(), head.headers.get(SESSION_ID))
        {
            transport.session().id = Some(id.clone());
        }
        // A refusal concerns the client or the load, not the request: it is not an answer.
        if is_refusal(head.status) {
            return Err(Failure::Unavailable(format!(
                "The upstream `{}` answered with {}.",
                self.http.name, head.status
            )));
        }
        if is_event_stream(header(&head.headers, CONTENT_TYPE)) {
            self.read_events(body).await
        } else {
            self.read_messages(head.status, body).await
        }
    }

    async fn read_messages(&self, status: StatusCode, body: Incoming) -> Result<(), Failure> {
        let answer = self.http.collect(body).await?;
        let answer = replace_invalid_utf8(&answer);
        let mut has_message = false;
        for message in split_batch(&answer) {
            let Some(head) = Head::read(message) else { continue };
            let message = match (head.kind(), self.request) {
                (None, _) => continue,
                // An error that occurs before the server has parsed the request has no id. It is
                // the answer to the only request of the exchange.
                (Some(Kind::Response), Some(request)) if head.id.is_none() => {
                    let text = String::from_utf8_lossy(message);
                    with_member(&text, "id", Some(&request.to_string())).into_bytes()
                }
                _ => message.to_vec(),
            };
            has_message = true;
            self.receive(message);
        }
        // 404 means that the server has forgotten the session (MCP 2025-11-25, transports). A new
        // connection has to be opened.
        if status == StatusCode::NOT_FOUND && self.mode == ProtocolMode::Stateful {
            let failure = Failure::Unavailable(format!(
                "The upstream `{}` ended the session.",
                self.http.name
            ));
            self.inbox.requests.end(&failure);
            return Err(failure);
        }
        if !has_message && self.request.is_some() {
            return Err(Failure::Unavailable(format!(
                "The upstream `{}` answered with {status} and no message.",
                self.http.name
            )));
        }
        Ok(())
    }

    async fn read_events(&self, mut body: Incoming) -> Result<(), Failure> {
        let mut framer = Framer::default();
        loop {
            let chunk = if self.is_long_lived {
                next_chunk(&mut body).await.map_err(|reason| {
                    Failure::Unavailable(format!(
                        "The upstream `{}` broke off: {reason}.",
                        self.http.name
                    ))
                })?
            } else {
                self.http.next_chunk_in_time(&mut body).await?
            };
            let Some(chunk) = chunk else { return Ok(()) };
            framer.push(&chunk);
            while let Some(event) = framer.next_event() {
                if let Some(data) = event.data() {
                    for message in split_batch(&replace_invalid_utf8(&data)) {
                        self.receive(message.to_vec());
                    }
                }
            }
            if framer.pending_bytes() > self.http.max_bytes() {
                return Err(self.http.too_large());
            }
            // Nothing of interest follows the answer, and some servers keep the stream open.
            if self.request.is_some_and(|request| !self.inbox.requests.is_in_flight(request)) {
                return Ok(());
            }
        }
    }

    fn receive(&self, message: Vec<u8>) {
        let reply = match self.request {
            Some(_) => self.inbox.receive(message, self.request),
            None => self.inbox.receive_common(message),
        };
        if let (Some(reply), Some(transport)) = (reply, self.transport.upgrade()) {
            tokio::spawn(async move {
                if let Err(failure) = transport.send(reply).await {
                    debug!(upstream = transport.http.name, "cannot answer a ping: {failure}");
                }
            });
        }
    }
}
