//! The tool catalogue. Sends the merged list of tools through the guard.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lru::LruCache;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::Aggregator;
use super::catalogue_fallback::Fallbacks;
use super::catalogue_list::{CatalogueList, DEFAULT_RECOMPUTE, parse_list};
use super::client::{Client, Origin};
use super::client_list::{CallerKey, ClientList, GuardFailed, ListKey};
use super::lists::MergedTools;
use super::usage::tool_usage;
use super::withheld::Withheld;
use crate::catalogue_tools::version_of;
use crate::exchange::{Exchange, NextStep};
use crate::lock::lock;
use crate::message::Head;
use crate::protocol_mode::ProtocolMode;
use crate::revision::Revision;
use crate::tasks::{GuardInput, run_blocking};
use crate::telemetry::{Outcome, Recorder};

/// The maximum number of cached lists: one for each version of the catalogue, revision of the guard
/// and, in stateful mode, client name.
const MAX_LISTS: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// The maximum number of globs that are known to match no tool, so that each is reported once.
const MAX_UNMATCHED: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// The maximum number of lists of one upstream whose withheld tools are cached.
const MAX_WITHHELD: NonZeroUsize = NonZeroUsize::new(4_096).unwrap();

/// The recorded calls of all tools at one time. Scores of tools are computed from it, so they
/// change only with the next snapshot.
struct UsageSnapshot {
    taken: Instant,
    usage: Arc<Map<String, Value>>,
    /// The digest of `usage`. Versions of lists contain it rather than a counter, because stores
    /// and clients keep versions longer than the process runs.
    digest: Vec<u8>,
    recompute: Duration,
}

impl UsageSnapshot {
    fn new(usage: Map<String, Value>, recompute: Duration) -> Self {
        let digest = Sha256::digest(serde_json::to_vec(&usage).unwrap_or_default()).to_vec();
        Self { taken: Instant::now(), usage: Arc::new(usage), digest, recompute }
    }
}

/// The lists that the guard made from merged lists, and the usage of tools.
pub(super) struct Catalogues {
    lists: Mutex<LruCache<ListKey, Arc<CatalogueList>>>,
    /// The withheld tools of one upstream, by the version of its list and the revision.
    pub(super) withheld: Mutex<LruCache<(String, u64), Arc<Withheld>>>,
    pub(super) fallbacks: Fallbacks,
    /// The globs of policies that match no tool, which were reported.
    unmatched: Mutex<LruCache<String, ()>>,
    usage: Mutex<UsageSnapshot>,
    recorder: Arc<Recorder>,
    /// The names of the upstreams.
    upstreams: BTreeSet<String>,
}

impl Catalogues {
    pub(super) fn new(recorder: &Arc<Recorder>, upstreams: BTreeSet<String>) -> Self {
        let usage = tool_usage(recorder, &upstreams).unwrap_or_default();
        Self {
            lists: Mutex::new(LruCache::new(MAX_LISTS)),
            withheld: Mutex::new(LruCache::new(MAX_WITHHELD)),
            fallbacks: Fallbacks::new(),
            unmatched: Mutex::new(LruCache::new(MAX_UNMATCHED)),
            usage: Mutex::new(UsageSnapshot::new(usage, DEFAULT_RECOMPUTE)),
            recorder: Arc::clone(recorder),
            upstreams,
        }
    }

    fn usage(&self) -> Arc<Map<String, Value>> {
        Arc::clone(&lock(&self.usage).usage)
    }

    /// Reads the usage of tools again, so that new lists have new scores. Blocks while the history
    /// is read. Returns the number of tools with recorded calls, and true if a score may have
    /// changed.
    pub(super) fn recompute(&self) -> (usize, bool) {
        let usage = tool_usage(&self.recorder, &self.upstreams);
        let mut snapshot = lock(&self.usage);
        // Equal usage leaves the catalogue's version as it is.
        let usage = usage.filter(|usage| *usage != *snapshot.usage);
        let is_changed = usage.is_some();
        match usage {
            Some(usage) => *snapshot = UsageSnapshot::new(usage, snapshot.recompute),
            None => snapshot.taken = Instant::now(),
        }
        (snapshot.usage.len(), is_changed)
    }

    /// Returns the time until the next update of scores.
    pub(super) fn until_update(&self) -> Duration {
        let snapshot = lock(&self.usage);
        snapshot.recompute.saturating_sub(snapshot.taken.elapsed())
    }

    /// Returns the version of a client's catalogue: a hash of the visible tools, their usage, and
    /// the changes and approvals of definitions.
    pub(super) fn version(&self, merged: &MergedTools) -> String {
        let mut hash = Sha256::new();
        hash.update(&lock(&self.usage).digest);
        hash.update((merged.unlisted.len() as u64).to_le_bytes());
        for (name, list) in &merged.lists {
            hash.update((name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
            hash.update(list.digest());
        }
        for (kind, tools) in [(b'c', &merged.changed), (b'a', &merged.approved)] {
            for tool in tools {
                hash.update([kind]);
                hash.update((tool.len() as u64).to_le_bytes());
                hash.update(tool);
            }
        }
        version_of(&hash.finalize())
    }

    /// Parses the list in a response of the guard. Returns `None` if the guard did not make the
    /// list.
    fn learn(&self, response: &[u8]) -> Option<Arc<CatalogueList>> {
        let (list, recompute) = parse_list(response)?;
        lock(&self.usage).recompute = recompute;
        Some(Arc::new(list))
    }

    /// Logs those globs of the policy that match no tool, each once: they may be misspelled.
    fn report_unmatched(&self, list: &CatalogueList) {
        for glob in &list.unmatched {
            if lock(&self.unmatched).put(glob.clone(), ()).is_none() {
                self.recorder.unmatched_glob(glob);
            }
        }
    }

    /// Returns true if policy hides the tool with the client-visible name `name`.
    pub(super) fn is_hidden(&self, revision: u64, name: &str) -> bool {
        let lists = lock(&self.lists);
        let mut current = lists.iter().filter(|(key, _)| key.revision == revision);
        current.any(|(_, list)| list.hidden.contains(name))
    }
}

impl Aggregator {
    /// Answers `tools/list` with the list that the guard makes, or with the merged list if the
    /// guard makes none. If the guard fails, with [`Self::fallback_list`].
    pub(super) async fn list_tools(&self, origin: &Origin<'_>, head: &Head<'_>) -> Vec<u8> {
        let merged = self.lists.merged_tools(origin, head.parameters().meta).await;
        let list = self.client_list(origin, head.raw_id(), &merged).await;
        if let ClientList { list: Some(list), fallback: None } = &list {
            self.definitions.report_suspicious(&list.suspicious);
            if merged.unlisted.is_empty() {
                self.catalogues.report_unmatched(list);
            }
        }
        let expires = self.catalogues.until_update();
        let programs = self.programs.tool();
        self.lists.tools_page(origin, head, &merged, &list, expires, programs)
    }

    async fn client_list(&self, origin: &Origin<'_>, id: &str, merged: &MergedTools) -> ClientList {
        let caller = self.caller_key(origin.client, self.revision_of(origin).number);
        match self.shaped_list(origin, id, merged).await {
            Ok(list) => {
                if let Some(list) = &list {
                    self.catalogues.fallbacks.succeeded(caller, list);
                }
                ClientList { list, fallback: None }
            }
            Err(GuardFailed) => self.fallback_list(origin, id, merged, &caller).await,
        }
    }

    /// Returns the list that the guard makes of the merged list, from the cache if it is there.
    /// `None` if the guard makes none.
    pub(super) async fn shaped_list(
        &self,
        origin: &Origin<'_>,
        id: &str,
        merged: &MergedTools,
    ) -> Result<Option<Arc<CatalogueList>>, GuardFailed> {
        let exchange = self.catalogue_exchange(origin, &list_request(id), merged);
        let key = self.list_key(origin.client, &exchange);
        if let Some(list) = lock(&self.catalogues.lists).get(&key).cloned() {
            return Ok(Some(list));
        }
        let Some((key, list)) = self.guarded_list(origin, id, merged).await? else {
            return Ok(None);
        };
        lock(&self.catalogues.lists).put(key, Arc::clone(&list));
        Ok(Some(list))
    }

    /// Returns the list that the guard makes of the merged list, with its key in the cache. `None`
    /// if the guard makes none.
    pub(super) async fn guarded_list(
        &self,
        origin: &Origin<'_>,
        id: &str,
        merged: &MergedTools,
    ) -> Result<Option<(ListKey, Arc<CatalogueList>)>, GuardFailed> {
        let request = list_request(id);
        let mut exchange = self.catalogue_exchange(origin, &request, merged);
        let key = self.list_key(origin.client, &exchange);
        let next = run_blocking(
            &self.filter,
            &origin.client.caller,
            GuardInput::Request(&request),
            || exchange.on_request_uncached(&self.filter, &request),
        );
        match next.await {
            NextStep::Forward(None) => {}
            NextStep::Forward(Some(_)) | NextStep::Answer(..) => return Ok(None),
        }
        let shaped = self.compile(origin, &exchange, id, merged).await?;
        let list = shaped.and_then(|shaped| self.catalogues.learn(&shaped));
        Ok(list.map(|list| (key, list)))
    }

    /// Sends the merged list through the guard, unless the guard has just failed to process it.
    /// Returns the guard's response, or `None` if the guard does not process the list.
    pub(super) async fn compile(
        &self,
        origin: &Origin<'_>,
        exchange: &Exchange,
        id: &str,
        merged: &MergedTools,
    ) -> Result<Option<Vec<u8>>, GuardFailed> {
        let key = self.list_key(origin.client, exchange);
        if !self.catalogues.fallbacks.may_try(&key) {
            return Err(GuardFailed);
        }
        let message = self.lists.merged_message(id, merged, &self.catalogues.usage());
        let guarded = run_blocking(
            &self.filter,
            &origin.client.caller,
            GuardInput::Response(&message),
            || exchange.on_response(&self.filter, &message),
        );
        let guarded = guarded.await;
        if guarded.outcome == Outcome::Fault {
            self.catalogues.fallbacks.failed(key);
            return Err(GuardFailed);
        }
        self.catalogues.fallbacks.processed(&key);
        Ok(guarded.shaped)
    }

    pub(super) fn catalogue_exchange(
        &self,
        origin: &Origin<'_>,
        request: &[u8],
        merged: &MergedTools,
    ) -> Exchange {
        let mut exchange = self.forwarder.begin(origin, None, request);
        exchange.context.catalog_version = Some(self.catalogues.version(merged));
        exchange
    }

    /// Returns the key of the list that the guard makes in this exchange.
    pub(super) fn list_key(&self, client: &Client, exchange: &Exchange) -> ListKey {
        let revision = self.filter.revisions().choose(&exchange.context).number;
        let (_, client, revision) = self.caller_key(client, revision);
        let version = exchange.context.catalog_version.clone().unwrap_or_default();
        ListKey { version, revision, client }
    }

    /// Returns the key of the last list of a client under a revision of the guard.
    pub(super) fn caller_key(&self, client: &Client, revision: u64) -> CallerKey {
        let is_stateful = client.mode == ProtocolMode::Stateful;
        let name = is_stateful.then(|| client.name().unwrap_or_default());
        (Arc::clone(&client.scope), name, revision)
    }

    /// Returns the definitions that upstreams changed, those that are suspicious and those that
    /// were approved, as JSON.
    pub(crate) fn definitions_report(&self) -> Value {
        self.definitions.report()
    }

    /// Accepts the current definitions of the changed or suspicious tools that match a glob over
    /// `server::tool`. Returns these tools, as `server::tool`.
    pub(crate) fn approve_definitions(&self, pattern: &str) -> BTreeSet<String> {
        self.definitions.approve(pattern)
    }

    /// Updates the scores of tools from the recorded calls. Blocks while the history is read.
    /// Returns the number of tools with recorded calls, and true if a score may have changed.
    pub(crate) fn recompute_scores(&self) -> (usize, bool) {
        self.catalogues.recompute()
    }

    /// Returns true if policy hides a tool. `name` is client-visible.
    pub(super) fn is_hidden_tool(&self, origin: &Origin<'_>, name: &str) -> bool {
        self.catalogues.is_hidden(self.revision_of(origin).number, name)
    }

    /// Returns the guard's revision that serves the client.
    pub(super) fn revision_of(&self, origin: &Origin<'_>) -> Arc<Revision> {
        let exchange = self.forwarder.begin(origin, None, &[]);
        self.filter.revisions().choose(&exchange.context)
    }
}

fn list_request(id: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list","params":{{}}}}"#).into_bytes()
}
