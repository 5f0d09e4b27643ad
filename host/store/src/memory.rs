//! The store in memory. Entries expire. If a quota is exceeded, the least recently used entries are
//! evicted.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lru::LruCache;

use crate::{Clock, CursorStore, StoreError, scope_principal};

/// The estimated memory of an entry, in bytes, in addition to its key and value.
const ENTRY_OVERHEAD_BYTES: usize = 160;

/// The quotas of a [`MemoryStore`].
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// The maximum size of the entries of one principal, in bytes.
    pub principal_bytes: usize,
    /// The maximum size of all entries, in bytes.
    pub total_bytes: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { principal_bytes: 256 << 20, total_bytes: 1 << 30 }
    }
}

/// A cursor store in memory.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    limits: MemoryLimits,
    state: Mutex<StoreState>,
}

#[derive(Default)]
struct StoreState {
    /// The entries of each principal.
    partitions: HashMap<String, Partition>,
    /// All entries ordered by their expiry: (time, principal, key).
    expiry: BTreeSet<(Duration, String, String)>,
    /// The principals ordered by the size of their entries: (bytes, principal).
    sizes: BTreeSet<(usize, String)>,
    bytes: usize,
}

struct Partition {
    entries: LruCache<String, Slot>,
    bytes: usize,
}

struct Slot {
    value: Bytes,
    expires: Duration,
}

impl MemoryStore {
    /// Returns an empty store.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, limits: MemoryLimits) -> Self {
        Self { clock, limits, state: Mutex::default() }
    }

    /// Returns the total size of all entries in bytes, including keys and overhead.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        // No code panics while it holds the lock. Even after a panic, the maps would be consistent.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expire(self.clock.now());
        state
    }
}

/// Returns the key of an entry in the partition of its principal. All scopes of a principal share
/// the partition, in which their keys differ.
fn partition_key<'k>(scope: &str, principal: &str, key: &'k str) -> Cow<'k, str> {
    match scope.strip_prefix(principal) {
        None | Some("") => Cow::Borrowed(key),
        Some(credentials) => Cow::Owned(format!("{key}\0{credentials}")),
    }
}

fn cost(key: &str, value: &[u8]) -> usize {
    3 * key.len() + value.len() + ENTRY_OVERHEAD_BYTES
}

impl StoreState {
    fn expire(&mut self, now: Duration) {
        while let Some((_, principal, key)) =
            self.expiry.first().filter(|(time, ..)| *time <= now).cloned()
        {
            self.remove(&principal, &key);
        }
    }

    fn remove(&mut self, principal: &str, key: &str) {
        let Some(partition) = self.partitions.get_mut(principal) else { return };
        let Some(slot) = partition.entries.pop(key) else { return };
        let bytes = cost(key, &slot.value);
        let before = partition.bytes;
        partition.bytes -= bytes;
        self.bytes -= bytes;
        if partition.entries.is_empty() {
            self.partitions.remove(principal);
        }
        self.resize(principal, before, before - bytes);
        self.expiry.remove(&(slot.expires, principal.to_owned(), key.to_owned()));
    }

    /// Records the new size of a principal's entries.
    fn resize(&mut self, principal: &str, before: usize, after: usize) {
        self.sizes.remove(&(before, principal.to_owned()));
        if after > 0 {
            self.sizes.insert((after, principal.to_owned()));
        }
    }

    /// Evicts the least recently used entry of `principal`. Returns false if the principal has
    /// none.
    fn evict_from(&mut self, principal: &str) -> bool {
        let Some((key, _)) =
            self.partitions.get(principal).and_then(|partition| partition.entries.peek_lru())
        else {
            return false;
        };
        let key = key.clone();
        self.remove(principal, &key);
        true
    }

    /// Evicts the least recently used entry of the principal with the most bytes. Returns false if
    /// the store is empty.
    fn evict(&mut self) -> bool {
        let largest = self.sizes.last().map(|(_, principal)| principal.clone());
        largest.is_some_and(|principal| self.evict_from(&principal))
    }

    fn insert(&mut self, principal: &str, key: String, value: Vec<u8>, expires: Duration) {
        // One call may contain a key twice: the last value wins.
        self.remove(principal, &key);
        let bytes = cost(&key, &value);
        let slot = Slot { value: value.into(), expires };
        self.expiry.insert((expires, principal.to_owned(), key.clone()));
        let partition = self
            .partitions
            .entry(principal.to_owned())
            .or_insert_with(|| Partition { entries: LruCache::unbounded(), bytes: 0 });
        partition.entries.push(key, slot);
        let before = partition.bytes;
        partition.bytes += bytes;
        self.bytes += bytes;
        self.resize(principal, before, before + bytes);
    }
}

impl CursorStore for MemoryStore {
    fn get(&self, scope: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let principal = scope_principal(scope);
        let mut state = self.lock();
        let Some(partition) = state.partitions.get_mut(principal) else {
            return Ok(vec![None; keys.len()]);
        };
        let mut find = |key: &String| {
            let key = partition_key(scope, principal, key);
            partition.entries.get(key.as_ref()).map(|slot| slot.value.clone())
        };
        Ok(keys.iter().map(&mut find).collect())
    }

    fn put(
        &self,
        scope: &str,
        entries: Vec<(String, Vec<u8>)>,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let principal = scope_principal(scope);
        let entries: Vec<(String, Vec<u8>)> = entries
            .into_iter()
            .map(|(key, value)| (partition_key(scope, principal, &key).into_owned(), value))
            .collect();
        let needed: usize = entries.iter().map(|(key, value)| cost(key, value)).sum();
        if needed > self.limits.principal_bytes.min(self.limits.total_bytes) {
            return Err(StoreError::QuotaExceeded);
        }
        let expires = self.clock.now() + ttl;
        let mut state = self.lock();
        for (key, _) in &entries {
            state.remove(principal, key);
        }
        while state.partitions.get(principal).map_or(0, |partition| partition.bytes) + needed
            > self.limits.principal_bytes
        {
            if !state.evict_from(principal) {
                break;
            }
        }
        while state.bytes + needed > self.limits.total_bytes {
            if !state.evict() {
                break;
            }
        }
        for (key, value) in entries {
            state.insert(principal, key, value, expires);
        }
        Ok(())
    }

    fn extend(&self, scope: &str, keys: &[String], ttl: Duration) -> Result<(), StoreError> {
        let principal = scope_principal(scope);
        let expires = self.clock.now() + ttl;
        let mut state = self.lock();
        for key in keys {
            let key = partition_key(scope, principal, key);
            let Some(slot) = state
                .partitions
                .get_mut(principal)
                .and_then(|partition| partition.entries.get_mut(key.as_ref()))
            else {
                continue;
            };
            let before = std::mem::replace(&mut slot.expires, expires);
            state.expiry.remove(&(before, principal.to_owned(), key.to_string()));
            state.expiry.insert((expires, principal.to_owned(), key.into_owned()));
        }
        Ok(())
    }

    fn delete(&self, scope: &str, keys: &[String]) -> Result<(), StoreError> {
        let principal = scope_principal(scope);
        let mut state = self.lock();
        for key in keys {
            state.remove(principal, &partition_key(scope, principal, key));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const MINUTE: Duration = Duration::from_secs(60);

    fn store(principal_bytes: usize, total_bytes: usize) -> (Arc<ManualClock>, MemoryStore) {
        let clock = Arc::new(ManualClock::at_ms(1_000));
        (Arc::clone(&clock), MemoryStore::new(clock, MemoryLimits { principal_bytes, total_bytes }))
    }

    fn put(
        store: &MemoryStore,
        principal: &str,
        key: &str,
        bytes: usize,
    ) -> Result<(), StoreError> {
        store.put(principal, vec![(key.to_owned(), vec![7; bytes])], MINUTE)
    }

    fn has(store: &MemoryStore, principal: &str, key: &str) -> bool {
        store.get(principal, &[key.to_owned()]).unwrap()[0].is_some()
    }

    #[test]
    fn entries_expire() {
        let (clock, store) = store(10_000, 10_000);
        put(&store, "a", "k", 100).unwrap();
        clock.advance_ms(59_999);
        assert!(has(&store, "a", "k"));
        store.extend("a", &["k".to_owned()], MINUTE).unwrap();
        clock.advance_ms(59_999);
        assert!(has(&store, "a", "k"));
        clock.advance_ms(1);
        assert!(!has(&store, "a", "k"));
        assert_eq!(store.bytes(), 0);
    }

    #[test]
    fn principals_are_isolated() {
        let (_, store) = store(10_000, 10_000);
        put(&store, "a", "k", 100).unwrap();
        assert!(!has(&store, "b", "k"));
    }

    #[test]
    fn least_recently_used_entry_is_evicted() {
        let (_, store) = store(1_000, 10_000);
        for key in ["1", "2", "3"] {
            put(&store, "a", key, 150).unwrap();
        }
        assert!(has(&store, "a", "1"));
        put(&store, "a", "4", 150).unwrap();
        assert!(has(&store, "a", "1") && !has(&store, "a", "2") && has(&store, "a", "4"));
    }

    #[test]
    fn scopes_of_a_principal_are_isolated_and_share_its_quota() {
        let (_, store) = store(3_000, 100_000);
        let of_alice = |at: usize| crate::scope("alice", &format!("{at:016x}"));
        put(&store, &of_alice(0), "k", 500).unwrap();
        put(&store, &of_alice(1), "k", 600).unwrap();
        put(&store, "alice", "own", 500).unwrap();
        assert!(has(&store, &of_alice(0), "k") && !has(&store, &of_alice(2), "k"));
        assert!(!has(&store, "alice", "k") && !has(&store, &of_alice(0), "own"));
        store.extend(&of_alice(1), &["k".to_owned()], MINUTE * 2).unwrap();
        store.delete(&of_alice(0), &["k".to_owned()]).unwrap();
        assert!(!has(&store, &of_alice(0), "k") && has(&store, &of_alice(1), "k"));
        put(&store, "bob", "k", 500).unwrap();
        for at in 2..100 {
            put(&store, &of_alice(at), "k", 500).unwrap();
        }
        assert!(has(&store, "bob", "k") && has(&store, &of_alice(99), "k"));
        assert!(store.bytes() < 4_000, "{}", store.bytes());
    }

    #[test]
    fn quota_of_a_principal_protects_others() {
        let (_, store) = store(2_000, 3_000);
        put(&store, "b", "k", 500).unwrap();
        for key in 0..100 {
            put(&store, "a", &key.to_string(), 300).unwrap();
        }
        assert!(has(&store, "b", "k"));
        assert!(store.bytes() <= 3_000);
        assert_eq!(put(&store, "a", "large", 2_000), Err(StoreError::QuotaExceeded));
    }

    #[test]
    fn duplicate_key_counts_once() {
        let (_, store) = store(10_000, 10_000);
        let entry = |bytes| ("k".to_owned(), vec![7; bytes]);
        store.put("a", vec![entry(2_000), entry(1_000)], MINUTE).unwrap();
        assert!(store.bytes() < 2_000);
        store.delete("a", &["k".to_owned()]).unwrap();
        assert_eq!(store.bytes(), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let (clock, store) = store(50_000, 100_000);
        for round in 0..5_000 {
            put(&store, &format!("p{}", round % 50), &format!("k{round}"), 900).unwrap();
            clock.advance_ms(100);
            assert!(store.bytes() <= 100_000);
        }
        clock.advance_ms(60_000);
        assert_eq!(store.bytes(), 0);
        let state = store.lock();
        assert!(state.partitions.is_empty() && state.expiry.is_empty() && state.sizes.is_empty());
    }

    #[test]
    fn full_store_evicts_from_the_largest_holder() {
        let (_, store) = store(10_000, 10_000);
        put(&store, "small", "k", 500).unwrap();
        for key in 0..100 {
            put(&store, "large", &key.to_string(), 500).unwrap();
            let other = format!("p{}", key % 5);
            put(&store, &other, "k", 200).unwrap();
        }
        assert!(has(&store, "small", "k") && has(&store, "large", "99"));
        assert!((0..5).all(|key| has(&store, &format!("p{key}"), "k")));
        assert!(!has(&store, "large", "0") && store.bytes() <= 10_000);
    }
}
