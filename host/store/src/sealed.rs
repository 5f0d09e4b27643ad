//! A shared store whose values are encrypted and authenticated. A reader of the server cannot read
//! them, and a writer cannot change them unnoticed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use tracing::warn;

use crate::{CursorStore, StoreError, StoreFaults};

/// The purpose of the derived keys, so that the same secret gives other keys elsewhere.
const PURPOSE: &[u8] = b"context-guard stored values 1";

/// A store whose values are sealed with ChaCha20-Poly1305.
///
/// Each principal has a key of its own, which is derived from a signing key by HKDF (RFC 5869). The
/// name of an entry is authenticated with its value, so that values cannot be exchanged either. A
/// value that was not sealed so counts as missing, and as a fault.
///
/// A sealed value is the ciphertext, the tag of 16 bytes, and the nonce of 12 bytes. Sealing and
/// opening take time in proportion to the bytes of a value.
pub struct SealedStore<S> {
    inner: S,
    /// The secrets from which keys are derived. The first one seals; all open.
    secrets: RwLock<Arc<[Prk]>>,
    random: SystemRandom,
    rejected: AtomicU64,
    is_warned: AtomicBool,
}

impl<S: CursorStore> SealedStore<S> {
    /// Returns a store that seals the values in `inner`. It stores nothing before
    /// [`CursorStore::rekey`] sets its keys.
    #[must_use]
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            secrets: RwLock::new(Arc::new([])),
            random: SystemRandom::new(),
            rejected: AtomicU64::new(0),
            is_warned: AtomicBool::new(false),
        }
    }

    /// Returns the keys of a principal. The first one seals.
    fn keys(&self, principal: &str) -> Vec<LessSafeKey> {
        let secrets = Arc::clone(&self.secrets.read().unwrap_or_else(PoisonError::into_inner));
        let purpose = [principal.as_bytes()];
        let derive = |secret: &Prk| {
            let key = secret.expand(&purpose, &CHACHA20_POLY1305).ok()?;
            Some(LessSafeKey::new(UnboundKey::from(key)))
        };
        secrets.iter().filter_map(derive).collect()
    }

    fn seal(
        &self,
        key: &LessSafeKey,
        name: &str,
        mut value: Vec<u8>,
    ) -> Result<Vec<u8>, StoreError> {
        let failed = |_| StoreError::Other("a value cannot be encrypted".to_owned());
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).map_err(failed)?;
        let unique = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(unique, Aad::from(name), &mut value).map_err(failed)?;
        value.extend_from_slice(&nonce);
        Ok(value)
    }

    /// Returns the value in `sealed`, or `None` if no key opens it.
    fn open(&self, keys: &[LessSafeKey], name: &str, sealed: Bytes) -> Option<Bytes> {
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

/// Opens a sealed value with one key.
fn open(key: &LessSafeKey, name: &str, sealed: &Bytes) -> Option<Bytes> {
    let (ciphertext, nonce) = sealed.split_last_chunk::<NONCE_LEN>()?;
    let mut value = ciphertext.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let length = key.open_in_place(nonce, Aad::from(name), &mut value).ok()?.len();
    value.truncate(length);
    Some(value.into())
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
                let value = self.seal(key, &name, value)?;
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

    fn rekey(&self, secrets: &[&[u8]]) {
        let salt = Salt::new(HKDF_SHA256, PURPOSE);
        let secrets = secrets.iter().map(|secret| salt.extract(secret)).collect();
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
