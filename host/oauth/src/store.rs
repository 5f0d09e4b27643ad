//! The token store: a folder with one encrypted file for each upstream and principal.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use context_guard_config::{self as config, Config, Secret};
use context_guard_sealing::to_hex;
use sha2::{Digest, Sha256};

use crate::cipher::Cipher;
use crate::stored_token::StoredToken;
use crate::{Error, KEY_VARIABLE, Result};

/// The first bytes of each file of the store.
const MAGIC: &[u8] = b"context-guard token 1\n";
/// The name of the file with the key, if the store has created the key itself.
const KEY_FILE: &str = "key";
/// The pause between two attempts to lock a token.
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// The maximum time of all attempts to lock a token.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The version of a file. Another version has another modification time or another identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp(SystemTime, u64, u64);

/// The encrypted tokens of all principals for all upstreams.
pub struct TokenStore {
    folder: PathBuf,
    cipher: Cipher,
    /// The location of the key, for error messages.
    key_place: String,
}

impl TokenStore {
    /// Opens the token store of a configuration. Its key is that of the configuration, otherwise
    /// that of the environment variable [`KEY_VARIABLE`], otherwise a file in the folder, which is
    /// created.
    ///
    /// # Errors
    /// The key is too short, or its file cannot be read or created.
    pub fn open(config: &Config) -> Result<Self> {
        let folder = folder(config)?;
        let environment = std::env::var(KEY_VARIABLE).ok().filter(|key| !key.is_empty());
        let (key, key_place) = match (&config.tokens.key, environment) {
            (Some(key), _) => (key.clone(), "tokens.key".to_owned()),
            (None, Some(key)) => (Secret::new(&key), KEY_VARIABLE.to_owned()),
            (None, None) => {
                let path = folder.join(KEY_FILE);
                (config::read_or_create_secret(&path)?, path.display().to_string())
            }
        };
        Ok(Self { cipher: Cipher::new(&key)?, folder, key_place })
    }

    /// Returns the path of a token's file. The name reveals the upstream, but not the principal.
    pub(crate) fn path(&self, upstream: &str, principal: &str) -> PathBuf {
        token_path(&self.folder, upstream, principal)
    }

    /// Returns the version of a token's file. `None` if there is no file.
    pub(crate) fn stamp(path: &Path) -> Option<FileStamp> {
        let metadata = std::fs::metadata(path).ok()?;
        #[cfg(unix)]
        let identity = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let identity = 0;
        Some(FileStamp(metadata.modified().ok()?, metadata.len(), identity))
    }

    /// Reads a token. Returns `None` if none is stored.
    ///
    /// # Errors
    /// The file cannot be read or decrypted.
    pub(crate) fn load(&self, upstream: &str, principal: &str) -> Result<Option<StoredToken>> {
        let path = self.path(upstream, principal);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|source| file_error(&path, source))?,
        };
        let sealed = bytes.strip_prefix(MAGIC);
        let text = sealed
            .and_then(|sealed| self.cipher.open(&context(upstream, principal), sealed))
            .ok_or_else(|| {
                format_error(
                    &path,
                    &format!(
                        "the stored token cannot be decrypted: it was stored with another key \
                         than that of {}, or it is damaged. Set the former key again, or remove \
                         the file with `context-guard logout {upstream}`",
                        self.key_place
                    ),
                )
            })?;
        let token = serde_json::from_slice(&text);
        Ok(Some(token.map_err(|error| format_error(&path, &error.to_string()))?))
    }

    /// Stores a token. A concurrent reader sees the old file or the new one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn save(&self, upstream: &str, principal: &str, token: &StoredToken) -> Result<()> {
        let path = self.path(upstream, principal);
        let text = serde_json::to_vec(token).map_err(std::io::Error::other)?;
        let sealed = self.cipher.seal(&context(upstream, principal), &text)?;
        let draft = path.with_extension("new");
        let write = || {
            std::fs::create_dir_all(&self.folder)?;
            // A draft that a crash left may be readable by others.
            match std::fs::remove_file(&draft) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = private(OpenOptions::new().write(true).create_new(true)).open(&draft)?;
            file.write_all(MAGIC)?;
            file.write_all(&sealed)?;
            // A refresh token works once. A crash must not leave the old one.
            file.sync_all()?;
            std::fs::rename(&draft, &path)
        };
        write().map_err(|source| file_error(&path, source))
    }

    /// Removes a token. Returns false if none is stored.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn remove(&self, upstream: &str, principal: &str) -> Result<bool> {
        remove_file(&self.path(upstream, principal))
    }

    /// Waits until no other process changes the token, and locks it. Dropping the returned file
    /// releases the lock.
    ///
    /// # Errors
    /// The lock file cannot be created, or another process holds the lock for too long.
    pub(crate) async fn lock(&self, upstream: &str, principal: &str) -> Result<File> {
        let path = self.path(upstream, principal).with_extension("lock");
        std::fs::create_dir_all(&self.folder).map_err(|source| file_error(&path, source))?;
        let open = private(OpenOptions::new().write(true).create(true).truncate(false)).open(&path);
        let file = open.map_err(|source| file_error(&path, source))?;
        let locking = async {
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(()),
                    Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PAUSE).await,
                    Err(TryLockError::Error(source)) => return Err(file_error(&path, source)),
                }
            }
        };
        tokio::time::timeout(LOCK_TIMEOUT, locking).await.map_err(|_| {
            Error::Unavailable(format!("another process keeps {} locked", path.display()))
        })??;
        Ok(file)
    }
}

/// Removes a token from the store of a configuration, which does not need the key. Returns false if
/// none is stored.
///
/// # Errors
/// The file cannot be removed.
pub fn remove_token(config: &Config, upstream: &str, principal: &str) -> Result<bool> {
    remove_file(&token_path(&folder(config)?, upstream, principal))
}

fn remove_file(path: &Path) -> Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(source) => Err(file_error(path, source)),
    }
}

/// Returns the folder of the token store of a configuration.
fn folder(config: &Config) -> Result<PathBuf> {
    match &config.tokens.folder {
        Some(folder) => Ok(config.folder.join(folder)),
        None => Ok(config::state_folder()?.join("tokens")),
    }
}

fn token_path(folder: &Path, upstream: &str, principal: &str) -> PathBuf {
    let digest = Sha256::digest(context(upstream, principal));
    let digest = to_hex(digest.get(..12).unwrap_or(&digest));
    folder.join(format!("{upstream}-{digest}.token"))
}

/// Makes files that are created with these options readable only by their owner.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Returns the context to which a token is bound, so that the file of one principal cannot replace
/// that of another.
fn context(upstream: &str, principal: &str) -> Vec<u8> {
    [upstream.as_bytes(), principal.as_bytes()].join(&0)
}

fn file_error(path: &Path, source: std::io::Error) -> Error {
    config::Error::File { path: path.to_owned(), source }.into()
}

fn format_error(path: &Path, reason: &str) -> Error {
    config::Error::Format { path: path.to_owned(), reason: reason.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored_token::ClientCredentials;

    fn store(folder: &Path, key: &str) -> TokenStore {
        let mut config = Config::default();
        config.tokens.folder = Some(folder.to_owned());
        config.tokens.key = Some(Secret::new(&key.repeat(32)));
        TokenStore::open(&config).unwrap()
    }

    fn token(access: &str) -> StoredToken {
        let client =
            ClientCredentials { id: "client".to_owned(), secret: None, secret_in_body: false };
        StoredToken {
            url: "https://a.example/mcp".to_owned(),
            resource: "https://a.example/mcp".to_owned(),
            issuer: "https://id.example".to_owned(),
            token_endpoint: "https://id.example/token".to_owned(),
            client,
            access_token: Secret::new(access),
            refresh_token: Some(Secret::new("refresh-secret")),
            expires_at: Some(5),
            scopes: vec!["read".to_owned()],
        }
    }

    #[test]
    fn tokens_are_encrypted_for_their_principal() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = store(folder.path(), "k");
        assert!(tokens.load("files", "key:alice").unwrap().is_none());
        tokens.save("files", "key:alice", &token("access-secret")).unwrap();
        tokens.save("files", "key:bob", &token("other-secret")).unwrap();
        let loaded = tokens.load("files", "key:alice").unwrap().unwrap();
        assert_eq!(loaded.access_token.expose(), "access-secret");
        assert_eq!(loaded.refresh_token.as_ref().unwrap().expose(), "refresh-secret");
        assert!(!format!("{loaded:?}").contains("secret-"), "{loaded:?}");
        let alice = tokens.path("files", "key:alice");
        let stored = std::fs::read(&alice).unwrap();
        let text = String::from_utf8_lossy(&stored);
        for secret in ["access-secret", "refresh-secret", "client", "https", "alice"] {
            assert!(!text.contains(secret), "{secret}");
        }
        // The file of another principal is no token of this one.
        std::fs::copy(&alice, tokens.path("files", "key:bob")).unwrap();
        assert!(tokens.load("files", "key:bob").is_err());
        assert!(tokens.remove("files", "key:bob").unwrap());
        assert!(!tokens.remove("files", "key:bob").unwrap());
    }

    #[test]
    fn wrong_key_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        store(folder.path(), "k").save("files", "anonymous", &token("x")).unwrap();
        let error = store(folder.path(), "l").load("files", "anonymous").unwrap_err().to_string();
        assert!(error.contains("another key") && error.contains("tokens.key"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn files_belong_to_their_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.tokens.folder = Some(folder.path().join("tokens"));
        let tokens = TokenStore::open(&config).unwrap();
        tokens.save("files", "anonymous", &token("x")).unwrap();
        for path in [tokens.path("files", "anonymous"), folder.path().join("tokens/key")] {
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
    }
}
