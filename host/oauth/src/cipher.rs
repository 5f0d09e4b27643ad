//! Encrypts stored tokens with a key that is derived from a text.

use context_guard_config::Secret;
use context_guard_sealing::{KeyMaterial, NONCE_BYTES, SealingKey};

use crate::{Error, Result};

/// The minimum length of a key, in characters. A shorter key could be guessed.
const MIN_KEY_CHARS: usize = 32;
/// The context of the key derivation, so that keys for other purposes differ.
const PURPOSE: &[u8] = b"context-guard token encryption 1";

/// A key that encrypts and decrypts tokens.
pub(crate) struct Cipher(SealingKey);

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
        let key = KeyMaterial::new(PURPOSE, text.as_bytes()).key(PURPOSE);
        Ok(Self(key.map_err(failed)?))
    }

    /// Encrypts a text. Returns the nonce followed by the encrypted text. Decryption needs the same
    /// `context`.
    pub(crate) fn seal(&self, context: &[u8], text: &[u8]) -> Result<Vec<u8>> {
        let mut sealed = text.to_vec();
        let failed = |_| Error::Setup("a token cannot be encrypted".to_owned());
        let nonce = self.0.seal(context, &mut sealed).map_err(failed)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Decrypts a text. `None` if the key or `context` is another one, or the text was changed.
    pub(crate) fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        self.0.open(context, nonce, sealed)
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

    /// The file of a token that an earlier version stored remains readable.
    #[test]
    fn format_is_stable() {
        let sealed = [
            0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0xb0, 0xf9, 0xcf, 0xf1, 0xd7, 0x92, 0x86, 0x19,
            0xfd, 0x80, 0x5e, 0x07, 0x4f, 0x7e, 0x4c, 0x6b, 0x51, 0xd4, 0x86, 0xd9, 0x73, 0xf5,
            0xc8, 0x10, 0xdb, 0xfe, 0x65, 0xe8, 0x73, 0x76,
        ];
        assert_eq!(cipher("a").open(b"alice", &sealed).unwrap(), b"a secret token");
    }

    #[test]
    fn short_keys_are_refused() {
        assert!(Cipher::new(&Secret::new("short")).is_err());
    }
}
