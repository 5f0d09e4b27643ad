//! The encryption of stored tokens: ChaCha20-Poly1305 under a key that is derived from a text.

use context_guard_config::Secret;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

use crate::{Error, Result};

/// The minimum length of a key, in characters. Shorter ones could be guessed.
const MIN_KEY_CHARS: usize = 32;
/// The purpose of the derived key, so that the same text gives other keys elsewhere.
const PURPOSE: &[u8] = b"context-guard token encryption 1";

/// A key that encrypts and decrypts tokens.
pub(crate) struct Cipher(LessSafeKey);

impl Cipher {
    /// Creates a cipher whose key is derived from the text `key`.
    pub(crate) fn new(key: &Secret) -> Result<Self> {
        let text = key.expose().trim();
        if text.chars().count() < MIN_KEY_CHARS {
            return Err(Error::Setup(format!(
                "the key of stored tokens has fewer than {MIN_KEY_CHARS} characters: create one \
                 with `openssl rand -base64 32`"
            )));
        }
        let failed = |_| Error::Setup("the key of stored tokens cannot be derived".to_owned());
        let derived = Salt::new(HKDF_SHA256, PURPOSE).extract(text.as_bytes());
        let unbound: UnboundKey =
            derived.expand(&[PURPOSE], &CHACHA20_POLY1305).map_err(failed)?.into();
        Ok(Self(LessSafeKey::new(unbound)))
    }

    /// Encrypts a text. `context` must be the same for decryption.
    pub(crate) fn seal(&self, context: &[u8], text: &[u8]) -> Result<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(std::io::Error::other)?;
        let mut sealed = text.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.0
            .seal_in_place_append_tag(unique, Aad::from(context), &mut sealed)
            .map_err(|_| Error::Setup("a token cannot be encrypted".to_owned()))?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Decrypts a text. `None` if the key or `context` is another, or the text was changed.
    pub(crate) fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let text = self.0.open_in_place(nonce, Aad::from(context), &mut sealed).ok()?;
        Some(text.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher(letter: &str) -> Cipher {
        Cipher::new(&Secret::new(&letter.repeat(MIN_KEY_CHARS))).unwrap()
    }

    #[test]
    fn text_is_bound_to_key_and_context() {
        let sealed = cipher("a").seal(b"alice", b"a secret token").unwrap();
        assert!(!sealed.windows(6).any(|window| window == b"secret"));
        assert_eq!(cipher("a").open(b"alice", &sealed).unwrap(), b"a secret token");
        assert_eq!(cipher("b").open(b"alice", &sealed), None);
        assert_eq!(cipher("a").open(b"bob", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(cipher("a").open(b"alice", &changed), None, "byte {at}");
            assert_eq!(cipher("a").open(b"alice", &sealed[..at]), None, "{at} bytes");
        }
        assert_ne!(sealed, cipher("a").seal(b"alice", b"a secret token").unwrap());
    }

    #[test]
    fn short_keys_are_refused() {
        assert!(Cipher::new(&Secret::new("short")).is_err());
    }
}
