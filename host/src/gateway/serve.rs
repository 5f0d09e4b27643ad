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

use super::front::gate::Gate;
use super::front::{Caller, listen, modern, router};
use super::hub::Hub;
use super::proxy::Proxy;
use super::rest::Rest;
use super::upstream::http::{HttpUpstream, client};
use super::upstream::link::Era;
use super::upstream::server::Server;
use super::wire::reply;
use crate::access::Access;
use crate::config::{Config, Naming, Upstream};
use crate::filter::Filter;
use crate::generation::Sources;
use crate::message::{Head, each};
use crate::telemetry::{Audit, Recorder};
use crate::{Clock, Error, Result};

/// A gateway.
pub struct Gateway {
    pub(crate) config: Config,
    pub(crate) access: Access,
    pub(crate) gate: Gate,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) filter: Arc<Filter>,
    /// What is read again when an operator asks for it.
    pub(crate) sources: OnceLock<Arc<Sources>>,
    proxy: Option<Proxy>,
    hub: Arc<Hub>,
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
                Some(Audit::open(&config.folder.join(&audit.folder), audit.retention_days)?)
            }
            None => None,
        };
        let recorder = Arc::new(Recorder::new(config.telemetry.ring, audit, clock));
        let observer = Arc::clone(&recorder);
        filter.generations().observe(move |change| observer.changed(change));
        let client = client();
        let loopback =
            config.listen.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_loopback());
        let access = Access::new(&config.access, &config.folder, loopback, client.clone())?;
        let closing = CancellationToken::new();
        let reach = |upstream: &Upstream, url: &str| {
            let (longest, recorder) = (config.limits.response_bytes, Arc::clone(&recorder));
            HttpUpstream::new(upstream, url, access.asks(), longest, client.clone(), recorder)
                .map(Arc::new)
        };
        let mut servers = Vec::new();
        let mut proxy = None;
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
                proxy = Some(Proxy::new(Arc::clone(http), filter, recorder, most, closing));
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
        let hub = Hub::new(
            &config,
            servers,
            prefixed,
            Arc::clone(&filter),
            Arc::clone(&recorder),
            closing.clone(),
        );
        if !loopback && !access.asks() {
            warn!(
                "The gateway listens on {} and asks nobody who they are: set access.keys or access.jwt.",
                config.listen
            );
        }
        let gate = Gate::new(config.limits.concurrency, config.limits.queue);
        Ok(Arc::new(Self {
            config,
            access,
            gate,
            recorder,
            filter,
            sources: OnceLock::new(),
            proxy,
            hub: Arc::new(hub),
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
        let tls = tls.map(|tls| listen::acceptor(tls, &self.config.folder)).transpose()?;
        let listener = listen::bind(&self.config.listen).await?;
        let address = listener.local_addr()?;
        let drain = Duration::from_secs(self.config.limits.drain_seconds);
        let mut admin_address = None;
        let admin = match &self.config.admin {
            Some(admin) => {
                let listener = listen::bind(&admin.listen).await?;
                admin_address = Some(listener.local_addr()?);
                let router = crate::admin::router(Arc::clone(self));
                let stopped = self.stopped.clone().cancelled_owned();
                Some(tokio::spawn(listen::serve(
                    listener,
                    None,
                    router,
                    stopped,
                    Duration::from_secs(1),
                )))
            }
            None => None,
        };
        let sweeping = tokio::spawn(Arc::clone(&self.hub).sweep());
        ready(address, admin_address);
        let draining = async {
            stop.await;
            info!("Stopping: requests in flight get {} s to end.", drain.as_secs());
            self.closing.cancel();
        };
        listen::serve(listener, tls, router(Arc::clone(self)), draining, drain).await;
        self.stopped.cancel();
        sweeping.abort();
        if let Some(admin) = admin {
            admin.await.map_err(|error| Error::Setup(error.to_string()))?;
        }
        Ok(())
    }

    /// Whether it takes requests and an upstream can answer some.
    pub(crate) fn is_ready(&self) -> bool {
        let some = self.hub.servers.iter().any(|server| !server.is_left_alone())
            || self.rest.iter().any(|rest| !rest.upstream().breaker.is_open());
        !self.closing.is_cancelled() && some
    }

    /// How the upstreams are.
    pub(crate) fn upstreams(&self) -> Vec<serde_json::Value> {
        let of = |server: &Arc<Server>| serde_json::json!({"name": server.name, "up": !server.is_left_alone()});
        let apis = self.rest.iter().map(|rest| {
            let upstream = rest.upstream();
            serde_json::json!({"name": upstream.name, "up": !upstream.breaker.is_open()})
        });
        self.hub.servers.iter().map(of).chain(apis).collect()
    }

    /// Whether a path is that of the MCP endpoint.
    pub(crate) fn is_mcp(&self, path: &str) -> bool {
        path == self.config.path && !self.hub.servers.is_empty()
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
            if let Some(reason) = modern::mismatch(&parts.headers, &head) {
                let reason = format!("Header mismatch: {reason}.");
                return reply::refuse(
                    StatusCode::BAD_REQUEST,
                    head.raw_id(),
                    reply::HEADER_MISMATCH,
                    &reason,
                );
            }
        }
        let Some(proxy) = &self.proxy else {
            return self.hub.serve(caller, &parts, body).await;
        };
        self.passed(proxy, caller, &parts, &body).await
    }

    /// Passes a request to the one HTTP upstream; to the hub, which translates, where the upstream does not speak the client's era.
    async fn passed(
        &self,
        proxy: &Proxy,
        caller: &Caller,
        parts: &Parts,
        body: &Bytes,
    ) -> Response {
        let Some(server) = self.hub.servers.first() else {
            return reply::empty(StatusCode::NOT_FOUND);
        };
        let (era, tells, discovers) = {
            let heads = heads(parts, body);
            let (era, tells) = modern::era(&parts.headers, &heads);
            (era, tells, heads.iter().any(|head| head.method() == "server/discover"))
        };
        // Of other requests of the stateless era a stateful server may answer some, and no answer tells.
        if era == Era::Modern && tells && !discovers {
            self.hub.ask_era(server, era, &parts.headers).await;
        }
        if server.speaks(era) == Some(false) || self.hub.has_session(&parts.headers) {
            return self.hub.serve(caller, parts, body.clone()).await;
        }
        let response = proxy.serve(caller, parts, body.clone()).await;
        if discovers && server.speaks(era).is_none() {
            let (response, shows) = modern::shown(response).await;
            if shows == Some(true) {
                server.learnt(era, true);
            } else if shows == Some(false)
                // The client may have asked badly: only a question of our own decides.
                && self.hub.ask_era(server, era, &parts.headers).await == Some(false)
            {
                return self.hub.serve(caller, parts, body.clone()).await;
            }
            return response;
        }
        if tells && server.speaks(era).is_none() {
            if response.status().is_success() {
                server.learnt(era, true);
            } else if response.status().is_client_error()
                && self.hub.ask_era(server, era, &parts.headers).await == Some(false)
            {
                return self.hub.serve(caller, parts, body.clone()).await;
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
