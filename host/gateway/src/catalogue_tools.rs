//! The names of the guard's tools for the catalogue, and the facts that gateway and guard exchange
//! about a list of tools.

use serde_json::value::RawValue;

use crate::message::member;

/// The names of the guard's tools for the catalogue. A name ends in `_2` if an upstream has a tool
/// of that name.
const CATALOGUE_TOOLS: [&str; 5] = [
    "context_guard_search_tools",
    "context_guard_describe_tools",
    "context_guard_browse_tools",
    "context_guard_call_read",
    "context_guard_call",
];
/// The member of `_meta` in which gateway and guard exchange facts about a merged list.
const CATALOGUE_META: &str = "dev.context-guard/catalogue";

/// Returns true if this is the name of one of the guard's tools for the catalogue.
pub(crate) fn is_catalogue_tool(name: &str) -> bool {
    CATALOGUE_TOOLS.contains(&name.strip_suffix("_2").unwrap_or(name))
}

/// Returns the facts for the gateway in a result of the guard.
pub(crate) fn facts_of(result: &str) -> Option<&RawValue> {
    member(member(result, "_meta")?.get(), CATALOGUE_META)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_tools_are_recognized() {
        assert!(is_catalogue_tool("context_guard_call"));
        assert!(is_catalogue_tool("context_guard_search_tools_2"));
        assert!(!is_catalogue_tool("context_guard_read"));
    }
}
