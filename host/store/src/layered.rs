//! A store that several gateways share, with what was used last kept near: fewer round trips, and something to read from while the other is down.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::Clock;
use crate::{CursorStore, MemoryStore, StoreError};

/// How old a near copy may be of what can change: which snapshot a call led to, what is known of a tool.
const FRESH_MS: u64 = 2_000;
/// How long a copy of what was read is kept near.
const COPY: Duration = Duration::from_secs(600);
/// Bytes before each value: when it was copied.
const STAMP: usize = 8;

/// The near copies.
struct Near {
    store: MemoryStore,
    clock: Arc<dyn Clock>,
}

/// The shared store with near copies.
pub struct LayeredStore<S> {
    remote: S,
    near: Arc<Near>,
}

impl<S: CursorStore> LayeredStore<S> {
    /// A shared store, with copies in this one.
    #[must_use]
    pub fn new(remote: S, near: MemoryStore, clock: Arc<dyn Clock>) -> Self {
        Self { remote, near: Arc::new(Near { store: near, clock }) }
    }
}

/// A copy, and whether it may stand for what is there now.
struct Copy {
    value: Bytes,
    fresh: bool,
}

impl Near {
    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX)
    }

    fn copies(&self, principal: &str, keys: &[String]) -> Vec<Option<Copy>> {
        let Ok(found) = self.store.get(principal, keys) else {
            return keys.iter().map(|_| None).collect();
        };
        let now = self.now();
        let copy = |(key, found): (&String, Option<Bytes>)| {
            let found = found?;
            let (stamp, value) = found.split_first_chunk::<STAMP>()?;
            // Segments are named by what they hold: they never change.
            let fresh =
                key.contains('.') || now.saturating_sub(u64::from_le_bytes(*stamp)) < FRESH_MS;
            let from = found.len() - value.len();
            Some(Copy { value: found.slice(from..), fresh })
        };
        keys.iter().zip(found).map(copy).collect()
    }

    fn copy(
        &self,
        principal: &str,
        entries: impl Iterator<Item = (String, Vec<u8>)>,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let stamp = self.now().to_le_bytes();
        let stamped = entries.map(|(key, value)| (key, [stamp.as_slice(), &value].concat()));
        self.store.put(principal, stamped.collect(), ttl)
    }
}

impl<S: CursorStore> CursorStore for LayeredStore<S> {
    fn get(&self, principal: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let copies = self.near.copies(principal, keys);
        let is_fresh = |copy: &Option<Copy>| copy.as_ref().is_some_and(|copy| copy.fresh);
        let wanted: Vec<String> = keys
            .iter()
            .zip(&copies)
            .filter(|(_, copy)| !is_fresh(copy))
            .map(|(key, _)| key.clone())
            .collect();
        let found = match self.remote.get(principal, &wanted) {
            Ok(found) => found,
            // What is near is better than nothing, if it is all that was asked for.
            Err(_) if copies.iter().all(Option::is_some) => {
                return Ok(copies.into_iter().map(|copy| copy.map(|copy| copy.value)).collect());
            }
            Err(fault) => return Err(fault),
        };
        let fetched = wanted.iter().zip(&found);
        let fetched =
            fetched.filter_map(|(key, value)| Some((key.clone(), value.as_ref()?.to_vec())));
        // A copy that cannot be made is only missing.
        let _ = self.near.copy(principal, fetched, COPY);
        let mut found = found.into_iter();
        let value = |copy: Option<Copy>| match copy {
            Some(copy) if copy.fresh => Some(copy.value),
            // What was kept near while the other was down is nowhere else.
            copy => found.next().flatten().or(copy.map(|copy| copy.value)),
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
        let _ = self.near.copy(principal, copies.into_iter(), ttl);
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

    fn may_block(&self) -> bool {
        self.remote.may_block()
    }

    fn fallback_store(&self) -> Option<Arc<dyn CursorStore>> {
        Some(Arc::new(NearOnly(Arc::clone(&self.near))))
    }

    fn is_up(&self) -> bool {
        self.remote.is_up()
    }
}

/// The near copies alone, while the other is down.
struct NearOnly(Arc<Near>);

impl CursorStore for NearOnly {
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
        self.0.copy(principal, entries.into_iter(), ttl)
    }

    fn extend(&self, principal: &str, keys: &[String], ttl: Duration) -> Result<(), StoreError> {
        self.0.store.extend(principal, keys, ttl)
    }

    fn delete(&self, principal: &str, keys: &[String]) -> Result<(), StoreError> {
        self.0.store.delete(principal, keys)
    }
}
