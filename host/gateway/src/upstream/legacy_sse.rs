//! The HTTP+SSE transport of MCP 2024-11-05 to an upstream. A GET opens the event stream of a
//! session. Its first event contains the URL for messages. All answers arrive on the stream.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use context_guard_protocol::answer::trim_padding;
use context_guard_protocol::header::is_event_stream;
use context_guard_protocol::sse::{Event, Framer};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode, Uri};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tracing::debug;

use super::http_upstream::{HttpUpstream, next_chunk};
use super::inbox::Inbox;
use super::statuses::{is_refusal, is_session_error, refusal};
use super::streamable_http::MAX_PONGS;
use super::{CallerHeaders, Failure};
use crate::headers::header;
use crate::message::{replace_invalid_utf8, split_batch};
use crate::stream_limits::OpenStream;
use crate::tasks::AbortOnDrop;

/// A session with an upstream over HTTP+SSE, which ends with its event stream.
pub(super) struct LegacySse {
    http: Arc<HttpUpstream>,
    caller: CallerHeaders,
    inbox: Arc<Inbox>,
    /// The URL for messages, from the first event of the stream.
    endpoint: Uri,
    /// The permits for replies to pings, which are sent in the background.
    pongs: Arc<Semaphore>,
    /// The count of the event stream.
    _stream: OpenStream,
    /// The task that reads the event stream, with a weak reference to the session.
    reader: Mutex<Option<AbortOnDrop>>,
}

impl LegacySse {
    /// Opens the event stream and waits for the URL for messages, without a time limit. Returns
    /// `None` if the upstream does not speak HTTP+SSE, because it sends no event stream, or another
    /// first event.
    pub(super) async fn open(
        http: &Arc<HttpUpstream>,
        caller: CallerHeaders,
        inbox: &Arc<Inbox>,
    ) -> Result<Option<Arc<Self>>, Failure> {
        let stream = caller.streams.open(&caller.owner).map_err(|full| {
            Failure::NoCapacity(format!("The upstream `{}` cannot be reached: {full}.", http.name))
        })?;
        let mut accepted = caller.headers.clone();
        accepted.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let (principal, body) = (&caller.principal, Bytes::new());
        let sent = http.send_uncounted(Method::GET, None, principal, &accepted, body);
        let response = sent.await?;
        let (head, body) = response.into_parts();
        if is_refusal(head.status) {
            return Err(refusal(&http.name, head.status, &head.headers));
        }
        let media_type = header(&head.headers, CONTENT_TYPE);
        if head.status != StatusCode::OK || !is_event_stream(media_type) {
            return Ok(None);
        }
        let mut events =
            LegacyEventReader { http: Arc::clone(http), body, framer: Framer::default() };
        let endpoint = loop {
            let Some(event) = events.next().await? else { return Ok(None) };
            if kind(&event) == b"endpoint" {
                break endpoint(http, &event)?;
            }
            // Comments may precede the URL, but no message may.
            if event.data().is_some() {
                return Ok(None);
            }
        };
        let session = Arc::new(Self {
            http: Arc::clone(http),
            caller,
            inbox: Arc::clone(inbox),
            endpoint,
            pongs: Arc::new(Semaphore::new(MAX_PONGS)),
            _stream: stream,
            reader: Mutex::default(),
        });
        let reader = AbortOnDrop(tokio::spawn(read(Arc::downgrade(&session), events)));
        *session.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
        Ok(Some(session))
    }

    /// Sends a request under the gateway's id `id`. The answer arrives in the inbox. The circuit
    /// breaker counts the request for the caller `owner`, if there is one. Dropping the returned
    /// task stops sending.
    pub(super) fn request(
        self: &Arc<Self>,
        id: u64,
        message: Vec<u8>,
        owner: Option<Arc<str>>,
    ) -> AbortOnDrop {
        let session = Arc::clone(self);
        AbortOnDrop(tokio::spawn(async move {
            if let Err(failure) = session.post(message, owner.as_deref()).await {
                session.inbox.requests.fail(id, failure);
            }
        }))
    }

    /// Sends a notification, or an answer to a request of the upstream.
    pub(super) async fn send(&self, message: Vec<u8>) -> Result<(), Failure> {
        self.post(message, None).await
    }

    async fn post(&self, message: Vec<u8>, owner: Option<&str>) -> Result<(), Failure> {
        let mut headers = self.caller.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (target, principal) = (self.endpoint.clone(), &self.caller.principal);
        let body = Bytes::from(message);
        let response = match owner {
            Some(owner) => {
                let names = (&**principal, owner);
                self.http.send_to(Method::POST, target, names, &headers, body).await?
            }
            None => {
                self.http.send_uncounted_to(Method::POST, target, principal, &headers, body).await?
            }
        };
        let (head, body) = response.into_parts();
        if is_refusal(head.status) {
            return Err(refusal(&self.http.name, head.status, &head.headers));
        }
        // The body is no answer. It is read so that the connection can be used again.
        let text = self.http.collect(body, owner.unwrap_or(&self.caller.owner)).await?;
        if head.status.is_success() {
            return Ok(());
        }
        if is_session_error(head.status, &text) {
            let failure = Failure::session_ended(&self.http.name);
            self.inbox.requests.close(&failure);
            return Err(failure);
        }
        let (name, status) = (&self.http.name, head.status);
        Err(Failure::Unavailable(format!("The upstream `{name}` refused a message: {status}.")))
    }
}

/// Reads the events of a stream.
struct LegacyEventReader {
    http: Arc<HttpUpstream>,
    body: Incoming,
    framer: Framer,
}

impl LegacyEventReader {
    /// Returns the next event. `None` at the end of the stream. The stream may be silent for any
    /// time.
    async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.framer.next_event() {
                return Ok(Some(event));
            }
            if self.framer.pending_bytes() > self.http.max_bytes() {
                return Err(self.http.too_large());
            }
            let chunk = next_chunk(&mut self.body).await.map_err(|reason| {
                let name = &self.http.name;
                Failure::Unavailable(format!("The upstream `{name}` broke off: {reason}."))
            })?;
            match chunk {
                Some(chunk) => self.framer.push(&chunk),
                None => return Ok(None),
            }
        }
    }
}

/// Reads the event stream of a session into its inbox. When the stream ends, all requests fail.
async fn read(session: Weak<LegacySse>, mut events: LegacyEventReader) {
    let failure = loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => break Failure::stream_ended(&events.http.name),
            Err(failure) => break failure,
        };
        let Some(session) = session.upgrade() else { return };
        if kind(&event) == b"message" {
            session.receive(&event).await;
        }
    };
    debug!(upstream = events.http.name, "event stream ended: {failure}");
    if let Some(session) = session.upgrade() {
        session.inbox.requests.end(&failure);
    }
}

impl LegacySse {
    async fn receive(self: &Arc<Self>, event: &Event) {
        let Some(data) = event.data() else { return };
        for message in split_batch(trim_padding(&replace_invalid_utf8(&data))) {
            let received = self.inbox.receive(message.to_vec(), None, true).await;
            let Some(pong) = received else { continue };
            // An upstream that does not accept answers gets no more of them.
            let Ok(permit) = Arc::clone(&self.pongs).try_acquire_owned() else { continue };
            let session = Arc::clone(self);
            tokio::spawn(async move {
                let _permit = permit;
                if let Err(failure) = session.send(pong).await {
                    debug!(upstream = session.http.name, "cannot answer a ping: {failure}");
                }
            });
        }
    }
}

/// Returns the type of an event. The default is `message`.
fn kind(event: &Event) -> &[u8] {
    let mut lines = event.0.split(|byte| matches!(byte, b'\n' | b'\r'));
    let kind = lines.find_map(|line| line.strip_prefix(b"event:"));
    kind.map_or(b"message", |kind| kind.strip_prefix(b" ").unwrap_or(kind))
}

/// Returns the URL for messages in the first event of a stream.
fn endpoint(http: &HttpUpstream, event: &Event) -> Result<Uri, Failure> {
    let data = event.data().unwrap_or_default();
    let reference = String::from_utf8_lossy(&data);
    resolve(http.url(), reference.trim()).ok_or_else(|| {
        let name = &http.name;
        Failure::Unavailable(format!(
            "The upstream `{name}` names a URL for messages that is invalid or of another origin."
        ))
    })
}

/// Resolves a URL reference (RFC 3986, 5.2) in a document at `base`. `None` if it is invalid. Also
/// `None` if it has another origin, which must not receive the credentials of `base`.
fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    let reference = reference.split('#').next().unwrap_or_default();
    let start = reference.get(..8).unwrap_or(reference).to_ascii_lowercase();
    let url = if start.starts_with("http://") || start.starts_with("https://") {
        reference.to_owned()
    } else if reference.starts_with("//") {
        format!("{scheme}:{reference}")
    } else if reference.starts_with('/') {
        format!("{scheme}://{authority}{reference}")
    } else if reference.starts_with('?') {
        format!("{scheme}://{authority}{}{reference}", base.path())
    } else {
        let mut folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut rest = reference;
        loop {
            if let Some(after) = rest.strip_prefix("../") {
                folder = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
                rest = after;
            } else if let Some(after) = rest.strip_prefix("./") {
                rest = after;
            } else {
                break;
            }
        }
        format!("{scheme}://{authority}{folder}/{rest}")
    };
    let url: Uri = url.parse().ok()?;
    (origin(&url)? == origin(base)?).then_some(url)
}

/// Returns scheme, host and port of a URL.
fn origin(url: &Uri) -> Option<(String, String, u16)> {
    let scheme = url.scheme_str()?.to_ascii_lowercase();
    let port = url.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some((scheme, url.host()?.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_types() {
        assert_eq!(kind(&Event(b": hi\ndata: event: x\n\n".to_vec())), b"message");
        assert_eq!(kind(&Event(b"data: /m\r\nevent:endpoint\r\n\r\n".to_vec())), b"endpoint");
    }

    #[test]
    fn references_are_resolved_within_the_origin() {
        let base: Uri = "https://Example.com/a/sse?x=1".parse().unwrap();
        let resolved = |reference: &str| resolve(&base, reference).map(|url| url.to_string());
        let at = |rest: &str| Some(format!("https://Example.com{rest}"));
        assert_eq!(resolved("/messages?sessionId=1"), at("/messages?sessionId=1"));
        assert_eq!(resolved("messages?s=1#x"), at("/a/messages?s=1"));
        assert_eq!(resolved("./m"), at("/a/m"));
        assert_eq!(resolved("../../m"), at("/m"));
        assert_eq!(resolved("?s=1"), at("/a/sse?s=1"));
        assert_eq!(resolved("HTTPS://example.com:443/m"), Some("https://example.com:443/m".into()));
        for refused in [
            "http://example.com/m",
            "https://example.com:8443/m",
            "https://evil.example/m",
            "https://example.com@evil.example/m",
            "//evil.example/m",
            "https://",
            "/ m",
        ] {
            assert_eq!(resolved(refused), None, "{refused}");
        }
    }
}
