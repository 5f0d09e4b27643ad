//! Signing keys of cursors: from the environment or a file, or random for this run.

use std::path::Path;

use crate::engine::SigningKey;
use crate::{Error, Result, config};

/// The environment variable with the signing keys, separated by commas. The first key signs
/// cursors, and all keys verify them.
pub const VARIABLE: &str = "CONTEXT_GUARD_SIGNING_KEYS";

/// The minimum length of a signing key, in bytes.
pub const MIN_KEY_BYTES: usize = config::MIN_SIGNING_KEY_BYTES;

/// Returns the signing keys in the environment variable [`VARIABLE`]. `None` if it contains none.
#[must_use]
pub fn from_environment() -> Option<Vec<SigningKey>> {
    let value = std::env::var(VARIABLE).ok()?;
    let keys: Vec<_> = value
        .split(',')
        .map(str::trim)
        .filter(|key| !key.is_empty())
        .enumerate()
        .map(|(at, key)| named(&at.to_string(), key))
        .collect();
    (!keys.is_empty()).then_some(keys)
}

fn named(id: &str, secret: &str) -> SigningKey {
    SigningKey { id: id.to_owned(), secret: secret.as_bytes().to_vec() }
}

/// Returns a new random signing key.
///
/// # Errors
/// [`crate::Error::Io`] if the operating system provides no random bytes.
pub fn random() -> Result<SigningKey> {
    let mut secret = [0u8; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| Error::Io(std::io::Error::other(error.to_string())))?;
    Ok(SigningKey { id: "random".to_owned(), secret: secret.to_vec() })
}

/// Reads the signing key in a file. If the file is missing, creates it with a random key, readable
/// only by its owner.
///
/// # Errors
/// [`config::Error::File`].
pub fn from_file(path: &Path) -> Result<SigningKey> {
    Ok(named("file", config::read_or_create_secret(path)?.expose()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_processes_get_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/signing-key");
        let keys: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..16).map(|_| scope.spawn(|| from_file(&path))).collect();
            started.into_iter().map(|thread| thread.join().unwrap().unwrap().secret).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0] && key.len() >= 32));
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn unusable_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(from_file(folder.path()).is_err(), "a folder");
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "\n").unwrap();
        assert!(from_file(&empty).is_err(), "an empty file");
    }
}
