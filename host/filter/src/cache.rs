//! The cache of answers of read-only tools.
//!
//! It stores the upstream's unshaped answer. The guard renders every page or preview for a client
//! from that original. A purge therefore removes an answer for all tiers (full and metadata) at
//! once, but each tier has its own maximum age.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use context_guard_protocol::{Head, glob, to_hex};
use lru::LruCache;
use serde_json::Value;
use sha2::{Digest, Sha256};

use context_guard_cursor_store::CursorStore;

use crate::Clock;
use crate::config::CacheOptions;
use crate::engine::{CacheTier, CallContext, Decision};
pub use crate::purge::Purge;
use crate::shared_cache::SharedAnswers;

/// The maximum size, in bytes, of a cacheable request. Hashing larger ones costs more than a hit is
/// likely to save.
const MAX_CALL_BYTES: usize = 64 << 10;
/// The estimated memory of a cache entry, in bytes, in addition to the answer and the endpoint's
/// name.
const ENTRY_OVERHEAD_BYTES: usize = 256;

/// The identity of a tool call. The digest covers principal, policy, endpoint and arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey {
    principal: String,
    endpoint: String,
    digest: [u8; 32],
}

struct CachedAnswer {
    message: Arc<[u8]>,
    since: Duration,
}

/// A cached answer and its age.
pub struct CacheHit {
    /// The upstream's original, unshaped response.
    pub message: Arc<[u8]>,
    age: Duration,
}

struct CacheState {
    entries: LruCache<CacheKey, CachedAnswer>,
    bytes: usize,
}

/// The cache of upstream answers, per principal and policy, limited by its size in bytes.
pub struct Cache {
    options: CacheOptions,
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<CacheState>>,
    /// The second tier of the cache. `None` if answers are not shared.
    shared: Option<SharedAnswers>,
}

impl Cache {
    /// Creates an empty cache. The clock determines the age of answers.
    #[must_use]
    pub fn new(options: CacheOptions, clock: Arc<dyn Clock>) -> Self {
        Self {
            options,
            clock,
            state: Arc::new(Mutex::new(CacheState { entries: LruCache::unbounded(), bytes: 0 })),
            shared: None,
        }
    }

    /// Shares the answers with all gateways that use the same store. Has no effect if the store is
    /// not shared.
    #[must_use]
    pub fn share(mut self, store: Arc<dyn CursorStore>) -> Self {
        let state = Arc::downgrade(&self.state);
        let on_purge = move |purge: &Purge| {
            if let Some(state) = Weak::upgrade(&state) {
                purge_own(&state, purge);
            }
        };
        let ttl = Duration::from_secs(self.max_age_seconds());
        self.shared = SharedAnswers::open(store, Arc::clone(&self.clock), ttl, on_purge);
        self
    }

    fn max_age_seconds(&self) -> u64 {
        self.options.metadata_seconds.max(self.options.full_seconds)
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        lock(&self.state)
    }

    /// Returns true if the guard's own answer, described by `decision`, is for the endpoint of
    /// `key`. Errors, and pages of another call's answer, are not.
    #[must_use]
    pub fn is_same_call(&self, key: &CacheKey, decision: &Decision) -> bool {
        key.endpoint == decision.endpoint && decision.mode != "error"
    }

    /// Returns the cache key of a `tools/call` request without arguments for the guard. `None` if
    /// the call is not cacheable. The order of the arguments does not affect the key.
    #[must_use]
    pub fn key(&self, cx: &CallContext, policy: &str, request: &[u8]) -> Option<CacheKey> {
        if request.len() > MAX_CALL_BYTES {
            return None;
        }
        let head = Head::read(request).filter(|head| head.method() == "tools/call")?;
        let params: Value = serde_json::from_str(head.params?.get()).ok()?;
        let name = params.get("name")?.as_str()?;
        let endpoint = if cx.upstream.is_empty() {
            name.to_owned()
        } else {
            format!("{}::{name}", cx.upstream)
        };
        if !self.options.endpoints.iter().any(|pattern| glob::matches(pattern, &endpoint)) {
            return None;
        }
        let arguments = params.get("arguments").map(Value::to_string).unwrap_or_default();
        let mut hash = Sha256::new();
        // Lengths separate the parts: "ab" + "c" must not equal "a" + "bc".
        for part in [cx.principal.as_str(), policy, &endpoint, &arguments] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let principal = cx.principal.to_string();
        Some(CacheKey { principal, endpoint, digest: hash.finalize().into() })
    }

    /// Returns the cached answer to a call. `None` if there is none, or it is too old for every
    /// tier.
    #[must_use]
    pub fn get(&self, key: &CacheKey) -> Option<CacheHit> {
        self.get_own(key).or_else(|| self.get_shared(key))
    }

    fn get_own(&self, key: &CacheKey) -> Option<CacheHit> {
        let now = self.clock.now();
        let mut state = self.state();
        let entry = state.entries.get(key)?;
        let age = now.saturating_sub(entry.since);
        if age > Duration::from_secs(self.max_age_seconds()) {
            state.remove(key);
            return None;
        }
        Some(CacheHit { message: Arc::clone(&entry.message), age })
    }

    /// Returns the answer that another gateway has cached. It is not copied to this gateway's
    /// cache, because each use compares it with the purges of all gateways.
    fn get_shared(&self, key: &CacheKey) -> Option<CacheHit> {
        let shared = self.shared.as_ref()?;
        let (message, stored) = shared.get(&key.principal, &key.name(), &key.endpoint)?;
        let age = self.clock.now().saturating_sub(stored);
        let is_fresh = age <= Duration::from_secs(self.max_age_seconds());
        is_fresh.then(|| CacheHit { message: message.into(), age })
    }

    /// Returns the tier (full or metadata) of the answer that was shaped from `hit`. `None` if the
    /// hit is too old for that tier.
    #[must_use]
    pub fn fresh_tier(&self, hit: &CacheHit, decision: &Decision) -> Option<CacheTier> {
        let tier = CacheTier::of_answer(decision);
        let seconds = if tier == CacheTier::Full {
            self.options.full_seconds
        } else {
            self.options.metadata_seconds
        };
        (hit.age <= Duration::from_secs(seconds)).then_some(tier)
    }

    /// Stores the upstream's answer `message`, unless it is an error, too large, or from a tool
    /// that `decision` does not report as read-only.
    pub fn put(&self, key: &CacheKey, decision: &Decision, message: &[u8]) {
        let cost = message.len() + key.endpoint.len() + ENTRY_OVERHEAD_BYTES;
        if !decision.read_only || cost > self.options.bytes || is_error(message) {
            return;
        }
        if let Some(shared) = &self.shared {
            shared.put(&key.principal, key.name(), message);
        }
        let entry = CachedAnswer { message: message.into(), since: self.clock.now() };
        let mut state = self.state();
        state.bytes += cost;
        if let Some((_, old)) = state.entries.push(key.clone(), entry) {
            state.bytes -= old.message.len() + key.endpoint.len() + ENTRY_OVERHEAD_BYTES;
        }
        while state.bytes > self.options.bytes {
            let Some((key, old)) = state.entries.pop_lru() else { break };
            state.bytes -= old.message.len() + key.endpoint.len() + ENTRY_OVERHEAD_BYTES;
        }
    }

    /// Removes the cached answers that `purge` selects, at all gateways that share them. Returns
    /// the number of answers that were removed here.
    pub fn purge(&self, purge: &Purge) -> usize {
        if let Some(shared) = &self.shared {
            shared.purge(purge);
        }
        purge_own(&self.state, purge)
    }

    /// Removes the cached answers that the upstream's notification makes invalid. A changed list
    /// invalidates all answers of the upstream. An updated resource invalidates those that contain
    /// its URI.
    pub(crate) fn on_notification(&self, upstream: &str, notification: &Head<'_>) {
        let tool = if upstream.is_empty() { "*".to_owned() } else { format!("{upstream}::*") };
        let document = match notification.method() {
            "notifications/resources/updated" => match notification.parameters().uri {
                Some(uri) => Some(uri.into_owned()),
                None => return,
            },
            method if method.ends_with("/list_changed") => None,
            _ => return,
        };
        self.purge(&Purge { tool: Some(tool), document });
    }

    /// Returns the number of cached answers and their total size in bytes.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let state = self.state();
        (state.entries.len(), state.bytes)
    }
}

impl CacheKey {
    /// Returns the memory of the names in the key, in bytes.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.principal.len() + self.endpoint.len()
    }

    /// Returns the name of the answer in the shared store.
    fn name(&self) -> String {
        format!("answer-{}", to_hex(&self.digest))
    }
}

impl CacheState {
    /// Removes an answer. Returns true if there was one.
    fn remove(&mut self, key: &CacheKey) -> bool {
        let Some(old) = self.entries.pop(key) else { return false };
        self.bytes -= old.message.len() + key.endpoint.len() + ENTRY_OVERHEAD_BYTES;
        true
    }
}

fn lock(state: &Mutex<CacheState>) -> MutexGuard<'_, CacheState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the answers that `purge` selects. Returns their number.
fn purge_own(state: &Mutex<CacheState>, purge: &Purge) -> usize {
    let candidates: Vec<(CacheKey, Arc<[u8]>)> = lock(state)
        .entries
        .iter()
        .filter(|(key, _)| purge.selects_endpoint(&key.endpoint))
        .map(|(key, entry)| (key.clone(), Arc::clone(&entry.message)))
        .collect();
    // The search in long answers takes its time. The cache must not be locked in it: an upstream
    // may report endless changes.
    let selected = candidates.into_iter().filter(|(_, message)| purge.selects_message(message));
    let selected: Vec<CacheKey> = selected.map(|(key, _)| key).collect();
    let mut state = lock(state);
    selected.iter().filter(|key| state.remove(key)).count()
}

/// Returns true if a response is a JSON-RPC error, a tool error (`isError`), or unreadable.
fn is_error(message: &[u8]) -> bool {
    let Some(result) = Head::read(message).and_then(|head| head.result) else { return true };
    context_guard_protocol::edit::member(result, "isError").is_some_and(|flag| flag.get() == "true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::engine::ResponseMode;

    fn cx(principal: &str) -> CallContext {
        CallContext {
            principal: principal.into(),
            upstream: "docs".into(),
            ..CallContext::default()
        }
    }

    fn decision(mode: &str, read_only: bool) -> Decision {
        Decision {
            endpoint: "docs::search".into(),
            read_only,
            response_mode: match mode {
                "metadata" => Some(ResponseMode::Metadata),
                "preview" => Some(ResponseMode::Preview),
                _ => None,
            },
            ..Decision::default()
        }
    }

    fn call(arguments: &str) -> Vec<u8> {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"search","arguments":{arguments}}}}}"#).into_bytes()
    }

    fn answer(text: &str) -> Vec<u8> {
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#).into_bytes()
    }

    fn cache(bytes: usize) -> (Arc<ManualClock>, Cache) {
        let clock = Arc::new(ManualClock::at_ms(1_000));
        let options = CacheOptions { bytes, ..CacheOptions::default() };
        (Arc::clone(&clock), Cache::new(options, clock))
    }

    #[test]
    fn key_depends_on_principal_tool_and_arguments() {
        let (_, cache) = cache(100_000);
        let key = |principal: &str, arguments: &str| {
            cache.key(&cx(principal), "", &call(arguments)).unwrap()
        };
        assert_eq!(key("a", r#"{"q":"x","n":1}"#), key("a", r#"{ "n": 1, "q": "x" }"#));
        assert_ne!(key("a", r#"{"q":"x"}"#), key("b", r#"{"q":"x"}"#));
        assert_ne!(key("a", r#"{"q":"x"}"#), key("a", r#"{"q":"y"}"#));
        assert!(cache.key(&cx("a"), "", br#"{"id":1,"method":"tools/list"}"#).is_none());
    }

    #[test]
    fn errors_and_writing_tools_are_not_cached() {
        let (_, cache) = cache(100_000);
        let key = cache.key(&cx("a"), "", &call("{}")).unwrap();
        cache.put(&key, &decision("full", false), &answer("x"));
        cache.put(&key, &decision("full", true), br#"{"id":1,"error":{"code":1}}"#);
        cache.put(&key, &decision("full", true), br#"{"id":1,"result":{"isError":true}}"#);
        assert!(cache.get(&key).is_none());
        cache.put(&key, &decision("full", true), &answer("x"));
        assert_eq!(*cache.get(&key).unwrap().message, *answer("x"));
    }

    #[test]
    fn tiers_have_their_own_maximum_age() {
        let (clock, cache) = cache(100_000);
        let key = cache.key(&cx("a"), "", &call("{}")).unwrap();
        cache.put(&key, &decision("full", true), &answer("x"));
        clock.advance_ms(1_801_000);
        let hit = cache.get(&key).unwrap();
        assert_eq!(cache.fresh_tier(&hit, &decision("full", true)), None);
        assert_eq!(cache.fresh_tier(&hit, &decision("metadata", true)), Some(CacheTier::Metadata));
        clock.advance_ms(1_800_000);
        assert!(cache.get(&key).is_none());
        assert_eq!(cache.size(), (0, 0));
    }

    #[test]
    fn least_recently_used_answer_is_evicted() {
        let (_, cache) = cache(2_000);
        let key = |at: usize| cache.key(&cx("a"), "", &call(&format!("{{\"n\":{at}}}"))).unwrap();
        for at in 0..50 {
            cache.put(&key(at), &decision("full", true), &answer(&"x".repeat(300)));
            assert!(cache.size().1 <= 2_000);
            assert!(cache.get(&key(0)).is_some() || at > 0);
        }
        assert!(cache.get(&key(49)).is_some() && cache.get(&key(1)).is_none());
    }

    #[test]
    fn answers_are_purged_by_tool_document_and_notification() {
        let (_, cache) = cache(100_000);
        let fill = || {
            for (at, text) in ["doc-1 and doc-2", "doc-2", "file:///a.txt"].iter().enumerate() {
                let key = cache.key(&cx("a"), "", &call(&format!("{{\"n\":{at}}}"))).unwrap();
                cache.put(&key, &decision("full", true), &answer(text));
            }
        };
        fill();
        let by = |tool: Option<&str>, document: Option<&str>| {
            cache.purge(&Purge {
                tool: tool.map(str::to_owned),
                document: document.map(str::to_owned),
            })
        };
        assert_eq!(
            (by(None, Some("doc-1")), by(Some("web::*"), None), by(None, Some("doc-2"))),
            (1, 0, 1)
        );
        fill();
        let changed =
            |message: &str| cache.on_notification("docs", &Head::read(message.as_bytes()).unwrap());
        changed(r#"{"method":"notifications/progress","params":{}}"#);
        changed(r#"{"method":"notifications/resources/updated","params":{"uri":"file:///a.txt"}}"#);
        assert_eq!(cache.size().0, 2);
        changed(r#"{"method":"notifications/tools/list_changed"}"#);
        assert_eq!(cache.size(), (0, 0));
    }
}
