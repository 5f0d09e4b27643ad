//! Reads and writes configurations, and stores the journal of edits.

use std::fs::{self, Metadata};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::record::{Record, Step, digest};
use crate::undo::UndoResult;
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
        let records = self.newest_records().into_iter();
        let mut files: Vec<(Client, PathBuf)> = records
            .filter_map(|(_, record)| Some((Client::from_id(&record.client)?, record.path.into())))
            .collect();
        files.sort();
        files
    }

    /// Returns the edited files that no longer exist, each with its newest backup.
    #[must_use]
    pub fn missing_files(&self) -> Vec<(PathBuf, PathBuf)> {
        let records = self.newest_records().into_iter();
        let files = records
            .map(|(folder, record)| (PathBuf::from(record.path), folder.join(record.backup)));
        let mut missing: Vec<(PathBuf, PathBuf)> =
            files.filter(|(file, _)| !file.exists()).collect();
        missing.sort();
        missing
    }

    /// Returns the newest record of each file that is not undone, with its folder.
    fn newest_records(&self) -> Vec<(PathBuf, Record)> {
        let Ok(folders) = fs::read_dir(&self.folder) else { return Vec::new() };
        let newest = |folder: PathBuf| {
            let record = read_records(&folder).ok()?.into_iter().find(|one| !one.is_undone)?;
            Some((folder, record))
        };
        folders.filter_map(|folder| newest(folder.ok()?.path())).collect()
    }

    /// Returns the edits of a file that can be undone, the newest first.
    ///
    /// # Errors
    /// [`Error::File`] if the records cannot be read.
    pub fn steps(&self, target: &Path) -> Result<Vec<Step>> {
        let folder = self.folder_of(target);
        let records = read_records(&folder)?.into_iter().filter(|record| !record.is_undone);
        let steps = records.map(|record| {
            let backup = fs::read(folder.join(&record.backup)).ok();
            Step { record, backup }
        });
        Ok(steps.collect())
    }

    /// Writes the result of an edit to its file: first the record and the backup, then the file.
    /// If the file cannot be written, removes both again. `seconds` is the time since 1970. Returns
    /// the path of the backup. Waits while another process writes.
    ///
    /// # Errors
    /// [`Error::File`]. [`Error::Refused`] if the file changed since it was read.
    pub fn apply(
        &self,
        client: Client,
        state: &FileState,
        plan: &Plan,
        seconds: u64,
    ) -> Result<PathBuf> {
        let _lock = self.lock()?;
        let backup = self.add(client, state, plan, seconds)?;
        if let Err(error) = write_file(state, &plan.bytes) {
            self.cancel(state, &backup)?;
            return Err(error);
        }
        Ok(backup)
    }

    /// Writes the result of an undo to its file, and ends the records of the edits that it has
    /// reverted. `names` are the servers to which the undo was limited. Returns the backups that
    /// remain, because the file is not as it was before `install`. Waits while another process
    /// writes.
    ///
    /// # Errors
    /// [`Error::File`]. [`Error::Refused`] if the file changed since it was read.
    pub fn restore(
        &self,
        state: &FileState,
        undone: &UndoResult,
        names: Option<&[String]>,
    ) -> Result<Vec<PathBuf>> {
        let _lock = self.lock()?;
        write_file(state, &undone.bytes)?;
        // The end of an endpoint restores all servers that it replaced.
        let names = names.map(|names| [names, &undone.restored].concat());
        self.finish(state, names.as_deref(), undone)
    }

    /// Locks the journal until the file is dropped.
    fn lock(&self) -> Result<fs::File> {
        create_private_folder(&self.folder)?;
        let path = self.folder.join("lock");
        let open = || {
            let file = fs::OpenOptions::new().create(true).read(true).append(true).open(&path)?;
            match file.lock() {
                // Some network file systems have no locks.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
                locked => locked?,
            }
            Ok(file)
        };
        open().map_err(|source| Error::File { path: path.clone(), source })
    }

    /// Stores the backup of a file and the record of an edit, before the file is written. Returns
    /// the path of the backup.
    fn add(&self, client: Client, state: &FileState, plan: &Plan, seconds: u64) -> Result<PathBuf> {
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
                is_undone: false,
            },
        );
        let evicted = evict(&mut records);
        write_records(&folder, &records)?;
        for old in evicted {
            let _ = fs::remove_file(folder.join(old.backup));
        }
        Ok(folder.join(backup))
    }

    /// Ends the records of edits that an undo has reverted: all, or those of servers in `names`.
    /// Keeps those of unfinished servers, which a later undo can restore. Deletes a backup only if
    /// the file has its contents again. Returns the others of the ended records.
    fn finish(
        &self,
        state: &FileState,
        names: Option<&[String]>,
        undone: &UndoResult,
    ) -> Result<Vec<PathBuf>> {
        let folder = self.folder_of(&state.target);
        let mut records = read_records(&folder)?;
        let mut ended = Vec::new();
        for record in records.iter_mut().filter(|record| !record.is_undone) {
            let is_selected = |name: &String| names.is_none_or(|names| names.contains(name));
            let is_undone = |name: &String| is_selected(name) && !undone.unfinished.contains(name);
            record.servers.retain(|server| !is_undone(&server.name));
            record.removed.retain(|server| !is_undone(&server.name));
            if record.servers.is_empty() && record.removed.is_empty() {
                record.is_undone = true;
                ended.push(record.backup.clone());
            }
        }
        if undone.is_exact {
            records.retain(|record| !ended.contains(&record.backup));
        }
        if !folder.exists() {
            return Ok(Vec::new());
        }
        write_records(&folder, &records)?;
        let ended = ended.into_iter().map(|backup| folder.join(backup));
        if !undone.is_exact {
            return Ok(ended.collect());
        }
        for backup in ended {
            let _ = fs::remove_file(backup);
        }
        if records.is_empty() {
            let _ = fs::remove_dir_all(&folder);
        }
        Ok(Vec::new())
    }

    /// Removes the record with this backup, because its edit was not written.
    fn cancel(&self, state: &FileState, backup: &Path) -> Result<()> {
        let folder = self.folder_of(&state.target);
        let mut records = read_records(&folder)?;
        records.retain(|record| folder.join(&record.backup) != backup);
        write_records(&folder, &records)?;
        let _ = fs::remove_file(backup);
        Ok(())
    }
}

/// Removes the records beyond [`MAX_RECORDS`], and returns them. An undone edit makes room before
/// one that can still be undone. The newest record is first.
fn evict(records: &mut Vec<Record>) -> Vec<Record> {
    let mut evicted = Vec::new();
    while records.len() > MAX_RECORDS {
        let undone = records.iter().rposition(|record| record.is_undone);
        evicted.push(records.remove(undone.unwrap_or(MAX_RECORDS)));
    }
    evicted
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undone_edits_make_room_first() {
        let record = |seconds: u64, is_undone: bool| Record {
            client: "cursor".to_owned(),
            path: String::new(),
            seconds,
            before: String::new(),
            after: String::new(),
            backup: format!("{seconds}.backup"),
            servers: Vec::new(),
            removed: Vec::new(),
            added: None,
            is_undone,
        };
        // The oldest edit can still be undone.
        let newest = MAX_RECORDS as u64 + 1;
        let mut records: Vec<Record> = (1..=newest).rev().map(|at| record(at, at > 1)).collect();
        let evicted = evict(&mut records);
        assert_eq!(evicted.iter().map(|record| record.seconds).collect::<Vec<_>>(), [2]);
        assert_eq!(records.last().map(|record| record.seconds), Some(1));
    }
}
