//! The store in memory: entries expire, and the least recently used go first when a quota is full.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use lru::LruCache;

use crate::Clock;
use crate::{CursorStore, StoreError};

/// Bytes that an entry costs beside its key and value: what the maps hold.
const OVERHEAD: usize = 160;

/// How much may be kept.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimits {
    /// Bytes of one principal.
    pub principal_bytes: usize,
    /// Bytes in all.
    pub total_bytes: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { principal_bytes: 256 << 20, total_bytes: 1 << 30 }
    }
}

/// The store in memory.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    limits: MemoryLimits,
    shelves: Mutex<Shelves>,
}

#[derive(Default)]
struct Shelves {
    /// A shelf a principal: its entries, least recently used last.
    shelves: HashMap<String, Shelf>,
    /// When what expires: (time, principal, key).
    expiry: BTreeSet<(Duration, String, String)>,
    bytes: usize,
    /// Counts uses, to tell which shelf was idle longest.
    uses: u64,
}

struct Shelf {
    entries: LruCache<String, Slot>,
    bytes: usize,
}

struct Slot {
    value: Bytes,
    expires: Duration,
    used: u64,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, limits: MemoryLimits) -> Self {
        Self { clock, limits, shelves: Mutex::default() }
    }

    /// Bytes that are held now, keys and bookkeeping included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        // Nothing in here panics while it holds the lock; if it did, the maps would still be whole.
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        shelves.expire(self.clock.now());
        shelves
    }
}

fn cost(key: &str, value: &[u8]) -> usize {
    3 * key.len() + value.len() + OVERHEAD
}

impl Shelves {
    fn expire(&mut self, now: Duration) {
        while let Some((_, principal, key)) =
            self.expiry.first().filter(|(time, ..)| *time <= now).cloned()
        {
            self.remove(&principal, &key);
        }
    }

    fn remove(&mut self, principal: &str, key: &str) {
        let Some(shelf) = self.shelves.get_mut(principal) else { return };
        let Some(slot) = shelf.entries.pop(key) else { return };
        let bytes = cost(key, &slot.value);
        shelf.bytes -= bytes;
        self.bytes -= bytes;
        if shelf.entries.is_empty() {
            self.shelves.remove(principal);
        }
        self.expiry.remove(&(slot.expires, principal.to_owned(), key.to_owned()));
    }

    /// Removes what this principal has used longest ago; false where there is nothing.
    fn evict_from(&mut self, principal: &str) -> bool {
        let Some((key, _)) = self.shelves.get(principal).and_then(|shelf| shelf.entries.peek_lru())
        else {
            return false;
        };
        let key = key.clone();
        self.remove(principal, &key);
        true
    }

    /// Removes what was used longest ago by anybody.
    fn evict(&mut self) -> bool {
        let oldest =
            |shelf: &Shelf| shelf.entries.peek_lru().map_or(u64::MAX, |(_, slot)| slot.used);
        let Some(principal) = self
            .shelves
            .iter()
            .min_by_key(|(_, shelf)| oldest(shelf))
            .map(|(principal, _)| principal.clone())
        else {
            return false;
        };
        self.evict_from(&principal)
    }

    fn insert(&mut self, principal: &str, key: String, value: Vec<u8>, expires: Duration) {
        // The entries of one call may name a key twice: the last one counts.
        self.remove(principal, &key);
        let bytes = cost(&key, &value);
        self.uses += 1;
        let slot = Slot { value: value.into(), expires, used: self.uses };
        self.expiry.insert((expires, principal.to_owned(), key.clone()));
        let shelf = self
            .shelves
            .entry(principal.to_owned())
            .or_insert_with(|| Shelf { entries: LruCache::unbounded(), bytes: 0 });
        shelf.entries.push(key, slot);
        shelf.bytes += bytes;
        self.bytes += bytes;
    }
}

impl CursorStore for MemoryStore {
    fn get(&self, principal: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let mut shelves = self.lock();
        shelves.uses += 1;
        let used = shelves.uses;
        let Some(shelf) = shelves.shelves.get_mut(principal) else {
            return Ok(vec![None; keys.len()]);
        };
        let mut find = |key: &String| {
            let slot = shelf.entries.get_mut(key)?;
            slot.used = used;
            Some(slot.value.clone())
        };
        Ok(keys.iter().map(&mut find).collect())
    }

    fn put(
        &self,
        principal: &str,
        entries: Vec<(String, Vec<u8>)>,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let needed: usize = entries.iter().map(|(key, value)| cost(key, value)).sum();
        if needed > self.limits.principal_bytes.min(self.limits.total_bytes) {
            return Err(StoreError::QuotaExceeded);
        }
        let expires = self.clock.now() + ttl;
        let mut shelves = self.lock();
        for (key, _) in &entries {
            shelves.remove(principal, key);
        }
        while shelves.shelves.get(principal).map_or(0, |shelf| shelf.bytes) + needed
            > self.limits.principal_bytes
        {
            if !shelves.evict_from(principal) {
                break;
            }
        }
        while shelves.bytes + needed > self.limits.total_bytes {
            if !shelves.evict() {
                break;
            }
        }
        for (key, value) in entries {
            shelves.insert(principal, key, value, expires);
        }
        Ok(())
    }

    fn extend(&self, principal: &str, keys: &[String], ttl: Duration) -> Result<(), StoreError> {
        let expires = self.clock.now() + ttl;
        let mut shelves = self.lock();
        for key in keys {
            let Some(slot) =
                shelves.shelves.get_mut(principal).and_then(|shelf| shelf.entries.get_mut(key))
            else {
                continue;
            };
            let before = std::mem::replace(&mut slot.expires, expires);
            shelves.expiry.remove(&(before, principal.to_owned(), key.clone()));
            shelves.expiry.insert((expires, principal.to_owned(), key.clone()));
        }
        Ok(())
    }

    fn delete(&self, principal: &str, keys: &[String]) -> Result<(), StoreError> {
        let mut shelves = self.lock();
        for key in keys {
            shelves.remove(principal, key);
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
    fn entries_expire_and_are_forgotten() {
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
    fn nobody_reads_anothers() {
        let (_, store) = store(10_000, 10_000);
        put(&store, "a", "k", 100).unwrap();
        assert!(!has(&store, "b", "k"));
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let (_, store) = store(1_000, 10_000);
        for key in ["1", "2", "3"] {
            put(&store, "a", key, 150).unwrap();
        }
        assert!(has(&store, "a", "1"));
        put(&store, "a", "4", 150).unwrap();
        assert!(has(&store, "a", "1") && !has(&store, "a", "2") && has(&store, "a", "4"));
    }

    #[test]
    fn one_principal_does_not_crowd_out_another_before_the_whole_is_full() {
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
    fn a_key_that_is_put_twice_counts_once() {
        let (_, store) = store(10_000, 10_000);
        let entry = |bytes| ("k".to_owned(), vec![7; bytes]);
        store.put("a", vec![entry(2_000), entry(1_000)], MINUTE).unwrap();
        assert!(store.bytes() < 2_000);
        store.delete("a", &["k".to_owned()]).unwrap();
        assert_eq!(store.bytes(), 0);
    }

    #[test]
    fn nothing_grows_without_end() {
        let (clock, store) = store(50_000, 100_000);
        for round in 0..5_000 {
            put(&store, &format!("p{}", round % 50), &format!("k{round}"), 900).unwrap();
            clock.advance_ms(100);
            assert!(store.bytes() <= 100_000);
        }
        clock.advance_ms(60_000);
        assert_eq!(store.bytes(), 0);
        let shelves = store.lock();
        assert!(shelves.shelves.is_empty() && shelves.expiry.is_empty());
    }
}
