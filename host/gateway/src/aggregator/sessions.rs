//! The sessions of stateful clients.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lru::LruCache;

use super::client_session::ClientSession;
use crate::protocol_mode::ClientInfo;
use crate::telemetry::Recorder;

/// The number of random bytes in a session id. The id is a credential, so it must be unguessable.
const ID_BYTES: usize = 24;

/// All sessions of stateful clients. Opening one beyond the maximum number ends the least recently
/// used one.
pub(super) struct Sessions {
    sessions: Mutex<LruCache<String, Arc<ClientSession>>>,
    max_idle: Duration,
    recorder: Arc<Recorder>,
}

impl Sessions {
    pub(super) fn new(
        max_sessions: NonZeroUsize,
        max_idle: Duration,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self { sessions: Mutex::new(LruCache::new(max_sessions)), max_idle, recorder }
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, Arc<ClientSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session. Returns the session, and the id of the one that it evicted, if any. `None`
    /// if the system has no random numbers.
    pub(super) fn open(
        &self,
        principal: &Arc<str>,
        info: ClientInfo,
    ) -> Option<(Arc<ClientSession>, Option<String>)> {
        let mut random = [0u8; ID_BYTES];
        getrandom::fill(&mut random).ok()?;
        let id = URL_SAFE_NO_PAD.encode(random);
        let session = Arc::new(ClientSession::new(id.clone(), Arc::clone(principal), info));
        let mut sessions = self.lock();
        let evicted = sessions.push(id, Arc::clone(&session)).map(|(id, evicted)| {
            evicted.ended.cancel();
            id
        });
        self.recorder.metrics.sessions(sessions.len());
        Some((session, evicted))
    }

    /// Returns the session with this id. Returns `None` if it belongs to another principal, so that
    /// ids cannot be probed.
    pub(super) fn find(&self, principal: &Arc<str>, id: &str) -> Option<Arc<ClientSession>> {
        self.lock().get(id).filter(|session| session.principal == *principal).cloned()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.lock().contains(id)
    }

    /// Removes the session with this id and cancels its requests.
    pub(super) fn end(&self, id: &str) {
        let mut sessions = self.lock();
        if let Some(session) = sessions.pop(id) {
            session.ended.cancel();
        }
        self.recorder.metrics.sessions(sessions.len());
    }

    /// Returns the ids of the sessions that exceed the maximum idle time.
    pub(super) fn idle(&self) -> Vec<String> {
        let sessions = self.lock();
        let idle = sessions.iter().filter(|(_, session)| session.idle() > self.max_idle);
        idle.map(|(id, _)| id.clone()).collect()
    }
}
