//! The list of tools while the guard cannot process the merged list, for example because it exceeds
//! its deadline. A full list of thousands of tools would fill the context of a client that relies
//! on the tiered one.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lru::LruCache;
use tracing::warn;

use super::Aggregator;
use super::audience::Audience;
use super::catalogue_list::CatalogueList;
use super::client::{Client, MAX_WAITING_BYTES, Origin};
use super::client_list::{CallerKey, ClientList, Fallback, GuardFailed, ListKey, name_alone};
use super::list_kinds::TOOLS;
use super::lists::MergedTools;
use super::upstream_list::ListEntry;
use crate::byte_channel::byte_channel;
use crate::catalogue_tools::{READ_TOOLS, is_catalogue_tool};
use crate::engine::OnFault;
use crate::lock::lock;

/// The time after a failure in which the guard does not process the same list again.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);
/// The maximum number of lists that the guard failed to process, and of callers whose last list is
/// cached.
const MAX_LISTS: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// The maximum number of clients that are notified when the guard processes their list again.
const MAX_WAITING: usize = 256;
/// The time for which a client waits for the guard's list.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// The maximum size of the definitions in a list by names, in bytes. It corresponds to the 3,000
/// tokens of a tiered list.
const MAX_DEFINITION_BYTES: usize = 12 << 10;

/// A client that received a replacement and waits for the guard's list.
struct WaitingClient {
    client: Client,
    since: Instant,
}

/// The state that replacements need.
pub(super) struct Fallbacks {
    /// The time at which the guard failed to process a list.
    failed: Mutex<LruCache<ListKey, Instant>>,
    /// The last tiered list of each caller.
    last: Mutex<LruCache<CallerKey, Arc<CatalogueList>>>,
    waiting: Mutex<Vec<WaitingClient>>,
}

impl Fallbacks {
    pub(super) fn new() -> Self {
        let (failed, last) = (LruCache::new(MAX_LISTS), LruCache::new(MAX_LISTS));
        Self { failed: failed.into(), last: last.into(), waiting: Mutex::default() }
    }

    /// Returns false if the guard has just failed to process the list. After the pause, one caller
    /// tries again, and the others wait for the next pause.
    pub(super) fn may_try(&self, key: &ListKey) -> bool {
        match lock(&self.failed).get_mut(key) {
            Some(at) if at.elapsed() < FAILURE_PAUSE => false,
            Some(at) => {
                *at = Instant::now();
                true
            }
            None => true,
        }
    }

    /// Forgets the failures of the guard to process a list, because it has processed it.
    pub(super) fn processed(&self, key: &ListKey) {
        lock(&self.failed).pop(key);
    }

    /// Records that the guard failed to process a list. Logs the first failure.
    pub(super) fn failed(&self, key: ListKey) {
        if lock(&self.failed).put(key, Instant::now()).is_none() {
            warn!(
                "the guard failed on a list of tools, so clients receive the last list or names \
                 without definitions: see the error before this line, or raise component.deadlineMs"
            );
        }
    }

    /// Caches the list that the guard made for a caller, if it is tiered.
    pub(super) fn succeeded(&self, caller: CallerKey, list: &Arc<CatalogueList>) {
        if list.is_tiered {
            lock(&self.last).put(caller, Arc::clone(list));
        }
    }

    /// Returns the last tiered list of a caller without the tools that have disappeared. `names`
    /// are the client-visible names of the current ones.
    fn last(&self, caller: &CallerKey, names: &HashSet<&str>) -> Option<Arc<CatalogueList>> {
        let last = lock(&self.last).get(caller).cloned()?;
        let is_current =
            |entry: &ListEntry| is_catalogue_tool(&entry.key) || names.contains(entry.key.as_str());
        if last.entries.iter().all(is_current) {
            return Some(last);
        }
        let mut list = CatalogueList::clone(&last);
        list.entries.retain(is_current);
        Some(Arc::new(list))
    }

    /// Notifies a client as soon as the guard has processed its list.
    fn wait(&self, client: &Client) {
        let mut waiting = lock(&self.waiting);
        let is_known = waiting.iter().any(|known| id(&known.client) == id(client));
        if !is_known && waiting.len() < MAX_WAITING {
            waiting.push(WaitingClient { client: client.in_background(), since: Instant::now() });
        }
    }
}

fn id(client: &Client) -> (Option<&str>, Audience) {
    let session = client.session.as_ref().map(|session| session.id.as_str());
    (session, Audience::of_client(client, 0))
}

impl Aggregator {
    /// Returns the replacement of a list that the guard failed to process. The tools that it does
    /// not contain remain callable, and the guard's tools find them.
    pub(super) async fn fallback_list(
        &self,
        origin: &Origin<'_>,
        id: &str,
        merged: &MergedTools,
        caller: &CallerKey,
    ) -> ClientList {
        self.catalogues.fallbacks.wait(origin.client);
        let entries = self.lists.client_entries(merged);
        let names = entries.iter().map(|entry| entry.key.as_str()).collect();
        if let Some(last) = self.catalogues.fallbacks.last(caller, &names) {
            return ClientList { list: Some(last), fallback: Some(Fallback::Last) };
        }
        let by_name = self.shaped_list(origin, id, &merged.by_name()).await;
        let (list, fallback) = match by_name {
            Ok(Some(list)) => (with_definitions(&list, &entries), Fallback::Names),
            _ => (self.unshaped_list(origin, merged, entries), Fallback::Unshaped),
        };
        ClientList { list: Some(Arc::new(list)), fallback: Some(fallback) }
    }

    /// Returns the lists of the upstreams. Contains names alone if policy withholds definitions, or
    /// forbids answers that the guard has not processed.
    fn unshaped_list(
        &self,
        origin: &Origin<'_>,
        merged: &MergedTools,
        mut entries: Vec<ListEntry>,
    ) -> CatalogueList {
        let revision = self.revision_of(origin);
        entries.retain(|entry| !self.catalogues.is_hidden(revision.number, &entry.key));
        if revision.on_fault().0 == OnFault::Block || revision.holds_definitions() {
            entries.iter_mut().for_each(|entry| entry.json = name_alone(entry));
        }
        let read_tool = merged.lists.iter().find_map(|(_, list)| list.read_tool.clone());
        CatalogueList { entries, read_tool, ..CatalogueList::default() }
    }

    /// Lets the guard process the lists again of clients that received a replacement. Notifies
    /// those for which it succeeds.
    pub(super) async fn retry_lists(self: Arc<Self>) {
        let waiting = std::mem::take(&mut *lock(&self.catalogues.fallbacks.waiting));
        for WaitingClient { client, since } in waiting {
            if client.session.as_ref().is_some_and(|session| session.ended.is_cancelled()) {
                continue;
            }
            let (out, _) = byte_channel(MAX_WAITING_BYTES);
            let origin = Origin::new(&client, &out);
            let merged = self.lists.known_tools(&origin).await;
            match self.shaped_list(&origin, "0", &merged).await {
                Ok(_) => self.lists.announce(&client, 0, &TOOLS),
                Err(GuardFailed) if since.elapsed() < MAX_WAIT => {
                    let mut waiting = lock(&self.catalogues.fallbacks.waiting);
                    waiting.push(WaitingClient { client, since });
                }
                Err(GuardFailed) => {}
            }
        }
    }

    /// Returns true if a client waits for [`Self::retry_lists`].
    pub(super) fn has_waiting_clients(&self) -> bool {
        !lock(&self.catalogues.fallbacks.waiting).is_empty()
    }
}

/// Returns the guard's list of names with the original definitions of its tools. A tiered list
/// contains at most [`MAX_DEFINITION_BYTES`] of them. It leaves out the other tools, because a
/// client calls a tool without its parameters in vain.
///
/// If policy withholds definitions, the list remains one of names: the guard has not read them.
fn with_definitions(list: &CatalogueList, definitions: &[ListEntry]) -> CatalogueList {
    let mut restored = list.clone();
    if list.holds {
        return restored;
    }
    let by_name: HashMap<&str, &str> = definitions
        .iter()
        .map(|definition| (definition.key.as_str(), definition.json.as_str()))
        .collect();
    let mut bytes = 0;
    restored.entries.retain_mut(|entry| {
        let is_own = is_catalogue_tool(&entry.key) || READ_TOOLS.contains(&entry.key.as_str());
        let Some(definition) = by_name.get(entry.key.as_str()).filter(|_| !is_own) else {
            return true;
        };
        bytes += definition.len();
        if list.is_tiered && bytes > MAX_DEFINITION_BYTES {
            bytes -= definition.len();
            return false;
        }
        entry.json = (*definition).to_owned();
        true
    });
    restored
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::aggregator::client_list::FALLBACK_KEY;
    use crate::aggregator::test_kit::{aggregator, client, upstream};
    use crate::config::Isolation;
    use crate::message::Head;

    fn entry(name: &str, description: &str) -> ListEntry {
        let json = format!(r#"{{"name":"{name}","description":"{description}"}}"#);
        ListEntry { key: name.to_owned(), json }
    }

    fn list(names: &[&str], is_tiered: bool) -> CatalogueList {
        let entries = names.iter().map(|name| entry(name, "")).collect();
        CatalogueList { entries, is_tiered, ..CatalogueList::default() }
    }

    fn names(list: &CatalogueList) -> Vec<&str> {
        list.entries.iter().map(|entry| entry.key.as_str()).collect()
    }

    #[test]
    fn definitions_of_a_tiered_list_are_bounded() {
        let long = "x".repeat(MAX_DEFINITION_BYTES);
        let all = [entry("a", "first"), entry("b", &long), entry("c", "last")];
        let search = "context_guard_search_tools";
        let tiered = with_definitions(&list(&[search, "a", "b", "c"], true), &all);
        assert_eq!(names(&tiered), [search, "a", "c"]);
        assert_eq!(tiered.entries[1], all[0]);
        let full = with_definitions(&list(&["a", "b"], false), &all);
        assert_eq!(full.entries, all[..2]);
        // Definitions that policy may withhold are not shown.
        let mut holding = list(&["a", "b"], false);
        holding.holds = true;
        assert_eq!(with_definitions(&holding, &all).entries, holding.entries);
    }

    #[test]
    fn last_list_has_current_tools_only() {
        let fallbacks = Fallbacks::new();
        let caller: CallerKey = ("ann".into(), None, 1);
        let search = "context_guard_search_tools";
        fallbacks.succeeded(caller.clone(), &Arc::new(list(&["a"], false)));
        assert!(fallbacks.last(&caller, &HashSet::new()).is_none(), "full lists are not cached");
        fallbacks.succeeded(caller.clone(), &Arc::new(list(&[search, "a", "b"], true)));
        let last = fallbacks.last(&caller, &HashSet::from(["b", "c"])).unwrap();
        assert_eq!(names(&last), [search, "b"]);
        let other: CallerKey = ("bob".into(), None, 1);
        assert!(fallbacks.last(&other, &HashSet::from(["b"])).is_none());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn replacement_says_what_happened() {
        let upstreams = ["a", "b"].map(|name| upstream(name, "tool", Isolation::Shared));
        // The guard fails on each message.
        let (aggregator, processes) = aggregator(upstreams.to_vec(), 4, "unreachable");
        let client = client("ann");
        let (out, _) = byte_channel(MAX_WAITING_BYTES);
        let origin = Origin::new(&client, &out);
        let request = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let listed = async || {
            let answer = aggregator.list_tools(&origin, &Head::read(request).unwrap()).await;
            let mut result = serde_json::from_slice::<Value>(&answer).unwrap()["result"].take();
            let tools = result["tools"].take();
            let names = tools.as_array().unwrap().iter().map(|tool| tool["name"].clone());
            (names.collect::<Vec<_>>(), result)
        };
        let (tools, result) = listed().await;
        assert_eq!(tools, ["a__tool", "b__tool"]);
        assert_eq!(result["_meta"][FALLBACK_KEY]["fallback"], "unshaped");
        assert_eq!(result["ttlMs"], 0);
        // The last tiered list of the caller comes first.
        let caller = aggregator.caller_key(&client, aggregator.revision_of(&origin).number);
        let last = list(&["context_guard_search_tools", "b__tool"], true);
        aggregator.catalogues.fallbacks.succeeded(caller, &Arc::new(last));
        let (tools, result) = listed().await;
        assert_eq!(tools, ["context_guard_search_tools", "b__tool"]);
        assert_eq!(result["_meta"][FALLBACK_KEY]["fallback"], "last");
        // The client waits once, however often it lists.
        assert_eq!(lock(&aggregator.catalogues.fallbacks.waiting).len(), 1);
        Arc::clone(&aggregator).retry_lists().await;
        assert!(aggregator.has_waiting_clients());
        processes.end().await;
    }
}
