//! The aggregator: several upstreams behind one endpoint, for clients of both protocol modes.
//!
//! It reads only the method of a request and the parameters that route it. The upstream's response
//! is shaped by the guard and translated into the client's mode. Lists of tools, prompts and
//! resources are merged.

mod audience;
mod catalogue;
mod catalogue_calls;
mod catalogue_fallback;
mod catalogue_list;
mod catalogue_routes;
mod client;
mod client_list;
mod client_names;
mod client_presence;
mod client_session;
mod connection_slots;
mod connections;
mod definitions;
mod dispatch;
mod event_response;
pub(crate) mod event_streams;
mod fair_cache;
mod forward;
mod fresh_lists;
mod handshake;
mod http;
mod in_flight;
mod input_exchange;
mod input_requests;
mod instructions;
mod known_lists;
mod legacy_sse;
mod list_changes;
mod list_kinds;
mod lists;
mod param_headers;
mod portable_sessions;
mod programs;
mod resource_requests;
mod router;
mod session_subscriptions;
mod sessions;
mod sse_connections;
mod stateful_requests;
mod stateless;
mod stored_lists;
mod subscription_filter;
mod subscriptions;
#[cfg(test)]
mod test_kit;
mod translate;
mod upstream_list;
mod usage;
mod withheld;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use self::catalogue::Catalogues;
pub(crate) use self::catalogue_routes::route_path;
pub(crate) use self::client_session::QUESTION_ID_PREFIX;
use self::connections::Connections;
use self::definitions::Definitions;
use self::forward::Forwarder;
use self::input_requests::InputRequests;
pub(crate) use self::input_requests::{STATE_PREFIX, resumed_state};
use self::lists::Lists;
use self::param_headers::ParamHeaders;
use self::programs::Programs;
use self::router::Router;
use self::sessions::Sessions;
pub(crate) use self::sessions::random_id;
use self::sse_connections::SseConnections;
use self::stored_lists::ListFile;
use self::subscriptions::Subscriptions;
use super::upstream::server::UpstreamServer;
use crate::code::Sandbox;
use crate::config::Config;
use crate::filter::Filter;
use crate::fleet::OwnerTag;
use crate::telemetry::Recorder;

/// The maximum pause between two searches for idle sessions, connections and pending inputs.
pub(crate) const MAX_SWEEP_PAUSE: Duration = Duration::from_secs(20);

/// The maximum time for which the start and the end of the gateway wait until lists are stored.
const MAX_STORE_WAIT: Duration = Duration::from_secs(5);

/// The share of the allowed processes that the gateway starts for itself at one time, as a divisor.
/// The remaining processes are for clients.
const WARM_SHARE: usize = 4;

/// The part of the gateway that serves clients from several upstreams, as one MCP server.
pub(crate) struct Aggregator {
    sessions: Sessions,
    sse_connections: SseConnections,
    router: Arc<Router>,
    connections: Arc<Connections>,
    lists: Arc<Lists>,
    /// The file with the last lists. Unset if they are not stored.
    list_file: OnceLock<ListFile>,
    catalogues: Catalogues,
    definitions: Arc<Definitions>,
    programs: Programs,
    subscriptions: Subscriptions,
    forwarder: Arc<Forwarder>,
    filter: Arc<Filter>,
    recorder: Arc<Recorder>,
    max_idle: Duration,
    /// The maximum number of upstreams that are read at one time before a client asks.
    max_warming: usize,
    /// A token that is cancelled when the gateway stops, which ends long-lived streams.
    closing: CancellationToken,
    /// The tag of this replica, which begins the ids of connections over HTTP+SSE.
    tag: OwnerTag,
}

impl Aggregator {
    pub(crate) fn new(
        config: &Config,
        servers: Vec<Arc<UpstreamServer>>,
        filter: Arc<Filter>,
        recorder: Arc<Recorder>,
        sandbox: Option<Arc<Sandbox>>,
        closing: CancellationToken,
        tag: OwnerTag,
    ) -> Self {
        let max_sessions = NonZeroUsize::new(config.limits.sessions).unwrap_or(NonZeroUsize::MIN);
        let max_idle = Duration::from_secs(config.limits.session_idle_seconds);
        let max_warming = (config.limits.processes / WARM_SHARE).max(1);
        let router = Arc::new(Router::new(&servers, config.is_prefixed()));
        let names = servers.iter().map(|server| server.name.clone()).collect();
        let connections = Arc::new(Connections::new(servers, Arc::clone(&filter), &config.limits));
        let definitions = Arc::new(Definitions::new(&recorder));
        let programs = Programs::new(&config.code, sandbox);
        let is_transparent =
            connections.servers.len() == 1 && !router.is_prefixed() && !programs.is_enabled();
        let forwarder = Arc::new(Forwarder {
            connections: Arc::clone(&connections),
            router: Arc::clone(&router),
            filter: Arc::clone(&filter),
            recorder: Arc::clone(&recorder),
            input_requests: InputRequests::new(tag.clone()),
            param_headers: ParamHeaders::new(max_sessions),
            is_transparent,
        });
        Self {
            sse_connections: SseConnections::new(&config.limits),
            sessions: Sessions::new(&config.limits, max_idle, Arc::clone(&recorder), tag.clone()),
            lists: Arc::new(Lists::new(&forwarder, &definitions, config.list_page, max_sessions)),
            list_file: OnceLock::new(),
            definitions,
            programs,
            catalogues: Catalogues::new(&recorder, names),
            subscriptions: Subscriptions::new(&connections, &router, &filter),
            router,
            connections,
            forwarder,
            filter,
            recorder,
            max_idle,
            max_warming,
            closing,
            tag,
        }
    }

    /// Returns the upstreams, in the order of the configuration.
    pub(crate) fn servers(&self) -> &[Arc<UpstreamServer>] {
        &self.connections.servers
    }

    /// Reads the lists of all upstreams that need no credentials of a client, so that they are
    /// known before the first request. Does nothing for a single upstream whose lists pass
    /// unchanged.
    pub(crate) async fn warm(self: Arc<Self>) {
        if self.forwarder.is_transparent {
            return;
        }
        let servers = self.connections.servers.iter().enumerate();
        let open = servers.filter(|(_, upstream)| !upstream.needs_credentials());
        let turns = &Semaphore::new(self.max_warming);
        let warming = open.map(async |(server, _)| {
            // The semaphore is never closed.
            let _turn = turns.acquire().await;
            self.lists.warm(server).await;
        });
        join_all(warming).await;
        self.store_lists().await;
    }

    /// Reads the lists in `file`, which an earlier run stored, and stores the last lists there from
    /// now on. Does nothing for a single upstream whose lists pass unchanged. A second call has no
    /// effect.
    pub(crate) fn restore_lists(&self, file: PathBuf) {
        if !self.forwarder.is_transparent {
            let file = self.list_file.get_or_init(|| ListFile::new(file, self.guard_identity()));
            file.read(self.servers(), &self.connections.known);
        }
    }

    /// Stores the last lists, if they have changed. Waits for at most [`MAX_STORE_WAIT`]: the state
    /// folder may be on a disk that does not answer.
    pub(crate) async fn store_lists(self: &Arc<Self>) {
        let Some(file) = self.list_file.get() else { return };
        let storing = async {
            let reserved = file.reserve().await;
            // A task that fails has logged the reason.
            let _ = self.spawn_writing(reserved).await;
        };
        if tokio::time::timeout(MAX_STORE_WAIT, storing).await.is_err() {
            warn!("the state folder does not answer: the last lists of upstreams are not stored");
        }
    }

    /// Stores the last lists in the background, if they have changed and no other task stores them.
    fn start_storing_lists(self: &Arc<Self>) {
        if let Some(reserved) = self.list_file.get().and_then(ListFile::try_reserve) {
            drop(self.spawn_writing(reserved));
        }
    }

    fn spawn_writing(self: &Arc<Self>, reserved: OwnedMutexGuard<()>) -> JoinHandle<()> {
        let aggregator = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            if let Some(file) = aggregator.list_file.get() {
                let known = &aggregator.connections.known;
                file.write(reserved, &aggregator.guard_identity(), aggregator.servers(), known);
            }
        })
    }

    /// Returns the digests of the active component and policy, on which stored lists depend.
    fn guard_identity(&self) -> String {
        let active = self.filter.revisions().active();
        format!("{} {}", active.origin.component, active.origin.policy)
    }

    /// Ends the session with this id, cancels its requests and closes its connections.
    fn end_session(&self, id: &str) {
        self.sessions.end(id);
        self.connections.end_session(id);
    }

    /// Ends idle sessions and connections and expired pending inputs, and updates the scores of
    /// tools, periodically. Runs until its task is dropped.
    pub(crate) async fn sweep(self: Arc<Self>) {
        loop {
            let until_update = self.catalogues.until_update();
            tokio::time::sleep(MAX_SWEEP_PAUSE.min(self.max_idle).min(until_update)).await;
            if self.catalogues.until_update().is_zero() {
                let aggregator = Arc::clone(&self);
                let _ = tokio::task::spawn_blocking(move || aggregator.recompute_scores()).await;
            }
            for id in self.sessions.idle() {
                self.end_session(&id);
            }
            self.sessions.trim_events();
            self.start_storing_lists();
            if self.has_waiting_clients() {
                tokio::spawn(Arc::clone(&self).retry_lists());
            }
            self.connections.end_idle(self.max_idle, |id| self.sessions.contains(id));
            self.forwarder.input_requests.expire(self.max_idle);
        }
    }
}
