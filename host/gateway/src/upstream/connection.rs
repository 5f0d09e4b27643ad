//! A connection to an upstream over any transport, after the handshake.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use http::HeaderMap;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, broadcast};
use tracing::debug;

use super::Failure;
use super::child_process::ChildProcess;
use super::inbox::Inbox;
use super::legacy_sse::LegacySse;
use super::request_table::{StartedRequest, UpstreamReply};
use super::server::UpstreamServer;
use super::streamable_http::StreamableHttp;
use super::subscriber_counts::ResourceSubscribers;
use crate::message::{Head, is_stateless_version};
use crate::protocol_mode::{
    ClientInfo, LATEST_STATEFUL_VERSION, ProtocolMode, is_stateless_error, is_unknown_method,
};
use crate::tasks::AbortOnDrop;

/// An upstream's description of itself, from its handshake.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerInfo {
    pub(crate) capabilities: Value,
    pub(crate) instructions: Option<String>,
    /// The whole result of `initialize` or `server/discover`, as raw JSON.
    pub(crate) result: String,
}

impl ServerInfo {
    /// Parses the result of a handshake.
    pub(crate) fn parse(result: &str) -> Self {
        let parsed: Value = serde_json::from_str(result).unwrap_or_default();
        Self {
            capabilities: parsed.get("capabilities").cloned().unwrap_or_default(),
            instructions: parsed.get("instructions").and_then(Value::as_str).map(str::to_owned),
            result: result.to_owned(),
        }
    }

    /// Returns true if the upstream has a capability, such as `tools` or `resources/subscribe`.
    pub(crate) fn has_capability(&self, capability: &str) -> bool {
        match self.capabilities.pointer(&format!("/{capability}")) {
            None | Some(Value::Null) => false,
            Some(value) => value != &Value::Bool(false),
        }
    }
}

/// The maximum size of the messages in the queue for sending in the background, in bytes.
const MAX_BACKGROUND_BYTES: usize = 4 << 20;
/// The memory, in bytes, that a message in the background needs in addition to its content.
const MESSAGE_OVERHEAD: usize = 1 << 10;

/// The transport over which a connection sends messages.
pub(super) enum Transport {
    Process(ChildProcess),
    Http(Arc<StreamableHttp>),
    LegacySse(Arc<LegacySse>),
}

/// A connection to an upstream, in one protocol mode and over one transport.
pub(crate) struct UpstreamConnection {
    pub(crate) server: Arc<UpstreamServer>,
    pub(crate) mode: ProtocolMode,
    server_info: OnceLock<ServerInfo>,
    inbox: Arc<Inbox>,
    transport: Transport,
    /// The permits for bytes of messages in the queue for sending in the background.
    background_bytes: Arc<Semaphore>,
    pub(super) subscribers: ResourceSubscribers,
}

/// A request that was sent to an upstream. Dropping it before the response cancels the request at
/// the upstream.
pub(crate) struct UpstreamRequest {
    connection: Arc<UpstreamConnection>,
    started: StartedRequest,
    /// The task that sends the HTTP request and reads its response. `None` for a child process.
    reader: Option<AbortOnDrop>,
}

impl UpstreamRequest {
    /// Waits for the upstream's next message that belongs to this request.
    pub(crate) async fn next(&mut self) -> UpstreamReply {
        let reply = self.started.replies.recv().await;
        reply.unwrap_or_else(|| {
            UpstreamReply::Failed(Failure::Unavailable("the connection ended".into()))
        })
    }

    /// Returns the connection on which the request was sent.
    pub(crate) fn connection(&self) -> &Arc<UpstreamConnection> {
        &self.connection
    }
}

impl Drop for UpstreamRequest {
    fn drop(&mut self) {
        let connection = &self.connection;
        if !connection.inbox.requests.forget(self.started.id) {
            return;
        }
        // A stateless HTTP request is cancelled by closing its response (MCP 2026-07-28,
        // cancellation). Dropping the reader does that.
        let closes_response = connection.mode == ProtocolMode::Stateless && self.reader.is_some();
        if !closes_response {
            let cancel = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{},"reason":"The client is gone or has cancelled."}}}}"#,
                self.started.id
            );
            connection.send_in_background(cancel.into_bytes());
        }
    }
}

impl UpstreamConnection {
    /// Performs the handshake of a protocol mode over a new transport, and returns the connection.
    /// The handshake describes `client` to the upstream.
    pub(super) async fn handshake(
        server: Arc<UpstreamServer>,
        mode: ProtocolMode,
        client: &ClientInfo,
        transport: Transport,
        inbox: Arc<Inbox>,
    ) -> Result<Arc<Self>, Failure> {
        let server_info = OnceLock::new();
        let background_bytes = Arc::new(Semaphore::new(MAX_BACKGROUND_BYTES));
        let subscribers = ResourceSubscribers::default();
        let connection = Arc::new(Self {
            server,
            mode,
            server_info,
            inbox,
            transport,
            background_bytes,
            subscribers,
        });
        let answer = connection.introduce(client).await?;
        let head = Head::read(&answer);
        let Some(result) = head.as_ref().and_then(|head| head.result) else {
            let error = head.and_then(|head| head.error);
            if error.is_some_and(is_stateless_error) {
                connection.server.set_speaks(ProtocolMode::Stateless, true);
            }
            // Does not depend on the description of the client, unlike other errors.
            if error.is_some_and(is_unknown_method) && connection.server.speaks(mode) != Some(true)
            {
                connection.server.set_speaks(mode, false);
            }
            let error = error.map_or("", RawValue::get);
            return Err(Failure::NotTranslatable(format!(
                "The upstream `{}` refused the handshake: {error}",
                connection.server.name
            )));
        };
        if mode == ProtocolMode::Stateful {
            let parsed: Option<Value> = serde_json::from_str(result).ok();
            let version =
                parsed.as_ref().and_then(|result| result.get("protocolVersion")?.as_str());
            if let Transport::Http(http) = &connection.transport {
                http.set_version(version.unwrap_or(LATEST_STATEFUL_VERSION));
            }
            let initialized = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            connection.send(initialized.to_vec()).await?;
        }
        let _ = connection.server_info.set(ServerInfo::parse(result));
        if let Transport::Http(http) = &connection.transport {
            http.listen();
        }
        Ok(connection)
    }

    /// Continues a session with a stateful upstream that another replica began, over a new
    /// transport. `session` is its id and protocol version. `server_info` is the upstream's
    /// description of itself.
    pub(super) fn resume(
        server: Arc<UpstreamServer>,
        transport: Arc<StreamableHttp>,
        inbox: Arc<Inbox>,
        session: (&str, &str),
        server_info: ServerInfo,
    ) -> Arc<Self> {
        let mut random = [0u8; 4];
        // Without random numbers, ids might be those of another replica, which the upstream
        // answers all the same.
        let _ = getrandom::fill(&mut random);
        // Below 2^53, up to which JavaScript has exact numbers.
        inbox.requests.begin_after(u64::from(u32::from_le_bytes(random)) << 20);
        transport.resume(session.0, session.1);
        transport.listen();
        Arc::new(Self {
            server,
            mode: ProtocolMode::Stateful,
            server_info: OnceLock::from(server_info),
            inbox,
            transport: Transport::Http(transport),
            background_bytes: Arc::new(Semaphore::new(MAX_BACKGROUND_BYTES)),
            subscribers: ResourceSubscribers::default(),
        })
    }

    /// Returns the id and protocol version of the session with a stateful upstream. `None` if the
    /// upstream has not issued a session id over HTTP.
    pub(crate) fn session_id(&self) -> Option<(String, String)> {
        match &self.transport {
            Transport::Http(http) if self.mode == ProtocolMode::Stateful => http.session_id(),
            _ => None,
        }
    }

    /// Sets if other replicas use the session with the upstream. If not, the session ends with this
    /// connection.
    pub(crate) fn set_portable(&self, is_portable: bool) {
        if let Transport::Http(http) = &self.transport {
            http.is_portable.store(is_portable, Ordering::Relaxed);
        }
    }

    /// Sends `initialize` or `server/discover` with the description of `client`, and returns the
    /// upstream's response.
    async fn introduce(self: &Arc<Self>, client: &ClientInfo) -> Result<Vec<u8>, Failure> {
        let request = match self.mode {
            ProtocolMode::Stateful => {
                let is_stateless = is_stateless_version(&client.version);
                let version =
                    if is_stateless { LATEST_STATEFUL_VERSION } else { client.version.as_str() };
                format!(
                    r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{},"clientInfo":{}}}}}"#,
                    client.capabilities, client.implementation
                )
            }
            ProtocolMode::Stateless => format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{{"_meta":{{{}}}}}}}"#,
                client.meta()
            ),
        };
        // The circuit breaker counts the opening of a connection as a whole.
        let mut request = self.request_uncounted(request.as_bytes()).await?;
        loop {
            match request.next().await {
                UpstreamReply::Related(_) => {}
                UpstreamReply::Answer(answer) => return Ok(answer),
                UpstreamReply::Failed(failure) => return Err(failure),
            }
        }
    }

    /// Returns the upstream's description of itself. It is empty before the handshake.
    pub(crate) fn server_info(&self) -> &ServerInfo {
        static EMPTY: OnceLock<ServerInfo> = OnceLock::new();
        self.server_info.get().unwrap_or_else(|| EMPTY.get_or_init(ServerInfo::default))
    }

    /// Sends a client's request to the upstream, and returns it as a request in flight. Its replies
    /// have the client's request id. The circuit breaker counts it for the caller `owner`.
    pub(crate) async fn request(
        self: &Arc<Self>,
        message: &[u8],
        headers: &HeaderMap,
        owner: &Arc<str>,
    ) -> Result<UpstreamRequest, Failure> {
        self.begin(message, headers, Some(Arc::clone(owner))).await
    }

    /// Sends a request that the gateway makes itself, not for a client's call. The circuit breaker
    /// does not count the request.
    pub(crate) async fn request_uncounted(
        self: &Arc<Self>,
        message: &[u8],
    ) -> Result<UpstreamRequest, Failure> {
        self.begin(message, &HeaderMap::new(), None).await
    }

    async fn begin(
        self: &Arc<Self>,
        message: &[u8],
        headers: &HeaderMap,
        owner: Option<Arc<str>>,
    ) -> Result<UpstreamRequest, Failure> {
        let mut started = self.inbox.requests.begin(message)?;
        let (id, message) = (started.id, std::mem::take(&mut started.message));
        // Built first: if sending fails, its drop removes the request from the table.
        let mut request = UpstreamRequest { connection: Arc::clone(self), started, reader: None };
        match &self.transport {
            Transport::Process(process) => process.send(message).await?,
            Transport::Http(http) => {
                request.reader = Some(http.request(id, message, headers, owner));
            }
            Transport::LegacySse(session) => {
                request.reader = Some(session.request(id, message, owner));
            }
        }
        Ok(request)
    }

    /// Sends a notification, or the answer to a request of the upstream.
    pub(crate) async fn send(&self, message: Vec<u8>) -> Result<(), Failure> {
        self.inbox.requests.notified();
        match &self.transport {
            Transport::Process(process) => process.send(message).await,
            Transport::Http(http) => http.send(message).await,
            Transport::LegacySse(session) => session.send(message).await,
        }
    }

    /// Sends a message in the background. A failure is logged, not returned. The message is dropped
    /// if the queue is full, because the upstream does not read.
    pub(crate) fn send_in_background(self: &Arc<Self>, message: Vec<u8>) {
        let connection = Arc::clone(self);
        let bytes = message.len().saturating_add(MESSAGE_OVERHEAD).min(MAX_BACKGROUND_BYTES);
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.background_bytes).try_acquire_many_owned(permits);
        let Ok(permit) = permit else {
            debug!(upstream = self.server.name, "dropped a message: the upstream does not read");
            return;
        };
        tokio::spawn(async move {
            let _permit = permit;
            if let Err(failure) = connection.send(message).await {
                debug!(upstream = connection.server.name, "cannot send a message: {failure}");
            }
        });
    }

    /// Returns a receiver for the upstream's later messages that belong to no request.
    pub(crate) fn unrelated(&self) -> broadcast::Receiver<Arc<Vec<u8>>> {
        self.inbox.subscribe()
    }

    /// Returns true if the transport itself limits the time until an answer. HTTP does, because any
    /// byte of the response, such as an SSE comment, extends the limit.
    pub(crate) fn enforces_timeout(&self) -> bool {
        matches!(self.transport, Transport::Http(_))
    }

    /// Returns true if the upstream may end the session, so that a request must be repeated in a
    /// new one.
    pub(crate) fn may_lose_session(&self) -> bool {
        self.mode == ProtocolMode::Stateful && !matches!(self.transport, Transport::Process(_))
    }

    /// Returns true if the connection has ended and can no longer be used.
    pub(crate) fn has_ended(&self) -> bool {
        self.inbox.requests.has_ended()
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) {
        self.inbox.requests.ended().await;
    }
}
