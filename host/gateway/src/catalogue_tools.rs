//! The names of the guard's tools for the catalogue, and the data that gateway and guard exchange
//! about a list of tools.

use std::collections::HashSet;

use context_guard_protocol::to_hex;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::{Head, member};

/// The names of the guard's own tool that reads the rest of an answer. The second is used if an
/// upstream's tool has the first name.
pub(crate) const READ_TOOLS: [&str; 2] = ["context_guard_read", "context_guard_read_more"];

/// The names of the guard's tools for the catalogue. A name ends in `_2` if an upstream has a tool
/// of that name.
const CATALOGUE_TOOLS: [&str; 5] = [
    "context_guard_search_tools",
    "context_guard_describe_tools",
    "context_guard_browse_tools",
    "context_guard_call_read",
    "context_guard_call",
];
/// The member of `_meta` in which gateway and guard exchange data about a merged list.
const CATALOGUE_META: &str = "dev.context-guard/catalogue";

/// Returns true if this is the name of one of the guard's tools for the catalogue.
pub(crate) fn is_catalogue_tool(name: &str) -> bool {
    CATALOGUE_TOOLS.contains(&name.strip_suffix("_2").unwrap_or(name))
}

/// Returns true if this is the name of one of the guard's tools that find other tools.
pub(crate) fn finds_tools(name: &str) -> bool {
    is_catalogue_tool(name) && !name.starts_with("context_guard_call")
}

/// Returns true if this is the name of one of the guard's tools that select from all tools.
pub(crate) fn selects_tools(name: &str) -> bool {
    finds_tools(name) && !name.starts_with("context_guard_describe")
}

/// Returns the tool call that the guard's answer requests from the gateway, as a request with the
/// id `id` (raw JSON). `None` if the answer requests no call.
pub(crate) fn redirected_call(answer: &[u8], id: &str) -> Option<Vec<u8>> {
    let facts = facts_of(Head::read(answer)?.result?)?;
    let parameters = member(facts.get(), "call")?.get();
    let call =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{parameters}}}"#);
    Some(call.into_bytes())
}

/// Returns the strings in the array `member` of the guard's catalogue data.
pub(crate) fn names_in(facts: &Value, member: &str) -> HashSet<String> {
    let names = facts.get(member).and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the first 16 bytes of a digest, in hexadecimal, as a version of what was digested.
pub(crate) fn version_of(digest: &[u8]) -> String {
    to_hex(digest.get(..16).unwrap_or(digest))
}

/// Returns the guard's catalogue data for the gateway in a result, as raw JSON. `None` if it has
/// none.
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
        assert!(finds_tools("context_guard_browse_tools"));
        assert!(!finds_tools("context_guard_call_read"));
    }
}
