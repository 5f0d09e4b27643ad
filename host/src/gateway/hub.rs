//! Many upstreams of any kind behind one endpoint, for clients of both eras.
//!
//! A request is read as far as its method and what routes it. Its answer is the upstream's, shaped by the guard and said in the client's era; lists are merged.

mod answer;
mod exchange;
mod greeting;
mod http;
mod links;
mod lists;
mod rounds;
mod routes;
mod session;
mod stateless;
mod streams;
mod translate;
mod watch;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::http::header::HeaderMap;
use lru::LruCache;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::links::Links;
use self::rounds::Parked;
use self::routes::Routes;
use self::session::ClientSession;
use super::upstream::link::{ClientHello, Era};
use super::upstream::server::Server;
use crate::config::Config;
use crate::filter::Filter;
use crate::telemetry::Recorder;

/// How often what is idle is looked for.
const SWEEP: Duration = Duration::from_secs(20);

/// The upstreams, and who uses them.
pub(crate) struct Hub {
    pub(crate) servers: Vec<Arc<Server>>,
    routes: Routes,
    list_page: usize,
    filter: Arc<Filter>,
    recorder: Arc<Recorder>,
    sessions: Mutex<LruCache<String, Arc<ClientSession>>>,
    links: Links,
    /// Since when the guard knows the tools of an upstream, as a principal sees them.
    learnt: Mutex<LruCache<(Arc<str>, usize), Instant>>,
    parked: Mutex<LruCache<String, Parked>>,
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
    pub(crate) era: Era,
    pub(crate) hello: ClientHello,
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

impl Hub {
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
            routes: Routes::new(&servers, prefixed),
            servers,
            list_page: config.list_page,
            filter,
            recorder,
            sessions: Mutex::new(LruCache::new(most)),
            links: Links::default(),
            learnt: Mutex::new(LruCache::new(most)),
            parked: Mutex::new(LruCache::new(
                NonZeroUsize::new(1_024).unwrap_or(NonZeroUsize::MIN),
            )),
            idle: Duration::from_secs(config.limits.session_idle_seconds),
            closing,
        }
    }

    /// Whether there is one upstream under its own names: then all that it says passes as it came.
    fn is_plain(&self) -> bool {
        self.servers.len() == 1 && !self.routes.prefixed
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, LruCache<String, Arc<ClientSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learnt(&self) -> std::sync::MutexGuard<'_, LruCache<(Arc<str>, usize), Instant>> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parked(&self) -> std::sync::MutexGuard<'_, LruCache<String, Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a session: its connections close, its requests are cancelled.
    fn end(&self, id: &str) {
        let session = self.sessions().pop(id);
        self.recorder.metrics.sessions(self.sessions().len());
        if let Some(session) = &session {
            session.ended.cancel();
        }
        self.links.end_session(id);
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
            self.links.end_idle(self.idle, |id| self.sessions().contains(id));
            self.forget_parked(self.idle);
        }
    }
}
