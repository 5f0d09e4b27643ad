//! Opens connections to an upstream over HTTP. An upstream that refuses Streamable HTTP may speak
//! HTTP+SSE of MCP 2024-11-05 (MCP 2025-11-25, transports, backwards compatibility).

use std::sync::Arc;
use std::time::Duration;

use super::connection::{ServerInfo, Transport, UpstreamConnection};
use super::http_upstream::HttpUpstream;
use super::inbox::Inbox;
use super::legacy_sse::LegacySse;
use super::server::UpstreamServer;
use super::statuses::may_be_legacy_sse;
use super::streamable_http::StreamableHttp;
use super::{CallerHeaders, Failure};
use crate::config::{HttpTransport, Isolation};
use crate::protocol_mode::{ClientInfo, ProtocolMode};

/// The maximum time until an upstream that may speak Streamable HTTP sends its URL for messages.
/// The event stream of a Streamable HTTP server remains silent.
const DETECTION_TIMEOUT: Duration = Duration::from_secs(5);

impl UpstreamServer {
    /// Returns an empty inbox for a connection to the upstream.
    pub(super) fn new_inbox(&self) -> Arc<Inbox> {
        Inbox::new(
            &self.name,
            &self.invalid_output,
            self.config.limits.call_notifications,
            self.isolation == Isolation::Shared,
        )
    }

    /// Opens a connection to the endpoint `http` in a protocol mode.
    pub(super) async fn open_http(
        self: &Arc<Self>,
        http: &Arc<HttpUpstream>,
        mode: ProtocolMode,
        client: &ClientInfo,
        caller: &CallerHeaders,
    ) -> Result<Arc<UpstreamConnection>, Failure> {
        self.started();
        let is_stateful = mode == ProtocolMode::Stateful;
        if is_stateful && self.speaks_legacy_sse() == Some(true) {
            if let Some(opened) = self.open_legacy_sse(http, client, caller).await? {
                return Ok(opened);
            }
            if self.config.transport == HttpTransport::Sse {
                let name = &self.name;
                return Err(Failure::Unavailable(format!(
                    "The upstream `{name}` does not speak HTTP+SSE at this URL (transport: sse)."
                )));
            }
            // The server was replaced by one that speaks Streamable HTTP.
            self.set_speaks_legacy_sse(None);
        }
        let inbox = self.new_inbox();
        let streamable = StreamableHttp::new(http, mode, caller.clone(), &inbox);
        let transport = Transport::Http(Arc::clone(&streamable));
        let server = Arc::clone(self);
        let opened = UpstreamConnection::handshake(server, mode, client, transport, inbox).await;
        let failure = match opened {
            Ok(opened) => {
                self.set_speaks_legacy_sse(Some(false));
                return Ok(opened);
            }
            Err(failure) => failure,
        };
        let may_fall_back = is_stateful && self.speaks_legacy_sse().is_none();
        if !may_fall_back || !streamable.status().is_some_and(may_be_legacy_sse) {
            return Err(failure);
        }
        match (self.open_legacy_sse(http, client, caller).await, failure) {
            (Ok(Some(opened)), _) => Ok(opened),
            (Ok(None), Failure::Unavailable(text)) => Err(Failure::Unavailable(format!(
                "{text} It speaks neither Streamable HTTP nor HTTP+SSE at this URL."
            ))),
            (Ok(None), failure) | (Err(failure), _) => Err(failure),
        }
    }

    /// Continues a session that another replica began. `session` is its id and protocol version,
    /// and `server_info` the upstream's description of itself. `None` if the upstream is a process.
    pub(crate) fn resume(
        self: &Arc<Self>,
        caller: &CallerHeaders,
        session: (&str, &str),
        server_info: ServerInfo,
    ) -> Option<Arc<UpstreamConnection>> {
        let http = self.http.as_ref()?;
        self.started();
        let inbox = self.new_inbox();
        let streamable = StreamableHttp::new(http, ProtocolMode::Stateful, caller.clone(), &inbox);
        let server = Arc::clone(self);
        Some(UpstreamConnection::resume(server, streamable, inbox, session, server_info))
    }

    /// Opens a connection over HTTP+SSE. Returns `None` if the upstream does not speak it.
    async fn open_legacy_sse(
        self: &Arc<Self>,
        http: &Arc<HttpUpstream>,
        client: &ClientInfo,
        caller: &CallerHeaders,
    ) -> Result<Option<Arc<UpstreamConnection>>, Failure> {
        let inbox = self.new_inbox();
        let opening = LegacySse::open(http, caller.clone(), &inbox);
        let opened = match self.config.transport {
            HttpTransport::Sse => opening.await,
            _ => tokio::time::timeout(DETECTION_TIMEOUT, opening).await.unwrap_or(Ok(None)),
        };
        let Some(session) = opened? else { return Ok(None) };
        let (server, mode) = (Arc::clone(self), ProtocolMode::Stateful);
        let transport = Transport::LegacySse(session);
        let opened = UpstreamConnection::handshake(server, mode, client, transport, inbox).await?;
        self.found_legacy_sse();
        Ok(Some(opened))
    }

    /// Returns true if the upstream speaks HTTP+SSE. Tries that transport if the upstream's
    /// transport is not known yet.
    pub(crate) async fn detect_legacy_sse(&self, caller: &CallerHeaders) -> bool {
        if let (None, Some(http)) = (self.speaks_legacy_sse(), &self.http) {
            let inbox = self.new_inbox();
            let opening = LegacySse::open(http, caller.clone(), &inbox);
            let opened = tokio::time::timeout(DETECTION_TIMEOUT, opening).await;
            if matches!(opened, Ok(Ok(Some(_)))) {
                self.found_legacy_sse();
            }
        }
        self.speaks_legacy_sse() == Some(true)
    }

    fn found_legacy_sse(&self) {
        self.set_speaks_legacy_sse(Some(true));
        // The transport is older than the stateless protocol mode.
        self.set_speaks(ProtocolMode::Stateless, false);
    }
}
