//! The list of tools that clients get.

use std::collections::BTreeMap;

use context_guard_catalogue::tool::Tool;

use super::definitions::meta_definitions;
use super::{CATALOGUE_META, CatalogueRequest};
use crate::json::edit::{append_member, member};
use crate::json::scan::{Kind, Scanner};
use crate::json::text::Form;
use crate::mcp::catalog;
use crate::policy::CatalogueSettings;
use crate::shape::notice::READ_TOOL;
use crate::tokens::Estimator;

/// Maximum tokens of a tiered list, unless pinned tools cost more.
const MAX_TIERED_TOKENS: u64 = 3_000;
/// The default number of hot tools: the unpinned tools with the highest scores in a tiered list.
const DEFAULT_HOT: u64 = 12;
/// The maximum number of tools to examine for the hot ones, which skips those with large schemas.
const MAX_CONSIDERED: usize = 200;

/// The parts of a list of tools for clients.
pub(super) struct TierList<'l> {
    pub(super) request: &'l CatalogueRequest<'l>,
    pub(super) settings: &'l CatalogueSettings,
    pub(super) estimator: &'l Estimator,
    pub(super) tools: &'l [Tool<'l>],
    /// The client-visible names of hidden tools, for the host only.
    pub(super) hidden: &'l [String],
    /// The globs of the policy that match no tool, for the log of the host.
    pub(super) unmatched: &'l [String],
    /// The client-visible names of tools that are withheld until the operator approves their
    /// definitions.
    pub(super) held: &'l [String],
    /// The suspicious texts in definitions, for the log of the host.
    pub(super) suspicious: &'l [serde_json::Value],
    /// True if the list contains pinned and hot tools only, besides the catalogue's own.
    pub(super) is_tiered: bool,
    /// True if the list starts with the catalogue's own tools.
    pub(super) has_meta_tools: bool,
}

/// A list of tools for clients.
pub(super) struct WrittenList {
    /// The response to `tools/list`. Its `_meta` has the facts that the host needs.
    pub(super) list: Vec<u8>,
    /// The tools of `list`, as a JSON array.
    pub(super) tools: String,
}

/// Writes the list for clients.
pub(super) fn write_list(list: &TierList<'_>) -> WrittenList {
    let mut definitions = Vec::new();
    let is_taken = list.tools.iter().any(|tool| tool.wire_name == READ_TOOL);
    let read_tool = catalog::read_tool(catalog::read_tool_name(is_taken));
    if list.has_meta_tools {
        definitions.extend(meta_definitions(list.tools, list.settings, list.estimator));
    }
    let first =
        if list.has_meta_tools { first_tools(list, &definitions, &read_tool) } else { Vec::new() };
    let listed = |tool: &Tool<'_>| {
        let is_pinned = list.settings.is_pinned(&endpoint(tool));
        let pinned = is_pinned.then(|| always_loaded(tool.definition)).flatten();
        pinned.unwrap_or_else(|| tool.definition.to_owned())
    };
    definitions.extend(first.iter().filter_map(|at| list.tools.get(*at)).map(listed));
    if !list.is_tiered {
        let rest = list.tools.iter().enumerate();
        let rest = rest.filter(|(at, _)| !first.contains(at));
        definitions.extend(rest.map(|(_, tool)| listed(tool)));
    }
    definitions.push(read_tool);
    let facts = serde_json::json!({
        "tiered": list.is_tiered,
        "hidden": list.hidden,
        "unmatched": list.unmatched,
        "holds": list.settings.holds_any(),
        "held": list.held,
        "suspicious": list.suspicious,
        "recomputeSeconds": list.settings.recompute_seconds.unwrap_or(86_400),
    });
    let tools = format!("[{}]", definitions.join(","));
    let members = format!(r#""tools":{tools},"_meta":{{"{CATALOGUE_META}":{facts}}}"#);
    WrittenList { list: list.request.envelope.result(members.as_bytes()), tools }
}

/// Returns the positions of the tools that are listed first: all pinned ones, then hot ones that
/// fit the budget.
fn first_tools(list: &TierList<'_>, meta: &[String], read_tool: &str) -> Vec<usize> {
    let cost = |text: &str| list.estimator.cost(text.as_bytes());
    let mut tokens: u64 = meta.iter().map(|text| cost(text)).sum::<u64>() + cost(read_tool);
    let mut first = Vec::new();
    for (at, tool) in list.tools.iter().enumerate() {
        if list.settings.is_pinned(&endpoint(tool)) {
            tokens += cost(tool.definition);
            first.push(at);
        }
    }
    let hot = usize::try_from(list.settings.hot.unwrap_or(DEFAULT_HOT)).unwrap_or(0);
    let mut listed = 0;
    for at in by_score(list.tools).into_iter().take(MAX_CONSIDERED) {
        let Some(tool) = list.tools.get(at).filter(|_| listed < hot) else { break };
        let price = cost(tool.definition);
        if first.contains(&at) || tokens + price > MAX_TIERED_TOKENS {
            continue;
        }
        tokens += price;
        listed += 1;
        first.push(at);
    }
    first
}

pub(super) fn endpoint(tool: &Tool<'_>) -> String {
    crate::policy::endpoint_name(tool.server, &tool.name)
}

/// Returns the positions of all tools by falling score. Tools with equal scores alternate between
/// their servers.
pub(super) fn by_score(tools: &[Tool<'_>]) -> Vec<usize> {
    // The number of earlier tools of the same server with the same score.
    let mut turns: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    let mut order: Vec<(std::cmp::Reverse<u64>, usize, usize)> = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let score = hundredths(tool.usage.tier_score());
        let turn = turns.entry((tool.server, score)).or_default();
        order.push((std::cmp::Reverse(score), *turn, at));
        *turn += 1;
    }
    order.sort_unstable();
    order.into_iter().map(|(_, _, at)| at).collect()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
fn hundredths(score: f64) -> u64 {
    (score * 100.0).round() as u64
}

/// Returns the definition with the member of `_meta` by which clients always load it, instead of
/// the upstream's. `None` if its `_meta` is not an object, or the definition is invalid.
fn always_loaded(definition: &str) -> Option<String> {
    let bytes = definition.as_bytes();
    if let Some(meta) = meta_object(bytes)
        && let Some(own) = member(bytes, &meta, "anthropic/alwaysLoad").ok()?
    {
        let mut edits = crate::json::edit::Edits::default();
        edits.replace(own, b"");
        return with_always_load(&edits.apply(bytes));
    }
    with_always_load(bytes)
}

/// Returns the definition with the member added to its `_meta`.
fn with_always_load(bytes: &[u8]) -> Option<String> {
    const LOADED: &[u8] = br#""anthropic/alwaysLoad":true"#;
    let mut scanner = Scanner::new(bytes, Form::Raw);
    let root = scanner.skip_value().ok()?;
    let meta = meta_object(bytes);
    let (span, added) = match meta {
        Some(meta) => append_member(bytes, &meta, LOADED).ok()?,
        None => {
            // A `_meta` that is no object is invalid, and remains.
            if member(bytes, &root, "_meta").ok()?.is_some() {
                return None;
            }
            append_member(bytes, &root, &[b"\"_meta\":{".as_slice(), LOADED, b"}"].concat()).ok()?
        }
    };
    let mut edits = crate::json::edit::Edits::default();
    edits.replace(span, added);
    String::from_utf8(edits.apply(bytes)).ok()
}

/// Returns the span of the member `_meta`. `None` if it is absent or not an object.
fn meta_object(definition: &[u8]) -> Option<crate::json::Span> {
    let mut found = None;
    let mut scanner = Scanner::new(definition, Form::Raw);
    scanner
        .object(|scanner, key| {
            let kind = scanner.kind()?;
            let value = scanner.skip_value()?;
            if kind == Kind::Object && scanner.is_key(&key, "_meta") {
                found = Some(value);
            }
            Ok(())
        })
        .ok()?;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_definition_has_the_member_once() {
        let loaded = r#"{"name":"x","_meta":{"a":1,"anthropic/alwaysLoad":true}}"#;
        for definition in [
            r#"{"name":"x","_meta":{"a":1}}"#,
            r#"{"name":"x","_meta":{"anthropic/alwaysLoad":false,"a":1}}"#,
            r#"{"name":"x","_meta":{"a":1,"anthropic/alwaysLoad":true}}"#,
        ] {
            assert_eq!(always_loaded(definition).as_deref(), Some(loaded), "{definition}");
        }
        assert_eq!(always_loaded(r#"{"name":"x","_meta":1}"#), None);
    }
}
