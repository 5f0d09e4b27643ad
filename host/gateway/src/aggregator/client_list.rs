//! The list of tools for a client: that of the guard, or its replacement.

use std::sync::Arc;

use serde_json::{Value, json};

use super::catalogue_list::CatalogueList;
use super::upstream_list::ListEntry;
use crate::message::member;

/// The member of `_meta` that says why a list of tools is not that of the guard.
pub(super) const FALLBACK_KEY: &str = "dev.context-guard/list";

/// The data on which the list of a client depends.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct ListKey {
    pub(super) version: String,
    pub(super) revision: u64,
    /// The name of a stateful client. Lists of stateless clients do not depend on it.
    pub(super) client: Option<String>,
}

/// The guard failed to process a list.
pub(super) struct GuardFailed;

/// The replacement of a list that the guard failed to process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fallback {
    /// The last list of the same caller.
    Last,
    /// A list that the guard made from the names of tools alone.
    Names,
    /// The lists of the upstreams, without the tools that policy is known to hide. The guard cannot
    /// process names either, so that its own tools would not work.
    Unshaped,
}

impl Fallback {
    /// Returns the `_meta` of the list, as JSON.
    pub(super) fn meta(self) -> (&'static str, Value) {
        let (name, reason) = match self {
            Self::Last => ("last", "this is the last list, which may be outdated"),
            Self::Names => ("names", "definitions are missing"),
            Self::Unshaped => ("unshaped", "this is the list of the servers"),
        };
        let reason = format!("the guard could not process the tools in time: {reason}; list again");
        (FALLBACK_KEY, json!({"fallback": name, "reason": reason}))
    }
}

/// The list for a client: that of the guard, or its replacement.
#[derive(Default)]
pub(super) struct ClientList {
    /// `None` if the guard does not process lists of tools.
    pub(super) list: Option<Arc<CatalogueList>>,
    pub(super) fallback: Option<Fallback>,
}

/// The owner of stored answers, the client's name in stateful mode, and the revision of the guard.
/// The last list depends on them.
pub(super) type CallerKey = (Arc<str>, Option<String>, u64);

/// Returns the definition of a tool reduced to its name, and to the hint that it changes nothing.
pub(super) fn name_alone(entry: &ListEntry) -> String {
    let annotations = member(&entry.json, "annotations");
    let hint = annotations.and_then(|annotations| member(annotations.get(), "readOnlyHint"));
    let mut definition = json!({"name": entry.key, "inputSchema": {"type": "object"}});
    if let Some(definition) = definition.as_object_mut()
        && hint.is_some_and(|hint| hint.get() == "true")
    {
        definition.insert("annotations".to_owned(), json!({"readOnlyHint": true}));
    }
    definition.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_reduced_to_its_name() {
        let json = r#"{"name":"a","description":"x","annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{"n":{}}}}"#;
        let reduced = name_alone(&ListEntry { key: "a".to_owned(), json: json.to_owned() });
        assert_eq!(
            serde_json::from_str::<Value>(&reduced).unwrap(),
            json!({"name": "a", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}})
        );
        let plain = ListEntry { key: "a".to_owned(), json: r#"{"name":"a"}"#.to_owned() };
        assert!(!name_alone(&plain).contains("annotations"));
    }
}
