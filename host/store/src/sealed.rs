//! A shared store with encrypted and authenticated values. A reader of the server cannot read them,
//! and a writer cannot change them unnoticed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use context_guard_sealing::{KeyMaterial, NONCE_BYTES, SealingKey};
use tracing::warn;

use crate::{
    ChannelEvent, ChannelFollower, CursorStore, FLEET_PRINCIPAL, RateGrant, SlotGrant, SlotRequest,
    StoreError, StoreFaults,
};

/// The context of the key derivation, so that keys for other purposes differ.
const PURPOSE: &[u8] = b"context-guard stored values 1";

/// A store whose values are encrypted with ChaCha20-Poly1305.
///
/// Each principal has a separate key, which is derived from a signing key by HKDF (RFC 5869). The
/// name of an entry is authenticated with its value, so that values cannot be exchanged. A value
/// that cannot be decrypted counts as missing, and as a fault.
///
/// A sealed value consists of the ciphertext, the tag of 16 bytes, and the nonce of 12 bytes.
/// Sealing and opening take time in proportion to the length of a value.
pub struct SealedStore<S> {
    inner: S,
    /// The secrets from which keys are derived. The first one seals. All of them open.
    secrets: Arc<RwLock<Arc<[KeyMaterial]>>>,
    rejected: AtomicU64,
    is_warned: AtomicBool,
}

impl<S: CursorStore> SealedStore<S> {
    /// Returns a store that seals the values in `inner`. It stores nothing until
    /// [`CursorStore::rekey`] sets its keys.
    #[must_use]
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            secrets: Arc::new(RwLock::new(Arc::new([]))),
            rejected: AtomicU64::new(0),
            is_warned: AtomicBool::new(false),
        }
    }

    /// Returns the keys of a principal. The first one seals.
    fn keys(&self, principal: &str) -> Vec<SealingKey> {
        keys(&self.secrets, principal)
    }

    /// Decrypts the value in `sealed`. `None` if no key opens it, which is counted as a fault.
    fn open(&self, keys: &[SealingKey], name: &str, sealed: Bytes) -> Option<Bytes> {
        let value = keys.iter().find_map(|key| open(key, name, &sealed));
        if value.is_none() {
            self.rejected.fetch_add(1, Ordering::Relaxed);
            if !self.is_warned.swap(true, Ordering::Relaxed) {
                warn!(
                    "the cursor store contains values that were changed, or sealed with another signing key: they count as missing. Give all gateways of this store the same signingKeys, and check who can write to it"
                );
            }
        }
        value
    }
}

/// Returns the name that is authenticated with a field of a board. It contains a slash, unlike
/// names of entries.
fn field_name(board: &str, field: &str) -> String {
    format!("{board}/{field}")
}

/// Derives the keys of a principal. The first one seals.
fn keys(secrets: &RwLock<Arc<[KeyMaterial]>>, principal: &str) -> Vec<SealingKey> {
    let secrets = Arc::clone(&secrets.read().unwrap_or_else(PoisonError::into_inner));
    secrets.iter().filter_map(|secret| secret.key(principal.as_bytes()).ok()).collect()
}

/// Encrypts a value with one key.
fn seal(key: &SealingKey, name: &str, mut value: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    let nonce = key.seal(name.as_bytes(), &mut value);
    value.extend(nonce.map_err(|error| StoreError::Other(error.to_string()))?);
    Ok(value)
}

/// Decrypts a sealed value with one key. `None` if the key or the name does not match.
fn open(key: &SealingKey, name: &str, sealed: &Bytes) -> Option<Bytes> {
    let (sealed, nonce) = sealed.split_last_chunk::<NONCE_BYTES>()?;
    key.open(name.as_bytes(), nonce, sealed).map(Bytes::from)
}

impl<S: CursorStore> CursorStore for SealedStore<S> {
    fn get(&self, principal: &str, keys: &[String]) -> Result<Vec<Option<Bytes>>, StoreError> {
        let found = self.inner.get(principal, keys)?;
        let own = self.keys(principal);
        let named = keys.iter().zip(found);
        Ok(named.map(|(name, sealed)| self.open(&own, name, sealed?)).collect())
    }

    fn put(
        &self,
        principal: &str,
        entries: Vec<(String, Vec<u8>)>,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let keys = self.keys(principal);
        let Some(key) = keys.first() else {
            return Err(StoreError::Other("the store has no key yet".to_owned()));
        };
        let sealed = entries
            .into_iter()
            .map(|(name, value)| {
                let value = seal(key, &name, value)?;
                Ok((name, value))
            })
            .collect::<Result<_, _>>()?;
        self.inner.put(principal, sealed, ttl)
    }

    fn extend(&self, principal: &str, keys: &[String], ttl: Duration) -> Result<(), StoreError> {
        self.inner.extend(principal, keys, ttl)
    }

    fn delete(&self, principal: &str, keys: &[String]) -> Result<(), StoreError> {
        self.inner.delete(principal, keys)
    }

    fn take(
        &self,
        owner: &str,
        interval: Duration,
        tolerance: Duration,
        count: u32,
        unspent: u32,
    ) -> Result<RateGrant, StoreError> {
        self.inner.take(owner, interval, tolerance, count, unspent)
    }

    fn hold_slots(&self, owner: &str, request: &SlotRequest) -> Result<SlotGrant, StoreError> {
        self.inner.hold_slots(owner, request)
    }

    fn read_foreign(&self, key: &str, start: usize, length: usize) -> Result<Bytes, StoreError> {
        self.inner.read_foreign(key, start, length)
    }

    fn exchange(
        &self,
        board: &str,
        written: Vec<(String, Vec<u8>)>,
        removed: &[String],
        ttl: Duration,
    ) -> Result<Vec<(String, Bytes)>, StoreError> {
        let keys = self.keys(FLEET_PRINCIPAL);
        let Some(key) = keys.first() else {
            return Err(StoreError::Other("the store has no key yet".to_owned()));
        };
        let written = written
            .into_iter()
            .map(|(field, value)| {
                let value = seal(key, &field_name(board, &field), value)?;
                Ok((field, value))
            })
            .collect::<Result<_, _>>()?;
        let fields = self.inner.exchange(board, written, removed, ttl)?;
        let opened = fields.into_iter().filter_map(|(field, sealed)| {
            let value = self.open(&keys, &field_name(board, &field), sealed)?;
            Some((field, value))
        });
        Ok(opened.collect())
    }

    fn publish(&self, channel: &str, message: Vec<u8>) -> Result<(), StoreError> {
        let keys = self.keys(FLEET_PRINCIPAL);
        let Some(key) = keys.first() else {
            return Err(StoreError::Other("the store has no key yet".to_owned()));
        };
        self.inner.publish(channel, seal(key, &field_name("channel", channel), message)?)
    }

    fn follow(&self, channel: &str, follower: ChannelFollower) -> Result<(), StoreError> {
        let secrets = Arc::clone(&self.secrets);
        let name = field_name("channel", channel);
        let opening = move |event: ChannelEvent| match event {
            ChannelEvent::Message(sealed) => {
                let keys = keys(&secrets, FLEET_PRINCIPAL);
                let message = keys.iter().find_map(|key| open(key, &name, &sealed));
                // A message of nobody with a signing key is none.
                message.is_none_or(|message| follower(ChannelEvent::Message(message)))
            }
            event => follower(event),
        };
        self.inner.follow(channel, Box::new(opening))
    }

    fn rekey(&self, secrets: &[&[u8]]) {
        let secrets = secrets.iter().map(|secret| KeyMaterial::new(PURPOSE, secret)).collect();
        *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
    }

    fn may_block(&self) -> bool {
        self.inner.may_block()
    }

    fn fallback_store(&self) -> Option<Arc<dyn CursorStore>> {
        self.inner.fallback_store()
    }

    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    fn faults(&self) -> StoreFaults {
        let rejected = self.rejected.load(Ordering::Relaxed);
        StoreFaults { rejected, ..self.inner.faults() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::{MemoryLimits, MemoryStore};

    const MINUTE: Duration = Duration::from_secs(60);
    const VALUE: &[u8] = b"a secret value";

    fn sealed(secrets: &[&[u8]]) -> SealedStore<MemoryStore> {
        let memory = MemoryStore::new(Arc::new(SystemClock), MemoryLimits::default());
        let store = SealedStore::new(memory);
        store.rekey(secrets);
        store
    }

    fn put(store: &dyn CursorStore, principal: &str, key: &str, value: &[u8]) {
        store.put(principal, vec![(key.to_owned(), value.to_vec())], MINUTE).unwrap();
    }

    fn get(store: &dyn CursorStore, principal: &str, key: &str) -> Option<Bytes> {
        store.get(principal, &[key.to_owned()]).unwrap().remove(0)
    }

    #[test]
    fn changed_values_count_as_missing() {
        let store = sealed(&[b"one"]);
        put(&store, "a", "k", VALUE);
        assert_eq!(get(&store, "a", "k").unwrap(), VALUE);
        let stored = get(&store.inner, "a", "k").unwrap();
        assert!(!stored.windows(6).any(|window| window == b"secret"));
        for at in 0..stored.len() {
            let mut changed = stored.to_vec();
            changed[at] ^= 1;
            put(&store.inner, "a", "k", &changed);
            assert_eq!(get(&store, "a", "k"), None, "byte {at}");
            put(&store.inner, "a", "k", &stored[..at]);
            assert_eq!(get(&store, "a", "k"), None, "{at} bytes");
        }
        assert_eq!(store.faults().rejected, 2 * stored.len() as u64);
        put(&store.inner, "a", "k", &stored);
        assert_eq!(get(&store, "a", "k").unwrap(), VALUE);
    }

    /// A value that an earlier version stored remains readable.
    #[test]
    fn format_is_stable() {
        let stored = [
            0xeb, 0x7b, 0xd0, 0x4e, 0x7f, 0xee, 0x4a, 0x59, 0x57, 0xb5, 0x75, 0xd3, 0xa0, 0x52,
            0xa0, 0x2b, 0x66, 0x2b, 0x21, 0x9e, 0x23, 0x34, 0xb5, 0xe1, 0xd5, 0xed, 0xa2, 0xeb,
            0x28, 0x54, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
        ];
        let store = sealed(&[b"one"]);
        put(&store.inner, "a", "k", &stored);
        assert_eq!(get(&store, "a", "k").unwrap(), VALUE);
    }

    #[test]
    fn values_belong_to_their_name_and_principal() {
        let store = sealed(&[b"one"]);
        put(&store, "a", "k", VALUE);
        let stored = get(&store.inner, "a", "k").unwrap();
        put(&store.inner, "a", "other", &stored);
        put(&store.inner, "b", "k", &stored);
        assert_eq!((get(&store, "a", "other"), get(&store, "b", "k")), (None, None));
    }

    #[test]
    fn rotated_keys_open_until_they_are_removed() {
        let store = sealed(&[b"one"]);
        put(&store, "a", "k", VALUE);
        store.rekey(&[b"two", b"one"]);
        put(&store, "a", "new", VALUE);
        assert!(get(&store, "a", "k").is_some() && get(&store, "a", "new").is_some());
        store.rekey(&[b"two"]);
        assert!(get(&store, "a", "k").is_none() && get(&store, "a", "new").is_some());
    }

    #[test]
    fn store_without_a_key_stores_nothing() {
        let store = sealed(&[]);
        let entry = vec![("k".to_owned(), VALUE.to_vec())];
        assert!(store.put("a", entry, MINUTE).is_err());
        assert_eq!(get(&store.inner, "a", "k"), None);
    }
}
