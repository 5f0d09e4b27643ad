//! Signing keys of cursors: from the environment or a file, or random for this run.

use std::io::Write as _;
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
    if let Ok(key) = std::fs::read_to_string(path) {
        return Ok(named("file", key.trim()));
    }
    let key = STANDARD.encode(random()?.secret);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(file)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(mut open) => writeln!(open, "{key}").map_err(file)?,
        // Another process created the file first: its key counts.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return from_file(path),
        Err(error) => return Err(file(error).into()),
    }
    Ok(named("file", &key))
}
