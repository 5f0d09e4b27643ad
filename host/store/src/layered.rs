//! A shared store with a local cache, which saves round trips, and serves reads while the shared
//! store is down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::Clock;
use crate::{
    ChannelFollower, CursorStore, MemoryStore, RateGrant, SlotGrant, SlotRequest, StoreError,
    StoreFaults,
};

/// The age, in milliseconds, up to which a local copy of a mutable entry is used without asking the
/// shared store.
const FRESH_FOR_MS: u64 = 2_000;
/// The first character of the keys of data about servers, such as the parameters of a tool.
///
/// A local copy of such data remains valid if the shared store loses its data. Without it, calls
/// would be treated as those of unknown tools until the client lists the tools again.
const FACT_SIGN: char = '~';
/// The lifetime of a local copy of data about servers that was read from the shared store.
const FACT_COPY_TTL: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The lifetime of a local copy of an entry that was read from the shared store.
const COPY_TTL: Duration = Duration::from_secs(600);
/// The length, in bytes, of the header that precedes the value of each local copy: the [`Origin`]
/// and the time of copying.
const HEADER_BYTES: usize = 9;

/// The origin of a local copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The shared store contains or contained the entry.
    Shared = 0,
    /// The entry was stored while the shared store was down, and exists in this process only.
    Local = 1,
}

/// The local copies of entries in the shared store, each with the time of copying.
struct LocalCopies {
    store: MemoryStore,
    clock: Arc<dyn Clock>,
}

/// A shared store with local copies of its entries in memory.
pub struct LayeredStore {
    remote: Arc<dyn CursorStore>,
    near: Arc<LocalCopies>,
    /// The number of calls that were served without the shared store.
    fallbacks: AtomicU64,
}

impl LayeredStore {
    /// Returns a store that keeps local copies of the entries of `remote` in `near`.
    #[must_use]
    pub fn new(remote: Arc<dyn CursorStore>, near: MemoryStore, clock: Arc<dyn Clock>) -> Self {
        let near = Arc::new(LocalCopies { store: near, clock });
        Self { remote, near, fallbacks: AtomicU64::new(0) }
    }
}

/// A local copy of a shared entry.
struct LocalCopy {
    value: Bytes,
    /// True if the copy may be used without asking the shared store.
    fresh: bool,
    /// True if the copy may be used even if the shared store does not contain the entry.
    survives: bool,
}

impl LocalCopies {
    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX)
    }

    fn copies(&self, principal: &str, keys: &[String]) -> Vec<Option<LocalCopy>> {
        let Ok(found) = self.store.get(principal, keys) else {
            return keys.iter().map(|_| None).collect();
        };
        let now = self.now();
        let copy = |(key, found): (&String, Option<Bytes>)| {
            let found = found?;
            let (header, _) = found.split_first_chunk::<HEADER_BYTES>()?;
            let (origin, stamp) = (header[0], header.last_chunk::<8>()?);
            // A key with a dot names an immutable segment by its content; all other entries can
            // change.
            let fresh =
                key.contains('.') || now.saturating_sub(u64::from_le_bytes(*stamp)) < FRESH_FOR_MS;
            let survives = origin == Origin::Local as u8 || key.starts_with(FACT_SIGN);
            Some(LocalCopy { value: found.slice(HEADER_BYTES..), fresh, survives })
        };
        keys.iter().zip(found).map(copy).collect()
    }

    fn copy(
        &self,
        principal: &str,
        entries: impl Iterator<Item = (String, Vec<u8>)>,
        origin: Origin,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let stamp = self.now().to_le_bytes();
        let header = [&[origin as u8], stamp.as_slice()].concat();
        let copies = entries.map(|(key, value)| (key, [header.as_slice(), &value].concat()));
        self.store.put(principal, copies.collect(), ttl)
    }
}

impl CursorStore for LayeredStore {
    fn get(&self, principal: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let copies = self.near.copies(principal, keys);
        let is_fresh = |copy: &Option<LocalCopy>| copy.as_ref().is_some_and(|copy| copy.fresh);
        let wanted: Vec<String> = keys
            .iter()
            .zip(&copies)
            .filter(|(_, copy)| !is_fresh(copy))
            .map(|(key, _)| key.clone())
            .collect();
        let found = match self.remote.get(principal, &wanted) {
            Ok(found) => found,
            // Old copies are better than an error, but only if they answer the whole request.
            Err(_) if copies.iter().all(Option::is_some) => {
                return Ok(copies.into_iter().map(|copy| copy.map(|copy| copy.value)).collect());
            }
            Err(fault) => return Err(fault),
        };
        let fetched = wanted.iter().zip(&found);
        let fetched =
            fetched.filter_map(|(key, value)| Some((key.clone(), value.as_ref()?.to_vec())));
        let (facts, others): (Vec<_>, Vec<_>) =
            fetched.partition(|(key, _)| key.starts_with(FACT_SIGN));
        for (fetched, ttl) in [(facts, FACT_COPY_TTL), (others, COPY_TTL)] {
            // A failed copy only costs a round trip later.
            let _ = self.near.copy(principal, fetched.into_iter(), Origin::Shared, ttl);
        }
        let mut found = found.into_iter();
        let value = |copy: Option<LocalCopy>| match copy {
            Some(copy) if copy.fresh => Some(copy.value),
            // An answer that the shared store no longer contains has expired or was deleted. Its
            // copy is not an answer.
            copy => {
                let copy = copy.filter(|copy| copy.survives).map(|copy| copy.value);
                found.next().flatten().or(copy)
            }
        };
        Ok(copies.into_iter().map(value).collect())
    }

    fn put(
        &self,
        principal: &str,
        entries: Vec<(String, Vec<u8>)>,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let copies = entries.clone();
        self.remote.put(principal, entries, ttl)?;
        let _ = self.near.copy(principal, copies.into_iter(), Origin::Shared, ttl);
        Ok(())
    }

    fn extend(&self, principal: &str, keys: &[String], ttl: Duration) -> Result<(), StoreError> {
        self.near.store.extend(principal, keys, ttl)?;
        self.remote.extend(principal, keys, ttl)
    }

    fn delete(&self, principal: &str, keys: &[String]) -> Result<(), StoreError> {
        self.near.store.delete(principal, keys)?;
        self.remote.delete(principal, keys)
    }

    fn take(
        &self,
        owner: &str,
        interval: Duration,
        tolerance: Duration,
        count: u32,
        unspent: u32,
    ) -> Result<RateGrant, StoreError> {
        self.remote.take(owner, interval, tolerance, count, unspent)
    }

    fn hold_slots(&self, owner: &str, request: &SlotRequest) -> Result<SlotGrant, StoreError> {
        self.remote.hold_slots(owner, request)
    }

    fn read_foreign(&self, key: &str, start: usize, length: usize) -> Result<Bytes, StoreError> {
        self.remote.read_foreign(key, start, length)
    }

    fn exchange(
        &self,
        board: &str,
        written: Vec<(String, Vec<u8>)>,
        removed: &[String],
        ttl: Duration,
    ) -> Result<Vec<(String, Bytes)>, StoreError> {
        self.remote.exchange(board, written, removed, ttl)
    }

    fn publish(&self, channel: &str, message: Vec<u8>) -> Result<(), StoreError> {
        self.remote.publish(channel, message)
    }

    fn follow(&self, channel: &str, follower: ChannelFollower) -> Result<(), StoreError> {
        self.remote.follow(channel, follower)
    }

    fn rekey(&self, secrets: &[&[u8]]) {
        self.remote.rekey(secrets);
    }

    fn may_block(&self) -> bool {
        self.remote.may_block()
    }

    fn fallback_store(&self) -> Option<Arc<dyn CursorStore>> {
        if !self.remote.is_up() {
            self.fallbacks.fetch_add(1, Ordering::Relaxed);
        }
        Some(Arc::new(LocalOnly(Arc::clone(&self.near))))
    }

    fn is_up(&self) -> bool {
        self.remote.is_up()
    }

    fn faults(&self) -> StoreFaults {
        let faults = self.remote.faults();
        let fallbacks = self.fallbacks.load(Ordering::Relaxed);
        StoreFaults { unavailable: faults.unavailable + fallbacks, ..faults }
    }
}

/// A store that uses only the local copies, while the shared store is unreachable.
struct LocalOnly(Arc<LocalCopies>);

impl CursorStore for LocalOnly {
    fn get(&self, principal: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let copies = self.0.copies(principal, keys);
        Ok(copies.into_iter().map(|copy| copy.map(|copy| copy.value)).collect())
    }

    fn put(
        &self,
        principal: &str,
        entries: Vec<(String, Vec<u8>)>,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        self.0.copy(principal, entries.into_iter(), Origin::Local, ttl)
    }

    fn extend(&self, principal: &str, keys: &[String], ttl: Duration) -> Result<(), StoreError> {
        self.0.store.extend(principal, keys, ttl)
    }

    fn delete(&self, principal: &str, keys: &[String]) -> Result<(), StoreError> {
        self.0.store.delete(principal, keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryLimits;
    use crate::clock::ManualClock;

    const KEY: &str = "k";

    /// Returns two stores with local copies of one shared store.
    fn pair() -> (Arc<ManualClock>, LayeredStore, LayeredStore) {
        let clock = Arc::new(ManualClock::at_ms(1_000));
        let memory = || MemoryStore::new(clock.clone(), MemoryLimits::default());
        let shared = Arc::new(memory());
        let layered = || LayeredStore::new(shared.clone(), memory(), clock.clone());
        let (one, two) = (layered(), layered());
        (clock, one, two)
    }

    fn put(store: &dyn CursorStore, ttl: Duration) {
        store.put("a", vec![(KEY.to_owned(), b"v".to_vec())], ttl).unwrap();
    }

    fn has(store: &dyn CursorStore) -> bool {
        store.get("a", &[KEY.to_owned()]).unwrap()[0].is_some()
    }

    #[test]
    fn copy_of_an_expired_entry_is_not_an_answer() {
        let (clock, one, two) = pair();
        put(&one, Duration::from_secs(3));
        assert!(has(&two));
        clock.advance_ms(3_000);
        assert!(!has(&one) && !has(&two));
    }

    #[test]
    fn copy_of_a_deleted_entry_is_not_an_answer() {
        let (clock, one, two) = pair();
        put(&one, Duration::from_secs(60));
        assert!(has(&two));
        one.delete("a", &[KEY.to_owned()]).unwrap();
        clock.advance_ms(FRESH_FOR_MS);
        assert!(!has(&one) && !has(&two));
    }

    #[test]
    fn entry_stored_during_a_failure_remains_readable() {
        let (clock, one, two) = pair();
        put(&*one.fallback_store().unwrap(), Duration::from_secs(60));
        clock.advance_ms(FRESH_FOR_MS);
        assert!(has(&one) && !has(&two));
    }

    #[test]
    fn fact_outlives_the_loss_of_the_shared_data() {
        let (clock, one, two) = pair();
        let fact = vec![format!("{FACT_SIGN}tool")];
        let has = |store: &LayeredStore| store.get("a", &fact).unwrap()[0].is_some();
        one.put("a", vec![(fact[0].clone(), b"v".to_vec())], FACT_COPY_TTL).unwrap();
        // Copies that were read anew are facts, too, also those of a replica that only reads.
        for _ in 0..3 {
            assert!(has(&one) && has(&two));
            clock.advance_ms(FRESH_FOR_MS);
        }
        one.remote.delete("a", &fact).unwrap();
        for _ in 0..3 {
            assert!(has(&one) && has(&two));
            clock.advance_ms(FRESH_FOR_MS);
        }
        // A new fact replaces the copies.
        two.put("a", vec![(fact[0].clone(), b"w".to_vec())], FACT_COPY_TTL).unwrap();
        assert_eq!(one.get("a", &fact).unwrap()[0].as_deref(), Some(b"w".as_slice()));
        one.delete("a", &fact).unwrap();
        assert!(!has(&one));
    }
}
