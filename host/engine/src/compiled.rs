//! The cache of compiled guard components on disk. Compilation takes most of the time of a start.
//!
//! The code of a cached component is mapped from its file. Only executed pages occupy memory, and
//! processes of the same user share them.
#![allow(unsafe_code, reason = "executing a compiled component needs trust in its file")]

use std::fs::TryLockError;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracing::warn;
use wasmtime::component::Component;

use crate::component_bytes::ComponentBytes;

/// The extension of the file names of compiled components.
const ENDING: &str = "cwasm";
/// The maximum number of compiled components in the cache.
const MAX_KEPT: usize = 8;
/// The maximum time that a process waits for another one to compile the same component. It exceeds
/// the time of a compilation on a loaded machine.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The pause between two attempts to take the lock of a component.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Returns the folder of this user's cache of compiled components: `context-guard/compiled` in
/// `XDG_CACHE_HOME`, otherwise in `.cache` of `HOME`. `None` if that path is not absolute.
#[must_use]
pub fn compiled_folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    variable("XDG_CACHE_HOME")
        .or_else(|| Some(variable("HOME")?.join(".cache")))
        .map(|folder| folder.join("context-guard/compiled"))
        .filter(|folder| folder.is_absolute())
}

/// Creates the folder of the cache. Returns false if it cannot be created, or, on Unix, belongs to
/// another user or others can write to it. The cache must not be used then, because its contents
/// are executed.
pub(super) fn open_folder(folder: &Path) -> bool {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    if builder.create(folder).is_err() {
        return false;
    }
    if !is_own(folder) {
        warn!(
            "the cache of compiled components is disabled: others can write to {}; restrict its permissions or set XDG_CACHE_HOME",
            folder.display()
        );
        return false;
    }
    true
}

/// Returns the compiled component with this digest. Uses the cache if it contains the component.
/// Otherwise reads and compiles `bytes`.
pub(super) fn component(
    engine: &wasmtime::Engine,
    folder: Option<&Path>,
    bytes: &ComponentBytes,
    digest: &str,
) -> wasmtime::Result<Component> {
    let Some(folder) = folder else { return Component::new(engine, bytes.read()?) };
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let path = folder.join(format!("{digest}-{:016x}.{ENDING}", hasher.finish()));
    if let Some(component) = mapped(engine, &path) {
        return Ok(component);
    }
    let lock = Lock::wait(&path, MAX_WAIT, || std::thread::sleep(LOCK_PAUSE));
    // Another process may have compiled it in the meantime.
    if let Some(component) = mapped(engine, &path) {
        return Ok(component);
    }
    // The other process could not store it, or has failed. Those that still wait must not compile
    // one after another.
    let _lock = lock.filter(|lock| lock.is_first);
    let bytes = bytes.read()?;
    let artifact = engine.precompile_component(&bytes)?;
    match store(folder, &path, &artifact) {
        Ok(()) => mapped(engine, &path).map_or_else(|| Component::new(engine, &bytes), Ok),
        // The folder is full or read-only.
        Err(_) => Component::new(engine, &bytes),
    }
}

/// The right to compile a component. Clients start several guarded servers at once: one process
/// compiles, and the others wait for its file. The system returns the lock if the process ends.
struct Lock {
    path: PathBuf,
    _file: std::fs::File,
    /// True if no other process had the lock before.
    is_first: bool,
}

impl Lock {
    /// Waits for the lock of the component at `path` in the cache. `None` if the file system has no
    /// locks, or after `max_wait`: the process that has the lock may be stopped. `pause` waits
    /// between two attempts.
    fn wait(path: &Path, max_wait: Duration, mut pause: impl FnMut()) -> Option<Self> {
        let path = path.with_extension("lock");
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).ok()?;
        let started = Instant::now();
        let mut is_first = true;
        loop {
            match file.try_lock() {
                Ok(()) => return Some(Self { path, _file: file, is_first }),
                Err(TryLockError::WouldBlock) if started.elapsed() < max_wait => {
                    is_first = false;
                    pause();
                }
                Err(TryLockError::WouldBlock) => {
                    warn!(
                        "another process has held {} for {} s: this one compiles the component too",
                        path.display(),
                        max_wait.as_secs()
                    );
                    return None;
                }
                Err(TryLockError::Error(_)) => return None,
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Those that wait for this file find the compiled component. A process that creates the
        // file again does, too, or compiles for itself.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Maps a compiled component into memory. `None` if the file is missing, is no component of this
/// version of wasmtime, belongs to another user, or is writable for others. Damaged code is not
/// detected.
fn mapped(engine: &wasmtime::Engine, path: &Path) -> Option<Component> {
    if !path.is_file() || !is_own(path) {
        return None;
    }
    // SAFETY: `store` wrote the file, or else somebody with the rights of this user, who could
    // replace this program as well: nobody else can write to the file or to its folder. Files are
    // created under another name and renamed, so that a mapped file never changes.
    unsafe { Component::deserialize_file(engine, path) }.ok()
}

/// Writes a compiled component to the cache, and removes the oldest ones.
fn store(folder: &Path, path: &Path, artifact: &[u8]) -> std::io::Result<()> {
    let temporary = path.with_extension(format!("new-{}", std::process::id()));
    let write = || {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(artifact)?;
        // A damaged file would be executed after a crash of the machine.
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    let written = write();
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    remove_oldest(folder);
    written
}

/// Removes all but the newest compiled components. Processes that have mapped a removed file can
/// still use it.
fn remove_oldest(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut files: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let modified = path.metadata().ok()?.modified().ok()?;
            path.extension().is_some_and(|ending| ending == ENDING).then_some((modified, path))
        })
        .collect();
    files.sort_unstable_by(|left, right| right.cmp(left));
    for (_, path) in files.into_iter().skip(MAX_KEPT) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(unix)]
fn is_own(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).is_ok_and(|about| {
        about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o022 == 0
    })
}

#[cfg(not(unix))]
fn is_own(_: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_compiles_for_those_that_wait() {
        let folder = std::env::temp_dir().join(format!("compiled-lock-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let engine = wasmtime::Engine::default();
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let path = folder.join(format!("digest-{:016x}.{ENDING}", hasher.finish()));
        let lock = Lock::wait(&path, Duration::ZERO, || ()).unwrap();
        let waiting = {
            let (engine, folder) = (engine.clone(), folder.clone());
            // It could not compile these bytes itself.
            let bytes = ComponentBytes::Shared(b"no component".as_slice().into());
            std::thread::spawn(move || component(&engine, Some(&folder), &bytes, "digest").is_ok())
        };
        // An empty component (component model, binary format: magic, version and layer).
        let artifact = engine.precompile_component(b"\0asm\x0d\0\x01\0").unwrap();
        store(&folder, &path, &artifact).unwrap();
        drop(lock);
        assert!(waiting.join().unwrap());
        assert!(!path.with_extension("lock").exists());
        let bytes = ComponentBytes::Shared(b"no component".as_slice().into());
        assert!(component(&engine, Some(&folder), &bytes, "other").is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn stopped_process_does_not_keep_others_from_compiling() {
        let folder = std::env::temp_dir().join(format!("compiled-wait-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("component.cwasm");
        let held = Lock::wait(&path, Duration::ZERO, || ()).unwrap();
        assert!(held.is_first);
        assert!(Lock::wait(&path, Duration::ZERO, || ()).is_none());
        // The other process ends without a result.
        let mut held = Some(held);
        let second = Lock::wait(&path, Duration::MAX, || drop(held.take())).unwrap();
        assert!(!second.is_first);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
