//! Reads and writes configurations, and stores the journal of edits.

use std::fs::{self, Metadata};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::record::{Record, Step, digest};
use crate::wrap::Plan;
use crate::{Client, Error, Result};

/// The maximum size of a configuration, in bytes. It is large, because Claude Code stores its
/// history in the same file.
const MAX_BYTES: u64 = 64 << 20;
/// The maximum number of edits of one file that can be undone.
const MAX_RECORDS: usize = 20;

/// A configuration file in the state in which it was read.
#[derive(Clone, Debug)]
pub struct FileState {
    /// The path of the file itself, with all symbolic links resolved.
    pub target: PathBuf,
    /// The contents.
    pub bytes: Vec<u8>,
    metadata: Metadata,
}

/// Reads a configuration. Follows a symbolic link only if its target is below one of the folders
/// `roots`. Links among the parent folders of `path` are not restricted.
///
/// # Errors
/// [`Error::File`]. [`Error::Refused`] if a link leads elsewhere, or the file is too large.
pub fn read_file(path: &Path, roots: &[&Path]) -> Result<FileState> {
    let fail = |source| Error::File { path: path.to_owned(), source };
    let target = fs::canonicalize(path).map_err(fail)?;
    let is_link = fs::symlink_metadata(path).map_err(fail)?.file_type().is_symlink();
    let is_inside = roots
        .iter()
        .filter_map(|root| fs::canonicalize(root).ok())
        .any(|root| target.starts_with(root));
    if is_link && !is_inside {
        let reason = format!(
            "it links to {}, outside of the home folder: edit that file by hand",
            target.display()
        );
        return Err(Error::Refused { path: path.to_owned(), reason });
    }
    let mut file = fs::File::open(&target).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if metadata.len() > MAX_BYTES {
        let reason = format!("it has more than {} MiB", MAX_BYTES >> 20);
        return Err(Error::Refused { path: path.to_owned(), reason });
    }
    let mut bytes = Vec::new();
    (&mut file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(fail)?;
    Ok(FileState { target, bytes, metadata })
}

/// Replaces the contents of a file atomically. Keeps its permissions and, on Unix, its owner. A
/// reader sees the old or the new contents.
///
/// # Errors
/// [`Error::File`]. [`Error::Refused`] if the file changed since it was read.
pub fn write_file(state: &FileState, bytes: &[u8]) -> Result<()> {
    let path = &state.target;
    let fail = |source| Error::File { path: path.clone(), source };
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(fail)?;
    draft.write_all(bytes).map_err(fail)?;
    draft.as_file().set_permissions(state.metadata.permissions()).map_err(fail)?;
    #[cfg(unix)]
    keep_owner(&draft, &state.metadata).map_err(fail)?;
    draft.as_file().sync_all().map_err(fail)?;
    // The client may have written the file while the user was asked.
    if fs::read(path).map_err(fail)? != state.bytes {
        let reason = "it changed while it was edited: run the command again".to_owned();
        return Err(Error::Refused { path: path.clone(), reason });
    }
    draft.persist(path).map_err(|error| fail(error.error))?;
    Ok(())
}

/// Gives the file `draft` the owner of `original`. Fails if another user owns the original, and
/// this user must not set that owner.
#[cfg(unix)]
fn keep_owner(draft: &tempfile::NamedTempFile, original: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let own = draft.as_file().metadata()?;
    if (own.uid(), own.gid()) == (original.uid(), original.gid()) {
        return Ok(());
    }
    std::os::unix::fs::fchown(draft.as_file(), Some(original.uid()), Some(original.gid()))
}

/// The journal of edits that can be undone. On Unix, a new folder is readable by the user only.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// Returns the journal in `folder`, which the first edit creates.
    #[must_use]
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the folder with the records of one file.
    fn folder_of(&self, target: &Path) -> PathBuf {
        let name = digest(target.as_os_str().as_encoded_bytes());
        self.folder.join(name.get(..16).unwrap_or(&name))
    }

    /// Returns the files with edits that can be undone, in any folder. Skips files whose records
    /// cannot be read, and those of unknown clients.
    #[must_use]
    pub fn files(&self) -> Vec<(Client, PathBuf)> {
        let Ok(folders) = fs::read_dir(&self.folder) else { return Vec::new() };
        let newest = |folder: PathBuf| read_records(&folder).ok()?.into_iter().next();
        let mut files: Vec<(Client, PathBuf)> = folders
            .filter_map(|folder| newest(folder.ok()?.path()))
            .filter_map(|record| Some((Client::from_id(&record.client)?, record.path.into())))
            .collect();
        files.sort();
        files
    }

    /// Returns the edits of a file, the newest first.
    ///
    /// # Errors
    /// [`Error::File`] if the records cannot be read.
    pub fn steps(&self, target: &Path) -> Result<Vec<Step>> {
        let folder = self.folder_of(target);
        let steps = read_records(&folder)?.into_iter().map(|record| {
            let backup = fs::read(folder.join(&record.backup)).ok();
            Step { record, backup }
        });
        Ok(steps.collect())
    }

    /// Stores the backup of a file and the record of an edit, before the file is written. `seconds`
    /// is the time since 1970. Returns the path of the backup.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn add(
        &self,
        client: Client,
        state: &FileState,
        plan: &Plan,
        seconds: u64,
    ) -> Result<PathBuf> {
        let folder = self.folder_of(&state.target);
        create_private_folder(&folder)?;
        let mut records = read_records(&folder)?;
        let mut backup = format!("{seconds}.backup");
        let mut number = 2;
        while folder.join(&backup).exists() {
            backup = format!("{seconds}-{number}.backup");
            number += 1;
        }
        write_private(&folder.join(&backup), &state.bytes)?;
        records.insert(
            0,
            Record {
                client: client.id().to_owned(),
                path: state.target.display().to_string(),
                seconds,
                before: digest(&state.bytes),
                after: digest(&plan.bytes),
                backup: backup.clone(),
                servers: plan.servers.clone(),
                removed: plan.removed.clone(),
                added: plan.added.clone(),
            },
        );
        for old in records.drain(records.len().min(MAX_RECORDS)..) {
            let _ = fs::remove_file(folder.join(old.backup));
        }
        write_records(&folder, &records)?;
        Ok(folder.join(backup))
    }

    /// Removes the records of edits that an undo has reverted: all, or those of the servers in
    /// `names`. Keeps those of the servers in `unfinished`, which a later undo can restore. Deletes
    /// the backup of each edit that has no servers left.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn finish(
        &self,
        state: &FileState,
        names: Option<&[String]>,
        unfinished: &[String],
    ) -> Result<()> {
        let folder = self.folder_of(&state.target);
        let mut records = read_records(&folder)?;
        for record in &mut records {
            let is_selected = |name: &String| names.is_none_or(|names| names.contains(name));
            let is_undone = |name: &String| is_selected(name) && !unfinished.contains(name);
            record.servers.retain(|server| !is_undone(&server.name));
            record.removed.retain(|server| !is_undone(&server.name));
        }
        let (kept, done): (Vec<Record>, Vec<Record>) = records
            .into_iter()
            .partition(|record| !record.servers.is_empty() || !record.removed.is_empty());
        if !folder.exists() {
            return Ok(());
        }
        write_records(&folder, &kept)?;
        for record in done {
            let _ = fs::remove_file(folder.join(record.backup));
        }
        if kept.is_empty() {
            let _ = fs::remove_dir_all(&folder);
        }
        Ok(())
    }

    /// Removes the newest record of a file, because its edit was not written.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn cancel(&self, state: &FileState) -> Result<()> {
        let folder = self.folder_of(&state.target);
        let mut records = read_records(&folder)?;
        if !records.is_empty() {
            let _ = fs::remove_file(folder.join(records.remove(0).backup));
        }
        write_records(&folder, &records)
    }
}

fn read_records(folder: &Path) -> Result<Vec<Record>> {
    let path = folder.join("records.json");
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(Error::File { path, source }),
    };
    serde_json::from_slice(&bytes).map_err(|error| Error::File { path, source: error.into() })
}

fn write_records(folder: &Path, records: &[Record]) -> Result<()> {
    let path = folder.join("records.json");
    let bytes = serde_json::to_vec_pretty(records)
        .map_err(|error| Error::File { path: path.clone(), source: error.into() })?;
    write_private(&path, &bytes)
}

/// Creates a folder that only the user can enter, because backups contain secrets.
fn create_private_folder(folder: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|source| Error::File { path: folder.to_owned(), source })
}

/// Writes a file atomically. Only the user can read it.
fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    let fail = |source| Error::File { path: path.to_owned(), source };
    // The files of this library are readable by their owner only.
    let mut draft =
        tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("."))).map_err(fail)?;
    draft.write_all(bytes).map_err(fail)?;
    draft.as_file().sync_all().map_err(fail)?;
    draft.persist(path).map_err(|error| fail(error.error))?;
    Ok(())
}
