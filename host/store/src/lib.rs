//! Cursor stores, which keep snapshots until their cursors expire.
#![forbid(unsafe_code)]

mod breaker;
pub mod clock;
mod layered;
pub mod memory;
mod none;
mod open;
#[cfg(feature = "redis")]
pub mod redis;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

pub use breaker::Breaker;
pub use clock::Clock;
pub use layered::LayeredStore;
pub use memory::{MemoryLimits, MemoryStore};
pub use none::NoStore;
pub use open::{StoreOptions, open};

/// The reason why a store cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The store cannot be reached or does not answer in time.
    #[error("the store cannot be reached")]
    Unavailable,
    /// The entries exceed the quota of the principal or of the store.
    #[error("the entries exceed the quota")]
    QuotaExceeded,
    /// The URL names no supported store.
    #[error("{0}")]
    InvalidUrl(String),
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

/// Stores bytes under keys for a limited time. Each principal has its own keys and cannot read
/// those of others.
pub trait CursorStore: Send + Sync {
    /// Returns the values of the keys in the same order. Values share memory with the store.
    ///
    /// # Errors
    /// [`StoreError`].
    fn get(&self, principal: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError>;

    /// Stores all entries for `ttl`, or fails.
    ///
    /// # Errors
    /// [`StoreError`].
    fn put(
        &self,
        principal: &str,
        entries: Vec<(String, Vec<u8>)>,
        ttl: Duration,
    ) -> Result<(), StoreError>;

    /// Extends the lifetime of the keys to `ttl` from now. Missing keys are ignored.
    ///
    /// # Errors
    /// [`StoreError`].
    fn extend(&self, principal: &str, keys: &[String], ttl: Duration) -> Result<(), StoreError>;

    /// Deletes the keys.
    ///
    /// # Errors
    /// [`StoreError`].
    fn delete(&self, principal: &str, keys: &[String]) -> Result<(), StoreError>;

    /// Returns true if a call may wait for another machine.
    fn may_block(&self) -> bool {
        false
    }

    /// Returns the store that replaces this one for this process while it is down, if there is one.
    fn fallback_store(&self) -> Option<Arc<dyn CursorStore>> {
        None
    }

    /// Returns true if the store was reachable at the last call.
    fn is_up(&self) -> bool {
        true
    }
}
