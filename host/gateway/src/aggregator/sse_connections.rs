//! The connections of clients over HTTP+SSE (MCP 2024-11-05), by the id in their URL for messages.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use lru::LruCache;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::client_session::ClientSession;
use super::sessions::random_id;
use crate::tasks::AbortOnDrop;

/// The size of the messages that wait for a slow client, in bytes, beyond which its connection
/// ends.
const MAX_QUEUED_BYTES: usize = 32 << 20;

/// A client's connection: its event stream, from the GET that opened it until it ends.
pub(super) struct SseConnection {
    pub(super) id: String,
    pub(super) principal: Arc<str>,
    /// The session that the client's `initialize` opened.
    session: OnceLock<Arc<ClientSession>>,
    messages: UnboundedSender<Bytes>,
    queued_bytes: AtomicUsize,
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

    /// Sets the session of the client, and the tasks that relay its messages. Returns false if it
    /// has one already.
    pub(super) fn begin(&self, session: &Arc<ClientSession>, tasks: Vec<AbortOnDrop>) -> bool {
        let is_first = self.session.set(Arc::clone(session)).is_ok();
        if is_first {
            *self.tasks.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
        }
        is_first
    }

    /// Adds a message to the event stream. Ends the connection if the client reads too slowly.
    pub(super) fn send(&self, message: Bytes) {
        if self.queued_bytes.load(Ordering::Acquire) > MAX_QUEUED_BYTES {
            if !self.ended.is_cancelled() {
                warn!("a client does not read its event stream: its connection is closed");
            }
            self.ended.cancel();
            return;
        }
        self.queued_bytes.fetch_add(message.len(), Ordering::AcqRel);
        // Without a receiver, the client has left.
        let _ = self.messages.send(message);
    }

    /// Ends the connection and its tasks.
    pub(super) fn end(&self) {
        self.ended.cancel();
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Notes that a message was written to the client.
    pub(super) fn written(&self, message: &[u8]) {
        self.queued_bytes.fetch_sub(message.len(), Ordering::AcqRel);
    }
}

/// All connections over HTTP+SSE. Opening one beyond the maximum number ends the least recently
/// used one.
pub(super) struct SseConnections(Mutex<LruCache<String, Arc<SseConnection>>>);

impl SseConnections {
    pub(super) fn new(max: NonZeroUsize) -> Self {
        Self(Mutex::new(LruCache::new(max)))
    }

    fn lock(&self) -> MutexGuard<'_, LruCache<String, Arc<SseConnection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a connection of a principal. Returns it with the messages for its event stream. `None`
    /// if the system has no random numbers for its id.
    pub(super) fn open(
        &self,
        principal: &Arc<str>,
    ) -> Option<(Arc<SseConnection>, UnboundedReceiver<Bytes>)> {
        let (messages, receiver) = unbounded_channel();
        let connection = Arc::new(SseConnection {
            id: random_id()?,
            principal: Arc::clone(principal),
            session: OnceLock::new(),
            messages,
            queued_bytes: AtomicUsize::new(0),
            tasks: Mutex::default(),
            ended: CancellationToken::new(),
        });
        let evicted = self.lock().push(connection.id.clone(), Arc::clone(&connection));
        if let Some((_, evicted)) = evicted {
            evicted.ended.cancel();
        }
        Some((connection, receiver))
    }

    /// Returns the connection with this id. `None` if it belongs to another principal, so that ids
    /// cannot be probed.
    pub(super) fn find(&self, principal: &Arc<str>, id: &str) -> Option<Arc<SseConnection>> {
        self.lock().get(id).filter(|connection| connection.principal == *principal).cloned()
    }

    /// Removes the connection with this id.
    pub(super) fn remove(&self, id: &str) {
        self.lock().pop(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_belong_to_principals() {
        let connections = SseConnections::new(NonZeroUsize::new(2).unwrap());
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let (first, _messages) = connections.open(&ann).unwrap();
        assert!(connections.find(&ann, &first.id).is_some());
        assert!(connections.find(&bob, &first.id).is_none());
        let (second, _others) = connections.open(&bob).unwrap();
        assert!(first.id != second.id && first.id.len() == 32);
        let (_third, _more) = connections.open(&bob).unwrap();
        assert!(first.ended.is_cancelled() && connections.find(&ann, &first.id).is_none());
        second.end();
        connections.remove(&second.id);
        assert!(second.ended.is_cancelled() && connections.find(&bob, &second.id).is_none());
    }

    #[test]
    fn client_that_does_not_read_is_disconnected() {
        let connections = SseConnections::new(NonZeroUsize::MIN);
        let (connection, mut messages) = connections.open(&"ann".into()).unwrap();
        for _ in 0..40 {
            connection.send(vec![b'x'; 1 << 20].into());
        }
        assert!(connection.ended.is_cancelled());
        let mut received = 0;
        while let Ok(message) = messages.try_recv() {
            connection.written(&message);
            received += message.len();
        }
        assert!(received <= MAX_QUEUED_BYTES + (1 << 20));
        assert_eq!(connection.queued_bytes.load(Ordering::Acquire), 0);
    }
}
