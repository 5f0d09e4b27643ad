//! A bounded table of sessions and similar values, in which every owner has a share.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use lru::LruCache;

use crate::config::Limits;

/// A bounded table of sessions by id, ordered from the most to the least recently used.
pub struct SessionTable<T> {
    sessions: LruCache<String, (Arc<str>, T)>,
    /// The number of sessions of each owner.
    counts: HashMap<Arc<str>, usize>,
    max_per_owner: usize,
}

impl<T> SessionTable<T> {
    /// Creates an empty table with the session limits of the configuration.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        let max = NonZeroUsize::new(limits.sessions).unwrap_or(NonZeroUsize::MIN);
        Self::with_shares(max, limits.sessions_per_principal())
    }

    /// Creates an empty table for `max` values, of which one owner may have `max_per_owner`.
    pub(crate) fn with_shares(max: NonZeroUsize, max_per_owner: usize) -> Self {
        Self { sessions: LruCache::new(max), counts: HashMap::new(), max_per_owner }
    }

    /// Returns the session with this id, and marks it as the most recently used.
    pub fn get(&mut self, id: &str) -> Option<&T> {
        self.sessions.get(id).map(|(_, session)| session)
    }

    /// Returns the session with this id to change it, and marks it as the most recently used.
    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.sessions.get_mut(id).map(|(_, session)| session)
    }

    /// Returns true if there is a session with this id. Does not count as a use of the session.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.sessions.contains(id)
    }

    /// Returns true if the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns all sessions with their ids, from the most to the least recently used.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &T)> {
        self.sessions.iter().map(|(id, (_, session))| (id, session))
    }

    /// Returns all sessions with their ids to change them, from the most to the least recently
    /// used.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&String, &mut T)> {
        self.sessions.iter_mut().map(|(id, (_, session))| (id, session))
    }

    /// Adds a session. Returns the session that it evicts, if any: the owner's least recently used
    /// one if the owner's share is exceeded. If the table is full, it is that of the owner with the
    /// most sessions. An earlier session with this id is dropped, not returned. O(sessions).
    pub fn insert(&mut self, owner: &Arc<str>, id: String, session: T) -> Option<T> {
        self.remove(&id);
        let is_own_full = self.counts.get(owner).is_some_and(|count| *count >= self.max_per_owner);
        let is_full = self.sessions.len() >= self.sessions.cap().get();
        let largest = || self.counts.iter().max_by_key(|(_, count)| **count).map(|(name, _)| name);
        let holder = if is_own_full { Some(owner) } else { largest().filter(|_| is_full) };
        let oldest = holder.and_then(|holder| {
            // The order is from the last used session to the first.
            let mut oldest = self.sessions.iter().rev();
            oldest.find(|(_, (owner, _))| owner == holder).map(|(id, _)| id.clone())
        });
        let evicted = oldest.and_then(|oldest| self.remove(&oldest));
        *self.counts.entry(Arc::clone(owner)).or_default() += 1;
        self.sessions.put(id, (Arc::clone(owner), session));
        evicted
    }

    /// Removes and returns the session with this id.
    pub fn remove(&mut self, id: &str) -> Option<T> {
        let (owner, session) = self.sessions.pop(id)?;
        if let Some(count) = self.counts.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&owner);
            }
        }
        Some(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(sessions: usize, per_principal: usize) -> SessionTable<String> {
        let per_principal = Some(per_principal);
        let limits =
            Limits { sessions, sessions_per_principal: per_principal, ..Limits::default() };
        SessionTable::new(&limits)
    }

    fn insert(table: &mut SessionTable<String>, owner: &str, id: &str) -> Option<String> {
        table.insert(&owner.into(), id.to_owned(), id.to_owned())
    }

    #[test]
    fn owner_evicts_its_own_sessions_first() {
        let mut table = table(10, 2);
        assert_eq!(insert(&mut table, "alice", "a"), None);
        assert_eq!(insert(&mut table, "bob", "b1"), None);
        assert_eq!(insert(&mut table, "bob", "b2"), None);
        assert!(table.get("b1").is_some());
        assert_eq!(insert(&mut table, "bob", "b3").as_deref(), Some("b2"));
        assert_eq!(table.remove("b1").as_deref(), Some("b1"));
        assert_eq!(insert(&mut table, "bob", "b4"), None);
        assert!(table.contains("a") && table.len() == 3);
    }

    #[test]
    fn full_table_evicts_from_the_largest_owner() {
        let mut table = table(4, 3);
        for (owner, id) in [("alice", "a"), ("bob", "b1"), ("bob", "b2"), ("bob", "b3")] {
            assert_eq!(insert(&mut table, owner, id), None);
        }
        assert_eq!(insert(&mut table, "carol", "c").as_deref(), Some("b1"));
        assert_eq!(table.iter().count(), 4);
    }
}
