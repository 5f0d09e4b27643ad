//! The lists of tools that open connections returned recently. The gateway answers from them
//! without asking the upstream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::audience::Audience;
use super::fair_cache::{FairCache, SharedContent, Weighted};
use super::list_kinds::TOOLS;
use super::upstream_list::UpstreamList;

/// The age of a list after which the gateway asks the upstream in the background, while it still
/// answers from the list.
pub(super) const REFRESH_AFTER: Duration = Duration::from_secs(10);
/// The lifetime of a list whose upstream does not declare `listChanged`.
const UNANNOUNCED_LIFETIME: Duration = Duration::from_secs(60);
/// The lifetime of a list whose upstream declares `listChanged`. It is limited because
/// notifications may get lost, for example at an HTTP upstream without an event stream.
const ANNOUNCED_LIFETIME: Duration = Duration::from_secs(600);
/// The maximum total size of the cached lists, in bytes.
const MAX_BYTES: usize = 64 << 20;
/// The maximum size of a cached list, in bytes. One list must not evict all others.
const MAX_LIST_BYTES: usize = MAX_BYTES / 4;
/// The size that a cached list counts in addition to its entries, in bytes. It limits the number of
/// short lists.
const LIST_OVERHEAD_BYTES: usize = 8 << 10;

/// A list that can be sent to a client.
pub(super) struct FoundList {
    pub(super) list: Arc<UpstreamList>,
    /// True if the caller should ask the upstream again. It is true at most once per
    /// [`REFRESH_AFTER`].
    pub(super) needs_refresh: bool,
}

/// The origin of a list: the clients that see it, and the connection that returned it. Clients with
/// another principal, session or description have separate lists.
pub(super) struct ListSource<'a, C> {
    pub(super) audience: Audience,
    pub(super) connection: &'a Arc<C>,
    /// The revision of the guard, which adds its own arguments to the definitions.
    pub(super) revision: u64,
    /// True if the upstream declares that it sends notifications of changes.
    pub(super) announces_changes: bool,
}

struct FreshList<C> {
    /// Keeps the address of the connection, which is part of the key, from being reused.
    _connection: Weak<C>,
    revision: u64,
    fetched: Instant,
    refreshed: Instant,
    list: Arc<UpstreamList>,
}

impl<C> Weighted for FreshList<C> {
    fn cost(&self) -> usize {
        LIST_OVERHEAD_BYTES
    }

    fn shared(&self) -> Option<SharedContent> {
        // Clients with equal lists share their memory.
        let (address, cost) = (Arc::as_ptr(&self.list).addr(), self.list.memory_bytes());
        Some(SharedContent { address, cost })
    }
}

/// An audience, and the address of the connection in memory.
type FreshListKey = (Audience, usize);

struct CachedLists<C> {
    lists: FairCache<FreshListKey, FreshList<C>>,
    /// The number of list changes that each upstream has announced, by the index of the upstream.
    changes: HashMap<usize, u64>,
}

/// Caches the list of tools of each open connection. `C` is the type of connections.
pub(super) struct FreshLists<C> {
    state: Mutex<CachedLists<C>>,
}

impl<C> FreshLists<C> {
    pub(super) fn new() -> Self {
        let lists = FairCache::new(MAX_BYTES, MAX_LIST_BYTES);
        Self { state: Mutex::new(CachedLists { lists, changes: HashMap::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, CachedLists<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the list of a source. `None` if there is none, it is too old, or it belongs to
    /// another revision.
    pub(super) fn find(&self, source: &ListSource<'_, C>) -> Option<FoundList> {
        let lifetime =
            if source.announces_changes { ANNOUNCED_LIFETIME } else { UNANNOUNCED_LIFETIME };
        let mut state = self.state();
        let found = state.lists.get_mut(&key(source))?;
        if found.revision != source.revision || found.fetched.elapsed() >= lifetime {
            return None;
        }
        let needs_refresh = found.refreshed.elapsed() >= REFRESH_AFTER;
        if needs_refresh {
            found.refreshed = Instant::now();
        }
        Some(FoundList { list: Arc::clone(&found.list), needs_refresh })
    }

    /// Returns the number of changes that an upstream has announced. A fetched list is current if
    /// the number was the same before and after the request.
    pub(super) fn change_count(&self, server: usize) -> u64 {
        self.state().changes.get(&server).copied().unwrap_or_default()
    }

    /// Caches the list of a source, unless the upstream has announced more than `changes` changes,
    /// the number before the request. Does not cache a list of more than [`MAX_LIST_BYTES`].
    pub(super) fn learn(&self, source: &ListSource<'_, C>, list: &Arc<UpstreamList>, changes: u64) {
        let mut state = self.state();
        let announced = state.changes.get(&source.audience.server()).copied().unwrap_or_default();
        if announced != changes {
            return;
        }
        let now = Instant::now();
        let fresh = FreshList {
            _connection: Arc::downgrade(source.connection),
            revision: source.revision,
            fetched: now,
            refreshed: now,
            list: Arc::clone(list),
        };
        state.lists.put(key(source), fresh);
    }

    /// Removes the lists of an upstream if its notification `changed` reports changed tools.
    pub(super) fn forget(&self, server: usize, changed: &str) {
        if changed != TOOLS.changed {
            return;
        }
        let mut state = self.state();
        *state.changes.entry(server).or_default() += 1;
        let keys = state.lists.iter().map(|(key, _)| key);
        let stale: Vec<FreshListKey> =
            keys.filter(|(audience, _)| audience.server() == server).cloned().collect();
        for key in stale {
            state.lists.pop(&key);
        }
    }
}

fn key<C>(source: &ListSource<'_, C>) -> FreshListKey {
    (source.audience.clone(), Arc::as_ptr(source.connection).addr())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::admission::Admission;
    use crate::aggregator::client::Client;
    use crate::protocol_mode::ClientInfo;

    fn source<'a>(principal: &str, connection: &'a Arc<u8>) -> ListSource<'a, u8> {
        let admission = Admission::of_principal(principal);
        let client = Client::stateless(&admission, ClientInfo::gateway(), &HeaderMap::new());
        let audience = Audience::of_client(&client, 3);
        ListSource { audience, connection, revision: 1, announces_changes: true }
    }

    fn found(lists: &FreshLists<u8>, source: &ListSource<'_, u8>) -> Option<Arc<UpstreamList>> {
        lists.find(source).map(|found| found.list)
    }

    #[test]
    fn lists_of_principals_never_mix() {
        let (lists, shared) = (FreshLists::new(), Arc::new(0));
        lists.learn(&source("ann", &shared), &UpstreamList::named("secret"), 0);
        lists.learn(&source("bob", &shared), &UpstreamList::named("public"), 0);
        assert_eq!(found(&lists, &source("ann", &shared)), Some(UpstreamList::named("secret")));
        assert_eq!(found(&lists, &source("bob", &shared)), Some(UpstreamList::named("public")));
        assert_eq!(found(&lists, &source("eve", &shared)), None);
    }

    #[test]
    fn list_belongs_to_connection_and_revision() {
        let (lists, connection) = (FreshLists::new(), Arc::new(0));
        let known = source("ann", &connection);
        lists.learn(&known, &UpstreamList::named("a"), 0);
        let other = Arc::new(0);
        assert_eq!(found(&lists, &source("ann", &other)), None);
        let revised = ListSource { revision: 2, ..source("ann", &connection) };
        assert_eq!(found(&lists, &revised), None);
        assert!(!lists.find(&known).unwrap().needs_refresh);
    }

    #[test]
    fn announced_change_invalidates_lists() {
        let (lists, connection) = (FreshLists::new(), Arc::new(0));
        let known = source("ann", &connection);
        lists.learn(&known, &UpstreamList::named("old"), lists.change_count(3));
        lists.forget(4, TOOLS.changed);
        lists.forget(3, "notifications/prompts/list_changed");
        assert_eq!(found(&lists, &known), Some(UpstreamList::named("old")));
        let before = lists.change_count(3);
        lists.forget(3, TOOLS.changed);
        assert_eq!(found(&lists, &known), None);
        // A list that was requested before the change may be an old one.
        lists.learn(&known, &UpstreamList::named("old"), before);
        assert_eq!(found(&lists, &known), None);
        lists.learn(&known, &UpstreamList::named("new"), lists.change_count(3));
        assert_eq!(found(&lists, &known), Some(UpstreamList::named("new")));
    }

    #[test]
    fn size_is_bounded() {
        let (lists, connection) = (FreshLists::new(), Arc::new(0));
        let long = |size: usize| UpstreamList::named(&"x".repeat(size));
        let principals = ["a", "b", "c", "d", "e"];
        for principal in principals {
            lists.learn(&source(principal, &connection), &long(MAX_BYTES / 4 - (16 << 10)), 0);
        }
        let is_known = |principal: &&str| lists.find(&source(principal, &connection)).is_some();
        let kept: Vec<&str> = principals.into_iter().filter(is_known).collect();
        assert_eq!(kept, ["b", "c", "d", "e"]);
        lists.learn(&source("e", &connection), &long(MAX_BYTES / 4), 0);
        let kept: Vec<&str> = principals.into_iter().filter(is_known).collect();
        assert_eq!(kept, ["b", "c", "d"]);
    }

    #[test]
    fn owner_with_the_longest_lists_is_evicted_from() {
        let (lists, connection) = (FreshLists::new(), Arc::new(0));
        lists.learn(&source("ann", &connection), &UpstreamList::named("ann"), 0);
        let connections: Vec<Arc<u8>> = (0..10).map(Arc::new).collect();
        for connection in &connections {
            let long = UpstreamList::named(&"x".repeat(MAX_BYTES / 5));
            lists.learn(&source("bob", connection), &long, 0);
        }
        assert!(found(&lists, &source("ann", &connection)).is_some());
        // Equal lists that share their memory count once.
        let (lists, long) = (FreshLists::new(), UpstreamList::named(&"x".repeat(MAX_BYTES / 5)));
        for connection in &connections {
            lists.learn(&source("bob", connection), &long, 0);
        }
        assert!(connections.iter().all(|own| found(&lists, &source("bob", own)).is_some()));
    }
}
