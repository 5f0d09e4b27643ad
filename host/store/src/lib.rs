//! Cursor stores. They store snapshots of answers, to which cursors refer, until the cursors
//! expire.
#![forbid(unsafe_code)]

mod breaker;
pub mod clock;
#[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only shared stores have a health"))]
mod health;
mod layered;
pub mod memory;
mod none;
mod open;
#[cfg(feature = "redis")]
pub mod redis;
mod scope;
mod sealed;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

pub use breaker::Breaker;
pub use clock::Clock;
pub use health::StoreFaults;
pub use layered::LayeredStore;
pub use memory::{MemoryLimits, MemoryStore};
pub use none::NoStore;
pub use open::{StoreOptions, Topology, open};
pub use scope::{own_scope, scope, scope_principal};
pub use sealed::SealedStore;

/// The reason why a cursor store cannot serve a call.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The store cannot be reached or does not answer in time.
    #[error("the store cannot be reached")]
    Unavailable,
    /// The entries to store exceed the quota of the principal or of the store.
    #[error("the entries exceed the quota")]
    QuotaExceeded,
    /// The URL does not select a supported store. Contains the message.
    #[error("{0}")]
    InvalidUrl(String),
    /// Any other failure. Contains the message.
    #[error("{0}")]
    Other(String),
}

/// The decision about requests that several gateways count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateGrant {
    /// The number of admitted requests, from 0 to all.
    pub granted: u32,
    /// The time until the next request is admitted. Zero if all were admitted.
    pub wait: Duration,
}

/// A gateway's demand for shared permits (slots) of one owner. A slot permits one request in
/// flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    /// The name of the gateway, which is unique among the gateways that use the store.
    pub holder: String,
    /// The number of requests that are in flight at the gateway.
    pub used: u32,
    /// The number of requests that wait at the gateway for a slot.
    pub waiting: u32,
    /// The number of slots for further requests. The gateway receives them only if no gateway lacks
    /// slots.
    pub spare: u32,
    /// The maximum number of the owner's requests in flight at all gateways.
    pub limit: u32,
    /// The time after which the slots are freed unless the gateway requests them again.
    pub lifetime: Duration,
}

/// The slots that a gateway holds for one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotGrant {
    /// The number of the owner's requests that may be in flight at the gateway. If more are already
    /// in flight, the gateway starts none until enough have ended.
    pub slots: u32,
    /// True if other gateways lack slots.
    pub is_contended: bool,
}

/// An event of a channel, for its follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelEvent {
    /// The connection is established. All messages from now on are received.
    Connected,
    /// The connection is lost. Messages may be lost until the next [`ChannelEvent::Connected`].
    Lost,
    /// A message from one of the gateways.
    Message(Bytes),
}

/// A function that receives the events of a channel. It returns false to stop.
pub type ChannelFollower = Box<dyn Fn(ChannelEvent) -> bool + Send + Sync>;

/// The owner of values that all gateways with the same store share. The control character
/// distinguishes it from all principals.
pub const FLEET_PRINCIPAL: &str = "\u{0}fleet";

/// Stores bytes under keys for a limited time. Each principal has separate keys, and cannot read
/// those of others.
pub trait CursorStore: Send + Sync {
    /// Returns the values of the keys, in the same order. `None` for a missing key. Values may
    /// share memory with the store.
    ///
    /// # Errors
    /// [`StoreError`].
    fn get(&self, principal: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError>;

    /// Stores all entries, each a key and a value, for the time `ttl`. If that fails, some of them
    /// may be stored.
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

    /// Deletes the entries of these keys. Missing keys are ignored.
    ///
    /// # Errors
    /// [`StoreError`].
    fn delete(&self, principal: &str, keys: &[String]) -> Result<(), StoreError>;

    /// Admits as many of `count` requests of `owner` as a rate limit allows, for all gateways with
    /// this store. `interval` is the time between two requests, and `tolerance` the time by which
    /// they may arrive early. `unspent` requests that were admitted earlier are returned first.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], also if the store is not shared.
    fn take(
        &self,
        owner: &str,
        interval: Duration,
        tolerance: Duration,
        count: u32,
        unspent: u32,
    ) -> Result<RateGrant, StoreError> {
        let _ = (owner, interval, tolerance, count, unspent);
        Err(StoreError::Unavailable)
    }

    /// Replaces the slots that a gateway holds for requests of `owner`. All gateways with this
    /// store together hold at most the limit. If they demand more, the slots are divided fairly.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], also if the store is not shared.
    fn hold_slots(&self, owner: &str, request: &SlotRequest) -> Result<SlotGrant, StoreError> {
        let _ = (owner, request);
        Err(StoreError::Unavailable)
    }

    /// Returns up to `length` bytes of the value of `key`, beginning at the byte `start`. Empty if
    /// the key is missing. Another program has written the value, so the key has no prefix, and the
    /// value is not encrypted.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], also if the store is not shared.
    fn read_foreign(&self, key: &str, start: usize, length: usize) -> Result<Bytes, StoreError> {
        let _ = (key, start, length);
        Err(StoreError::Unavailable)
    }

    /// Writes and removes fields of a board, and returns all its fields afterwards. All gateways
    /// with this store share the boards. A board that is not used for the time `ttl` is deleted.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], also if the store is not shared.
    fn exchange(
        &self,
        board: &str,
        written: Vec<(String, Vec<u8>)>,
        removed: &[String],
        ttl: Duration,
    ) -> Result<Vec<(String, Bytes)>, StoreError> {
        let _ = (board, written, removed, ttl);
        Err(StoreError::Unavailable)
    }

    /// Publishes a message to all gateways that follow the channel in this store.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`], also if the store is not shared.
    fn publish(&self, channel: &str, message: Vec<u8>) -> Result<(), StoreError> {
        let _ = (channel, message);
        Err(StoreError::Unavailable)
    }

    /// Calls `follower` with the events of a channel, in order, until it returns false or the store
    /// is dropped.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store is not shared.
    fn follow(&self, channel: &str, follower: ChannelFollower) -> Result<(), StoreError> {
        let _ = (channel, follower);
        Err(StoreError::Unavailable)
    }

    /// Sets the secrets that protect the values outside of this process. The first one protects new
    /// values, and all are accepted. Takes effect with the next call. Stores without protection
    /// ignore them.
    fn rekey(&self, secrets: &[&[u8]]) {
        let _ = secrets;
    }

    /// Returns true if calls of this store may block, because they wait for another machine.
    fn may_block(&self) -> bool {
        false
    }

    /// Returns the local store that replaces this one while it is unreachable. `None` if there is
    /// none. Each call of this function while the store is down counts as a call that was served
    /// without it.
    fn fallback_store(&self) -> Option<Arc<dyn CursorStore>> {
        None
    }

    /// Returns true unless the store is known to be unreachable.
    fn is_up(&self) -> bool {
        true
    }

    /// Returns the numbers of faults since the store was opened.
    fn faults(&self) -> StoreFaults {
        StoreFaults::default()
    }
}
