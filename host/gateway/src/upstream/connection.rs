//! A connection to an upstream, whatever carries it: opened by agreeing on a revision, used by one client or shared.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::broadcast;
use tracing::debug;

use super::Failure;
use super::child_process::ChildProcess;
use super::request_table::{RequestTable, StartedRequest, UpstreamReply};
use super::server::Server;
use super::streamable_http::StreamableHttp;
use crate::gateway::front::request_mode;
use crate::gateway::wire::reply;
use crate::message::{CAPABILITIES_KEY, CLIENT_KEY, Head, Kind, MODERN, VERSION_KEY, is_modern};

/// Messages that belong to no request and wait to be looked at.
const WAITING: usize = 256;
/// The revision that the gateway asks stateful upstreams for where its client speaks none of theirs.
pub(crate) const LATEST_STATEFUL_VERSION: &str = "2025-11-25";

/// Two ways of speaking MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProtocolMode {
    /// A handshake, then a session.
    Stateful,
    /// Every request stands for itself.
    Stateless,
}

/// What a client says of itself, as it is spelt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientInfo {
    pub(crate) version: String,
    pub(crate) capabilities: String,
    pub(crate) implementation: String,
}

impl ClientInfo {
    /// The gateway's own.
    pub(crate) fn gateway() -> Self {
        Self {
            version: LATEST_STATEFUL_VERSION.to_owned(),
            capabilities: "{}".to_owned(),
            implementation: own_info(),
        }
    }

    /// Returns the client's name.
    pub(crate) fn name(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Named {
            name: String,
        }
        serde_json::from_str(&self.implementation).ok().map(|Named { name }| name)
    }

    /// The members of `_meta` that every stateless request has.
    pub(crate) fn meta(&self) -> String {
        format!(
            r#""{VERSION_KEY}":"{MODERN}","{CAPABILITIES_KEY}":{},"{CLIENT_KEY}":{}"#,
            self.capabilities, self.implementation
        )
    }
}

/// The gateway's name and version.
pub(crate) fn own_info() -> String {
    format!(r#"{{"name":"context-guard","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
}

/// What an upstream says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerInfo {
    pub(crate) capabilities: Value,
    pub(crate) instructions: Option<String>,
    /// The whole result of `initialize` or `server/discover`, as it is spelt.
    pub(crate) result: String,
}

impl ServerInfo {
    fn of(result: &str) -> Self {
        let parsed: Value = serde_json::from_str(result).unwrap_or_default();
        Self {
            capabilities: parsed.get("capabilities").cloned().unwrap_or_default(),
            instructions: parsed.get("instructions").and_then(Value::as_str).map(str::to_owned),
            result: result.to_owned(),
        }
    }

    /// Whether it has a capability, such as `tools` or `resources/subscribe`.
    pub(crate) fn can(&self, capability: &str) -> bool {
        match self.capabilities.pointer(&format!("/{capability}")) {
            None | Some(Value::Null) => false,
            Some(value) => value != &Value::Bool(false),
        }
    }
}

/// What carries messages.
pub(super) enum Transport {
    ChildProcess(ChildProcess),
    StreamableHttp(StreamableHttp),
}

/// A connection.
pub(crate) struct UpstreamConnection {
    pub(crate) server: Arc<Server>,
    pub(crate) mode: ProtocolMode,
    server_info: OnceLock<ServerInfo>,
    pub(super) requests: Arc<RequestTable>,
    pub(super) transport: Transport,
    /// Messages that belong to no request.
    pub(super) unrelated: broadcast::Sender<Arc<Vec<u8>>>,
}

/// A request that was sent. Dropping it tells the upstream that its answer is of no interest any more.
pub(crate) struct UpstreamRequest {
    connection: Arc<UpstreamConnection>,
    started: StartedRequest,
    /// Ends what still reads for it.
    _reader: Option<AbortOnDrop>,
}

pub(crate) struct AbortOnDrop(pub(crate) tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl UpstreamRequest {
    /// What comes next.
    pub(crate) async fn next(&mut self) -> UpstreamReply {
        let reply = self.started.replies.recv().await;
        reply.unwrap_or_else(|| {
            UpstreamReply::Failed(Failure::Unavailable("the connection ended".into()))
        })
    }

    /// The connection it was sent on.
    pub(crate) fn connection(&self) -> &Arc<UpstreamConnection> {
        &self.connection
    }
}

impl Drop for UpstreamRequest {
    fn drop(&mut self) {
        if self.connection.requests.forget(self.started.id) {
            let cancel = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{},"reason":"The client is gone or has cancelled."}}}}"#,
                self.started.id
            );
            // Over stateless HTTP the closed connection says it.
            if !(self.connection.mode == ProtocolMode::Stateless
                && matches!(self.connection.transport, Transport::StreamableHttp(_)))
            {
                self.connection.send_in_background(cancel.into_bytes());
            }
        }
    }
}

impl UpstreamConnection {
    /// Puts a transport to use: agrees on a revision of this mode.
    pub(super) async fn agree(
        server: Arc<Server>,
        mode: ProtocolMode,
        client: &ClientInfo,
        transport: Transport,
        requests: Arc<RequestTable>,
        unrelated: broadcast::Sender<Arc<Vec<u8>>>,
    ) -> Result<Arc<Self>, Failure> {
        let connection =
            Self { server, mode, server_info: OnceLock::new(), requests, transport, unrelated };
        let connection = Arc::new(connection);
        let handshake = match mode {
            ProtocolMode::Stateful => {
                let version = if is_modern(&client.version) {
                    LATEST_STATEFUL_VERSION
                } else {
                    client.version.as_str()
                };
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
        let name = connection.server.name.clone();
        let mut call = connection.request(handshake.as_bytes()).await?;
        let answer = loop {
            match call.next().await {
                UpstreamReply::Related(_) => {}
                UpstreamReply::Answer(answer) => break answer,
                UpstreamReply::Failed(failure) => return Err(failure),
            }
        };
        drop(call);
        let head = Head::read(&answer);
        let Some(result) = head.as_ref().and_then(|head| head.result) else {
            let error = head.and_then(|head| head.error);
            if error.is_some_and(request_mode::is_of_stateless) {
                connection.server.set_mode(ProtocolMode::Stateless, true);
            }
            let error = error.map_or("", RawValue::get);
            return Err(Failure::NotTranslatable(format!(
                "The upstream `{name}` refused the handshake: {error}"
            )));
        };
        let info = ServerInfo::of(result);
        if mode == ProtocolMode::Stateful {
            let version = serde_json::from_str::<Value>(result).ok();
            let version =
                version.as_ref().and_then(|result| result.get("protocolVersion")?.as_str());
            connection.agreed_on(version.unwrap_or(LATEST_STATEFUL_VERSION));
            connection
                .send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_vec())
                .await?;
        }
        let _ = connection.server_info.set(info);
        if let Transport::StreamableHttp(remote) = &connection.transport {
            remote.listen(&connection);
        }
        Ok(connection)
    }

    /// What the upstream said of itself.
    pub(crate) fn server_info(&self) -> &ServerInfo {
        static NOTHING: OnceLock<ServerInfo> = OnceLock::new();
        self.server_info.get().unwrap_or_else(|| NOTHING.get_or_init(ServerInfo::default))
    }

    fn agreed_on(&self, version: &str) {
        if let Transport::StreamableHttp(remote) = &self.transport {
            remote.agreed_on(version);
        }
    }

    /// Sends a request, under the client's id.
    pub(crate) async fn request(
        self: &Arc<Self>,
        message: &[u8],
    ) -> Result<UpstreamRequest, Failure> {
        let mut started = self.requests.begin(message)?;
        let message = std::mem::take(&mut started.message);
        let id = started.id;
        let mut call = UpstreamRequest { connection: Arc::clone(self), started, _reader: None };
        match &self.transport {
            Transport::ChildProcess(child) => child.send(&message).await?,
            Transport::StreamableHttp(remote) => {
                call._reader = Some(remote.request(self, id, message));
            }
        }
        Ok(call)
    }

    /// Sends a notification, or the answer to a request of the server.
    pub(crate) async fn send(&self, message: Vec<u8>) -> Result<(), Failure> {
        match &self.transport {
            Transport::ChildProcess(child) => child.send(&message).await,
            Transport::StreamableHttp(remote) => remote.send(message).await,
        }
    }

    /// The same, where nobody can wait.
    pub(crate) fn send_in_background(self: &Arc<Self>, message: Vec<u8>) {
        let connection = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(failure) = connection.send(message).await {
                debug!(upstream = connection.server.name, "Not told: {failure}");
            }
        });
    }

    /// Messages that belong to no request, from now on.
    pub(crate) fn unrelated(&self) -> broadcast::Receiver<Arc<Vec<u8>>> {
        self.unrelated.subscribe()
    }

    /// Whether what carries it keeps to the time limit itself: it sees every sign of life.
    pub(crate) fn enforces_timeout(&self) -> bool {
        matches!(self.transport, Transport::StreamableHttp(_))
    }

    /// Whether it can be used no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.requests.has_ended()
    }

    /// A message came from the upstream.
    pub(super) fn arrived(
        requests: &RequestTable,
        unrelated: &broadcast::Sender<Arc<Vec<u8>>>,
        message: Vec<u8>,
        of: Option<u64>,
    ) -> Option<Vec<u8>> {
        // Whether somebody is there is no business of the client's.
        if let Some(head) = Head::read(&message)
            && head.kind() == Some(Kind::Request)
            && head.method() == "ping"
        {
            return Some(reply::result(head.raw_id(), "{}"));
        }
        if let Some(unrelated_message) = requests.arrived(message, of) {
            let _ = unrelated.send(Arc::new(unrelated_message));
        }
        None
    }

    /// A channel for messages that belong to no request.
    pub(super) fn channel() -> broadcast::Sender<Arc<Vec<u8>>> {
        broadcast::channel(WAITING).0
    }
}
