//! Files in the user's state folder that one run stores for later runs.

use std::ffi::OsString;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use context_guard_protocol::to_hex;

use crate::{Error, Result, Secret};

/// Returns the folder for files that later runs use, such as keys: `context-guard` in
/// `XDG_STATE_HOME`, otherwise in `.local/state` of the home folder. On Windows, that is
/// `LOCALAPPDATA`, or `AppData\Local` of the user's profile. Empty and relative values of variables
/// are ignored, as the XDG specification wants.
///
/// # Errors
/// [`Error::NoStateFolder`] if no variable has a folder.
pub fn state_folder() -> Result<PathBuf> {
    folder_in(&|name| std::env::var_os(name), cfg!(windows)).ok_or(Error::NoStateFolder)
}

fn folder_in(variable: &dyn Fn(&str) -> Option<OsString>, is_windows: bool) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = || {
        if is_windows {
            folder("LOCALAPPDATA").or_else(|| Some(folder("USERPROFILE")?.join("AppData/Local")))
        } else {
            Some(folder("HOME")?.join(".local/state"))
        }
    };
    folder("XDG_STATE_HOME").or_else(own).map(|folder| folder.join("context-guard"))
}

/// Returns the user's history file. Programs record calls there unless a setting selects another
/// file.
///
/// # Errors
/// As [`state_folder`].
pub fn history_file() -> Result<PathBuf> {
    Ok(state_folder()?.join("history.db"))
}

/// Reads the secret in a file. If the file is missing, creates it with 32 random bytes in base64,
/// readable only by its owner.
///
/// # Errors
/// [`Error::File`]. On Unix, also if a user other than root and the owner of this process owns the
/// file or may write it. That user could forge cursors.
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
    let draft = path.with_extension(to_hex(&random().map_err(file)?));
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
    let mut file = std::fs::File::open(path)?;
    #[cfg(unix)]
    check_writers(&file)?;
    let mut key = String::new();
    file.read_to_string(&mut key)?;
    if key.trim().is_empty() {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "the file is empty"));
    }
    Ok(Secret::new(key.trim()))
}

/// Fails if other users than root and the owner of this process may write the file.
#[cfg(unix)]
fn check_writers(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = file.metadata()?;
    let owner = metadata.uid();
    let refuse = |reason: &str| Err(std::io::Error::new(ErrorKind::PermissionDenied, reason));
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return refuse("another user owns the file: remove it");
    }
    if metadata.mode() & 0o022 != 0 {
        return refuse("other users may write the file: remove it, or run chmod 600 on it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)], is_windows: bool) -> Option<PathBuf> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(one, _)| *one == name)?;
            Some(OsString::from(found.1))
        };
        folder_in(&variable, is_windows)
    }

    #[test]
    fn state_folder_is_absolute() {
        let home = ("HOME", "/home/ada");
        let own = Some(PathBuf::from("/home/ada/.local/state/context-guard"));
        assert_eq!(found(&[home], false), own);
        assert_eq!(
            found(&[home, ("XDG_STATE_HOME", "/x")], false),
            Some("/x/context-guard".into())
        );
        assert_eq!(found(&[home, ("XDG_STATE_HOME", "")], false), own);
        assert_eq!(found(&[home, ("XDG_STATE_HOME", "state")], false), own);
        assert_eq!(found(&[("HOME", "")], false), None);
        assert_eq!(found(&[], false), None);
    }

    #[test]
    fn state_folder_of_windows_is_that_of_local_data() {
        let profile = ("USERPROFILE", "/users/ada");
        let own = Some(PathBuf::from("/users/ada/AppData/Local/context-guard"));
        assert_eq!(found(&[profile], true), own);
        let data = ("LOCALAPPDATA", "/data");
        assert_eq!(found(&[profile, data], true), Some("/data/context-guard".into()));
    }

    #[cfg(unix)]
    #[test]
    fn key_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let key = read_or_create_secret(&path).unwrap();
        assert_eq!(read_or_create_secret(&path).unwrap(), key);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let error = read_or_create_secret(&path).unwrap_err().to_string();
        assert!(error.contains("other users may write the file"), "{error}");
    }
}
