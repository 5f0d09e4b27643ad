//! The gateway as a whole: it is built from its configuration and dispatches clients' requests to
//! upstreams.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::admission::{Admission, places};
use super::aggregator::{Aggregator, route_path};
use super::fair_queue::FairQueue;
use super::fleet::Fleet;
use super::front::batches;
use super::front::descriptors::affordable_limits;
use super::front::memory_monitor::MemoryMonitor;
use super::front::request_body::BodyMemory;
use super::front::request_mode::{heads, inspect_discovery, mode_of, refuse_invalid};
use super::front::sse_paths::{SseEndpoint, SsePaths};
use super::headers::{ForwardedCredentials, SESSION_ID, header};
use super::otlp::OtlpExport;
use super::protocol_mode::ProtocolMode;
use super::recorder;
use super::reply;
use super::rest::Rest;
use super::single_upstream::SingleUpstream;
use super::stream_limits::StreamLimits;
use super::upstream::availability::Availability;
use super::upstream::client::UpstreamClient;
use super::upstream::http_upstream::HttpUpstream;
use super::upstream::processes::Processes;
use super::upstream::server::UpstreamServer;
use super::upstream::statuses::may_be_legacy_sse;
use crate::access::{ANONYMOUS, Access, AdminAccess, http_client};
use crate::code::Sandbox;
use crate::config::{Config, OwnPaths, Upstream};
use crate::filter::Filter;
use crate::oauth::{TokenStore, UpstreamTokens};
use crate::revision::Sources;
use crate::telemetry::sampler::Sampler;
use crate::telemetry::{AlertChange, Recorder};
use crate::{Clock, Result};

/// An HTTP gateway between MCP clients and upstreams.
pub struct Gateway {
    pub(crate) config: Config,
    pub(crate) access: Arc<Access>,
    /// The queue for permits of concurrent requests.
    pub(crate) places: Arc<FairQueue>,
    /// The limits of streams that wait for changes, with the numbers of open ones.
    pub(crate) streams: Arc<StreamLimits>,
    /// The limits of memory for request bodies, with the bytes in use.
    pub(crate) body_memory: Arc<BodyMemory>,
    /// The monitor of the process's memory use.
    pub(crate) memory: Arc<MemoryMonitor>,
    /// The access rules of the admin endpoint. `None` if no admin endpoint is configured.
    pub(crate) admin_access: Option<Arc<AdminAccess>>,
    pub(crate) recorder: Arc<Recorder>,
    /// The export to an OpenTelemetry collector. `None` if none is configured.
    pub(crate) export: Option<OtlpExport>,
    /// The final changes of alerts that fired and were then removed from the configuration, which
    /// the webhook has not received yet.
    gone_alerts: Mutex<Vec<AlertChange>>,
    pub(crate) filter: Arc<Filter>,
    /// The files of policy, component and keys, which can be read again while the gateway runs.
    pub(crate) sources: OnceLock<Arc<Sources>>,
    /// The state of this replica as a member of a fleet. `None` if no fleet is configured.
    pub(crate) fleet: Option<Arc<Fleet>>,
    pub(crate) single_upstream: Option<SingleUpstream>,
    /// The paths of HTTP+SSE. `None` if one of them is the MCP endpoint.
    sse_paths: Option<SsePaths>,
    pub(super) aggregator: Arc<Aggregator>,
    pub(super) rest: Vec<Rest>,
    /// True if an upstream receives the client's credentials.
    forwards_credentials: bool,
    /// The processes of the upstreams, which end with the gateway.
    pub(super) processes: Arc<Processes>,
    /// Cancelled when the gateway begins to stop. It then accepts no more requests, and long-lived
    /// streams end.
    pub(super) closing: CancellationToken,
    /// Cancelled when the requests in flight have ended, or the time of the drain has passed.
    pub(super) stopped: CancellationToken,
}

impl Gateway {
    /// Builds a gateway from its configuration. The gateway listens only in [`Gateway::run`].
    /// Clients run programs in `sandbox`, if `code` of the configuration enables them.
    ///
    /// # Errors
    /// [`crate::Error::Setup`], [`crate::Error::Config`], [`crate::Error::Access`],
    /// [`crate::Error::OAuth`], [`crate::Error::Telemetry`], and [`crate::Error::Revision`] if the
    /// policy does not fit the configuration.
    pub fn new(
        config: Config,
        filter: Arc<Filter>,
        clock: Arc<dyn Clock>,
        sandbox: Option<Arc<Sandbox>>,
    ) -> Result<Arc<Self>> {
        let paths = OwnPaths::from(&config);
        filter.revisions().check_policies(move |policy| paths.issue(policy))?;
        let recorder = recorder::start(&config, &filter, clock)?;
        let export = OtlpExport::start(&config.telemetry.otlp, &recorder)?;
        let client = http_client();
        let address = config.listen.parse::<SocketAddr>();
        let is_loopback = address.is_ok_and(|one| one.ip().to_canonical().is_loopback());
        let access = Arc::new(Access::new(&config, is_loopback, client.clone())?);
        let closing = CancellationToken::new();
        // With several upstreams, a token for one of them must not reach the operators of the
        // others (MCP authorization, token passthrough).
        let by_default = !access.requires_authentication() && config.upstreams.len() == 1;
        let credentials = |upstream: &Upstream| {
            ForwardedCredentials::for_upstream(upstream, by_default, config.access.keys.is_some())
        };
        let receivers = config.upstreams.iter().map(credentials);
        let receivers = receivers.filter(|given| *given != ForwardedCredentials::None).count();
        if receivers > 1 {
            warn!(
                "{receivers} upstreams receive the client's credentials (authorization: forward): \
                 each of their operators can use them"
            );
        }
        let token_store = match config.upstreams.iter().any(|upstream| upstream.oauth.is_some()) {
            true => Some(Arc::new(TokenStore::open(&config)?)),
            false => None,
        };
        let connect = |upstream: &Upstream, url: &str| {
            let settings = upstream.oauth.as_ref().zip(token_store.as_ref());
            let tokens = settings.map(|(oauth, store)| {
                let (store, client) = (Arc::clone(store), client.clone());
                UpstreamTokens::new(&upstream.name, url, oauth, store, client)
            });
            // The shared client obtains the tokens: no authorization server of an upstream receives
            // its client certificate.
            let http = match &upstream.tls {
                Some(tls) => UpstreamClient::with_tls(&upstream.name, tls, &config.folder)?,
                None => UpstreamClient::Shared(Box::new(client.clone())),
            };
            let (max_bytes, recorder) = (config.limits.response_bytes, Arc::clone(&recorder));
            let credentials = credentials(upstream);
            HttpUpstream::new(upstream, url, credentials, tokens, max_bytes, http, recorder)
                .map(Arc::new)
        };
        let mcp: Vec<&Upstream> =
            config.upstreams.iter().filter(|upstream| upstream.rest.is_none()).collect();
        let is_prefixed = config.is_prefixed();
        let processes =
            Processes::new(config.limits.processes, config.limits.processes_per_principal);
        let (mut servers, mut single_upstream) = (Vec::new(), None);
        for upstream in &mcp {
            let http = upstream.url.as_ref().map(|url| connect(upstream, url)).transpose()?;
            // The aggregator serves clients before they have a token, and tells them to log in.
            let passes =
                mcp.len() == 1 && !is_prefixed && upstream.oauth.is_none() && !config.code.enabled;
            if let Some(http) = http.as_ref().filter(|_| passes) {
                single_upstream = Some(SingleUpstream::new(
                    Arc::clone(http),
                    Arc::clone(&filter),
                    Arc::clone(&recorder),
                    &config.limits,
                    closing.clone(),
                ));
            }
            servers.push(Arc::new(UpstreamServer::new(
                (*upstream).clone(),
                config.folder.clone(),
                http,
                config.limits.response_bytes,
                Arc::clone(&processes),
                Arc::clone(&recorder),
            )));
        }
        let mut rest = Vec::new();
        for upstream in &config.upstreams {
            if let Some(api) = &upstream.rest {
                let http = connect(upstream, &api.url)?;
                let (filter, recorder) = (Arc::clone(&filter), Arc::clone(&recorder));
                rest.push(Rest::new(http, api.clone(), filter, recorder));
            }
        }
        let fleet = Fleet::join(&config, &filter, &access);
        let aggregator = Arc::new(Aggregator::new(
            &config,
            servers,
            Arc::clone(&filter),
            Arc::clone(&recorder),
            sandbox,
            closing.clone(),
            fleet.as_ref().map(|fleet| fleet.tag().clone()).unwrap_or_default(),
        ));
        if let Some(store) = fleet.as_ref().map(|fleet| fleet.shared_store()) {
            aggregator.join_fleet(store.as_ref());
            single_upstream.iter().for_each(|single| single.join_fleet(store.as_ref()));
        }
        if !is_loopback && !access.requires_authentication() {
            warn!(
                "anybody who reaches {} can use this gateway: set access.keys, \
                 access.jwt or tls.clientCa",
                config.listen
            );
        }
        let sse_paths = SsePaths::beside(&config.path);
        let places = places(&config.limits, fleet.as_deref());
        let streams = StreamLimits::new(&affordable_limits(&config));
        let body_memory = BodyMemory::new(&config.limits);
        let memory = MemoryMonitor::new(&config.limits);
        let admin_access =
            config.admin.as_ref().map(|admin| Arc::new(AdminAccess::new(admin, &config.access)));
        Ok(Arc::new(Self {
            config,
            access,
            places,
            streams,
            body_memory,
            memory,
            admin_access,
            recorder,
            export,
            gone_alerts: Mutex::default(),
            filter,
            sources: OnceLock::new(),
            fleet,
            single_upstream,
            sse_paths,
            aggregator,
            rest,
            processes,
            forwards_credentials: receivers > 0,
            closing,
            stopped: CancellationToken::new(),
        }))
    }

    /// Sets the policy and component files that an operator can reload. A second call has no
    /// effect.
    #[must_use]
    pub fn with_sources(self: Arc<Self>, sources: Arc<Sources>) -> Arc<Self> {
        let _ = self.sources.set(sources);
        self
    }

    /// Sets the program `context-guard` that starts the upstreams with a sandbox. Without it, they
    /// do not start. A second call has no effect.
    #[must_use]
    pub fn with_sandbox_launcher(self: Arc<Self>, program: PathBuf) -> Arc<Self> {
        self.processes.set_launcher(program);
        self
    }

    /// Records in the history the estimates that the filter's sampler compared with exact counts.
    pub fn record_samples(&self, sampler: &Sampler) {
        let recorder = Arc::clone(&self.recorder);
        sampler.observe(move |counted| recorder.sampled(counted));
    }

    /// Returns true if the gateway accepts requests and at least one upstream may answer. A gateway
    /// without upstreams, such as the guard of another gateway, only has to accept requests.
    pub(crate) fn is_ready(&self) -> bool {
        let has_upstream = self.availability().any(Availability::may_answer);
        let can_answer = has_upstream || self.availability().next().is_none();
        can_answer && !self.closing.is_cancelled()
    }

    fn availability(&self) -> impl Iterator<Item = &Availability> {
        let servers = self.aggregator.servers().iter().map(|server| &server.circuit.availability);
        servers.chain(self.rest.iter().map(|rest| &rest.upstream().circuit.availability))
    }

    /// Returns the number of upstreams that are down.
    pub(crate) fn upstreams_down(&self) -> u64 {
        self.availability().filter(|upstream| upstream.is_down()).count() as u64
    }

    pub(crate) fn gone_alerts(&self) -> MutexGuard<'_, Vec<AlertChange>> {
        self.gone_alerts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name and state of each upstream, as JSON objects.
    pub(crate) fn upstreams(&self) -> Vec<serde_json::Value> {
        self.availability().map(Availability::report).collect()
    }

    /// Returns the state of the gateway as a JSON object: its upstreams, its store, its revision.
    pub(crate) fn state(&self) -> serde_json::Value {
        serde_json::json!({
            "ready": self.is_ready(),
            "stopping": self.closing.is_cancelled(),
            "upstreams": self.upstreams(),
            "store": if self.filter.store_is_up() { "up" } else { "down" },
            "revision": self.filter.revisions().active().number,
        })
    }

    /// Returns true if a URL is that of the MCP endpoint or belongs to HTTP+SSE, and an MCP
    /// upstream is configured.
    pub(crate) fn is_mcp(&self, url: &Uri) -> bool {
        let is_endpoint = url.path() == self.config.path || self.sse_endpoint(url).is_some();
        is_endpoint && !self.aggregator.servers().is_empty()
    }

    pub(crate) fn sse_endpoint(&self, url: &Uri) -> Option<SseEndpoint> {
        self.sse_paths.as_ref()?.find(url)
    }

    /// Returns the id of the session that a request names, or an empty string. Over HTTP+SSE, the
    /// id is in the URL.
    pub(crate) fn session_id(&self, parts: &Parts) -> Arc<str> {
        match self.sse_endpoint(&parts.uri) {
            Some(SseEndpoint::Messages(id)) => id.into(),
            Some(SseEndpoint::Stream(_)) => "".into(),
            None => header(&parts.headers, SESSION_ID).into(),
        }
    }

    /// Returns the number of messages for which a request is charged: those of a JSON-RPC batch,
    /// otherwise one.
    ///
    /// `fleet_version` is the protocol version of a session that another replica may hold. `None`
    /// without such a session.
    ///
    /// # Errors
    /// The reason why a batch is refused.
    pub(crate) fn count_messages(
        &self,
        principal: &Arc<str>,
        parts: &Parts,
        body: &[u8],
        fleet_version: Option<&str>,
    ) -> Result<usize, String> {
        let is_message = parts.method == Method::POST && self.is_mcp(&parts.uri);
        if !is_message || !batches::is_batch(body) {
            return Ok(1);
        }
        let translated = self.aggregator.session_version(principal, &parts.headers);
        let passed = || self.single_upstream.as_ref()?.session_version(principal, &parts.headers);
        let version = translated.or_else(passed);
        batches::count_messages(body, version.as_deref().or(fleet_version))
    }

    /// Returns the headers of a principal's request without those that no upstream may receive. The
    /// credentials of anonymous callers remain, because they tell the callers apart.
    pub(crate) fn forwardable(&self, principal: &Arc<str>, mut headers: HeaderMap) -> HeaderMap {
        // Credentials that no upstream receives must not separate the answers of one principal, for
        // example after it has refreshed its token.
        if principal.as_ref() != ANONYMOUS && !self.forwards_credentials {
            ForwardedCredentials::None.retain(&mut headers);
        }
        headers
    }

    /// Dispatches an admitted client's HTTP request: to a JSON API, the single upstream or the
    /// aggregator.
    pub(crate) async fn dispatch(
        &self,
        admission: &Admission,
        mut parts: Parts,
        body: Bytes,
    ) -> Response {
        parts.headers = self.forwardable(&admission.principal, parts.headers);
        let path = parts.uri.path();
        let revision = self.filter.revisions().active();
        if let Some(prefix) = revision.catalogue_prefix()
            && let Some(route) = route_path(prefix, path)
            && !self.aggregator.servers().is_empty()
        {
            return self.aggregator.serve_route(admission, &parts, prefix, route).await;
        }
        if !self.is_mcp(&parts.uri) {
            return self.dispatch_rest(admission, &parts, body).await;
        }
        if let Some(refused) = refuse_invalid(&parts, &body) {
            return refused;
        }
        if let Some(endpoint) = self.sse_endpoint(&parts.uri) {
            return self.aggregator.serve_sse(admission, &parts, body, endpoint).await;
        }
        match &self.single_upstream {
            Some(single) => self.pass_or_translate(single, admission, &parts, &body).await,
            None => self.aggregator.serve(admission, &parts, body).await,
        }
    }

    /// Passes a client's request to the single HTTP upstream. If the upstream does not speak the
    /// client's protocol mode, the aggregator translates it.
    async fn pass_or_translate(
        &self,
        single: &SingleUpstream,
        admission: &Admission,
        parts: &Parts,
        body: &Bytes,
    ) -> Response {
        let Some(server) = self.aggregator.servers().first() else {
            return reply::empty(StatusCode::NOT_FOUND);
        };
        let (mode, shows_mode, is_discovery) = {
            let heads = heads(parts, body);
            let (mode, shows_mode) = mode_of(&parts.headers, &heads);
            (mode, shows_mode, heads.iter().any(|head| head.method() == "server/discover"))
        };
        let probe = || self.aggregator.probe_mode(server, admission, mode, &parts.headers);
        let translate = || self.aggregator.serve(admission, parts, body.clone());
        // A stateful server may answer some stateless requests, so that their answers do not show
        // the mode. Only discovery does.
        if mode == ProtocolMode::Stateless && shows_mode && !is_discovery {
            probe().await;
        }
        if server.speaks(mode) == Some(false)
            || server.speaks_legacy_sse() == Some(true)
            || self.aggregator.has_session(&parts.headers)
        {
            return translate().await;
        }
        let response = single.serve(admission, parts, body.clone()).await;
        // The aggregator opens the connection again, over HTTP+SSE.
        if (shows_mode || is_discovery)
            && may_be_legacy_sse(response.status())
            && self.aggregator.detect_legacy_sse(server, admission, &parts.headers).await
        {
            return translate().await;
        }
        if server.speaks(mode).is_some() {
            return response;
        }
        // A refused request may be the fault of the client. Only a probe of the gateway's own
        // shows that the upstream does not speak the mode.
        if is_discovery {
            let (response, is_stateless) = inspect_discovery(response).await;
            match is_stateless {
                Some(true) => server.set_speaks(mode, true),
                Some(false) if probe().await == Some(false) => return translate().await,
                _ => {}
            }
            return response;
        }
        if shows_mode {
            if response.status().is_success() {
                server.set_speaks(mode, true);
                server.set_speaks_legacy_sse(Some(false));
            } else if response.status().is_client_error() && probe().await == Some(false) {
                return translate().await;
            }
        }
        response
    }
}
