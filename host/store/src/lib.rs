//! Cursor stores: snapshots are stored until their cursors expire.
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

/// Why a store cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// Not reachable, or not answering in time.
    #[error("the store cannot be reached")]
    Unavailable,
    /// The entries are more than the principal, or the whole store, may hold.
    #[error("the entries exceed the quota")]
    QuotaExceeded,
    /// The URL names no store.
    #[error("{0}")]
    InvalidUrl(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

/// Keeps bytes under names, for a time. Every principal has names of its own: nobody reads another's.
pub trait CursorStore: Send + Sync {
    /// The values of these keys, in their order; they are shared with the store, not copied.
    ///
    /// # Errors
    /// [`StoreError`].
    fn get(&self, principal: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError>;

    /// Keeps all these entries for a time, or fails.
    ///
    /// # Errors
    /// [`StoreError`].
    fn put(
        &self,
        principal: &str,
        entries: Vec<(String, Vec<u8>)>,
        ttl: Duration,
    ) -> Result<(), StoreError>;

    /// Keeps these keys for a time from now. Those that are not there are passed over.
    ///
    /// # Errors
    /// [`StoreError`].
    fn extend(&self, principal: &str, keys: &[String], ttl: Duration) -> Result<(), StoreError>;

    /// Forgets these keys.
    ///
    /// # Errors
    /// [`StoreError`].
    fn delete(&self, principal: &str, keys: &[String]) -> Result<(), StoreError>;

    /// Whether a call may wait for another machine.
    fn may_block(&self) -> bool {
        false
    }

    /// What keeps entries while this cannot, for this process alone. None: nothing does.
    fn fallback_store(&self) -> Option<Arc<dyn CursorStore>> {
        None
    }

    /// Whether it can be reached, as far as is known.
    fn is_up(&self) -> bool {
        true
    }
}
