//! A connection to an upstream, whatever carries it: opened by agreeing on a revision, used by one client or shared.

use std::sync::{Arc, OnceLock};

use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::broadcast;
use tracing::debug;

use super::Failure;
use super::calls::{Begun, Calls, Reply};
use super::child::Child;
use super::remote::Remote;
use super::server::Server;
use crate::gateway::front::modern;
use crate::gateway::wire::reply;
use crate::message::{CAPABILITIES_KEY, CLIENT_KEY, Head, Kind, MODERN, VERSION_KEY, is_modern};

/// Messages that belong to no request and wait to be looked at.
const WAITING: usize = 256;
/// The revision that the gateway asks legacy upstreams for where its client speaks none of theirs.
pub(crate) const LEGACY: &str = "2025-11-25";

/// Two ways of speaking MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Era {
    /// A handshake, then a session.
    Legacy,
    /// Every request stands for itself.
    Modern,
}

/// What a client says of itself, as it is spelt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientHello {
    pub(crate) version: String,
    pub(crate) capabilities: String,
    pub(crate) info: String,
}

impl ClientHello {
    /// The gateway's own.
    pub(crate) fn of_gateway() -> Self {
        Self { version: LEGACY.to_owned(), capabilities: "{}".to_owned(), info: own_info() }
    }

    /// Returns the client's name.
    pub(crate) fn name(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Named {
            name: String,
        }
        serde_json::from_str(&self.info).ok().map(|Named { name }| name)
    }

    /// The members of `_meta` that every stateless request has.
    pub(crate) fn meta(&self) -> String {
        format!(
            r#""{VERSION_KEY}":"{MODERN}","{CAPABILITIES_KEY}":{},"{CLIENT_KEY}":{}"#,
            self.capabilities, self.info
        )
    }
}

/// The gateway's name and version.
pub(crate) fn own_info() -> String {
    format!(r#"{{"name":"context-guard","version":"{}"}}"#, env!("CARGO_PKG_VERSION"))
}

/// What an upstream says of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerHello {
    pub(crate) capabilities: Value,
    pub(crate) instructions: Option<String>,
    /// The whole result of `initialize` or `server/discover`, as it is spelt.
    pub(crate) result: String,
}

impl ServerHello {
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
pub(super) enum Carrier {
    Child(Child),
    Remote(Remote),
}

/// A connection.
pub(crate) struct Link {
    pub(crate) server: Arc<Server>,
    pub(crate) era: Era,
    hello: OnceLock<ServerHello>,
    pub(super) calls: Arc<Calls>,
    pub(super) carrier: Carrier,
    /// Messages that belong to no request.
    pub(super) unrelated: broadcast::Sender<Arc<Vec<u8>>>,
}

/// A request that was sent. Dropping it tells the upstream that its answer is of no interest any more.
pub(crate) struct Call {
    link: Arc<Link>,
    begun: Begun,
    /// Ends what still reads for it.
    _reader: Option<AbortOnDrop>,
}

pub(crate) struct AbortOnDrop(pub(crate) tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Call {
    /// What comes next.
    pub(crate) async fn next(&mut self) -> Reply {
        let reply = self.begun.replies.recv().await;
        reply.unwrap_or_else(|| Reply::Failed(Failure::Unavailable("the connection ended".into())))
    }

    /// The connection it was sent on.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.link.calls.forget(self.begun.id) {
            let cancel = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{},"reason":"The client is gone or has cancelled."}}}}"#,
                self.begun.id
            );
            // Over stateless HTTP the closed connection says it.
            if !(self.link.era == Era::Modern && matches!(self.link.carrier, Carrier::Remote(_))) {
                self.link.tell_later(cancel.into_bytes());
            }
        }
    }
}

impl Link {
    /// Puts a carrier to use: agrees on a revision of this era.
    pub(super) async fn agree(
        server: Arc<Server>,
        era: Era,
        client: &ClientHello,
        carrier: Carrier,
        calls: Arc<Calls>,
        unrelated: broadcast::Sender<Arc<Vec<u8>>>,
    ) -> Result<Arc<Self>, Failure> {
        let link = Self { server, era, hello: OnceLock::new(), calls, carrier, unrelated };
        let link = Arc::new(link);
        let greeting = match era {
            Era::Legacy => {
                let version =
                    if is_modern(&client.version) { LEGACY } else { client.version.as_str() };
                format!(
                    r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{},"clientInfo":{}}}}}"#,
                    client.capabilities, client.info
                )
            }
            Era::Modern => format!(
                r#"{{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{{"_meta":{{{}}}}}}}"#,
                client.meta()
            ),
        };
        let name = link.server.name.clone();
        let mut call = link.request(greeting.as_bytes()).await?;
        let answer = loop {
            match call.next().await {
                Reply::Related(_) => {}
                Reply::Answer(answer) => break answer,
                Reply::Failed(failure) => return Err(failure),
            }
        };
        drop(call);
        let head = Head::read(&answer);
        let Some(result) = head.as_ref().and_then(|head| head.result) else {
            let error = head.and_then(|head| head.error);
            if error.is_some_and(modern::is_of_stateless) {
                link.server.learnt(Era::Modern, true);
            }
            let error = error.map_or("", RawValue::get);
            return Err(Failure::NotTranslatable(format!(
                "The upstream `{name}` refused the handshake: {error}"
            )));
        };
        let hello = ServerHello::of(result);
        if era == Era::Legacy {
            let version = serde_json::from_str::<Value>(result).ok();
            let version =
                version.as_ref().and_then(|result| result.get("protocolVersion")?.as_str());
            link.agreed_on(version.unwrap_or(LEGACY));
            link.tell(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_vec())
                .await?;
        }
        let _ = link.hello.set(hello);
        if let Carrier::Remote(remote) = &link.carrier {
            remote.listen(&link);
        }
        Ok(link)
    }

    /// What the upstream said of itself.
    pub(crate) fn hello(&self) -> &ServerHello {
        static NOTHING: OnceLock<ServerHello> = OnceLock::new();
        self.hello.get().unwrap_or_else(|| NOTHING.get_or_init(ServerHello::default))
    }

    fn agreed_on(&self, version: &str) {
        if let Carrier::Remote(remote) = &self.carrier {
            remote.agreed_on(version);
        }
    }

    /// Sends a request, under the client's id.
    pub(crate) async fn request(self: &Arc<Self>, message: &[u8]) -> Result<Call, Failure> {
        let mut begun = self.calls.begin(message)?;
        let message = std::mem::take(&mut begun.message);
        let id = begun.id;
        let mut call = Call { link: Arc::clone(self), begun, _reader: None };
        match &self.carrier {
            Carrier::Child(child) => child.send(&message).await?,
            Carrier::Remote(remote) => {
                call._reader = Some(remote.request(self, id, message));
            }
        }
        Ok(call)
    }

    /// Sends a notification, or the answer to a request of the server.
    pub(crate) async fn tell(&self, message: Vec<u8>) -> Result<(), Failure> {
        match &self.carrier {
            Carrier::Child(child) => child.send(&message).await,
            Carrier::Remote(remote) => remote.tell(message).await,
        }
    }

    /// The same, where nobody can wait.
    pub(crate) fn tell_later(self: &Arc<Self>, message: Vec<u8>) {
        let link = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(failure) = link.tell(message).await {
                debug!(upstream = link.server.name, "Not told: {failure}");
            }
        });
    }

    /// Messages that belong to no request, from now on.
    pub(crate) fn unrelated(&self) -> broadcast::Receiver<Arc<Vec<u8>>> {
        self.unrelated.subscribe()
    }

    /// Whether what carries it keeps to the time limit itself: it sees every sign of life.
    pub(crate) fn keeps_time(&self) -> bool {
        matches!(self.carrier, Carrier::Remote(_))
    }

    /// Whether it can be used no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.calls.has_ended()
    }

    /// A message came from the upstream.
    pub(super) fn arrived(
        calls: &Calls,
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
        if let Some(unrelated_message) = calls.arrived(message, of) {
            let _ = unrelated.send(Arc::new(unrelated_message));
        }
        None
    }

    /// A channel for messages that belong to no request.
    pub(super) fn channel() -> broadcast::Sender<Arc<Vec<u8>>> {
        broadcast::channel(WAITING).0
    }
}
