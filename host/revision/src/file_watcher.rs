//! Watching the files that a gateway is made of.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tracing::{debug, warn};

use super::{Revisions, Sources};
use crate::Result;

/// How long nothing must happen before files are read: an editor writes in several steps.
const QUIET: Duration = Duration::from_millis(10);
/// The longest that is waited for quiet.
const LONGEST: Duration = Duration::from_millis(60);
/// How often files are read without being told: some file systems tell nothing.
const POLL: Duration = Duration::from_secs(5);
/// How often trials are looked after.
const TICK: Duration = Duration::from_secs(1);

/// Starts the thread that watches, and looks after trials, for as long as the revisions are there.
///
/// Folders are watched, not files: editors replace a file by another, Kubernetes replaces a symlink some levels up. The folder of every link on the way to a file is watched.
///
/// # Errors
/// Where no thread can be started.
pub fn watch(revisions: &Arc<Revisions>, sources: Arc<Sources>) -> Result<()> {
    let revisions = Arc::downgrade(revisions);
    std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
        let (tell, told) = channel();
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| is_change(event.kind)) {
                let _ = tell.send(());
            }
        })
        .map_err(|error| {
            warn!("Files cannot be watched, and are read every {} s: {error}.", POLL.as_secs())
        })
        .ok();
        let mut watched = BTreeSet::new();
        let mut read = Instant::now();
        loop {
            follow(watcher.as_mut(), &mut watched, &sources);
            let changed = match told.recv_timeout(TICK) {
                Ok(()) => settle(&told),
                Err(RecvTimeoutError::Timeout) => false,
                // Without a watcher there is only the clock.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(TICK);
                    false
                }
            };
            let Some(revisions) = revisions.upgrade() else { return };
            if changed || read.elapsed() >= POLL {
                read = Instant::now();
                if let Err(error) = sources.reload(&revisions, false) {
                    debug!("{error}");
                }
            }
            revisions.tick();
        }
    })?;
    Ok(())
}

/// Whether something may be otherwise now. That a file was opened or read, as by ourselves, changes nothing: to read again for that would never end.
fn is_change(kind: EventKind) -> bool {
    !kind.is_access() || kind == EventKind::Access(AccessKind::Close(AccessMode::Write))
}

/// Waits until nothing more happens.
fn settle(told: &Receiver<()>) -> bool {
    let since = Instant::now();
    while since.elapsed() < LONGEST && told.recv_timeout(QUIET).is_ok() {}
    true
}

/// Watches the folders that the files stand in now.
fn follow(
    watcher: Option<&mut RecommendedWatcher>,
    watched: &mut BTreeSet<PathBuf>,
    sources: &Sources,
) {
    let Some(watcher) = watcher else { return };
    let wanted: BTreeSet<PathBuf> = sources.files().iter().flat_map(|file| folders(file)).collect();
    for folder in wanted.difference(watched).cloned().collect::<Vec<_>>() {
        match watcher.watch(&folder, RecursiveMode::NonRecursive) {
            Ok(()) => drop(watched.insert(folder)),
            Err(error) => debug!("{} cannot be watched: {error}", folder.display()),
        }
    }
    for folder in watched.difference(&wanted).cloned().collect::<Vec<_>>() {
        let _ = watcher.unwatch(&folder);
        watched.remove(&folder);
    }
}

/// The folder of a file, and those of every link on the way to it.
fn folders(file: &Path) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    let Ok(mut at) = std::path::absolute(file) else { return folders };
    // A chain of links that is longer leads in circles.
    for _ in 0..40 {
        if let Some(folder) = at.parent() {
            folders.insert(folder.to_owned());
        }
        let link = at.ancestors().find_map(|part| {
            let target = std::fs::read_link(part).ok()?;
            Some((part.to_owned(), target))
        });
        let Some((part, target)) = link else { break };
        let Some(folder) = part.parent() else { break };
        folders.insert(folder.to_owned());
        let rest = at.strip_prefix(&part).map(Path::to_owned).unwrap_or_default();
        at = folder.join(target);
        if !rest.as_os_str().is_empty() {
            at.push(rest);
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_a_file_is_no_change_of_it() {
        assert!(!is_change(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(!is_change(EventKind::Access(AccessKind::Close(AccessMode::Read))));
        assert!(is_change(EventKind::Access(AccessKind::Close(AccessMode::Write))));
        assert!(is_change(EventKind::Create(notify::event::CreateKind::File)));
    }

    #[cfg(unix)]
    #[test]
    fn every_link_on_the_way_is_followed() {
        use std::os::unix::fs::symlink;
        // As Kubernetes mounts a ConfigMap: policy.yaml -> ..data/policy.yaml, ..data -> ..2026_01.
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let data = root.join("..2026_01");
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("policy.yaml"), "{}").unwrap();
        symlink("..2026_01", root.join("..data")).unwrap();
        symlink("..data/policy.yaml", root.join("policy.yaml")).unwrap();
        let found = folders(&root.join("policy.yaml"));
        assert!(found.contains(&root) && found.contains(&data), "{found:?}");
    }
}
