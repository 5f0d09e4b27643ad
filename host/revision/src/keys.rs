//! Signing keys of cursors: from the environment or a file, or random for this run.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::engine::SigningKey;
use crate::{Error, Result, config};

/// The environment variable with the signing keys, separated by commas. The first key signs
/// cursors, all verify them.
pub const VARIABLE: &str = "CONTEXT_GUARD_SIGNING_KEYS";

/// Returns the signing keys in the environment variable [`VARIABLE`], or `None` if it has none.
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
/// If the operating system has no randomness.
pub fn random() -> Result<SigningKey> {
    let mut secret = [0u8; 32];
    getrandom::fill(&mut secret)
        .map_err(|error| Error::Io(std::io::Error::other(error.to_string())))?;
    Ok(SigningKey { id: "random".to_owned(), secret: secret.to_vec() })
}

/// Reads the signing key in a file. Creates the file with a random key if it is missing, readable
/// by its owner only.
///
/// # Errors
/// [`config::Error::File`].
pub fn from_file(path: &Path) -> Result<SigningKey> {
    let file = |source| config::Error::File { path: path.to_owned(), source };
    match read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        read => return Ok(read.map_err(file)?),
    }
    let key = STANDARD.encode(random()?.secret);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(file)?;
    }
    // Clients start many servers at once. No other process may read a key that is half written.
    let unique: String = random()?.secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let draft = path.with_extension(unique);
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut open = options.open(&draft).map_err(file)?;
    let stored = writeln!(open, "{key}").and_then(|()| match std::fs::hard_link(&draft, path) {
        // Another process created the file first: its key counts.
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    });
    let _ = std::fs::remove_file(&draft);
    stored.map_err(file)?;
    Ok(read(path).map_err(file)?)
}

fn read(path: &Path) -> std::io::Result<SigningKey> {
    let key = std::fs::read_to_string(path)?;
    if key.trim().is_empty() {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "the file is empty"));
    }
    Ok(named("file", key.trim()))
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
