//! The connections of clients over HTTP+SSE (MCP 2024-11-05), by the id in their URL for messages.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::sync::CancellationToken;

use super::client_session::ClientSession;
use super::sessions::random_id;
use crate::admission::Admission;
use crate::config::Limits;
use crate::session_table::SessionTable;
use crate::tasks::AbortOnDrop;

/// The number of messages in the queue of the event stream. Further messages wait in the streams of
/// the session, which limit their size.
const MAX_QUEUED_MESSAGES: usize = 1;

/// A client's connection: its event stream, from the GET that opened it until it ends.
pub(super) struct SseConnection {
    pub(super) id: String,
    pub(super) principal: Arc<str>,
    /// The session that the client's `initialize` request opened. Unset before that request.
    session: OnceLock<Arc<ClientSession>>,
    messages: Sender<Bytes>,
    /// The tasks that relay messages to the stream.
    tasks: Mutex<Vec<AbortOnDrop>>,
    /// A token that is cancelled to end the connection.
    pub(super) ended: CancellationToken,
}

impl SseConnection {
    /// Returns the session of the client. `None` before its `initialize`.
    pub(super) fn session(&self) -> Option<&Arc<ClientSession>> {
        self.session.get()
    }

    /// Sets the session of the client, and the tasks that relay its messages. Returns false if the
    /// connection already has a session.
    pub(super) fn begin(&self, session: &Arc<ClientSession>, tasks: Vec<AbortOnDrop>) -> bool {
        let is_first = self.session.set(Arc::clone(session)).is_ok();
        if is_first {
            *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
        }
        is_first
    }

    /// Sends a message on the event stream, after the client has read the messages before it.
    /// Returns false if the connection has ended.
    pub(super) async fn send(&self, message: Bytes) -> bool {
        tokio::select! {
            () = self.ended.cancelled() => false,
            sent = self.messages.send(message) => sent.is_ok(),
        }
    }

    /// Ends the connection and its tasks.
    pub(super) fn end(&self) {
        self.ended.cancel();
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A connection that was just opened.
pub(super) struct OpenedSseConnection {
    pub(super) connection: Arc<SseConnection>,
    /// The messages for its event stream.
    pub(super) messages: Receiver<Bytes>,
    /// The connection that must end to make room for this one. `None` if there is room.
    pub(super) evicted: Option<Arc<SseConnection>>,
}

/// All connections over HTTP+SSE. Opening a connection beyond the maximum number ends an older one.
pub(super) struct SseConnections(Mutex<SessionTable<Arc<SseConnection>>>);

impl SseConnections {
    pub(super) fn new(limits: &Limits) -> Self {
        Self(Mutex::new(SessionTable::new(limits)))
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable<Arc<SseConnection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection of a caller. `None` if the operating system provides no random numbers
    /// for its id.
    pub(super) fn open(&self, admission: &Admission) -> Option<OpenedSseConnection> {
        let (messages, receiver) = channel(MAX_QUEUED_MESSAGES);
        let connection = Arc::new(SseConnection {
            id: random_id()?,
            principal: Arc::clone(&admission.principal),
            session: OnceLock::new(),
            messages,
            tasks: Mutex::default(),
            ended: CancellationToken::new(),
        });
        let (owner, id) = (&admission.owner, connection.id.clone());
        let evicted = self.lock().insert(owner, id, Arc::clone(&connection));
        Some(OpenedSseConnection { connection, messages: receiver, evicted })
    }

    /// Returns the connection with this id. `None` if there is none. Also `None` if it belongs to
    /// another principal, so that clients cannot probe for ids.
    pub(super) fn find(&self, principal: &Arc<str>, id: &str) -> Option<Arc<SseConnection>> {
        self.lock().get(id).filter(|connection| connection.principal == *principal).cloned()
    }

    /// Removes the connection with this id.
    pub(super) fn remove(&self, id: &str) {
        self.lock().remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use futures_util::FutureExt;

    fn table(sessions: usize, per_principal: usize) -> SseConnections {
        let sessions_per_principal = Some(per_principal);
        SseConnections::new(&Limits { sessions, sessions_per_principal, ..Limits::default() })
    }

    #[test]
    fn connections_belong_to_principals() {
        let connections = table(3, 2);
        let (ann, bob) = (Admission::of_principal("ann"), Admission::of_principal("bob"));
        let open = |admission: &Admission| connections.open(admission).unwrap();
        let first = open(&ann).connection;
        assert!(connections.find(&ann.principal, &first.id).is_some());
        assert!(connections.find(&bob.principal, &first.id).is_none());
        let second = open(&bob).connection;
        assert!(first.id != second.id && first.id.len() == 32);
        assert!(open(&bob).evicted.is_none());
        // Bob loses a connection of his own, not that of Ann.
        let evicted = open(&bob).evicted.unwrap();
        assert_eq!(evicted.id, second.id);
        assert!(connections.find(&ann.principal, &first.id).is_some());
        connections.remove(&first.id);
        assert!(connections.find(&ann.principal, &first.id).is_none());
    }

    #[test]
    fn messages_wait_for_the_client() {
        let mut opened = table(1, 1).open(&Admission::of_principal("ann")).unwrap();
        let connection = &opened.connection;
        let send = |text: &'static str| connection.send(Bytes::from(text)).now_or_never();
        assert_eq!((send("a"), send("b")), (Some(true), None));
        assert_eq!(opened.messages.try_recv().unwrap(), "a");
        assert_eq!(send("c"), Some(true));
        connection.end();
        assert_eq!(send("d"), Some(false));
    }
}
