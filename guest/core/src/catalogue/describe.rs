//! Describes tools in answers, with the detail that the policy or the caller sets.

use std::collections::BTreeSet;

use context_guard_catalogue::index::IndexedTool;
use context_guard_catalogue::{Index, signature};

use super::stored::tool;
use crate::policy::ToolDetail;

/// Describes tool `number` with this detail. Empty if the index has no such tool.
pub(super) fn described(
    index: &Index<'_>,
    number: u32,
    definition: &str,
    detail: ToolDetail,
) -> String {
    let Some(tool) = tool(index, number, definition) else { return String::new() };
    match detail {
        ToolDetail::Names => tool.wire_name.to_owned(),
        ToolDetail::Summary => signature::summary(&tool),
        ToolDetail::Signature => signature::short(&tool),
        ToolDetail::Full => definition.to_owned(),
    }
}

/// Describes tool `number` with this detail or, if `fits` refuses that, by as much of its signature
/// as fits.
pub(super) fn described_within(
    index: &Index<'_>,
    number: u32,
    definition: &str,
    detail: ToolDetail,
    fits: &dyn Fn(&str) -> bool,
) -> String {
    let text = described(index, number, definition, detail);
    match tool(index, number, definition) {
        Some(tool) if !fits(&text) => signature::fitted(&tool, fits),
        _ => text,
    }
}

/// A category with its tools.
pub(super) struct CategoryOverview {
    pub(super) name: String,
    pub(super) tools: usize,
    pub(super) servers: usize,
    pub(super) popular: Vec<String>,
    /// The tools of `popular`, as `server::tool`.
    pub(super) popular_endpoints: Vec<String>,
}

/// Returns all categories, sorted by `order` and then by name.
pub(super) fn categories(index: &Index<'_>, order: impl Fn(&str) -> i64) -> Vec<CategoryOverview> {
    let mut names: Vec<&str> = index.tools().map(|tool| tool.category).collect();
    names.sort_by(|left, right| order(left).cmp(&order(right)).then(left.cmp(right)));
    names.dedup();
    let overview = |name: &str| {
        let tools: Vec<IndexedTool<'_>> =
            index.tools().filter(|tool| tool.category == name).collect();
        let servers: BTreeSet<&str> = tools.iter().map(|tool| tool.server).collect();
        let mut popular: Vec<&IndexedTool<'_>> = tools.iter().collect();
        popular.sort_by(|left, right| right.tier_score.total_cmp(&left.tier_score));
        CategoryOverview {
            name: name.to_owned(),
            tools: tools.len(),
            servers: servers.len(),
            popular_endpoints: popular
                .iter()
                .take(2)
                .map(|tool| crate::policy::endpoint_name(tool.server, tool.name))
                .collect(),
            popular: popular.iter().take(2).map(|tool| tool.wire_name.to_owned()).collect(),
        }
    };
    names.into_iter().map(overview).collect()
}
