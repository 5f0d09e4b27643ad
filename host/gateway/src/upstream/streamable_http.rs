//! The Streamable HTTP transport to an upstream: a session with a stateful upstream, or
//! self-contained requests to a stateless one.

mod common_stream;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use context_guard_protocol::header::is_event_stream;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tracing::debug;

use super::http_upstream::{HttpUpstream, next_chunk};
use super::inbox::Inbox;
use super::resumption::Resumption;
use super::statuses::{is_refusal, is_session_error, refusal};
use super::{CallerHeaders, Failure};
use crate::headers::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID, header};
use crate::message::{Head, STATELESS_VERSION, replace_invalid_utf8, split_batch};
use crate::protocol_mode::ProtocolMode;
use crate::tasks::AbortOnDrop;
use context_guard_protocol::answer::{quote, resembles_answer, trim_padding};
use context_guard_protocol::sse::{Event, Framer};

/// The maximum number of replies to pings in flight to an upstream. Further pings are not answered.
pub(super) const MAX_PONGS: usize = 16;
/// The maximum number of consecutive times that an ended stream is continued without receiving an
/// event.
const MAX_IDLE_POLLS: usize = 10;

/// The session id and protocol version that every request to a stateful upstream carries after the
/// handshake.
#[derive(Default)]
struct UpstreamSession {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// Sends messages to an upstream over HTTP. Its tasks hold weak references to it, so that they end
/// with the connection.
pub(super) struct StreamableHttp {
    http: Arc<HttpUpstream>,
    mode: ProtocolMode,
    caller: CallerHeaders,
    inbox: Arc<Inbox>,
    session: Mutex<UpstreamSession>,
    /// True if other replicas also use the session. The session then outlives this connection.
    pub(super) is_portable: AtomicBool,
    /// The permits for replies to pings, which are sent in the background.
    pongs: Arc<Semaphore>,
    listener: Mutex<Option<AbortOnDrop>>,
    /// The HTTP status of the last response to a request. `None` before the first.
    status: Mutex<Option<StatusCode>>,
}

impl StreamableHttp {
    pub(super) fn new(
        http: &Arc<HttpUpstream>,
        mode: ProtocolMode,
        caller: CallerHeaders,
        inbox: &Arc<Inbox>,
    ) -> Arc<Self> {
        Arc::new(Self {
            http: Arc::clone(http),
            mode,
            caller,
            inbox: Arc::clone(inbox),
            session: Mutex::default(),
            is_portable: AtomicBool::new(false),
            pongs: Arc::new(Semaphore::new(MAX_PONGS)),
            listener: Mutex::default(),
            status: Mutex::default(),
        })
    }

    fn session(&self) -> MutexGuard<'_, UpstreamSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the protocol version from the handshake, which every later request carries.
    pub(super) fn set_version(&self, version: &str) {
        self.session().version = HeaderValue::from_str(version).ok();
    }

    /// Sets the id and protocol version of a session that another replica began.
    pub(super) fn resume(&self, id: &str, version: &str) {
        self.session().id = HeaderValue::from_str(id).ok();
        self.set_version(version);
        self.is_portable.store(true, Ordering::Relaxed);
    }

    /// Returns the id and the protocol version of the session. `None` if the upstream has not
    /// issued a session id.
    pub(super) fn session_id(&self) -> Option<(String, String)> {
        let session = self.session();
        let text = |value: &Option<HeaderValue>| Some(value.as_ref()?.to_str().ok()?.to_owned());
        Some((text(&session.id)?, text(&session.version)?))
    }

    /// Returns the HTTP status of the last response to a request. `None` before the first response.
    pub(super) fn status(&self) -> Option<StatusCode> {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn headers_for(&self, message: &[u8]) -> HeaderMap {
        let mut headers = self.caller.headers.clone();
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
                let values = Head::read(message).map(|head| head.routing_headers());
                for (name, value) in values.into_iter().flatten() {
                    let value = value.and_then(|value| HeaderValue::from_str(&value).ok());
                    if let Some(value) = value {
                        headers.insert(name, value);
                    }
                }
            }
        }
        headers
    }

    /// Sends a request under the gateway's id `id`, and reads the response into the inbox. The
    /// circuit breaker counts the request for the caller `owner`, if there is one. Dropping the
    /// returned task stops reading.
    pub(super) fn request(
        self: &Arc<Self>,
        id: u64,
        message: Vec<u8>,
        more_headers: &HeaderMap,
        owner: Option<Arc<str>>,
    ) -> AbortOnDrop {
        let mut headers = self.headers_for(&message);
        headers.extend(more_headers.clone());
        let is_long_lived =
            Head::read(&message).is_some_and(|head| head.method() == "subscriptions/listen");
        let mut reader = ResponseReader::new(self, Some(id), is_long_lived);
        let is_call = owner.is_some();
        if let Some(owner) = owner {
            reader.owner = owner;
        }
        AbortOnDrop(tokio::spawn(async move {
            let (http, body) = (Arc::clone(&reader.http), Bytes::from(message));
            let principal = &reader.principal;
            let sent = if is_call {
                let names = (&**principal, &*reader.owner);
                http.send(Method::POST, None, names, &headers, body).await
            } else {
                http.send_uncounted(Method::POST, None, principal, &headers, body).await
            };
            let read = match sent {
                Ok(response) => reader.read_resumable(response, &headers).await,
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
        let (principal, body) = (&self.caller.principal, message.into());
        let sent = self.http.send_uncounted(Method::POST, None, principal, &headers, body);
        let response = sent.await?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(Failure::Unavailable(format!(
            "The upstream `{}` refused a message: {}.",
            self.http.name,
            response.status()
        )))
    }
}

impl Drop for StreamableHttp {
    fn drop(&mut self) {
        // The server holds state for a session. DELETE frees it.
        if self.session().id.is_some()
            && !*self.is_portable.get_mut()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (http, headers) = (Arc::clone(&self.http), self.headers_for(b""));
            let principal = Arc::clone(&self.caller.principal);
            runtime.spawn(async move {
                let body = Bytes::new();
                let _ = http.send_uncounted(Method::DELETE, None, &principal, &headers, body).await;
            });
        }
    }
}

/// Reads HTTP responses of the upstream into the inbox.
struct ResponseReader {
    transport: Weak<StreamableHttp>,
    http: Arc<HttpUpstream>,
    principal: Arc<str>,
    /// The caller for whom failures of the upstream count.
    owner: Arc<str>,
    inbox: Arc<Inbox>,
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
            principal: Arc::clone(&transport.caller.principal),
            owner: Arc::clone(&transport.caller.owner),
            inbox: Arc::clone(&transport.inbox),
            request,
            is_long_lived,
        }
    }

    fn session_ended(&self) -> Failure {
        Failure::session_ended(&self.http.name)
    }

    /// Returns true if requests to the upstream carry a session id.
    fn has_session(&self) -> bool {
        let transport = self.transport.upgrade();
        transport.is_some_and(|transport| transport.session().id.is_some())
    }

    /// Reads the response to a request, and the streams that continue it. A server may end a stream
    /// before the answer and expect the client to poll (MCP 2025-11-25, SEP-1699).
    async fn read_resumable(
        &self,
        response: http::Response<Incoming>,
        headers: &HeaderMap,
    ) -> Result<(), Failure> {
        let mut resumption = None;
        self.read(response, &mut resumption).await?;
        let mut idle_polls = 0;
        while let Some(Resumption { last_event, pause }) = resumption.take()
            && idle_polls < MAX_IDLE_POLLS
            && self.is_unanswered()
        {
            tokio::time::sleep(pause).await;
            let mut headers = headers.clone();
            headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
            headers.remove(CONTENT_TYPE);
            headers.insert(LAST_EVENT_ID, last_event.clone());
            let (principal, body) = (&self.principal, Bytes::new());
            let sent = self.http.send_uncounted(Method::GET, None, principal, &headers, body);
            let response = sent.await?;
            if response.status() != StatusCode::OK {
                break;
            }
            let mut next = Some(Resumption { last_event: last_event.clone(), pause });
            self.read(response, &mut next).await?;
            let is_idle = next.as_ref().is_some_and(|next| next.last_event == last_event);
            idle_polls = if is_idle { idle_polls + 1 } else { 0 };
            resumption = next;
        }
        Ok(())
    }

    /// Returns true if the request to which the response belongs is not answered yet.
    fn is_unanswered(&self) -> bool {
        self.request.is_some_and(|request| self.inbox.requests.is_in_flight(request))
    }

    /// Reads a response to its end, and delivers each message in it. Sets `resumption` if the
    /// response is a stream with event ids.
    async fn read(
        &self,
        response: http::Response<Incoming>,
        resumption: &mut Option<Resumption>,
    ) -> Result<(), Failure> {
        let (head, body) = response.into_parts();
        if let Some(transport) = self.transport.upgrade() {
            *transport.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(head.status);
            if let Some(id) = head.headers.get(SESSION_ID) {
                transport.session().id = Some(id.clone());
            }
        }
        // A refusal concerns the client or the load, not the request: it is not an answer.
        if is_refusal(head.status) {
            return Err(refusal(&self.http.name, head.status, &head.headers));
        }
        if is_event_stream(header(&head.headers, CONTENT_TYPE)) {
            self.read_events(body, resumption).await
        } else {
            self.read_messages(head.status, body).await
        }
    }

    async fn read_messages(&self, status: StatusCode, body: Incoming) -> Result<(), Failure> {
        let answer = self.http.collect(body, &self.owner).await?;
        let answer = replace_invalid_utf8(&answer);
        if self.has_session() && is_session_error(status, &answer) {
            let failure = self.session_ended();
            self.inbox.requests.close(&failure);
            return Err(failure);
        }
        for message in split_batch(trim_padding(&answer)) {
            let is_message = match Head::read(message) {
                Some(head) => head.kind().is_some(),
                None => resembles_answer(message),
            };
            if is_message {
                self.receive(message.to_vec()).await;
            }
        }
        if self.is_unanswered() {
            let start = String::from_utf8_lossy(trim_padding(&answer));
            if status.is_success() && !start.is_empty() {
                let reason = format!("does not answer the request: {}", quote(&start));
                return Err(Failure::invalid_answer(&self.http.name, &reason));
            }
            return Err(Failure::Unavailable(format!(
                "The upstream `{}` answered with {status} and no message.",
                self.http.name
            )));
        }
        Ok(())
    }

    async fn read_events(
        &self,
        mut body: Incoming,
        resumption: &mut Option<Resumption>,
    ) -> Result<(), Failure> {
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
                self.http.next_chunk_in_time(&mut body, &self.owner).await?
            };
            let Some(chunk) = chunk else {
                // Some servers omit the empty line after the last event.
                if let Some(event) = framer.finish() {
                    self.receive_event(&event).await;
                }
                return Ok(());
            };
            framer.push(&chunk);
            while let Some(event) = framer.next_event() {
                Resumption::update(resumption, &event);
                self.receive_event(&event).await;
            }
            if framer.pending_bytes() > self.http.max_bytes() {
                return Err(self.http.too_large());
            }
            // Nothing of interest follows the answer, and some servers keep the stream open.
            if self.request.is_some() && !self.is_unanswered() {
                return Ok(());
            }
        }
    }

    async fn receive_event(&self, event: &Event) {
        let Some(data) = event.data() else { return };
        for message in split_batch(trim_padding(&replace_invalid_utf8(&data))) {
            self.receive(message.to_vec()).await;
        }
    }

    async fn receive(&self, message: Vec<u8>) {
        let reply = match self.request {
            // The response has one request, whose client may keep it waiting.
            Some(_) => self.inbox.receive(message, self.request, true).await,
            None => self.inbox.receive_common(message),
        };
        if let (Some(reply), Some(transport)) = (reply, self.transport.upgrade())
            && let Ok(permit) = Arc::clone(&transport.pongs).try_acquire_owned()
        {
            tokio::spawn(async move {
                let _permit = permit;
                if let Err(failure) = transport.send(reply).await {
                    debug!(upstream = transport.http.name, "cannot answer a ping: {failure}");
                }
            });
        }
    }
}
