//! API keys, `cg_ID_SECRET`. They are stored as SHA-256 digests, and looked up by their id, which
//! is not a secret.
//!
//! A key has 256 random bits, so nobody can guess it from its digest. A slow password hash would
//! add no security.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use context_guard_protocol::to_hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tracing::warn;

use super::Refusal;
use crate::config::Secret;
use crate::{Error, Result, config};

/// The prefix of every API key.
pub const PREFIX: &str = "cg_";
/// The minimum time between two checks of the key file for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The prefix of every digest in the key file.
const DIGEST_PREFIX: &str = "sha256:";

/// The contents of a key file: digests of API keys, and no secrets.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    keys: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The id of the key: the part between `cg_` and the secret.
    id: String,
    /// The principal that owns the key.
    name: String,
    /// `sha256:` and the digest of the whole key, in hexadecimal.
    hash: String,
}

impl Entry {
    /// Returns true if the entry has an argon2 hash, the format of earlier versions.
    fn is_outdated(&self) -> bool {
        !self.hash.starts_with(DIGEST_PREFIX)
    }
}

fn hash(key: &Secret) -> String {
    DIGEST_PREFIX.to_owned() + &to_hex(&Sha256::digest(key.expose().as_bytes()))
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Io(std::io::Error::other(error.to_string())))?;
    Ok(bytes)
}

/// Creates an API key for the principal `name`, and adds its digest to the key file at `path`.
///
/// The file is created if it is missing, readable only by its owner. The digest does not reveal the
/// key, so the returned value is the only copy.
///
/// # Errors
/// [`Error::Config`] if the file cannot be read, parsed or written. [`Error::Setup`] if the name
/// already has a key. [`Error::Io`] if the system provides no random numbers.
pub fn create(path: &Path, name: &str) -> Result<Secret> {
    let mut file = match std::fs::read_to_string(path) {
        Ok(text) => parse(path, &text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => KeyFile::default(),
        Err(source) => return Err(config::Error::File { path: path.to_owned(), source }.into()),
    };
    // A key whose hash is outdated no longer works: the new one replaces it.
    file.keys.retain(|key| key.name != name || !key.is_outdated());
    if file.keys.iter().any(|key| key.name == name) {
        return Err(Error::Setup(format!(
            "{} already has a key for `{name}`: choose another name or remove that entry",
            path.display()
        )));
    }
    let id = to_hex(&random::<6>()?);
    let key = Secret::new(&format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(random::<32>()?)));
    file.keys.push(Entry { id, name: name.to_owned(), hash: hash(&key) });
    write(path, &file)?;
    Ok(key)
}

/// Replaces the key file atomically: a reader sees either the old contents or the new ones.
fn write(path: &Path, file: &KeyFile) -> Result<()> {
    let fault = |source| config::Error::File { path: path.to_owned(), source };
    let text = serde_json::to_string_pretty(file).map_err(|error| fault(error.into()))?;
    let beside = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut open = options.open(&beside).map_err(fault)?;
    std::io::Write::write_all(&mut open, text.as_bytes()).map_err(fault)?;
    Ok(std::fs::rename(&beside, path).map_err(fault)?)
}

fn parse(path: &Path, text: &str) -> Result<KeyFile> {
    let file = serde_json::from_str(text).map_err(|error| config::Error::Format {
        path: path.to_owned(),
        reason: format!("invalid key file: {error}; `context-guard key new` creates one"),
    })?;
    Ok(file)
}

/// Parses a key file whose entries are used to check keys.
///
/// # Errors
/// The text is invalid, or an entry has an outdated hash.
fn parse_current(path: &Path, text: &str) -> Result<KeyFile> {
    let file = parse(path, text)?;
    match file.keys.iter().find(|key| key.is_outdated()) {
        None => Ok(file),
        Some(Entry { name, .. }) => Err(config::Error::Format {
            path: path.to_owned(),
            reason: format!(
                "the key of `{name}` has a hash that is no longer supported; replace the key with \
                 `context-guard key new --name {name} --file {}`",
                path.display()
            ),
        }
        .into()),
    }
}

/// The accepted API keys. The key file is read again when it changes. If it is invalid, the last
/// valid entries remain in use. If it is missing, no key is accepted.
pub(super) struct Keys {
    path: PathBuf,
    file: Mutex<(KeyFile, Option<SystemTime>, Instant)>,
}

impl Keys {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| config::Error::File { path: path.to_owned(), source })?;
        let file = parse_current(path, &text)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new((file, changed(path), Instant::now())) })
    }

    fn entry(&self, id: &str) -> Option<Entry> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.2.elapsed() > POLL_INTERVAL {
            file.2 = Instant::now();
            let now = changed(&self.path);
            if now != file.1 {
                match std::fs::read_to_string(&self.path) {
                    Ok(text) => {
                        if let Ok(read) = parse_current(&self.path, &text) {
                            (file.0, file.1) = (read, now);
                        }
                    }
                    // An operator who removes the file revokes its keys.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        warn!("{} does not exist: all API keys are refused", self.path.display());
                        (file.0, file.1) = (KeyFile::default(), None);
                    }
                    Err(_) => {}
                }
            }
        }
        file.0.keys.iter().find(|entry| entry.id == id).cloned()
    }

    /// Returns the principal of an API key, `key:NAME`.
    ///
    /// # Errors
    /// The refusal of an unknown key.
    pub(super) fn check(&self, key: &Secret) -> Result<Arc<str>, Refusal> {
        let id = key.expose().strip_prefix(PREFIX).and_then(|rest| rest.split_once('_'));
        let entry = id.and_then(|(id, _)| self.entry(id));
        // The time of the comparison must not depend on how much of the digest is right.
        entry
            .filter(|entry| hash(key).as_bytes().ct_eq(entry.hash.as_bytes()).into())
            .map(|entry| format!("key:{}", entry.name).into())
            .ok_or_else(|| Refusal::Unauthorized("unknown API key".to_owned()))
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

/// Returns a random code with which an operator signs in: 60 bits, in three groups of four letters
/// and digits that look different from each other.
///
/// # Errors
/// The operating system provides no random numbers.
pub fn sign_in_code() -> std::io::Result<String> {
    // 32 characters, so that each has five bits of a byte. Without i, l, o and u.
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut random = [0_u8; 12];
    getrandom::fill(&mut random).map_err(|error| std::io::Error::other(error.to_string()))?;
    let letter = |byte: &u8| ALPHABET.get(usize::from(byte % 32)).map_or('0', |at| char::from(*at));
    let groups = random.chunks(4).map(|group| group.iter().map(letter).collect::<String>());
    Ok(groups.collect::<Vec<_>>().join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret_of(key: &Secret) -> &str {
        key.expose().splitn(3, '_').nth(2).unwrap()
    }

    #[test]
    fn a_key_is_accepted_and_the_file_holds_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let key = create(&path, "alice").unwrap();
        let other = create(&path, "bob").unwrap();
        assert!(create(&path, "bob").is_err());
        let text = std::fs::read_to_string(&path).unwrap();
        // The secret is base64url and may itself contain `_`, so the key is split from its start.
        let secret = secret_of(&key);
        assert_eq!(secret.len(), 43, "32 random bytes in base64url");
        assert!(!text.contains(secret) && text.contains("sha256:"));
        let keys = Keys::open(&path).unwrap();
        assert_eq!(keys.check(&key).unwrap().as_ref(), "key:alice");
        assert_eq!(keys.check(&other).unwrap().as_ref(), "key:bob");
        let id = key.expose().strip_suffix(secret).unwrap();
        for wrong in [format!("{id}wrong"), "cg_none_x".to_owned(), "cg_".to_owned()] {
            assert!(matches!(keys.check(&Secret::new(&wrong)), Err(Refusal::Unauthorized(_))));
        }
    }

    #[test]
    fn keys_of_a_removed_file_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let key = create(&path, "alice").unwrap();
        let keys = Keys::open(&path).unwrap();
        // The next lookup checks the file.
        let past = || Instant::now().checked_sub(POLL_INTERVAL * 2).unwrap();
        std::fs::remove_file(&path).unwrap();
        keys.file.lock().unwrap().2 = past();
        assert!(keys.check(&key).is_err());
        let new = create(&path, "alice").unwrap();
        keys.file.lock().unwrap().2 = past();
        assert!(keys.check(&key).is_err() && keys.check(&new).is_ok());
    }

    #[test]
    fn an_argon2_hash_is_refused_until_its_key_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let old = r#"{"keys": [{"id": "1", "name": "alice", "hash": "$argon2id$v=19$m=1"}]}"#;
        std::fs::write(&path, old).unwrap();
        let refused = Keys::open(&path).err().unwrap().to_string();
        assert!(refused.contains("context-guard key new --name alice"), "{refused}");
        let key = create(&path, "alice").unwrap();
        assert_eq!(Keys::open(&path).unwrap().check(&key).unwrap().as_ref(), "key:alice");
    }
}
