//! Many upstreams of any kind behind one endpoint, for clients of both modes.
//!
//! A request is read as far as its method and what routes it. Its answer is the upstream's, shaped by the guard and said in the client's mode; lists are merged.

mod client_session;
mod connections;
mod dispatch;
mod event_streams;
mod forward;
mod handshake;
mod http;
mod input_requests;
mod lists;
mod router;
mod stateless;
mod subscriptions;
mod translate;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::http::header::HeaderMap;
use lru::LruCache;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::client_session::ClientSession;
use self::connections::Connections;
use self::input_requests::PendingInput;
use self::router::Router;
use super::upstream::connection::{ClientInfo, ProtocolMode};
use super::upstream::server::Server;
use crate::config::Config;
use crate::filter::Filter;
use crate::telemetry::Recorder;

/// How often what is idle is looked for.
const SWEEP: Duration = Duration::from_secs(20);

/// The upstreams, and who uses them.
pub(crate) struct Aggregator {
    pub(crate) servers: Vec<Arc<Server>>,
    router: Router,
    list_page: usize,
    filter: Arc<Filter>,
    recorder: Arc<Recorder>,
    sessions: Mutex<LruCache<String, Arc<ClientSession>>>,
    connections: Connections,
    /// Since when the guard knows the tools of an upstream, as a principal sees them.
    tool_lists: Mutex<LruCache<(Arc<str>, usize), Instant>>,
    pending_inputs: Mutex<LruCache<String, PendingInput>>,
    idle: Duration,
    /// Streams that only wait end with it.
    closing: CancellationToken,
}

/// Who asks, and how.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) principal: Arc<str>,
    /// Whose answers are kept for it.
    pub(crate) scope: Arc<str>,
    pub(crate) mode: ProtocolMode,
    pub(crate) info: ClientInfo,
    /// Stateful clients have one.
    pub(crate) session: Option<Arc<ClientSession>>,
    /// Headers that go along to HTTP upstreams.
    pub(crate) headers: HeaderMap,
}

/// A request on its way: who asks, and where what belongs to it goes meanwhile.
pub(crate) struct Ask<'a> {
    pub(crate) client: &'a Client,
    pub(crate) out: &'a mpsc::UnboundedSender<Vec<u8>>,
}

impl Aggregator {
    pub(crate) fn new(
        config: &Config,
        servers: Vec<Arc<Server>>,
        prefixed: bool,
        filter: Arc<Filter>,
        recorder: Arc<Recorder>,
        closing: CancellationToken,
    ) -> Self {
        let most = NonZeroUsize::new(config.limits.sessions).unwrap_or(NonZeroUsize::MIN);
        Self {
            router: Router::new(&servers, prefixed),
            servers,
            list_page: config.list_page,
            filter,
            recorder,
            sessions: Mutex::new(LruCache::new(most)),
            connections: Connections::default(),
            tool_lists: Mutex::new(LruCache::new(most)),
            pending_inputs: Mutex::new(LruCache::new(
                NonZeroUsize::new(1_024).unwrap_or(NonZeroUsize::MIN),
            )),
            idle: Duration::from_secs(config.limits.session_idle_seconds),
            closing,
        }
    }

    /// Whether there is one upstream under its own names: then all that it says passes as it came.
    fn is_plain(&self) -> bool {
        self.servers.len() == 1 && !self.router.prefixed
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, LruCache<String, Arc<ClientSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tool_lists(&self) -> std::sync::MutexGuard<'_, LruCache<(Arc<str>, usize), Instant>> {
        self.tool_lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending_inputs(&self) -> std::sync::MutexGuard<'_, LruCache<String, PendingInput>> {
        self.pending_inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a session: its connections close, its requests are cancelled.
    fn end(&self, id: &str) {
        let session = self.sessions().pop(id);
        self.recorder.metrics.sessions(self.sessions().len());
        if let Some(session) = &session {
            session.ended.cancel();
        }
        self.connections.end_session(id);
    }

    /// Ends what is idle, again and again.
    pub(crate) async fn sweep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(SWEEP.min(self.idle)).await;
            let idle: Vec<String> = self
                .sessions()
                .iter()
                .filter(|(_, session)| session.idle() > self.idle)
                .map(|(id, _)| id.clone())
                .collect();
            for id in idle {
                self.end(&id);
            }
            self.connections.end_idle(self.idle, |id| self.sessions().contains(id));
            self.expire_pending_inputs(self.idle);
        }
    }
}
