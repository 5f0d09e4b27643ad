//! The last known lists and descriptions of upstreams. The gateway answers from them while an
//! upstream is slow.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use lru::LruCache;
use tokio::sync::broadcast;

use super::audience::Audience;
use super::client::Client;
use super::fresh_lists::FreshLists;
use super::list_kinds::{LIST_KINDS, ListKind};
use super::upstream_list::UpstreamList;
use crate::lock::lock;
use crate::upstream::connection::{ServerInfo, UpstreamConnection};

/// The maximum number of cached lists.
const MAX_LISTS: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();
/// The maximum total size of the cached lists, in bytes.
const MAX_LIST_BYTES: usize = 64 << 20;
/// The maximum number of cached descriptions of upstreams.
const MAX_INFOS: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();
/// The maximum size of a cached description, in bytes.
const MAX_INFO_BYTES: usize = 32 << 10;
/// The maximum number of changes in the queue of a subscriber.
const MAX_CHANGES: usize = 64;

struct RememberedList {
    list: Arc<UpstreamList>,
    /// True after the upstream has announced a change of the list.
    is_outdated: bool,
}

/// The cached lists.
struct RememberedLists {
    entries: LruCache<(Audience, &'static str), RememberedList>,
    bytes: usize,
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
    infos: Mutex<LruCache<Audience, ServerInfo>>,
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
        let lists = RememberedLists { entries: LruCache::new(MAX_LISTS), bytes: 0 };
        Self {
            lists: Mutex::new(lists),
            infos: Mutex::new(LruCache::new(MAX_INFOS)),
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
            let key = (Audience::of_client(client, server), kind.method);
            let is_common = client.principal == Client::gateway().principal;
            let mut lists = lock(&self.lists);
            if is_common && lists.entries.peek(&key).is_none_or(|last| last.list != *list) {
                self.has_common_change.store(true, Ordering::Relaxed);
            }
            lists.put(key, Arc::clone(list));
        }
    }

    /// Returns the last lists and the description of an upstream that the gateway itself read.
    pub(super) fn common(&self, server: usize) -> CommonLists {
        let audience = Audience::of_client(&Client::gateway(), server);
        let info = lock(&self.infos).peek(&audience).cloned();
        let lists = lock(&self.lists);
        let list = |kind: &'static ListKind| {
            let found = lists.entries.peek(&(audience.clone(), kind.method))?;
            Some((kind, Arc::clone(&found.list)))
        };
        CommonLists { info, lists: LIST_KINDS.iter().filter_map(list).collect() }
    }

    /// Caches lists and a description that the gateway read before its last restart.
    pub(super) fn learn_common(&self, server: usize, common: CommonLists) {
        let audience = Audience::of_client(&Client::gateway(), server);
        if let Some(info) = &common.info {
            self.learn_info(audience.clone(), info);
        }
        let mut lists = lock(&self.lists);
        for (kind, list) in common.lists {
            lists.put((audience.clone(), kind.method), list);
        }
    }

    /// Returns true, once, after a list that the gateway itself read has changed.
    pub(super) fn take_common_change(&self) -> bool {
        self.has_common_change.swap(false, Ordering::Relaxed)
    }

    /// Marks the lists of an upstream that its notification `changed` reports as changed.
    /// `is_common` is true if all clients use the same instance of the upstream. Otherwise, the
    /// lists that the gateway read at its start remain current.
    pub(super) fn forget(&self, server: usize, changed: &str, is_common: bool) {
        self.fresh.forget(server, changed);
        let common = Audience::of_client(&Client::gateway(), server);
        let mut lists = lock(&self.lists);
        for kind in LIST_KINDS.iter().filter(|kind| kind.changed == changed) {
            let all = lists.entries.iter_mut();
            let changed = all
                .filter(|((audience, method), _)| {
                    audience.server() == server && *method == kind.method
                })
                .filter(|((audience, _), _)| is_common || *audience != common);
            changed.for_each(|(_, list)| list.is_outdated = true);
        }
    }

    /// Returns the last description of an upstream for a client, or the one that the gateway read
    /// at its start. `None` if there is neither.
    pub(super) fn info(&self, client: &Client, server: usize) -> Option<ServerInfo> {
        let mut infos = lock(&self.infos);
        if let Some(own) = infos.get(&Audience::of_client(client, server)) {
            return Some(own.clone());
        }
        infos.get(&Audience::of_client(&Client::gateway(), server)).cloned()
    }

    /// Caches the description of an upstream, unless it exceeds the maximum size.
    pub(super) fn learn_info(&self, audience: Audience, info: &ServerInfo) {
        if info.result.len() <= MAX_INFO_BYTES {
            lock(&self.infos).put(audience, info.clone());
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
        let common = (Audience::of_client(&Client::gateway(), server), kind.method);
        let key = if self.entries.contains(&own) { own } else { common };
        let found = self.entries.get(&key).filter(|found| accept(found))?;
        Some(Arc::clone(&found.list))
    }

    fn put(&mut self, key: (Audience, &'static str), list: Arc<UpstreamList>) {
        self.bytes += list.bytes();
        let removed = self.entries.push(key, RememberedList { list, is_outdated: false });
        self.bytes -= removed.map_or(0, |(_, removed)| removed.list.bytes());
        while self.bytes > MAX_LIST_BYTES {
            let Some((_, removed)) = self.entries.pop_lru() else { return };
            self.bytes -= removed.list.bytes();
        }
    }
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
