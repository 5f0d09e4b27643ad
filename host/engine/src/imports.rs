//! The interfaces that the guard component imports: a cursor store and a clock.

use std::time::Duration;

use context_guard_cursor_store::StoreError;
use wasmtime::{StoreLimits, StoreLimitsBuilder};

use super::Engine;
use super::bindings::context_guard::guard::cursor_store::{Entry, Host as CursorStoreHost};
use super::bindings::context_guard::guard::types::{
    Host as TypesHost, StoreError as WitStoreError,
};
use super::bindings::wasi::clocks::wall_clock::{Datetime, Host as WallClockHost};
use super::pace::Pace;
use super::services::HostServices;

/// The host state of one guard instance: its store, clock, principal, memory limit and time limit.
pub(super) struct State {
    services: HostServices,
    principal: String,
    pub(super) limits: StoreLimits,
    pub(super) pace: Pace,
}

impl State {
    pub(super) fn new(engine: &Engine, services: &HostServices, principal: &str) -> Self {
        let max_memory = engine.options.max_memory;
        let limits =
            StoreLimitsBuilder::new().memory_size(max_memory).trap_on_grow_failure(false).build();
        let pace = Pace::new(engine, principal);
        Self { services: services.clone(), principal: principal.to_owned(), limits, pace }
    }
}

impl TypesHost for State {}

impl CursorStoreHost for State {
    fn get(&mut self, keys: Vec<String>) -> Result<Vec<Option<Vec<u8>>>, WitStoreError> {
        let values = self.services.store.get(&self.principal, &keys)?;
        Ok(values.into_iter().map(|value| value.map(|value| value.to_vec())).collect())
    }

    fn put(&mut self, entries: Vec<Entry>, ttl_ms: u64) -> Result<(), WitStoreError> {
        let entries = entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
        Ok(self.services.store.put(&self.principal, entries, Duration::from_millis(ttl_ms))?)
    }

    fn extend(&mut self, keys: Vec<String>, ttl_ms: u64) -> Result<(), WitStoreError> {
        Ok(self.services.store.extend(&self.principal, &keys, Duration::from_millis(ttl_ms))?)
    }

    fn delete(&mut self, keys: Vec<String>) -> Result<(), WitStoreError> {
        Ok(self.services.store.delete(&self.principal, &keys)?)
    }
}

impl From<StoreError> for WitStoreError {
    fn from(fault: StoreError) -> Self {
        match fault {
            StoreError::Unavailable => WitStoreError::Unavailable,
            StoreError::QuotaExceeded => WitStoreError::QuotaExceeded,
            StoreError::InvalidUrl(reason) | StoreError::Other(reason) => {
                WitStoreError::Other(reason)
            }
        }
    }
}

impl From<WitStoreError> for StoreError {
    fn from(error: WitStoreError) -> Self {
        match error {
            WitStoreError::Unavailable => StoreError::Unavailable,
            WitStoreError::QuotaExceeded => StoreError::QuotaExceeded,
            WitStoreError::NoExpiry => StoreError::Other("the store cannot expire".to_owned()),
            WitStoreError::Other(reason) => StoreError::Other(reason),
        }
    }
}

impl WallClockHost for State {
    fn now(&mut self) -> Datetime {
        datetime(self.services.clock.now())
    }

    fn resolution(&mut self) -> Datetime {
        datetime(Duration::from_millis(1))
    }
}

fn datetime(time: Duration) -> Datetime {
    Datetime { seconds: time.as_secs(), nanoseconds: time.subsec_nanos() }
}
