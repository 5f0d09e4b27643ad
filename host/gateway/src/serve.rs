//! The gateway as a whole: built from its configuration, run until it is told to stop.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{Method, StatusCode};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::aggregator::Aggregator;
use super::front::concurrency_limiter::ConcurrencyLimiter;
use super::front::{Caller, listener, request_mode, router};
use super::rest::Rest;
use super::single_upstream::SingleUpstream;
use super::upstream::connection::ProtocolMode;
use super::upstream::http_upstream::HttpUpstream;
use super::upstream::server::Server;
use super::wire::reply;
use crate::access::{Access, http_client};
use crate::config::{Config, Naming, Upstream};
use crate::filter::Filter;
use crate::message::{Head, each};
use crate::revision::Sources;
use crate::telemetry::{AuditLog, Recorder};
use crate::{Clock, Error, Result};

/// A gateway.
pub struct Gateway {
    pub(crate) config: Config,
    pub(crate) access: Access,
    pub(crate) limiter: ConcurrencyLimiter,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) filter: Arc<Filter>,
    /// What is read again when an operator asks for it.
    pub(crate) sources: OnceLock<Arc<Sources>>,
    single: Option<SingleUpstream>,
    aggregator: Arc<Aggregator>,
    rest: Vec<Rest>,
    /// It takes no more requests, and streams that only wait end.
    closing: CancellationToken,
    stopped: CancellationToken,
}

impl Gateway {
    /// Builds a gateway. Nothing listens yet.
    ///
    /// # Errors
    /// [`Error::Setup`], [`Error::File`], [`Error::Format`].
    pub fn new(config: Config, filter: Arc<Filter>, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let audit = match &config.audit {
            Some(audit) => {
                Some(AuditLog::open(&config.folder.join(&audit.folder), audit.retention_days)?)
            }
            None => None,
        };
        let recorder = Arc::new(Recorder::new(config.telemetry.ring, audit, clock));
        let observer = Arc::clone(&recorder);
        filter.revisions().observe(move |change| observer.changed(change));
        let client = http_client();
        let loopback =
            config.listen.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
        let access = Access::new(&config.access, &config.folder, loopback, client.clone())?;
        let closing = CancellationToken::new();
        let reach = |upstream: &Upstream, url: &str| {
            let (max_bytes, recorder) = (config.limits.response_bytes, Arc::clone(&recorder));
            HttpUpstream::new(
                upstream,
                url,
                access.requires_authentication(),
                max_bytes,
                client.clone(),
                recorder,
            )
            .map(Arc::new)
        };
        let mut servers = Vec::new();
        let mut single = None;
        let mcp: Vec<&Upstream> =
            config.upstreams.iter().filter(|upstream| upstream.rest.is_none()).collect();
        let prefixed = match config.naming {
            Naming::Auto => mcp.len() > 1,
            Naming::Prefixed => true,
            Naming::Plain => false,
        };
        for upstream in &mcp {
            let http = upstream.url.as_ref().map(|url| reach(upstream, url)).transpose()?;
            if let Some(http) = http.as_ref().filter(|_| mcp.len() == 1 && !prefixed) {
                let most = NonZeroUsize::new(config.limits.sessions).unwrap_or(NonZeroUsize::MIN);
                let (filter, recorder) = (Arc::clone(&filter), Arc::clone(&recorder));
                let closing = closing.clone();
                single =
                    Some(SingleUpstream::new(Arc::clone(http), filter, recorder, most, closing));
            }
            servers.push(Arc::new(Server::new(
                (*upstream).clone(),
                config.folder.clone(),
                http,
                config.limits.response_bytes,
                Arc::clone(&recorder),
            )));
        }
        let mut rest = Vec::new();
        for upstream in &config.upstreams {
            if let Some(api) = &upstream.rest {
                let http = reach(upstream, &api.url)?;
                let (filter, recorder) = (Arc::clone(&filter), Arc::clone(&recorder));
                rest.push(Rest::new(http, api.clone(), filter, recorder));
            }
        }
        let aggregator = Aggregator::new(
            &config,
            servers,
            prefixed,
            Arc::clone(&filter),
            Arc::clone(&recorder),
            closing.clone(),
        );
        if !loopback && !access.requires_authentication() {
            warn!(
                "The gateway listens on {} and asks nobody who they are: set access.keys or access.jwt.",
                config.listen
            );
        }
        let limiter = ConcurrencyLimiter::new(config.limits.concurrency, config.limits.queue);
        Ok(Arc::new(Self {
            config,
            access,
            limiter,
            recorder,
            filter,
            sources: OnceLock::new(),
            single,
            aggregator: Arc::new(aggregator),
            rest,
            closing,
            stopped: CancellationToken::new(),
        }))
    }

    /// The same, with files that are read again when an operator asks for it.
    #[must_use]
    pub fn with_sources(self: Arc<Self>, sources: Arc<Sources>) -> Arc<Self> {
        let _ = self.sources.set(sources);
        self
    }

    /// Listens and serves until `stop` resolves and requests in flight have ended. `ready` hears the addresses: of the front, and of the endpoint for operators.
    ///
    /// # Errors
    /// [`Error::Setup`] where it cannot listen.
    pub async fn run(
        self: &Arc<Self>,
        stop: impl Future<Output = ()>,
        ready: impl FnOnce(SocketAddr, Option<SocketAddr>),
    ) -> Result<()> {
        let tls = self.config.tls.as_ref();
        let tls = tls.map(|tls| listener::acceptor(tls, &self.config.folder)).transpose()?;
        let listener = listener::bind(&self.config.listen).await?;
        let address = listener.local_addr()?;
        let drain = Duration::from_secs(self.config.limits.drain_seconds);
        let mut admin_address = None;
        let admin = match &self.config.admin {
            Some(admin) => {
                let listener = listener::bind(&admin.listen).await?;
                admin_address = Some(listener.local_addr()?);
                let router = crate::admin::router(Arc::clone(self));
                let stopped = self.stopped.clone().cancelled_owned();
                Some(tokio::spawn(listener::serve(
                    listener,
                    None,
                    router,
                    stopped,
                    Duration::from_secs(1),
                )))
            }
            None => None,
        };
        let sweeping = tokio::spawn(Arc::clone(&self.aggregator).sweep());
        ready(address, admin_address);
        let draining = async {
            stop.await;
            info!("Stopping: requests in flight get {} s to end.", drain.as_secs());
            self.closing.cancel();
        };
        listener::serve(listener, tls, router(Arc::clone(self)), draining, drain).await;
        self.stopped.cancel();
        sweeping.abort();
        if let Some(admin) = admin {
            admin.await.map_err(|error| Error::Setup(error.to_string()))?;
        }
        Ok(())
    }

    /// Whether it takes requests and an upstream can answer some.
    pub(crate) fn is_ready(&self) -> bool {
        let some = self.aggregator.servers.iter().any(|server| !server.is_circuit_open())
            || self.rest.iter().any(|rest| !rest.upstream().breaker.is_open());
        !self.closing.is_cancelled() && some
    }

    /// How the upstreams are.
    pub(crate) fn upstreams(&self) -> Vec<serde_json::Value> {
        let of = |server: &Arc<Server>| serde_json::json!({"name": server.name, "up": !server.is_circuit_open()});
        let apis = self.rest.iter().map(|rest| {
            let upstream = rest.upstream();
            serde_json::json!({"name": upstream.name, "up": !upstream.breaker.is_open()})
        });
        self.aggregator.servers.iter().map(of).chain(apis).collect()
    }

    /// Whether a path is that of the MCP endpoint.
    pub(crate) fn is_mcp(&self, path: &str) -> bool {
        path == self.config.path && !self.aggregator.servers.is_empty()
    }

    /// Hands a request to what serves it.
    pub(crate) async fn dispatch(&self, caller: &Caller, parts: Parts, body: Bytes) -> Response {
        let path = parts.uri.path();
        if !self.is_mcp(path) {
            let api = self.rest.iter().filter_map(|rest| Some((rest.claims(path)?, rest)));
            if let Some((_, api)) = api.max_by_key(|(length, _)| *length) {
                return api.serve(caller, &parts, body).await;
            }
            return super::front::not_found(path, &self.config.path);
        }
        for head in heads(&parts, &body) {
            if let Some(reason) = request_mode::mismatch(&parts.headers, &head) {
                let reason = format!("Header mismatch: {reason}.");
                return reply::refuse(
                    StatusCode::BAD_REQUEST,
                    head.raw_id(),
                    reply::HEADER_MISMATCH,
                    &reason,
                );
            }
        }
        let Some(single) = &self.single else {
            return self.aggregator.serve(caller, &parts, body).await;
        };
        self.passed(single, caller, &parts, &body).await
    }

    /// Passes a request to the one HTTP upstream; to the aggregator, which translates, where the upstream does not speak the client's protocol mode.
    async fn passed(
        &self,
        single: &SingleUpstream,
        caller: &Caller,
        parts: &Parts,
        body: &Bytes,
    ) -> Response {
        let Some(server) = self.aggregator.servers.first() else {
            return reply::empty(StatusCode::NOT_FOUND);
        };
        let (mode, tells, discovers) = {
            let heads = heads(parts, body);
            let (mode, tells) = request_mode::mode_of(&parts.headers, &heads);
            (mode, tells, heads.iter().any(|head| head.method() == "server/discover"))
        };
        // Of other requests of the stateless mode a stateful server may answer some, and no answer tells.
        if mode == ProtocolMode::Stateless && tells && !discovers {
            self.aggregator.probe_mode(server, mode, &parts.headers).await;
        }
        if server.speaks(mode) == Some(false) || self.aggregator.has_session(&parts.headers) {
            return self.aggregator.serve(caller, parts, body.clone()).await;
        }
        let response = single.serve(caller, parts, body.clone()).await;
        if discovers && server.speaks(mode).is_none() {
            let (response, shows) = request_mode::shown(response).await;
            if shows == Some(true) {
                server.set_mode(mode, true);
            } else if shows == Some(false)
                // The client may have asked badly: only a question of our own decides.
                && self.aggregator.probe_mode(server, mode, &parts.headers).await == Some(false)
            {
                return self.aggregator.serve(caller, parts, body.clone()).await;
            }
            return response;
        }
        if tells && server.speaks(mode).is_none() {
            if response.status().is_success() {
                server.set_mode(mode, true);
            } else if response.status().is_client_error()
                && self.aggregator.probe_mode(server, mode, &parts.headers).await == Some(false)
            {
                return self.aggregator.serve(caller, parts, body.clone()).await;
            }
        }
        response
    }
}

/// The messages of a request, as far as they are some.
fn heads<'a>(parts: &Parts, body: &'a Bytes) -> Vec<Head<'a>> {
    if parts.method == Method::POST {
        each(body).into_iter().filter_map(Head::read).collect()
    } else {
        Vec::new()
    }
}
