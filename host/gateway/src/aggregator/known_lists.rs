//! The last known lists and descriptions of upstreams. The gateway answers from them while an
//! upstream is slow.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::broadcast;

use super::audience::Audience;
use super::client::Client;
use super::fair_cache::{FairCache, SharedContent, Weighted};
use super::fresh_lists::FreshLists;
use super::list_kinds::{LIST_KINDS, ListKind};
use super::upstream_list::UpstreamList;
use crate::lock::lock;
use crate::upstream::connection::{ServerInfo, UpstreamConnection};

/// The maximum total size of the cached lists, in bytes. Those that the gateway itself read count
/// separately.
const MAX_LIST_BYTES: usize = 64 << 20;
/// The size that a cached list counts in addition to its entries, in bytes. It limits the number of
/// short lists.
const LIST_OVERHEAD_BYTES: usize = 8 << 10;
/// The maximum size of a cached list, in bytes. One list must not evict all others.
const MAX_ONE_LIST_BYTES: usize = MAX_LIST_BYTES / 4;
/// The maximum total size of the cached descriptions of upstreams, in bytes.
const MAX_INFOS_BYTES: usize = 32 << 20;
/// The maximum size of a cached description, in bytes.
const MAX_INFO_BYTES: usize = 32 << 10;
/// The size that a cached description counts in addition to its text, in bytes.
const INFO_OVERHEAD_BYTES: usize = 8 << 10;
/// The maximum number of changes in the queue of a subscriber.
const MAX_CHANGES: usize = 64;

struct RememberedList {
    list: Arc<UpstreamList>,
    /// True after the upstream has announced a change of the list.
    is_outdated: bool,
}

impl Weighted for RememberedList {
    fn cost(&self) -> usize {
        LIST_OVERHEAD_BYTES
    }

    fn shared(&self) -> Option<SharedContent> {
        // Clients whose lists equal that of the gateway share its memory.
        let (address, cost) = (Arc::as_ptr(&self.list).addr(), self.list.memory_bytes());
        Some(SharedContent { address, cost })
    }
}

impl Weighted for ServerInfo {
    fn cost(&self) -> usize {
        self.result.len() + INFO_OVERHEAD_BYTES
    }
}

/// The cached lists.
struct RememberedLists {
    /// The lists that the gateway itself read, by upstream and method. They are never evicted: each
    /// client without a list of its own uses them.
    common: HashMap<(usize, &'static str), RememberedList>,
    own: FairCache<(Audience, &'static str), RememberedList>,
}

/// The cached descriptions of upstreams.
struct RememberedInfos {
    /// The descriptions that the gateway itself read, by upstream. They are never evicted.
    common: HashMap<usize, ServerInfo>,
    own: FairCache<Audience, ServerInfo>,
}

/// The lists and the description of an upstream that the gateway itself read.
pub(super) struct CommonLists {
    pub(super) info: Option<ServerInfo>,
    pub(super) lists: Vec<(&'static ListKind, Arc<UpstreamList>)>,
}

/// Caches the last list of each kind and the description of each upstream for each audience. An
/// audience without an entry uses those that the gateway itself read at its start, without
/// credentials.
pub(super) struct KnownLists {
    lists: Mutex<RememberedLists>,
    infos: Mutex<RememberedInfos>,
    /// True if a list that the gateway itself read has changed since the last
    /// [`Self::take_common_change`].
    has_common_change: AtomicBool,
    /// Sends the lists that changed after stateless clients received older ones: the audience, and
    /// the method of the notification.
    pub(super) changes: broadcast::Sender<(Audience, &'static str)>,
    /// Lists of tools that are recent enough to answer without asking the upstream.
    pub(super) fresh: FreshLists<UpstreamConnection>,
}

impl KnownLists {
    pub(super) fn new() -> Self {
        let own = FairCache::new(MAX_LIST_BYTES, MAX_ONE_LIST_BYTES);
        let lists = RememberedLists { common: HashMap::new(), own };
        let own = FairCache::new(MAX_INFOS_BYTES, MAX_INFO_BYTES + INFO_OVERHEAD_BYTES);
        let infos = RememberedInfos { common: HashMap::new(), own };
        Self {
            lists: Mutex::new(lists),
            infos: Mutex::new(infos),
            has_common_change: AtomicBool::new(false),
            changes: broadcast::Sender::new(MAX_CHANGES),
            fresh: FreshLists::new(),
        }
    }

    /// Returns the last list for a client, or the list that the gateway read at its start. `None`
    /// if there is none, or the upstream has announced a change of it.
    pub(super) fn list(
        &self,
        client: &Client,
        server: usize,
        kind: &ListKind,
    ) -> Option<Arc<UpstreamList>> {
        lock(&self.lists).find(client, server, kind, |last| !last.is_outdated)
    }

    /// Returns the same as [`Self::list`], but also a list of which the upstream has announced a
    /// change. It is for the case that the upstream does not return the new one now.
    pub(super) fn last_list(
        &self,
        client: &Client,
        server: usize,
        kind: &ListKind,
    ) -> Option<Arc<UpstreamList>> {
        lock(&self.lists).find(client, server, kind, |_| true)
    }

    /// Caches the list that an upstream returned for a client, if MCP defines a notification for
    /// changes of such a list.
    pub(super) fn learn_list(
        &self,
        client: &Client,
        server: usize,
        kind: &ListKind,
        list: &Arc<UpstreamList>,
    ) {
        // No notification tells that a list of this kind has changed.
        if !kind.changed.is_empty() {
            let audience = Audience::of_client(client, server);
            let mut lists = lock(&self.lists);
            let last = lists.common.get(&(server, kind.method));
            if audience == common(server) && last.is_none_or(|last| last.list != *list) {
                self.has_common_change.store(true, Ordering::Relaxed);
            }
            lists.put(audience, kind, Arc::clone(list));
        }
    }

    /// Returns the last lists and the description of an upstream that the gateway itself read.
    pub(super) fn common(&self, server: usize) -> CommonLists {
        let info = lock(&self.infos).common.get(&server).cloned();
        let lists = lock(&self.lists);
        let list = |kind: &'static ListKind| {
            let found = lists.common.get(&(server, kind.method))?;
            Some((kind, Arc::clone(&found.list)))
        };
        CommonLists { info, lists: LIST_KINDS.iter().filter_map(list).collect() }
    }

    /// Caches lists and a description that the gateway read before its last restart.
    pub(super) fn learn_common(&self, server: usize, common: CommonLists) {
        let audience = self::common(server);
        if let Some(info) = &common.info {
            self.learn_info(audience.clone(), info);
        }
        let mut lists = lock(&self.lists);
        for (kind, list) in common.lists {
            lists.put(audience.clone(), kind, list);
        }
    }

    /// Returns true, once, after a list that the gateway itself read has changed.
    pub(super) fn take_common_change(&self) -> bool {
        self.has_common_change.swap(false, Ordering::Relaxed)
    }

    /// Makes the next [`Self::take_common_change`] return true.
    pub(super) fn mark_common_change(&self) {
        self.has_common_change.store(true, Ordering::Relaxed);
    }

    /// Marks the lists of an upstream that its notification `changed` reports as changed.
    /// `is_common` is true if all clients use the same instance of the upstream. Otherwise, the
    /// lists that the gateway read at its start remain current.
    pub(super) fn forget(&self, server: usize, changed: &str, is_common: bool) {
        self.fresh.forget(server, changed);
        let mut lists = lock(&self.lists);
        for kind in LIST_KINDS.iter().filter(|kind| kind.changed == changed) {
            let own = lists.own.iter_mut();
            let changed = own.filter(|((audience, method), _)| {
                audience.server() == server && *method == kind.method
            });
            changed.for_each(|(_, list)| list.is_outdated = true);
            if is_common && let Some(list) = lists.common.get_mut(&(server, kind.method)) {
                list.is_outdated = true;
            }
        }
    }

    /// Returns the last description of an upstream for a client, or the one that the gateway read
    /// at its start. `None` if there is neither.
    pub(super) fn info(&self, client: &Client, server: usize) -> Option<ServerInfo> {
        let mut infos = lock(&self.infos);
        if let Some(own) = infos.own.get(&Audience::of_client(client, server)) {
            return Some(own.clone());
        }
        infos.common.get(&server).cloned()
    }

    /// Caches the description of an upstream, unless it exceeds the maximum size.
    pub(super) fn learn_info(&self, audience: Audience, info: &ServerInfo) {
        if info.result.len() > MAX_INFO_BYTES {
            return;
        }
        let (server, mut infos) = (audience.server(), lock(&self.infos));
        if audience == common(server) {
            infos.common.insert(server, info.clone());
        } else {
            infos.own.put(audience, info.clone());
        }
    }
}

impl RememberedLists {
    /// Returns the client's own list, or the common one if there is none, if it passes `accept`.
    fn find(
        &mut self,
        client: &Client,
        server: usize,
        kind: &ListKind,
        accept: impl Fn(&RememberedList) -> bool,
    ) -> Option<Arc<UpstreamList>> {
        let own = (Audience::of_client(client, server), kind.method);
        let found = match self.own.get(&own) {
            Some(own) => own,
            None => self.common.get(&(server, kind.method))?,
        };
        accept(found).then(|| Arc::clone(&found.list))
    }

    /// Replaces a list. Removes it if the new one exceeds [`MAX_ONE_LIST_BYTES`].
    fn put(&mut self, audience: Audience, kind: &ListKind, list: Arc<UpstreamList>) {
        let server = audience.server();
        let remembered = RememberedList { list, is_outdated: false };
        if audience != common(server) {
            self.own.put((audience, kind.method), remembered);
        } else if remembered.full_cost() <= MAX_ONE_LIST_BYTES {
            self.common.insert((server, kind.method), remembered);
        } else {
            self.common.remove(&(server, kind.method));
        }
    }
}

/// Returns the audience of the gateway itself at the upstream with the index `server`.
fn common(server: usize) -> Audience {
    Audience::of_client(&Client::gateway(), server)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::admission::Admission;
    use crate::aggregator::list_kinds::TOOLS;
    use crate::protocol_mode::ClientInfo;

    fn client(principal: &str) -> Client {
        let admission = Admission::of_principal(principal);
        Client::stateless(&admission, ClientInfo::gateway(), &HeaderMap::new())
    }

    #[test]
    fn lists_of_principals_stay_apart() {
        let known = KnownLists::new();
        let (ann, bob) = (client("ann"), client("bob"));
        known.learn_list(&ann, 0, &TOOLS, &UpstreamList::named("secret"));
        assert_eq!(known.list(&ann, 0, &TOOLS), Some(UpstreamList::named("secret")));
        assert_eq!(known.list(&ann, 1, &TOOLS), None);
        assert_eq!(known.list(&bob, 0, &TOOLS), None);
        known.learn_list(&Client::gateway(), 0, &TOOLS, &UpstreamList::named("common"));
        assert_eq!(known.list(&ann, 0, &TOOLS), Some(UpstreamList::named("secret")));
        assert_eq!(known.list(&bob, 0, &TOOLS), Some(UpstreamList::named("common")));
    }

    #[test]
    fn lists_of_other_audiences_evict_no_common_list() {
        let known = KnownLists::new();
        known.learn_list(&Client::gateway(), 0, &TOOLS, &UpstreamList::named("common"));
        known.learn_list(&client("ann"), 1, &TOOLS, &UpstreamList::named("ann"));
        let info = ServerInfo::parse(r#"{"instructions":"common"}"#);
        known.learn_info(common(0), &info);
        // A client of another upstream, or under endless names.
        for at in 0..MAX_LIST_BYTES / LIST_OVERHEAD_BYTES + 64 {
            let implementation = format!(r#"{{"name":"bob","version":"{at}"}}"#);
            let mut bob = client("bob");
            bob.info = Arc::new(ClientInfo { implementation, ..ClientInfo::gateway() });
            known.learn_list(&bob, 0, &TOOLS, &UpstreamList::named(&at.to_string()));
            known.learn_info(Audience::of_client(&bob, 0), &info);
        }
        assert_eq!(known.list(&client("eve"), 0, &TOOLS), Some(UpstreamList::named("common")));
        assert_eq!(known.list(&client("ann"), 1, &TOOLS), Some(UpstreamList::named("ann")));
        assert!(known.info(&client("eve"), 0).is_some());
    }

    #[test]
    fn long_lists_are_not_cached() {
        let known = KnownLists::new();
        known.learn_list(&Client::gateway(), 1, &TOOLS, &UpstreamList::named("other"));
        known.learn_list(&client("ann"), 1, &TOOLS, &UpstreamList::named("ann"));
        let long = UpstreamList::named(&"x".repeat(MAX_ONE_LIST_BYTES));
        for client in [Client::gateway(), client("ann")] {
            known.learn_list(&client, 0, &TOOLS, &UpstreamList::named("old"));
            known.learn_list(&client, 0, &TOOLS, &long);
            assert!(known.last_list(&client, 0, &TOOLS).is_none());
            assert!(known.list(&client, 1, &TOOLS).is_some());
        }
    }

    #[test]
    fn changed_lists_are_outdated() {
        let known = KnownLists::new();
        let (ann, bob) = (client("ann"), client("bob"));
        known.learn_list(&Client::gateway(), 0, &TOOLS, &UpstreamList::named("common"));
        known.learn_list(&ann, 0, &TOOLS, &UpstreamList::named("old"));
        known.forget(0, "notifications/prompts/list_changed", true);
        assert_eq!(known.list(&ann, 0, &TOOLS), Some(UpstreamList::named("old")));
        known.forget(0, TOOLS.changed, false);
        assert_eq!(known.list(&ann, 0, &TOOLS), None);
        assert_eq!(known.list(&bob, 0, &TOOLS), Some(UpstreamList::named("common")));
        known.forget(0, TOOLS.changed, true);
        assert_eq!(known.list(&bob, 0, &TOOLS), None);
        assert_eq!(known.last_list(&ann, 0, &TOOLS), Some(UpstreamList::named("old")));
        assert_eq!(known.last_list(&bob, 0, &TOOLS), Some(UpstreamList::named("common")));
        known.learn_list(&ann, 0, &TOOLS, &UpstreamList::named("new"));
        assert_eq!(known.list(&ann, 0, &TOOLS), Some(UpstreamList::named("new")));
    }
}
