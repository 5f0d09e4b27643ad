//! The key that signs bundles: an Ed25519 key in the file format of minisign.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};

use crate::{Error, Result, with_path};

/// The length of the decoded key line, in bytes: two algorithms and the checksum algorithm (6),
/// salt and password limits (48), key id (8), key pair (64), checksum (32).
const KEY_BYTES: usize = 158;
/// The algorithm identifier of Ed25519 in keys and signatures.
const ALGORITHM: &[u8; 2] = b"Ed";

/// An Ed25519 key that creates minisign signatures.
pub struct SecretKey {
    id: [u8; 8],
    pair: Ed25519KeyPair,
}

fn invalid() -> Error {
    Error::Invalid(
        "not a key file of `context-guard bundle key` or `minisign -G -W`: a key with a password cannot be used"
            .to_owned(),
    )
}

impl SecretKey {
    /// Creates a random key. Returns it with the text of its file, which minisign can also read.
    ///
    /// # Errors
    /// The operating system provides no random numbers.
    pub fn generate() -> Result<(Self, String)> {
        let mut random = [0u8; 40];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| Error::Invalid("the system has no random numbers".to_owned()))?;
        let (seed, id) = random.split_at(32);
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| invalid())?;
        // "Ed": Ed25519. Two zeros: no password. "B2": BLAKE2b, whose checksum minisign computes
        // for keys with a password only.
        let zeros = [0u8; 48];
        let public = pair.public_key().as_ref().to_vec();
        let parts: [&[u8]; 7] = [ALGORITHM, b"\0\0B2", &zeros, id, seed, &public, &[0u8; 32]];
        let text = format!(
            "untrusted comment: context-guard bundle key: secret\n{}\n",
            STANDARD.encode(parts.concat())
        );
        let key = Self { id: id.try_into().map_err(|_| invalid())?, pair };
        Ok((key, text))
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// [`Error::File`]. [`Error::Invalid`] if the file has another format, or is protected by a
    /// password.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(&std::fs::read_to_string(path).map_err(with_path(path))?)
    }

    /// Parses the text of a key file.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn parse(text: &str) -> Result<Self> {
        let line =
            text.lines().map(str::trim).rfind(|line| !line.is_empty()).ok_or_else(invalid)?;
        let bytes = STANDARD.decode(line).map_err(|_| invalid())?;
        let bytes: [u8; KEY_BYTES] = bytes.try_into().map_err(|_| invalid())?;
        let (head, rest) = bytes.split_at(54);
        let (id, rest) = rest.split_at(8);
        let (seed, rest) = rest.split_at(32);
        let (public, _) = rest.split_at(32);
        if head.get(..4) != Some(&[ALGORITHM[0], ALGORITHM[1], 0, 0]) {
            return Err(invalid());
        }
        let pair = Ed25519KeyPair::from_seed_and_public_key(seed, public).map_err(|_| invalid())?;
        Ok(Self { id: id.try_into().map_err(|_| invalid())?, pair })
    }

    /// Returns the public key in base64, in the form that minisign writes.
    #[must_use]
    pub fn public_text(&self) -> String {
        let parts: [&[u8]; 3] = [ALGORITHM, &self.id, self.pair.public_key().as_ref()];
        STANDARD.encode(parts.concat())
    }

    /// Returns the four lines of a minisign signature of `message`. The signature also covers
    /// `comment`.
    pub(crate) fn sign(&self, message: &[u8], comment: &str) -> String {
        let signature = self.pair.sign(message);
        let covered = [signature.as_ref(), comment.as_bytes()].concat();
        let parts: [&[u8]; 3] = [ALGORITHM, &self.id, signature.as_ref()];
        format!(
            "untrusted comment: signature of a context-guard bundle\n{}\ntrusted comment: {comment}\n{}\n",
            STANDARD.encode(parts.concat()),
            STANDARD.encode(self.pair.sign(&covered))
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_file_is_read_again() {
        let (key, text) = SecretKey::generate().unwrap();
        let again = SecretKey::parse(&text).unwrap();
        assert_eq!(again.public_text(), key.public_text());
        assert_eq!(again.sign(b"text", "comment"), key.sign(b"text", "comment"));
    }

    /// The key was written by minisign 0.11 with `-G -W`.
    #[test]
    fn key_of_minisign_is_read() {
        let line = "RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAASJivNALynn+Aog0IufYJpkKgY9K3cu7tkSYcTDdWQhCyt2MnwR0Nz7L+ORsdlncltNglIt/+PxlVWLFaPcvag03J0ixKGgJQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let text = format!("untrusted comment: minisign encrypted secret key\n{line}\n");
        let key = SecretKey::parse(&text).unwrap();
        assert_eq!(key.public_text(), "RWRImK80AvKef7L+ORsdlncltNglIt/+PxlVWLFaPcvag03J0ixKGgJQ");
    }

    #[test]
    fn other_files_are_refused() {
        let (_, text) = SecretKey::generate().unwrap();
        for text in
            ["", "RWQ", text.trim_end_matches("AAA=\n"), &text.replace("RWQAAEIy", "RWRTY0Iy")]
        {
            assert!(SecretKey::parse(text).is_err(), "{text}");
        }
    }
}
