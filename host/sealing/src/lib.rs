//! Encrypts and authenticates stored values with ChaCha20-Poly1305 (RFC 8439). The keys are derived
//! from a secret by HKDF with SHA-256 (RFC 5869).
//!
//! ```
//! use context_guard_sealing::KeyMaterial;
//!
//! let key = KeyMaterial::new(b"example values 1", b"a long random secret").key(b"alice")?;
//! let (mut value, place) = (b"a value".to_vec(), b"name");
//! let nonce = key.seal(place, &mut value)?;
//! assert_eq!(key.open(place, &nonce, &value).as_deref(), Some(b"a value".as_slice()));
//! assert_eq!(key.open(b"other", &nonce, &value), None);
//! # Ok::<(), context_guard_sealing::SealError>(())
//! ```
#![forbid(unsafe_code)]

use std::fmt::Write as _;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce as UsedNonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

/// The length of a nonce, in bytes.
pub const NONCE_BYTES: usize = ring::aead::NONCE_LEN;

/// A random number that is stored with each sealed value. It is not secret.
pub type Nonce = [u8; NONCE_BYTES];

/// The error that a key cannot be derived or a value cannot be encrypted. Either the operating
/// system provides no random bytes, or the value exceeds the cipher's maximum of 256 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a value cannot be encrypted")]
pub struct SealError;

impl From<ring::error::Unspecified> for SealError {
    fn from(_: ring::error::Unspecified) -> Self {
        Self
    }
}

/// Returns bytes, such as a digest, as hexadecimal digits in lower case.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    let digits = String::with_capacity(bytes.len() * 2);
    bytes.iter().fold(digits, |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

/// Material from which keys are derived.
pub struct KeyMaterial(Prk);

impl KeyMaterial {
    /// Creates the material from the bytes `secret`. Another `purpose` gives other keys, so that
    /// one secret can have several uses.
    #[must_use]
    pub fn new(purpose: &[u8], secret: &[u8]) -> Self {
        Self(Salt::new(HKDF_SHA256, purpose).extract(secret))
    }

    /// Derives the key of an owner of values, such as a principal.
    ///
    /// # Errors
    /// [`SealError`] if the derivation fails.
    pub fn key(&self, owner: &[u8]) -> Result<SealingKey, SealError> {
        let info = [owner];
        let key = UnboundKey::from(self.0.expand(&info, &CHACHA20_POLY1305)?);
        Ok(SealingKey(LessSafeKey::new(key)))
    }
}

/// A key that seals and opens values.
pub struct SealingKey(LessSafeKey);

impl SealingKey {
    /// Encrypts `value` in place, and appends an authentication tag of 16 bytes. Returns the nonce,
    /// which the caller stores with the value. [`Self::open`] needs the same `context`, such as the
    /// name of the value. Takes time in proportion to the length of the value.
    ///
    /// # Errors
    /// [`SealError`]. The content of `value` is then unspecified.
    pub fn seal(&self, context: &[u8], value: &mut Vec<u8>) -> Result<Nonce, SealError> {
        let mut nonce = Nonce::default();
        // 96 random bits: the same nonce twice is improbable below 2^32 values of a key.
        SystemRandom::new().fill(&mut nonce)?;
        let unique = UsedNonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(unique, Aad::from(context), value)?;
        Ok(nonce)
    }

    /// Decrypts and returns the value in `sealed`, which is the ciphertext and its tag. `None` if
    /// the key or the context is another one, or `sealed` or the nonce was changed.
    #[must_use]
    pub fn open(&self, context: &[u8], nonce: &Nonce, sealed: &[u8]) -> Option<Vec<u8>> {
        let nonce = UsedNonce::assume_unique_for_key(*nonce);
        let mut value = sealed.to_vec();
        let length = self.0.open_in_place(nonce, Aad::from(context), &mut value).ok()?.len();
        value.truncate(length);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(owner: &str) -> SealingKey {
        KeyMaterial::new(b"purpose", b"secret").key(owner.as_bytes()).unwrap()
    }

    /// The value was sealed with the Python package `cryptography` 48.
    #[test]
    fn values_of_another_implementation_are_opened() {
        let nonce: Nonce = std::array::from_fn(|at| at as u8);
        let sealed = [
            0x1d, 0xd3, 0x6e, 0xe9, 0xc3, 0x97, 0x44, 0x86, 0xaa, 0x87, 0xca, 0xe0, 0xb4, 0x7d,
            0x31, 0xb2, 0x02, 0x1f, 0x98, 0x11,
        ];
        assert_eq!(key("info").open(b"context", &nonce, &sealed).unwrap(), b"text");
    }

    #[test]
    fn value_is_bound_to_key_context_and_nonce() {
        let mut sealed = b"a secret value".to_vec();
        let nonce = key("a").seal(b"k", &mut sealed).unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_eq!(key("a").open(b"k", &nonce, &sealed).unwrap(), b"a secret value");
        assert_eq!(key("b").open(b"k", &nonce, &sealed), None);
        assert_eq!(key("a").open(b"other", &nonce, &sealed), None);
        assert_eq!(key("a").open(b"k", &Nonce::default(), &sealed), None);
        let other = KeyMaterial::new(b"other", b"secret").key(b"a").unwrap();
        assert_eq!(other.open(b"k", &nonce, &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(key("a").open(b"k", &nonce, &changed), None, "byte {at}");
            assert_eq!(key("a").open(b"k", &nonce, &sealed[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn each_nonce_is_new() {
        let seal = || key("a").seal(b"k", &mut Vec::new()).unwrap();
        assert_ne!(seal(), seal());
    }
}
