//! The sessions of stateful clients.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::client_session::ClientSession;
use super::event_streams::EventMemory;
use crate::admission::Admission;
use crate::config::Limits;
use crate::fleet::OwnerTag;
use crate::protocol_mode::ClientInfo;
use crate::session_table::SessionTable;
use crate::telemetry::Recorder;

/// The number of random bytes in a session id. The id is a credential, so it must be unguessable.
const ID_BYTES: usize = 24;

/// Returns a new session id. `None` if the operating system provides no random numbers.
pub(crate) fn random_id() -> Option<String> {
    let mut random = [0u8; ID_BYTES];
    getrandom::fill(&mut random).ok()?;
    Some(URL_SAFE_NO_PAD.encode(random))
}

/// All sessions of stateful clients. Opening a session beyond the maximum number ends an older one.
pub(super) struct Sessions {
    sessions: Mutex<SessionTable<Arc<ClientSession>>>,
    events: EventMemory,
    max_idle: Duration,
    recorder: Arc<Recorder>,
    /// The tag of this replica, for the ids of server-to-client requests.
    tag: OwnerTag,
}

impl Sessions {
    pub(super) fn new(
        limits: &Limits,
        max_idle: Duration,
        recorder: Arc<Recorder>,
        tag: OwnerTag,
    ) -> Self {
        let (sessions, events) = (Mutex::new(SessionTable::new(limits)), EventMemory::default());
        Self { sessions, events, max_idle, recorder, tag }
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable<Arc<ClientSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session. Returns the session, and the id of the session that it evicted, if any.
    /// `None` if the operating system provides no random numbers.
    pub(super) fn open(
        &self,
        admission: &Admission,
        info: ClientInfo,
    ) -> Option<(Arc<ClientSession>, Option<String>)> {
        let id = random_id()?;
        let mut sessions = self.lock();
        Some(self.insert(&mut sessions, &admission.principal, &admission.owner, id, info))
    }

    /// Opens the session of a client that another replica began. Does nothing if it is already open
    /// here. Returns the id of the session that it evicted, if any.
    pub(super) fn restore(
        &self,
        principal: &Arc<str>,
        owner: &Arc<str>,
        id: &str,
        info: ClientInfo,
    ) -> Option<String> {
        let mut sessions = self.lock();
        if sessions.contains(id) {
            return None;
        }
        self.insert(&mut sessions, principal, owner, id.to_owned(), info).1
    }

    fn insert(
        &self,
        sessions: &mut SessionTable<Arc<ClientSession>>,
        principal: &Arc<str>,
        owner: &Arc<str>,
        id: String,
        info: ClientInfo,
    ) -> (Arc<ClientSession>, Option<String>) {
        let (streams, principal) = (self.events.streams(owner), Arc::clone(principal));
        let session = ClientSession::new(id.clone(), principal, info, streams, &self.tag);
        let session = Arc::new(session);
        let evicted = sessions.insert(owner, id, Arc::clone(&session));
        let evicted = evicted.map(|evicted| {
            evicted.ended.cancel();
            evicted.id.clone()
        });
        self.recorder.metrics.sessions(sessions.len());
        (session, evicted)
    }

    /// Returns the session with this id. `None` if there is none. Also `None` if the session
    /// belongs to another principal, so that clients cannot probe for ids.
    pub(super) fn find(&self, principal: &Arc<str>, id: &str) -> Option<Arc<ClientSession>> {
        self.lock().get(id).filter(|session| session.principal == *principal).cloned()
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.lock().contains(id)
    }

    /// Removes the session with this id and cancels its requests.
    pub(super) fn end(&self, id: &str) {
        let mut sessions = self.lock();
        if let Some(session) = sessions.remove(id) {
            session.ended.cancel();
        }
        self.recorder.metrics.sessions(sessions.len());
    }

    /// Removes the retained events of sessions that exceed their part of a shared limit.
    pub(super) fn trim_events(&self) {
        let all: Vec<_> = self.lock().iter().map(|(_, session)| Arc::clone(session)).collect();
        all.iter().for_each(|session| session.streams().trim());
    }

    /// Returns the ids of the sessions that have been idle for longer than the maximum.
    pub(super) fn idle(&self) -> Vec<String> {
        let sessions = self.lock();
        let idle = sessions.iter().filter(|(_, session)| session.idle() > self.max_idle);
        idle.map(|(id, _)| id.clone()).collect()
    }
}
