//! The definitions of the catalogue's own tools.

use std::collections::BTreeMap;

use context_guard_catalogue::tool::Tool;

use crate::json::text::quoted;
use crate::policy::{CallTools, CatalogueSettings, ToolDetail};
use crate::tokens::Estimator;

/// Maximum tokens of the list of servers or categories in the description of the search.
const MAX_SERVERS_TOKENS: u64 = 400;

/// A tool of the catalogue itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaTool {
    /// Searches tools by queries.
    Search,
    /// Returns the definitions of named tools.
    Describe,
    /// Lists categories and their tools.
    Browse,
    /// Calls a read-only tool.
    CallRead,
    /// Calls any tool.
    Call,
}

/// All tools of the catalogue, in the order of lists, with their names.
const META_TOOLS: [(MetaTool, &str); 5] = [
    (MetaTool::Search, "context_guard_search_tools"),
    (MetaTool::Describe, "context_guard_describe_tools"),
    (MetaTool::Browse, "context_guard_browse_tools"),
    (MetaTool::CallRead, "context_guard_call_read"),
    (MetaTool::Call, "context_guard_call"),
];

/// Returns the catalogue's own tool with this name. The name may end in `_2`, which is used if an
/// upstream has a tool of the usual name.
#[must_use]
pub fn meta_tool(name: &str) -> Option<MetaTool> {
    let plain = name.strip_suffix("_2").unwrap_or(name);
    META_TOOLS.iter().find(|(_, known)| *known == plain).map(|(tool, _)| *tool)
}

/// Returns the client-visible name of a catalogue tool: the usual one or, if `is_taken` returns
/// true for it, the one ending in `_2`.
pub(super) fn meta_tool_name(tool: MetaTool, is_taken: impl Fn(&str) -> bool) -> String {
    let name = META_TOOLS.iter().find(|(known, _)| *known == tool).map_or("", |(_, name)| *name);
    if is_taken(name) { format!("{name}_2") } else { name.to_owned() }
}

/// Returns the definitions of the catalogue's own tools, as JSON.
pub(super) fn meta_definitions(
    tools: &[Tool<'_>],
    settings: &CatalogueSettings,
    estimator: &Estimator,
) -> Vec<String> {
    let is_taken = |name: &str| tools.iter().any(|tool| tool.wire_name == name);
    let split = settings.call_tools.unwrap_or_default() == CallTools::Split;
    META_TOOLS
        .iter()
        .filter(|(tool, _)| *tool != MetaTool::CallRead || split)
        .map(|(tool, _)| {
            let name = meta_tool_name(*tool, is_taken);
            definition(*tool, &name, tools, settings, estimator)
        })
        .collect()
}

/// Returns the input schema of a catalogue tool, as JSON.
pub(super) fn schema(tool: MetaTool, settings: &CatalogueSettings) -> String {
    // Model APIs refuse objects of any members: Gemini's without properties, OpenAI's strict mode
    // without closed members. An object is accepted too.
    const CALL_SCHEMA: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"string","description":"JSON object"}},"required":["name"]}"#;
    let text = match tool {
        MetaTool::Search => {
            let detail = match settings.detail.unwrap_or_default() {
                ToolDetail::Names => "names",
                ToolDetail::Summary => "summary",
                ToolDetail::Signature => "signature",
                ToolDetail::Full => "full",
            };
            return format!(
                r#"{{"type":"object","properties":{{"queries":{{"type":"array","items":{{"type":"string"}},"minItems":1,"maxItems":8}},"server":{{"type":"string"}},"category":{{"type":"string"}},"read_only":{{"type":"boolean"}},"max_latency_ms":{{"type":"number"}},"min_success_rate":{{"type":"number","description":"percent"}},"limit":{{"type":"integer","description":"default 10","maximum":50}},"detail":{{"type":"string","enum":["names","summary","signature","full"],"description":"default {detail}"}}}},"required":["queries"]}}"#
            );
        }
        MetaTool::Describe => {
            r#"{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":10}},"required":["names"]}"#
        }
        MetaTool::Browse => {
            r#"{"type":"object","properties":{"category":{"type":"string"},"server":{"type":"string"},"page":{"type":"integer"}}}"#
        }
        MetaTool::CallRead | MetaTool::Call => CALL_SCHEMA,
    };
    text.to_owned()
}

fn definition(
    tool: MetaTool,
    name: &str,
    tools: &[Tool<'_>],
    settings: &CatalogueSettings,
    estimator: &Estimator,
) -> String {
    let search_description =
        format!("Finds tools. One query per need. {}", contents(tools, estimator));
    let description = match tool {
        MetaTool::Search => search_description.as_str(),
        MetaTool::Describe => "Returns the full definitions of tools.",
        MetaTool::Browse => "Lists categories or the tools of one.",
        MetaTool::CallRead => "Calls a read-only tool.",
        MetaTool::Call => "Calls any tool.",
    };
    let schema = schema(tool, settings);
    let hint = match tool {
        MetaTool::Call => r#""destructiveHint":true"#,
        _ => r#""readOnlyHint":true"#,
    };
    let description = String::from_utf8_lossy(&quoted(description)).into_owned();
    format!(
        r#"{{"name":"{name}","description":{description},"inputSchema":{schema},"annotations":{{{hint}}},"_meta":{{"anthropic/alwaysLoad":true}}}}"#
    )
}

/// Describes the tools for the search: each server with its number of tools. If that exceeds
/// [`MAX_SERVERS_TOKENS`], or if a server has no name, lists the categories or the largest servers
/// instead.
fn contents(tools: &[Tool<'_>], estimator: &Estimator) -> String {
    let servers = counted(tools, |tool| tool.server);
    let categories = counted(tools, |tool| tool.category);
    // The only upstream of a host may have no name.
    if let [(name, count)] = servers.as_slice()
        && name.is_empty()
        && categories.len() == 1
    {
        return format!("{count} tools");
    }
    let written = |kind: &str, groups: &[(String, usize)]| {
        let groups: Vec<String> =
            groups.iter().map(|(name, count)| format!("{name} {count}")).collect();
        format!("{kind}: {}", groups.join(", "))
    };
    let fits = |text: &String| estimator.price(text.as_bytes()) <= MAX_SERVERS_TOKENS;
    let all = written("Servers", &servers);
    if fits(&all) && servers.iter().all(|(name, _)| !name.is_empty()) {
        return all;
    }
    let all = written("Categories", &categories);
    if fits(&all) && categories.len() < servers.len() {
        return all;
    }
    let mut largest = servers.clone();
    largest.sort_by_key(|server| std::cmp::Reverse(server.1));
    let (mut low, mut high) = (0, largest.len());
    while low < high {
        let middle = (low + high).div_ceil(2);
        let text = written("Largest servers", largest.get(..middle).unwrap_or_default());
        if fits(&text) { low = middle } else { high = middle - 1 }
    }
    let text = written("Largest servers", largest.get(..low).unwrap_or_default());
    format!("{text}, and {} more", largest.len() - low)
}

/// Returns the groups of tools, each with its number of tools, in the order of their first tools.
/// `group` returns the group of a tool.
pub(super) fn counted<'t>(
    tools: &'t [Tool<'t>],
    group: impl Fn(&'t Tool<'t>) -> &'t str,
) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in tools {
        let name = group(tool);
        let at = *positions.entry(name).or_insert(counts.len());
        match counts.get_mut(at) {
            Some((_, count)) => *count += 1,
            None => counts.push((name.to_owned(), 1)),
        }
    }
    counts
}
