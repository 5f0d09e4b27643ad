//! API keys: made once, kept as argon2 hashes, told apart by the part of them that is no secret.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lru::LruCache;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use super::Refusal;
use crate::config::Secret;
use crate::{Error, Result};

/// What every key begins with.
pub const PREFIX: &str = "cg_";
/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Keys that were found right and need no hashing again.
const MOST: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

/// The file: hashes, no secrets.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    keys: Vec<Entry>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// The part of the key after its prefix that is no secret.
    id: String,
    /// Whose it is: the principal.
    name: String,
    /// Argon2id.
    hash: String,
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0u8; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Io(std::io::Error::other(error.to_string())))?;
    Ok(bytes)
}

/// Makes a key for a principal and adds its hash to the file, which is made if it is not there, readable by its owner alone. Gives the key, which nobody can
/// tell again.
///
/// # Errors
/// [`Error::File`], [`Error::Format`], [`Error::Setup`] where the name is taken.
pub fn create(path: &Path, name: &str) -> Result<Secret> {
    let mut file = match std::fs::read_to_string(path) {
        Ok(text) => parse(path, &text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => KeyFile::default(),
        Err(source) => return Err(Error::File { path: path.to_owned(), source }),
    };
    if file.keys.iter().any(|key| key.name == name) {
        return Err(Error::Setup(format!(
            "{} has a key for `{name}` already: take another name, or remove that entry first",
            path.display()
        )));
    }
    let id = random::<6>()?.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let key = format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(random::<32>()?));
    let hash = Argon2::default()
        .hash_password(key.as_bytes())
        .map_err(|error| Error::Setup(format!("the key cannot be hashed: {error}")))?;
    file.keys.push(Entry { id, name: name.to_owned(), hash: hash.to_string() });
    write(path, &file)?;
    Ok(Secret::new(&key))
}

/// Puts the file in place whole: whoever reads it meanwhile sees the old one.
fn write(path: &Path, file: &KeyFile) -> Result<()> {
    let fault = |source| Error::File { path: path.to_owned(), source };
    let text = serde_json::to_string_pretty(file).map_err(|error| fault(error.into()))?;
    let beside = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut open = options.open(&beside).map_err(fault)?;
    std::io::Write::write_all(&mut open, text.as_bytes()).map_err(fault)?;
    std::fs::rename(&beside, path).map_err(fault)
}

fn parse(path: &Path, text: &str) -> Result<KeyFile> {
    serde_json::from_str(text).map_err(|error| Error::Format {
        path: path.to_owned(),
        reason: format!("no file of API keys: {error}. `context-guard key new` makes one"),
    })
}

/// The digest of a key, and whose it is.
type Known = ([u8; 32], Arc<str>);

/// The keys that are let in. The file is read again when it changes; while it has faults, what was read last counts.
pub(crate) struct Keys {
    path: PathBuf,
    file: Mutex<(KeyFile, Option<SystemTime>, Instant)>,
    /// Keys that were found right, by id: argon2 is slow on purpose.
    known: Mutex<LruCache<String, Known>>,
    /// Hashing takes memory and time: two at once are enough.
    turns: Semaphore,
}

impl Keys {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::File { path: path.to_owned(), source })?;
        let file = parse(path, &text)?;
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new((file, changed(path), Instant::now())),
            known: Mutex::new(LruCache::new(MOST)),
            turns: Semaphore::new(2),
        })
    }

    fn entry(&self, id: &str) -> Option<Entry> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.2.elapsed() > LOOK {
            file.2 = Instant::now();
            let now = changed(&self.path);
            if now != file.1 {
                let read = std::fs::read_to_string(&self.path).ok();
                if let Some(read) = read.and_then(|text| parse(&self.path, &text).ok()) {
                    (file.0, file.1) = (read, now);
                    self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
                }
            }
        }
        file.0.keys.iter().find(|entry| entry.id == id).cloned()
    }

    pub(super) async fn check(&self, key: &Secret) -> Result<Arc<str>, Refusal> {
        let wrong = || Refusal::Unauthorized("this API key is not known here".to_owned());
        let id = key.expose().strip_prefix(PREFIX).and_then(|rest| rest.split_once('_'));
        let entry = id.and_then(|(id, _)| self.entry(id)).ok_or_else(wrong)?;
        let digest: [u8; 32] = Sha256::digest(key.expose().as_bytes()).into();
        let known = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&entry.id)
            .filter(|(known, _)| known.ct_eq(&digest).into())
            .map(|(_, principal)| Arc::clone(principal));
        if let Some(principal) = known {
            return Ok(principal);
        }
        let _turn = self.turns.acquire().await.map_err(|_| wrong())?;
        let right = tokio::task::block_in_place(|| {
            PasswordHash::new(&entry.hash).is_ok_and(|hash| {
                Argon2::default().verify_password(key.expose().as_bytes(), &hash).is_ok()
            })
        });
        if !right {
            return Err(wrong());
        }
        let principal: Arc<str> = format!("key:{}", entry.name).into();
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .put(entry.id, (digest, Arc::clone(&principal)));
        Ok(principal)
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_key_is_let_in_as_its_name_and_its_file_holds_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.json");
        let key = create(&path, "alice").unwrap();
        let other = create(&path, "bob").unwrap();
        assert!(create(&path, "bob").is_err());
        let text = std::fs::read_to_string(&path).unwrap();
        let secret = key.expose().rsplit('_').next().unwrap();
        assert!(!text.contains(secret) && text.contains("$argon2id$"));
        let keys = Keys::open(&path).unwrap();
        for _ in 0..2 {
            assert_eq!(keys.check(&key).await.unwrap().as_ref(), "key:alice");
            assert_eq!(keys.check(&other).await.unwrap().as_ref(), "key:bob");
        }
        let (id, _) = key.expose().rsplit_once('_').unwrap();
        for wrong in [format!("{id}_wrong"), "cg_none_x".to_owned(), "cg_".to_owned()] {
            assert!(matches!(
                keys.check(&Secret::new(&wrong)).await,
                Err(Refusal::Unauthorized(_))
            ));
        }
    }
}
