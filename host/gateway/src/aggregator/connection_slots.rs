//! The slots of connections to upstreams, by upstream and by the clients that share a connection.
//!
//! A client chooses the capabilities and credentials that tell slots apart. The slots that belong
//! to no session therefore have shares like sessions.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::config::Limits;
use crate::lock::lock;
use crate::protocol_mode::ProtocolMode;
use crate::session_table::SessionTable;
use crate::upstream::connection::UpstreamConnection;

/// The number of slots at each upstream that an owner may always have.
const MIN_SLOTS_PER_UPSTREAM: usize = 4;

/// The clients that may share a connection to an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ConnectionOwner {
    Session(String),
    /// All clients of a principal with equal protocol version and capabilities. Contains the
    /// principal and the hash of both, or 0 for stateless clients, whose requests repeat them.
    ///
    /// An upstream may answer clients with other capabilities differently. The name of the client
    /// software is not part of the hash.
    Principal(Arc<str>, u64),
    Everybody,
}

/// The upstream of a connection, and the clients that share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ConnectionKey {
    pub(super) server: usize,
    pub(super) owner: ConnectionOwner,
    pub(super) mode: ProtocolMode,
    /// The digest of the client's credentials that the upstream receives, so that no other client
    /// uses them. `None` if the upstream receives none.
    pub(super) credentials: Option<[u8; 32]>,
}

/// The place of a connection, which opens with the first request that needs it.
pub(super) struct ConnectionSlot {
    /// The id of the slot in the table of shares.
    id: String,
    pub(super) connection: tokio::sync::Mutex<Option<Arc<UpstreamConnection>>>,
    /// The current connection. Receivers are notified when another connection replaces it.
    pub(super) current: watch::Sender<Weak<UpstreamConnection>>,
    used: Mutex<Instant>,
}

impl ConnectionSlot {
    fn new(id: u64) -> Self {
        Self {
            id: id.to_string(),
            connection: tokio::sync::Mutex::default(),
            current: watch::Sender::new(Weak::new()),
            used: Mutex::new(Instant::now()),
        }
    }

    /// Returns the time since the last request that needed the connection.
    pub(super) fn idle(&self) -> Duration {
        lock(&self.used).elapsed()
    }
}

/// All slots. A slot that exceeds a share evicts the least recently used one of the same owner, or
/// of the owner with the most. Requests in flight keep the connection of an evicted slot.
pub(super) struct ConnectionSlots {
    by_key: HashMap<ConnectionKey, Arc<ConnectionSlot>>,
    /// The slots that belong to no session, by their id.
    shares: SessionTable<ConnectionKey>,
    last_id: u64,
}

impl ConnectionSlots {
    /// Creates an empty table for connections to `upstreams` upstreams. An owner may have as many
    /// slots without a session as it may have sessions.
    pub(super) fn new(limits: &Limits, upstreams: usize) -> Self {
        let per_owner = limits.sessions_per_principal().max(MIN_SLOTS_PER_UPSTREAM * upstreams);
        let max = NonZeroUsize::new(limits.sessions.max(per_owner)).unwrap_or(NonZeroUsize::MIN);
        let shares = SessionTable::with_shares(max, per_owner);
        Self { by_key: HashMap::new(), shares, last_id: 0 }
    }

    pub(super) fn get(&self, key: &ConnectionKey) -> Option<Arc<ConnectionSlot>> {
        self.by_key.get(key).cloned()
    }

    /// Returns the slot with this key, and marks it as used. Adds it in the share of `owner` if
    /// there is none. O(slots) if it evicts another.
    pub(super) fn get_or_add(
        &mut self,
        key: &ConnectionKey,
        owner: &Arc<str>,
    ) -> Arc<ConnectionSlot> {
        if let Some(slot) = self.by_key.get(key) {
            *lock(&slot.used) = Instant::now();
            self.shares.get(&slot.id);
            return Arc::clone(slot);
        }
        self.last_id += 1;
        let slot = Arc::new(ConnectionSlot::new(self.last_id));
        self.add(key.clone(), owner, Arc::clone(&slot));
        slot
    }

    fn add(&mut self, key: ConnectionKey, owner: &Arc<str>, slot: Arc<ConnectionSlot>) {
        if matches!(key.owner, ConnectionOwner::Principal(..)) {
            let evicted = self.shares.insert(owner, slot.id.clone(), key.clone());
            evicted.map(|evicted| self.by_key.remove(&evicted));
        }
        self.by_key.insert(key, slot);
    }

    /// Removes and returns the slot with this key.
    fn remove(&mut self, key: &ConnectionKey) -> Option<Arc<ConnectionSlot>> {
        let slot = self.by_key.remove(key)?;
        self.shares.remove(&slot.id);
        Some(slot)
    }

    /// Gives the slot with the key `old` the key `new`, in the share of `owner`. Removes it if
    /// there is one with the new key.
    pub(super) fn rename(&mut self, old: &ConnectionKey, new: ConnectionKey, owner: &Arc<str>) {
        if let Some(slot) = self.remove(old)
            && !self.by_key.contains_key(&new)
        {
            self.add(new, owner, slot);
        }
    }

    /// Retains the slots for which `is_retained` returns true.
    pub(super) fn retain(
        &mut self,
        mut is_retained: impl FnMut(&ConnectionKey, &ConnectionSlot) -> bool,
    ) {
        let Self { by_key, shares, .. } = self;
        by_key.retain(|key, slot| {
            let is_retained = is_retained(key, slot);
            if !is_retained {
                shares.remove(&slot.id);
            }
            is_retained
        });
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ConnectionKey, &Arc<ConnectionSlot>)> {
        self.by_key.iter()
    }
}

/// A slot whose connection is being opened. Dropping this value removes the slot if it never had a
/// connection, and nobody else opens one.
pub(super) struct OpeningSlot {
    pub(super) slots: Arc<Mutex<ConnectionSlots>>,
    pub(super) key: ConnectionKey,
    pub(super) slot: Arc<ConnectionSlot>,
}

impl Drop for OpeningSlot {
    fn drop(&mut self) {
        let mut slots = lock(&self.slots);
        let is_current =
            slots.by_key.get(&self.key).is_some_and(|slot| Arc::ptr_eq(slot, &self.slot));
        // References of the table and of this value. Others are only made under the lock.
        let is_alone = Arc::strong_count(&self.slot) == 2;
        let was_open =
            self.slot.connection.try_lock().map_or(true, |connection| connection.is_some());
        if is_current && is_alone && !was_open {
            slots.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(owner: ConnectionOwner) -> ConnectionKey {
        ConnectionKey { server: 0, owner, mode: ProtocolMode::Stateful, credentials: None }
    }

    fn of_principal(principal: &str, introduction: u64) -> ConnectionKey {
        key(ConnectionOwner::Principal(principal.into(), introduction))
    }

    #[test]
    fn slots_without_a_session_have_shares() {
        let limits = Limits { sessions: 20, sessions_per_principal: Some(5), ..Limits::default() };
        let mut slots = ConnectionSlots::new(&limits, 1);
        let [ann, bob]: [Arc<str>; 2] = ["ann".into(), "bob".into()];
        let first = slots.get_or_add(&of_principal("bob", 0), &bob);
        let of_session = key(ConnectionOwner::Session("s".to_owned()));
        slots.get_or_add(&of_session, &ann);
        for introduction in 0..100 {
            slots.get_or_add(&of_principal("ann", introduction), &ann);
            slots.get_or_add(&of_principal("ann", 0), &ann);
        }
        let of_ann = slots.iter().filter(|(key, _)| **key == of_principal("ann", 0)).count();
        assert_eq!((of_ann, slots.iter().count()), (1, 7), "the slot in use remains");
        assert!(Arc::ptr_eq(&first, &slots.get(&of_principal("bob", 0)).unwrap()));
        // A renamed slot counts once, also for another owner.
        slots.rename(&of_principal("bob", 0), of_principal("bob", 1), &ann);
        assert!(slots.get(&of_principal("bob", 0)).is_none());
        assert_eq!((slots.iter().count(), slots.shares.len()), (6, 5));
        slots.retain(|key, _| *key == of_session);
        assert!(slots.iter().count() == 1 && slots.shares.is_empty());
    }

    #[test]
    fn slots_that_never_opened_are_removed() {
        let slots = Arc::new(Mutex::new(ConnectionSlots::new(&Limits::default(), 1)));
        let (key, owner): (_, Arc<str>) = (of_principal("ann", 1), "ann".into());
        let open = || {
            let slot = lock(&slots).get_or_add(&key, &owner);
            OpeningSlot { slots: Arc::clone(&slots), key: key.clone(), slot }
        };
        let (first, second) = (open(), open());
        drop(first);
        assert!(lock(&slots).get(&key).is_some(), "another request opens it");
        drop(second);
        assert!(lock(&slots).get(&key).is_none() && lock(&slots).shares.is_empty());
    }
}
