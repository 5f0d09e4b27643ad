//! The file with the lists and descriptions of upstreams that the gateway itself read last. After a
//! restart, the gateway answers from them while the upstreams start.
//!
//! The file contains no list that depends on the caller: only those that the gateway reads for
//! itself, from upstreams that need no credentials of a client.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use context_guard_protocol::to_hex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tracing::{debug, warn};

use super::known_lists::{CommonLists, KnownLists};
use super::list_kinds::{LIST_KINDS, ListKind};
use super::lists::entry_key;
use super::sessions::random_id;
use super::upstream_list::{ListEntry, UpstreamList};
use crate::upstream::connection::ServerInfo;
use crate::upstream::server::UpstreamServer;

/// The version of the format. Files of another version are ignored.
const FORMAT: u32 = 1;
/// The maximum size of the file, in bytes. The lists of further upstreams are left out.
const MAX_FILE_BYTES: usize = 32 << 20;

#[derive(Serialize, Deserialize)]
struct StoredLists {
    format: u32,
    /// The identity of the guard, which adds its own arguments to definitions.
    guard: String,
    upstreams: Vec<StoredUpstream>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredUpstream {
    name: String,
    /// The digest of the settings that select the server.
    server: String,
    /// The result of the handshake.
    info: Option<Box<RawValue>>,
    /// The lists by the method that returns them.
    lists: BTreeMap<String, StoredList>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredList {
    entries: Vec<Box<RawValue>>,
    read_tool: Option<Box<RawValue>>,
}

/// The file with the last lists.
pub(super) struct ListFile {
    path: PathBuf,
    /// The identity of the guard at the start, which has shaped the lists.
    guard: String,
    /// Held while the file is written: an older write must not replace a newer file.
    writing: Arc<Mutex<()>>,
    /// True if the last write failed.
    has_failed: AtomicBool,
}

impl ListFile {
    pub(super) fn new(path: PathBuf, guard: String) -> Self {
        Self { path, guard, writing: Arc::default(), has_failed: AtomicBool::new(false) }
    }

    /// Waits until no other task writes the file. Holding the returned guard reserves it.
    pub(super) async fn reserve(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.writing).lock_owned().await
    }

    /// Reserves the file. `None` if another task writes it.
    pub(super) fn try_reserve(&self) -> Option<OwnedMutexGuard<()>> {
        Arc::clone(&self.writing).try_lock_owned().ok()
    }

    /// Adds the stored lists of these upstreams to the known ones. Ignores the file if it is
    /// missing, damaged or that of another guard, and the upstreams whose settings have changed.
    pub(super) fn read(&self, servers: &[Arc<UpstreamServer>], known: &KnownLists) {
        let stored = match self.parse() {
            Ok(Some(stored)) if stored.format == FORMAT && stored.guard == self.guard => stored,
            Ok(_) => return,
            Err(error) => {
                warn!("the last lists in {} are ignored: {error}", self.path.display());
                return;
            }
        };
        for upstream in stored.upstreams {
            let server = servers
                .iter()
                .position(|server| server.name == upstream.name && !server.needs_credentials());
            let Some((at, server)) = server.and_then(|at| Some((at, servers.get(at)?))) else {
                continue;
            };
            if upstream.server == identity(server) {
                known.learn_common(at, upstream.into_common());
            }
        }
    }

    fn parse(&self) -> std::io::Result<Option<StoredLists>> {
        let file = match std::fs::File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = Vec::new();
        // The file may grow while it is read.
        file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut text)?;
        if text.len() > MAX_FILE_BYTES {
            return Err(std::io::Error::other("it is too large"));
        }
        Ok(Some(serde_json::from_slice(&text)?))
    }

    /// Replaces the file with the known lists of these upstreams, if they have changed. After a
    /// failure, which is logged, they still count as changed. Does nothing if `guard` is another
    /// guard than at the start: it has not shaped the lists. `_reserved` is the result of
    /// [`Self::reserve`].
    pub(super) fn write(
        &self,
        _reserved: OwnedMutexGuard<()>,
        guard: &str,
        servers: &[Arc<UpstreamServer>],
        known: &KnownLists,
    ) {
        if !known.take_common_change() || guard != self.guard {
            return;
        }
        let mut stored =
            StoredLists { format: FORMAT, guard: guard.to_owned(), upstreams: Vec::new() };
        let mut bytes = 0;
        for (at, server) in servers.iter().enumerate() {
            let common = known.common(at);
            if server.needs_credentials() || common.lists.is_empty() {
                continue;
            }
            let upstream = StoredUpstream::new(server, &common);
            // Half of the maximum leaves room for names, quotes and separators.
            bytes += common.lists.iter().map(|(_, list)| list.bytes()).sum::<usize>();
            if bytes > MAX_FILE_BYTES / 2 {
                debug!(upstream = server.name, "its lists are not stored: there are too many");
                break;
            }
            stored.upstreams.push(upstream);
        }
        let text = serde_json::to_vec(&stored).unwrap_or_default();
        let replaced = replace(&self.path, &text);
        let had_failed = self.has_failed.swap(replaced.is_err(), Ordering::Relaxed);
        if let Err(error) = replaced {
            known.mark_common_change();
            // The write is repeated often, and a full disk is reported once.
            if !had_failed {
                warn!(
                    "cannot write {}: after a restart, lists wait for the upstreams: {error}",
                    self.path.display()
                );
            }
        }
    }
}

impl StoredUpstream {
    fn new(server: &UpstreamServer, common: &CommonLists) -> Self {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).ok();
        let lists = common.lists.iter().map(|(kind, list)| {
            let entries = list.entries.iter().filter_map(|entry| raw(&entry.json)).collect();
            let read_tool = list.read_tool.as_deref().and_then(raw);
            (kind.method.to_owned(), StoredList { entries, read_tool })
        });
        Self {
            name: server.name.clone(),
            server: identity(server),
            info: common.info.as_ref().and_then(|info| raw(&info.result)),
            lists: lists.collect(),
        }
    }

    fn into_common(self) -> CommonLists {
        let lists = LIST_KINDS.iter().filter_map(|kind| {
            let stored = self.lists.get(kind.method)?;
            Some((kind, Arc::new(stored.to_list(kind))))
        });
        let lists = lists.collect();
        CommonLists { info: self.info.map(|info| ServerInfo::parse(info.get())), lists }
    }
}

impl StoredList {
    fn to_list(&self, kind: &ListKind) -> UpstreamList {
        let entries = self
            .entries
            .iter()
            .map(|entry| ListEntry { key: entry_key(entry, kind), json: entry.get().to_owned() });
        let read_tool = self.read_tool.as_ref().map(|tool| tool.get().to_owned());
        UpstreamList { entries: entries.collect(), read_tool, ..UpstreamList::default() }
    }
}

/// Returns a digest of the settings that select the server of an upstream. It contains no secrets:
/// of variables and headers, only the names count.
fn identity(server: &UpstreamServer) -> String {
    let config = &server.config;
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(config.url.as_deref().unwrap_or_default());
    add(&config.cwd.as_deref().unwrap_or(Path::new("")).to_string_lossy());
    config.command.iter().for_each(|part| add(part));
    config.env.keys().chain(config.headers.keys()).for_each(|name| add(name));
    to_hex(&hash.finalize())
}

/// Replaces the file at `path` as a whole: a process that ends while it writes leaves the old file.
/// Only the owner may read it, because definitions may be confidential.
fn replace(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut folder = std::fs::DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    if let Some(parent) = path.parent() {
        folder.create(parent)?;
    }
    // Several processes may have the same gateway file. In containers, all have the same id.
    let random = random_id().ok_or_else(|| std::io::Error::other("no random numbers"))?;
    let draft = path.with_extension(format!("{random}.new"));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options
        .open(&draft)
        .and_then(|mut file| file.write_all(text))
        .and_then(|()| std::fs::rename(&draft, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use crate::aggregator::client::{Client, MAX_WAITING_BYTES, Origin};
    use crate::aggregator::test_kit::{aggregator, client, upstream};
    use crate::byte_channel::byte_channel;
    use crate::config::{Isolation, Upstream};

    const FORWARD: &str = context_guard_test_stub::FORWARD;

    fn upstreams(tools: [&str; 2]) -> Vec<Upstream> {
        let [a, b] = tools;
        vec![upstream("a", a, Isolation::Session), upstream("b", b, Isolation::Shared)]
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn failed_write_is_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lists").join("gateway.json");
        // The folder of the file cannot be created.
        std::fs::write(folder.path().join("lists"), "").unwrap();
        let (aggregator, processes) = aggregator(upstreams(["one", "two"]), 4, FORWARD);
        aggregator.restore_lists(path.clone());
        aggregator.clone().warm().await;
        assert!(!path.exists());
        std::fs::remove_file(folder.path().join("lists")).unwrap();
        aggregator.store_lists().await;
        assert!(path.exists());
        let names: Vec<_> = std::fs::read_dir(folder.path().join("lists")).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        processes.end().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn hung_write_delays_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.json");
        let (aggregator, processes) = aggregator(upstreams(["one", "two"]), 4, FORWARD);
        aggregator.restore_lists(path.clone());
        let file = aggregator.list_file.get().unwrap();
        // Another write does not end.
        let writing = file.reserve().await;
        aggregator.connections.known.mark_common_change();
        aggregator.start_storing_lists();
        assert!(!path.exists());
        drop(writing);
        // The lists are still to be stored.
        aggregator.store_lists().await;
        assert!(path.exists());
        processes.end().await;
    }

    #[test]
    fn oversized_file_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gateway.json");
        std::fs::write(&path, vec![b' '; super::MAX_FILE_BYTES + 1]).unwrap();
        let error = super::ListFile::new(path, String::new()).parse().err().unwrap();
        assert!(error.to_string().contains("too large"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lists_are_known_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lists").join("gateway.json");
        let (first, processes) = aggregator(upstreams(["one", "two"]), 4, FORWARD);
        first.restore_lists(path.clone());
        first.clone().warm().await;
        processes.end().await;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        // No process may start. Another server has the name `b` now.
        let (second, processes) = aggregator(upstreams(["one", "other"]), 0, FORWARD);
        second.restore_lists(path.clone());
        let client = client("ann");
        let (out, _) = byte_channel(MAX_WAITING_BYTES);
        let merged = second.lists.known_tools(&Origin::new(&client, &out)).await;
        let names: Vec<&str> = merged.lists.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, merged.unlisted), (vec!["a"], vec!["b".to_owned()]));
        assert_eq!(merged.lists[0].1.entries[0].key, "one");
        let info = second.connections.known.info(&client, 0).unwrap();
        assert!(info.has_capability("tools") && info.result.contains("2025-11-25"));
        processes.end().await;
        // A damaged file counts as missing.
        std::fs::write(&path, "{").unwrap();
        let (third, _) = aggregator(upstreams(["one", "two"]), 0, FORWARD);
        third.restore_lists(path);
        assert!(third.connections.known.info(&Client::gateway(), 0).is_none());
    }
}
