//! The gateway behind one client on standard input and output: each message is a line.
//!
//! Each line becomes a request of Streamable HTTP inside the process, so both fronts behave alike.
//! The front supplies what a client over HTTP would: headers, the session id and the event stream.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use context_guard_protocol::RequestId;
use context_guard_protocol::client::CLIENT_HEADER;
use context_guard_protocol::header::encode_value;
use context_guard_protocol::sse::Framer;
use futures_util::StreamExt as _;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, StatusCode};
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::admission::{Admission, Rate};
use super::fair_queue::Caller;
use super::headers::{METHOD, NAME, PROTOCOL_VERSION, SESSION_ID, header};
use super::lines::{Lines, Piece};
use super::message::{Head, Kind, is_stateless_version, split_batch, with_member};
use super::reply;
use super::router::BUSY;
use super::serve::Gateway;
use super::tasks::AbortOnDrop;
use crate::lock::lock;
use crate::{Error, Result};

/// The principal of the client, as for `wrap`.
const PRINCIPAL: &str = "local";
/// The maximum time for requests in flight after the client has closed its output. The SDKs of MCP
/// wait as long for an answer.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum number of requests in flight. Further lines are not read until one is answered.
const MAX_REQUESTS: usize = 1024;
/// The pause before a broken event stream is opened again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

impl Gateway {
    /// Serves one client that writes lines to `input` and reads them from `output`, until the input
    /// ends or `stop` resolves. Access rules, listen addresses and TLS do not apply. `profile` is
    /// the name of the client whose profile applies instead of that of the client's own name.
    ///
    /// # Errors
    /// [`Error::Setup`] if there is no MCP upstream, or if `profile` is no header value;
    /// [`Error::Io`] if the input cannot be read.
    pub async fn run_stdio(
        self: &Arc<Self>,
        input: impl AsyncBufRead + Unpin,
        output: impl AsyncWrite + Unpin + Send + 'static,
        stop: impl Future<Output = ()>,
        profile: Option<&str>,
    ) -> Result<()> {
        let client = profile.map(HeaderValue::from_str).transpose();
        let client =
            client.map_err(|error| Error::Setup(format!("the client profile: {error}")))?;
        if self.aggregator.servers().is_empty() {
            let reason = "no upstream speaks MCP, so there is nothing to serve over stdio: add one \
                          with `command` or `url`";
            return Err(Error::Setup(reason.to_owned()));
        }
        self.recorder.set_uses_pipe();
        let (background, watchers) = (self.spawn_background(), self.spawn_watchers());
        let front = Arc::new(Front {
            gateway: Arc::clone(self),
            output: tokio::sync::Mutex::new(Box::new(output)),
            session: Mutex::default(),
            client,
            client_gone: Notify::new(),
            running: Mutex::default(),
            events: Mutex::default(),
        });
        let mut requests = JoinSet::new();
        let stopped = async {
            tokio::select! { () = stop => {}, () = front.client_gone.notified() => {} }
        };
        let ended = tokio::select! {
            ended = front.read_lines(input, &mut requests) => ended,
            () = stopped => {
                requests.abort_all();
                Ok(())
            }
        };
        drop(watchers);
        let drained = async { while requests.join_next().await.is_some() {} };
        if timeout(DRAIN_TIMEOUT, drained).await.is_err() {
            warn!("requests in flight had {} s to finish", DRAIN_TIMEOUT.as_secs());
        }
        requests.abort_all();
        front.end_session().await;
        self.closing.cancel();
        self.processes.end().await;
        self.stopped.cancel();
        self.aggregator.store_lists().await;
        self.flush_history().await;
        drop(background);
        ended.map_err(Error::Io)
    }
}

/// The connection with the client.
struct Front {
    gateway: Arc<Gateway>,
    output: tokio::sync::Mutex<Box<dyn AsyncWrite + Unpin + Send>>,
    /// The headers of the session of a stateful client.
    session: Mutex<Option<HeaderMap>>,
    /// The name of the client whose profile applies, if the command line sets it.
    client: Option<HeaderValue>,
    /// Notified if nobody reads the answers any more.
    client_gone: Notify,
    /// The requests of a stateless client, which end when the client cancels them.
    running: Mutex<HashMap<RequestId, AbortHandle>>,
    /// The task that relays messages which belong to no request.
    events: Mutex<Option<AbortOnDrop>>,
}

impl Front {
    /// Handles each line of the client until its output ends.
    async fn read_lines(
        self: &Arc<Self>,
        input: impl AsyncBufRead + Unpin,
        requests: &mut JoinSet<()>,
    ) -> std::io::Result<()> {
        let max = self.gateway.config.limits.request_bytes;
        let mut lines = Lines::with_max_bytes(input, max);
        let permits = Arc::new(Semaphore::new(MAX_REQUESTS));
        let mut is_in_long_line = false;
        loop {
            let piece = lines.next().await?;
            let (line, _) = lines.split();
            match piece {
                Piece::End => return Ok(()),
                Piece::Part if is_in_long_line => is_in_long_line = line.len() >= max,
                Piece::Line if line.trim_ascii().is_empty() => is_in_long_line = false,
                Piece::Part => {
                    is_in_long_line = true;
                    let text =
                        format!("The message is longer than {max} bytes (limits.requestBytes).");
                    let error = reply::error("null", reply::INVALID_REQUEST, &text);
                    self.write(&error).await;
                }
                Piece::Line => {
                    is_in_long_line = false;
                    let line = Bytes::copy_from_slice(line.trim_ascii());
                    while requests.try_join_next().is_some() {}
                    self.receive(line, requests, &permits).await;
                }
            }
        }
    }

    /// Handles one message, or one batch. Requests run concurrently; all else is done in order.
    async fn receive(
        self: &Arc<Self>,
        line: Bytes,
        requests: &mut JoinSet<()>,
        permits: &Arc<Semaphore>,
    ) {
        let messages = split_batch(&line);
        let heads: Vec<Head<'_>> = messages.into_iter().filter_map(Head::read).collect();
        let first_method = heads.first().map(Head::method).unwrap_or_default();
        let ids: Vec<String> = heads
            .iter()
            .filter(|head| head.kind() == Some(Kind::Request))
            .map(|head| head.raw_id().to_owned())
            .collect();
        let is_opening = first_method == "initialize" && ids.len() == 1;
        if first_method == "notifications/cancelled" && self.cancel(&heads) {
            return;
        }
        let is_versioned = heads.iter().any(|head| head.parameters().version().is_some());
        if !is_opening && !is_versioned && !ids.is_empty() && lock(&self.session).is_none() {
            let text = "The session is not initialized: begin with initialize.";
            for id in &ids {
                self.write(&reply::error(id, reply::INVALID_REQUEST, text)).await;
            }
            return;
        }
        let stateless_id = stateless_request(&heads);
        let parts = self.parts(&heads, is_opening);
        let has_requests = !ids.is_empty() || heads.is_empty();
        drop(heads);
        let front = Arc::clone(self);
        if !has_requests || is_opening {
            // What follows depends on it: the session of `initialize`, the order of notifications.
            front.run(parts, line, &ids, is_opening, None).await;
            return;
        }
        let Ok(permit) = Arc::clone(permits).acquire_owned().await else { return };
        let id = stateless_id.clone();
        let mut task = Box::pin(async move {
            front.run(parts, line, &ids, false, Some(permit)).await;
            if let Some(id) = &id {
                lock(&front.running).remove(id);
            }
        });
        // The first step registers the request, so that a cancellation in the next line finds it.
        if is_pending(task.as_mut()).await {
            let handle = requests.spawn(task);
            if let Some(id) = stateless_id.filter(|_| !handle.is_finished()) {
                lock(&self.running).insert(id, handle);
            }
        }
    }

    /// Ends the stateless request that a notification cancels. Returns false if there is none.
    fn cancel(&self, heads: &[Head<'_>]) -> bool {
        let id = heads.first().and_then(|head| head.parameters().request_id);
        let id = id.and_then(|id| RequestId::parse(id.get()));
        let handle = id.and_then(|id| lock(&self.running).remove(&id));
        handle.inspect(AbortHandle::abort).is_some()
    }

    /// Returns the head of the HTTP request that carries these messages.
    fn parts(&self, heads: &[Head<'_>], is_opening: bool) -> Parts {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = Method::POST;
        parts.uri = self.gateway.config.path.parse().unwrap_or_default();
        if !is_opening && let Some(session) = lock(&self.session).clone() {
            parts.headers = session;
        }
        let headers = &mut parts.headers;
        if let Some(client) = &self.client {
            headers.insert(CLIENT_HEADER, client.clone());
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let [head] = heads else { return parts };
        let Some(version) = head.parameters().version() else { return parts };
        // A stateless client has no session, also if one of the same process had.
        headers.remove(SESSION_ID);
        let name = head.subject();
        insert(headers, PROTOCOL_VERSION, &version);
        insert(headers, METHOD, head.method());
        if let Some(name) = name {
            insert(headers, NAME, &name);
        }
        parts
    }

    /// Runs one HTTP request and writes its answers.
    async fn run(
        self: &Arc<Self>,
        parts: Parts,
        body: Bytes,
        ids: &[String],
        is_opening: bool,
        _permit: Option<OwnedSemaphorePermit>,
    ) {
        let response = self.dispatch(parts, body).await;
        let status = response.status();
        if is_opening && status.is_success() {
            self.begin_session(&response);
        }
        let answered = self.relay(response, ids).await;
        if status.is_success() || answered {
            if is_opening && status.is_success() {
                self.open_events();
            }
            return;
        }
        if ids.is_empty() {
            debug!("a notification was refused with status {status}");
        }
        for id in ids {
            let text = format!("The gateway refused the request with status {status}.");
            self.write(&reply::error(id, reply::REFUSED, &text)).await;
        }
    }

    async fn dispatch(&self, parts: Parts, body: Bytes) -> Response {
        let principal: Arc<str> = PRINCIPAL.into();
        let session = header(&parts.headers, SESSION_ID).into();
        let caller = Caller { principal: Arc::clone(&principal), session };
        let count = self.gateway.count_messages(&principal, &parts, &body, None);
        let messages = match count {
            Ok(messages) => messages,
            Err(reason) => {
                let (status, code) = (StatusCode::BAD_REQUEST, reply::INVALID_REQUEST);
                return reply::refuse(status, "null", code, &format!("Invalid Request: {reason}."));
            }
        };
        let mut place = None;
        if parts.method == Method::POST {
            let Ok(entered) = self.gateway.places.enter(&caller, messages).await else {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                return reply::refuse(status, "null", reply::REFUSED, BUSY);
            };
            place = Some(Arc::new(entered));
        }
        let admission = Admission {
            rate: Rate::default(),
            owner: Arc::clone(&principal),
            principal,
            authenticator: None,
            caller,
            messages,
            streams: Arc::clone(&self.gateway.streams),
            has_headers: false,
            _place: place,
            memory: None,
        };
        self.gateway.dispatch(&admission, parts, body).await
    }

    /// Remembers the session that an `initialize` request opened.
    fn begin_session(&self, response: &Response) {
        let mut headers = HeaderMap::new();
        if let Some(id) = response.headers().get(SESSION_ID) {
            headers.insert(SESSION_ID, id.clone());
        }
        *lock(&self.session) = Some(headers);
        *lock(&self.events) = None;
    }

    /// Opens the stream of messages that belong to no request, and opens it again when it breaks.
    fn open_events(self: &Arc<Self>) {
        // The task must not keep the front alive that owns it.
        let front = Arc::downgrade(self);
        let task = tokio::spawn(async move {
            loop {
                let Some(front) = front.upgrade() else { return };
                let (mut parts, ()) = Request::new(()).into_parts();
                parts.uri = front.gateway.config.path.parse().unwrap_or_default();
                let Some(session) = lock(&front.session).clone() else { return };
                parts.headers = session;
                parts.headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
                let response = front.dispatch(parts, Bytes::new()).await;
                if !response.status().is_success() {
                    debug!("there is no stream of events: status {}", response.status());
                    return;
                }
                front.relay(response, &[]).await;
                drop(front);
                sleep(REOPEN_PAUSE).await;
            }
        });
        *lock(&self.events) = Some(AbortOnDrop(task));
    }

    /// Ends the session, so that HTTP upstreams end theirs.
    async fn end_session(&self) {
        *lock(&self.events) = None;
        let session = lock(&self.session).take();
        let Some(session) = session.filter(|session| session.contains_key(SESSION_ID)) else {
            return;
        };
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = Method::DELETE;
        parts.uri = self.gateway.config.path.parse().unwrap_or_default();
        parts.headers = session;
        let _ = timeout(REOPEN_PAUSE, self.dispatch(parts, Bytes::new())).await;
    }

    /// Writes the messages of a response as they arrive. Returns true if there was at least one.
    async fn relay(&self, response: Response, ids: &[String]) -> bool {
        let is_stream = header(response.headers(), CONTENT_TYPE).starts_with("text/event-stream");
        let mut body = response.into_body().into_data_stream();
        let mut has_messages = false;
        if is_stream {
            let mut framer = Framer::default();
            while let Some(Ok(chunk)) = body.next().await {
                self.touch();
                framer.push(&chunk);
                while let Some(event) = framer.next_event() {
                    let data = event.data().unwrap_or_default();
                    if !data.trim_ascii().is_empty() {
                        has_messages = true;
                        self.write(&data).await;
                    }
                }
            }
            return has_messages;
        }
        let mut whole = Vec::new();
        while let Some(Ok(chunk)) = body.next().await {
            whole.extend_from_slice(&chunk);
        }
        // An upstream's answer may be JSON that is no message, and its error pages are none.
        let is_message = split_batch(&whole).into_iter().any(|one| Head::read(one).is_some());
        if !is_message {
            return false;
        }
        let has_no_id = Head::read(&whole)
            .is_some_and(|head| head.error.is_some() && matches!(head.raw_id(), "null" | ""));
        match ids {
            [id] if has_no_id => {
                let text = String::from_utf8_lossy(&whole);
                self.write(with_member(&text, "id", Some(id)).as_bytes()).await;
            }
            _ => self.write(&whole).await,
        }
        true
    }

    /// Marks the session as used: it lasts as long as the process.
    fn touch(&self) {
        if let Some(headers) = lock(&self.session).as_ref() {
            self.gateway.aggregator.touch_session(&PRINCIPAL.into(), headers);
        }
    }

    /// Writes a message in one line.
    async fn write(&self, message: &[u8]) {
        // Line breaks inside of JSON are white space: strings contain none.
        let space = |&byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
        let line: Vec<u8> = message.trim_ascii().iter().map(space).chain([b'\n']).collect();
        let mut output = self.output.lock().await;
        let written = async {
            output.write_all(&line).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            debug!("the client no longer reads: {error}");
            self.client_gone.notify_one();
        }
    }
}

/// Returns the id of the request if it is a stateless one.
fn stateless_request(heads: &[Head<'_>]) -> Option<RequestId> {
    let [head] = heads else { return None };
    let version = head.parameters().version()?;
    let is_request = head.kind() == Some(Kind::Request);
    (is_request && is_stateless_version(&version)).then(|| RequestId::parse(head.raw_id()))?
}

/// Adds a header in the form in which HTTP carries any text.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(&encode_value(value)) {
        headers.insert(name, value);
    }
}

/// Runs the first step of a task. Returns true if it is not complete.
async fn is_pending(mut task: Pin<&mut (impl Future<Output = ()> + ?Sized)>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(task.as_mut().poll(context).is_pending())).await
}
