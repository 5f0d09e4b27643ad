//! Watches the policy, component and key files of a gateway and reloads them when they change.

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

/// The time without file events after which changed files are read, because editors write in
/// several steps.
const QUIET_PERIOD: Duration = Duration::from_millis(10);
/// The maximum time to wait for a [`QUIET_PERIOD`].
const MAX_WAIT: Duration = Duration::from_millis(60);
/// The interval at which the files are read even without file events, because some file systems
/// report no events.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum time to wait for a file event after which the thread checks if it must end.
const EVENT_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts the thread that watches the files of `sources` and reloads them. The thread ends within a
/// second after `revisions` is dropped.
///
/// It watches folders instead of files, because editors replace files, and Kubernetes replaces a
/// symlink some levels up. It therefore watches the folder of every link on the way to a file.
///
/// # Errors
/// [`crate::Error::Io`] if the thread cannot start.
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
            warn!(
                "cannot watch files, reading them every {} s instead: {error}",
                POLL_INTERVAL.as_secs()
            )
        })
        .ok();
        let mut watched = BTreeSet::new();
        let mut read = Instant::now();
        loop {
            follow(watcher.as_mut(), &mut watched, &sources);
            let changed = match told.recv_timeout(EVENT_TIMEOUT) {
                Ok(()) => settle(&told),
                Err(RecvTimeoutError::Timeout) => false,
                // Without a watcher, only the poll interval remains.
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(EVENT_TIMEOUT);
                    false
                }
            };
            let Some(revisions) = revisions.upgrade() else { return };
            if changed || read.elapsed() >= POLL_INTERVAL {
                read = Instant::now();
                sources.reload_changed(&revisions);
            }
        }
    })?;
    Ok(())
}

/// Returns true if a file event may mean changed contents. Events of opening and reading do not,
/// because this thread itself causes them.
fn is_change(kind: EventKind) -> bool {
    !kind.is_access() || kind == EventKind::Access(AccessKind::Close(AccessMode::Write))
}

/// Waits until no file events arrive for [`QUIET_PERIOD`], but at most [`MAX_WAIT`]. Always returns
/// true, for use in a condition.
fn settle(events: &Receiver<()>) -> bool {
    let since = Instant::now();
    while since.elapsed() < MAX_WAIT && events.recv_timeout(QUIET_PERIOD).is_ok() {}
    true
}

/// Updates the watched folders to those of the current files. `watched` contains the watched
/// folders before and after the call.
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
            Err(error) => debug!("cannot watch {}: {error}", folder.display()),
        }
    }
    for folder in watched.difference(&wanted).cloned().collect::<Vec<_>>() {
        let _ = watcher.unwatch(&folder);
        watched.remove(&folder);
    }
}

/// Returns the folder of a file, and the folders of all symlinks on the path to it.
fn folders(file: &Path) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::new();
    let Ok(mut at) = std::path::absolute(file) else { return folders };
    // A longer chain of links is a cycle.
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
    fn reading_is_not_a_change() {
        assert!(!is_change(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(!is_change(EventKind::Access(AccessKind::Close(AccessMode::Read))));
        assert!(is_change(EventKind::Access(AccessKind::Close(AccessMode::Write))));
        assert!(is_change(EventKind::Create(notify::event::CreateKind::File)));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed() {
        use std::os::unix::fs::symlink;
        // Kubernetes mounts a ConfigMap like this: policy.yaml -> ..data/policy.yaml, ..data ->
        // ..2026_01.
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
