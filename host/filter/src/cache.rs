//! The cache for answers of read-only tools.
//!
//! It stores original answers and shapes every page or preview from them. All tiers of an answer
//! share one entry; they differ in the maximum age.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use context_guard_protocol::{Head, glob};
use lru::LruCache;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Clock;
use crate::config::CacheOptions;
use crate::engine::{CacheTier, CallContext, Decision};

/// The maximum length of a call that is cached, in bytes.
const MAX_CALL_BYTES: usize = 64 << 10;
/// The cost of an entry beside its bytes.
const ENTRY_OVERHEAD_BYTES: usize = 256;

/// The identity of a call: principal, tool and arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    endpoint: String,
    digest: [u8; 32],
}

struct Entry {
    message: Arc<[u8]>,
    since: Duration,
}

/// A cached answer.
pub struct Hit {
    /// The original answer.
    pub message: Arc<[u8]>,
    age: Duration,
}

/// A selection of entries to delete.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    /// Answers of these endpoints, `upstream::tool`; `*` matches any characters.
    pub tool: Option<String>,
    /// Answers that contain the id of this document or the URI of this resource.
    pub document: Option<String>,
}

struct Kept {
    entries: LruCache<Key, Entry>,
    bytes: usize,
}

/// The cache.
pub struct Cache {
    options: CacheOptions,
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
}

impl Cache {
    /// Returns an empty cache.
    #[must_use]
    pub fn new(options: CacheOptions, clock: Arc<dyn Clock>) -> Self {
        Self { options, clock, kept: Mutex::new(Kept { entries: LruCache::unbounded(), bytes: 0 }) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if an answer of the guard belongs to this call itself and not to a cursor.
    #[must_use]
    pub fn is_of(&self, key: &Key, decision: &Decision) -> bool {
        key.endpoint == decision.endpoint && decision.mode != "error"
    }

    /// Returns the key of a call, without the guard's arguments. Returns none if the call is not
    /// cacheable. The order of arguments does not matter.
    #[must_use]
    pub fn key(&self, cx: &CallContext, policy: &str, request: &[u8]) -> Option<Key> {
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
        for part in [cx.principal.as_str(), policy, &endpoint, &arguments] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Some(Key { endpoint, digest: hash.finalize().into() })
    }

    /// Returns the entry of a call.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Hit> {
        let now = self.clock.now();
        let longest = self.options.metadata_seconds.max(self.options.full_seconds);
        let mut kept = self.kept();
        let entry = kept.entries.get(key)?;
        let age = now.saturating_sub(entry.since);
        if age > Duration::from_secs(longest) {
            kept.forget(|other, _| other == key);
            return None;
        }
        Some(Hit { message: Arc::clone(&entry.message), age })
    }

    /// Returns the tier of an answer if the entry is recent enough for it.
    #[must_use]
    pub fn serves(&self, hit: &Hit, decision: &Decision) -> Option<CacheTier> {
        let tier = CacheTier::of_answer(decision);
        let seconds = if tier == CacheTier::Full {
            self.options.full_seconds
        } else {
            self.options.metadata_seconds
        };
        (hit.age <= Duration::from_secs(seconds)).then_some(tier)
    }

    /// Stores an answer if it is a complete success of a read-only tool.
    pub fn put(&self, key: &Key, decision: &Decision, message: &[u8]) {
        let cost = message.len() + key.endpoint.len() + ENTRY_OVERHEAD_BYTES;
        if !decision.read_only || cost > self.options.bytes || is_error(message) {
            return;
        }
        let entry = Entry { message: message.into(), since: self.clock.now() };
        let mut kept = self.kept();
        kept.bytes += cost;
        if let Some((_, old)) = kept.entries.push(key.clone(), entry) {
            kept.bytes -= old.message.len() + key.endpoint.len() + ENTRY_OVERHEAD_BYTES;
        }
        while kept.bytes > self.options.bytes {
            let Some((key, old)) = kept.entries.pop_lru() else { break };
            kept.bytes -= old.message.len() + key.endpoint.len() + ENTRY_OVERHEAD_BYTES;
        }
    }

    /// Deletes entries and returns their number.
    pub fn purge(&self, purge: &Purge) -> usize {
        let document = purge.document.as_deref().map(memchr::memmem::Finder::new);
        self.kept().forget(|key, entry| {
            purge.tool.as_deref().is_none_or(|tool| glob::matches(tool, &key.endpoint))
                && document.as_ref().is_none_or(|id| id.find(&entry.message).is_some())
        })
    }

    /// Deletes the entries that a notification of an upstream invalidates: those of a list or of
    /// one resource.
    pub(crate) fn changed(&self, upstream: &str, notification: &Head<'_>) {
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

    /// Returns the number of entries and their bytes.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        let kept = self.kept();
        (kept.entries.len(), kept.bytes)
    }
}

impl Kept {
    fn forget(&mut self, which: impl Fn(&Key, &Entry) -> bool) -> usize {
        let gone: Vec<Key> = self
            .entries
            .iter()
            .filter(|(key, entry)| which(key, entry))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &gone {
            if let Some(old) = self.entries.pop(key) {
                self.bytes -= old.message.len() + key.endpoint.len() + ENTRY_OVERHEAD_BYTES;
            }
        }
        gone.len()
    }
}

/// Returns true if a response is an error of the protocol or of the tool.
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
    fn key_has_principal_tool_and_arguments() {
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
    fn only_successes_of_read_only_tools_are_cached() {
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
    fn tiers_have_separate_ages() {
        let (clock, cache) = cache(100_000);
        let key = cache.key(&cx("a"), "", &call("{}")).unwrap();
        cache.put(&key, &decision("full", true), &answer("x"));
        clock.advance_ms(1_801_000);
        let hit = cache.get(&key).unwrap();
        assert_eq!(cache.serves(&hit, &decision("full", true)), None);
        assert_eq!(cache.serves(&hit, &decision("metadata", true)), Some(CacheTier::Metadata));
        clock.advance_ms(1_800_000);
        assert!(cache.get(&key).is_none());
        assert_eq!(cache.size(), (0, 0));
    }

    #[test]
    fn least_recently_used_entry_is_evicted() {
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
    fn entries_are_purged_and_invalidated() {
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
            |message: &str| cache.changed("docs", &Head::read(message.as_bytes()).unwrap());
        changed(r#"{"method":"notifications/progress","params":{}}"#);
        changed(r#"{"method":"notifications/resources/updated","params":{"uri":"file:///a.txt"}}"#);
        assert_eq!(cache.size().0, 2);
        changed(r#"{"method":"notifications/tools/list_changed"}"#);
        assert_eq!(cache.size(), (0, 0));
    }
}
