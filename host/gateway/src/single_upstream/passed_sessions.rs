//! The sessions of clients with the single upstream, whose ids the upstream has issued.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::config::Limits;
use crate::memory_shares::MemoryShares;
use crate::session::{Session, detached_memory};
use crate::session_table::SessionTable;
use crate::telemetry::Recorder;

/// A session, with the time at which it was last in use.
struct PassedSession {
    session: Arc<Session>,
    used: Instant,
}

impl PassedSession {
    fn new(session: Arc<Session>) -> Self {
        Self { session, used: Instant::now() }
    }

    /// Returns true if the session was not in use for `max_idle`. A request or a stream holds its
    /// session.
    fn is_idle(&mut self, max_idle: Duration) -> bool {
        if Arc::strong_count(&self.session) > 1 {
            self.used = Instant::now();
            return false;
        }
        self.used.elapsed() >= max_idle
    }
}

/// The sessions by id. A session that was idle for too long ends: its client must open another.
pub(super) struct PassedSessions {
    sessions: Mutex<SessionTable<PassedSession>>,
    max_idle: Duration,
    /// The memory for requests whose answers may come on a later stream.
    detached: Arc<MemoryShares>,
    recorder: Arc<Recorder>,
}

impl PassedSessions {
    pub(super) fn new(limits: &Limits, recorder: Arc<Recorder>) -> Self {
        let sessions = Mutex::new(SessionTable::new(limits));
        let max_idle = Duration::from_secs(limits.session_idle_seconds);
        Self { sessions, max_idle, detached: detached_memory(), recorder }
    }

    fn sessions(&self) -> MutexGuard<'_, SessionTable<PassedSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the memory for requests of all sessions whose answers may come on a later stream.
    pub(super) fn detached_memory(&self) -> &Arc<MemoryShares> {
        &self.detached
    }

    /// Returns the session with this id, and marks it as used. `None` if there is none. Also `None`
    /// if the session belongs to another principal, so that clients cannot probe for ids.
    pub(super) fn find(&self, principal: &str, id: &str) -> Option<Arc<Session>> {
        let mut sessions = self.sessions();
        let found = sessions.get_mut(id).filter(|found| found.session.owner() == principal)?;
        found.used = Instant::now();
        Some(Arc::clone(&found.session))
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.sessions().contains(id)
    }

    /// Adds a session in the share of `owner`. Does nothing if there is one with this id.
    pub(super) fn add(&self, owner: &Arc<str>, id: &str, session: &Arc<Session>) {
        let mut sessions = self.sessions();
        if !sessions.contains(id) {
            sessions.insert(owner, id.to_owned(), PassedSession::new(Arc::clone(session)));
            self.recorder.metrics.sessions(sessions.len());
        }
    }

    /// Removes the session with this id.
    pub(super) fn remove(&self, id: &str) {
        self.sessions().remove(id);
    }

    /// Removes the sessions that were idle for too long.
    fn expire(&self) {
        let mut sessions = self.sessions();
        let idle = sessions
            .iter_mut()
            .filter_map(|(id, session)| session.is_idle(self.max_idle).then(|| id.clone()));
        let idle: Vec<String> = idle.collect();
        for id in &idle {
            sessions.remove(id);
        }
        if !idle.is_empty() {
            self.recorder.metrics.sessions(sessions.len());
        }
    }

    /// Removes idle sessions, with a pause of at most `max_pause` between two searches. Runs until
    /// its task is dropped.
    pub(super) async fn sweep(&self, max_pause: Duration) {
        loop {
            tokio::time::sleep(max_pause.min(self.max_idle)).await;
            self.expire();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::session::tests::session;
    use crate::store::clock::SystemClock;

    #[test]
    fn idle_sessions_end() {
        let recorder = Arc::new(Recorder::new(0, None, Arc::new(SystemClock)));
        let limits = Limits { session_idle_seconds: 0, ..Limits::default() };
        let sessions = PassedSessions::new(&limits, recorder);
        let owner: Arc<str> = "ann".into();
        sessions.add(&owner, "s", &Arc::new(session()));
        assert!(sessions.find("other", "s").is_none());
        let in_use = sessions.find("p", "s").unwrap();
        sessions.expire();
        assert!(sessions.contains("s"), "a stream uses the session");
        drop(in_use);
        sessions.expire();
        assert!(!sessions.contains("s"));
    }
}
