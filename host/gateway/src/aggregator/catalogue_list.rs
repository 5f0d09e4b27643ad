//! The list of tools that the guard makes from the merged list.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

use super::definitions::SuspiciousText;
use super::upstream_list::ListEntry;
use crate::catalogue_tools::{facts_of, names_in};
use crate::message::{Head, member, with_member};

/// The interval at which the scores of tools are updated, if the policy sets none.
pub(super) const DEFAULT_RECOMPUTE: Duration = Duration::from_secs(86_400);

/// The list of tools that clients get.
#[derive(Clone, Default)]
pub(super) struct CatalogueList {
    pub(super) entries: Vec<ListEntry>,
    /// The definition of the guard's own tool, as raw JSON. Clients receive it last on the first
    /// page. `None` if the guard's list is empty.
    pub(super) read_tool: Option<String>,
    /// True if the list is one page.
    pub(super) is_tiered: bool,
    /// The names of tools that policy hides.
    pub(super) hidden: HashSet<String>,
    /// The globs of the policy that match no tool, each with its setting.
    pub(super) unmatched: HashSet<String>,
    /// True if policy withholds definitions.
    pub(super) holds: bool,
    /// The names of tools that are withheld until the operator approves their definitions.
    pub(super) held: HashSet<String>,
    pub(super) suspicious: Vec<SuspiciousText>,
}

/// Parses the guard's list. Returns it with the interval at which scores are updated. `None` if the
/// response is not a list of the guard.
pub(super) fn parse_list(response: &[u8]) -> Option<(CatalogueList, Duration)> {
    let result = Head::read(response)?.result?;
    let facts: Value = serde_json::from_str(facts_of(result)?.get()).ok()?;
    let tools: Vec<&RawValue> = serde_json::from_str(member(result, "tools")?.get()).ok()?;
    let mut entries: Vec<ListEntry> = tools
        .into_iter()
        .map(|tool| {
            let key = member(tool.get(), "name")
                .and_then(|name| serde_json::from_str(name.get()).ok())
                .unwrap_or_default();
            ListEntry { key, json: tool.get().to_owned() }
        })
        .collect();
    // The guard's own tool is last in its list. The gateway adds it to the first page.
    let read_tool = entries.pop().map(|entry| entry.json);
    let suspicious = facts.get("suspicious").and_then(Value::as_array).into_iter().flatten();
    let seconds = facts.get("recomputeSeconds").and_then(Value::as_u64);
    let list = CatalogueList {
        entries,
        read_tool,
        is_tiered: facts.get("tiered")?.as_bool()?,
        hidden: names_in(&facts, "hidden"),
        unmatched: names_in(&facts, "unmatched"),
        holds: facts.get("holds").and_then(Value::as_bool).unwrap_or_default(),
        held: names_in(&facts, "held"),
        suspicious: suspicious.map(suspicious_text).collect(),
    };
    Some((list, seconds.map_or(DEFAULT_RECOMPUTE, Duration::from_secs)))
}

fn suspicious_text(fact: &Value) -> SuspiciousText {
    let text =
        |member: &str| fact.get(member).and_then(Value::as_str).unwrap_or_default().to_owned();
    SuspiciousText {
        tool: text("tool"),
        rule: text("rule"),
        path: text("path"),
        excerpt: text("excerpt"),
    }
}

/// Returns a result of `tools/list` whose `ttlMs` is at most `expires`, the time until the scores
/// of tools change.
pub(super) fn with_expiry(result: &str, expires: Duration) -> String {
    let limit = u64::try_from(expires.as_millis()).unwrap_or(u64::MAX);
    let current = member(result, "ttlMs").and_then(|ttl| ttl.get().parse::<u64>().ok());
    match current.filter(|ttl| *ttl > limit) {
        Some(_) => with_member(result, "ttlMs", Some(&limit.to_string())),
        None => result.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_the_guard_is_parsed() {
        let response = br#"{"id":1,"result":{"tools":[{"name":"a__b"},{"name":"context_guard_read"}],"_meta":{"dev.context-guard/catalogue":{"tiered":true,"hidden":["a__c"],"unmatched":["catalogue.pins: b"],"holds":true,"held":["a__d"],"suspicious":[{"tool":"a::b","rule":"pseudo-tag"}],"recomputeSeconds":3600}}}}"#;
        let (list, recompute) = parse_list(response).unwrap();
        assert_eq!(list.entries[0].key, "a__b");
        assert_eq!(list.read_tool.as_deref(), Some(r#"{"name":"context_guard_read"}"#));
        assert!(
            list.holds
                && list.is_tiered
                && list.hidden.contains("a__c")
                && list.unmatched.contains("catalogue.pins: b")
                && list.held.contains("a__d")
        );
        assert_eq!((list.suspicious[0].tool.as_str(), list.suspicious.len()), ("a::b", 1));
        assert_eq!(recompute, Duration::from_secs(3_600));
        assert!(parse_list(br#"{"id":1,"result":{"tools":[]}}"#).is_none());
    }

    #[test]
    fn expiry_is_limited() {
        let limited = with_expiry(r#"{"tools":[],"ttlMs":5000}"#, Duration::from_secs(2));
        assert_eq!(limited, r#"{"tools":[],"ttlMs":2000}"#);
        let short = r#"{"ttlMs":500}"#;
        assert_eq!(with_expiry(short, Duration::from_secs(2)), short);
    }
}
