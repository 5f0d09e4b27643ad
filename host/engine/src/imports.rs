//! What the guard may call: a store and a clock. Nothing else.

use std::time::Duration;

use context_guard_cursor_store::StoreFault;
use wasmtime::{StoreLimits, StoreLimitsBuilder};

use super::bindings::context_guard::guard::cursor_store::{Entry, Host as CursorStoreHost};
use super::bindings::context_guard::guard::types::{Host as TypesHost, StoreError};
use super::bindings::wasi::clocks::wall_clock::{Datetime, Host as WallClockHost};
use super::component::Surroundings;

/// What an instance has at hand.
pub(super) struct State {
    surroundings: Surroundings,
    principal: String,
    pub(super) limits: StoreLimits,
}

impl State {
    pub(super) fn new(surroundings: &Surroundings, principal: &str, max_memory: usize) -> Self {
        let limits =
            StoreLimitsBuilder::new().memory_size(max_memory).trap_on_grow_failure(false).build();
        Self { surroundings: surroundings.clone(), principal: principal.to_owned(), limits }
    }
}

impl TypesHost for State {}

impl CursorStoreHost for State {
    fn get(&mut self, keys: Vec<String>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let values = self.surroundings.store.get(&self.principal, &keys)?;
        Ok(values.into_iter().map(|value| value.map(|value| value.to_vec())).collect())
    }

    fn put(&mut self, entries: Vec<Entry>, ttl_ms: u64) -> Result<(), StoreError> {
        let entries = entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
        Ok(self.surroundings.store.put(&self.principal, entries, Duration::from_millis(ttl_ms))?)
    }

    fn extend(&mut self, keys: Vec<String>, ttl_ms: u64) -> Result<(), StoreError> {
        Ok(self.surroundings.store.extend(&self.principal, &keys, Duration::from_millis(ttl_ms))?)
    }

    fn delete(&mut self, keys: Vec<String>) -> Result<(), StoreError> {
        Ok(self.surroundings.store.delete(&self.principal, &keys)?)
    }
}

impl From<StoreFault> for StoreError {
    fn from(fault: StoreFault) -> Self {
        match fault {
            StoreFault::Unavailable => StoreError::Unavailable,
            StoreFault::QuotaExceeded => StoreError::QuotaExceeded,
            StoreFault::InvalidUrl(reason) | StoreFault::Other(reason) => StoreError::Other(reason),
        }
    }
}

impl From<StoreError> for StoreFault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable => StoreFault::Unavailable,
            StoreError::QuotaExceeded => StoreFault::QuotaExceeded,
            StoreError::NoExpiry => StoreFault::Other("the store cannot expire".to_owned()),
            StoreError::Other(reason) => StoreFault::Other(reason),
        }
    }
}

impl WallClockHost for State {
    fn now(&mut self) -> Datetime {
        datetime(self.surroundings.clock.now())
    }

    fn resolution(&mut self) -> Datetime {
        datetime(Duration::from_millis(1))
    }
}

fn datetime(time: Duration) -> Datetime {
    Datetime { seconds: time.as_secs(), nanoseconds: time.subsec_nanos() }
}
