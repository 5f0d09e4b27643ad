//! Files in the user's state folder that one run stores for later runs.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::{Error, Result, Secret};

/// Returns the folder for files that later runs use, such as keys: `context-guard` in
/// `XDG_STATE_HOME`, otherwise in `.local/state` of the home folder, otherwise in the folder for
/// temporary files.
#[must_use]
pub fn state_folder() -> PathBuf {
    let folder = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || {
        std::env::var_os("HOME")
            .map_or_else(std::env::temp_dir, |home| PathBuf::from(home).join(".local/state"))
    };
    folder.unwrap_or_else(home).join("context-guard")
}

/// Returns the user's history file. Programs record calls there unless a setting selects another
/// file.
#[must_use]
pub fn history_file() -> PathBuf {
    state_folder().join("history.db")
}

/// Reads the secret in a file. If the file is missing, creates it with 32 random bytes in base64,
/// readable only by its owner.
///
/// # Errors
/// [`Error::File`].
pub fn read_or_create_secret(path: &Path) -> Result<Secret> {
    let file = |source| Error::File { path: path.to_owned(), source };
    match read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        read => return read.map_err(file),
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(file)?;
    }
    let key = STANDARD.encode(random().map_err(file)?);
    // Clients start many servers at once. No other process may read a key that is half written.
    let unique: String = random().map_err(file)?.iter().map(|byte| format!("{byte:02x}")).collect();
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
    read(path).map_err(file)
}

fn random() -> std::io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}

fn read(path: &Path) -> std::io::Result<Secret> {
    let key = std::fs::read_to_string(path)?;
    if key.trim().is_empty() {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "the file is empty"));
    }
    Ok(Secret::new(key.trim()))
}
