//! The route that reports to operators how many tokens each form of the catalogue costs.

use context_guard_catalogue::index::IndexedTool;
use context_guard_catalogue::score::Usage;
use context_guard_catalogue::tool::Tool;
use serde::Serialize;

use super::{RouteResult, Routes, body};
use crate::catalogue::CatalogueStep;
use crate::catalogue::list::{TierList, write_list};
use crate::catalogue::stored::tool;
use crate::tokens::Estimator;

/// The body of the overview.
#[derive(Serialize)]
struct OverviewBody {
    tool_count: usize,
    tokens: TierTokens,
    tools: Vec<PricedTool>,
}

/// The cost of each way to see the catalogue, in tokens.
#[derive(Serialize)]
struct TierTokens {
    /// The list of all definitions.
    full_list: u64,
    /// The list with the tools for search, the pinned and the hot tools.
    tiered_list: u64,
    /// The body of the hot tools.
    hot: u64,
    /// The body of the categories.
    categories: u64,
    /// The largest definition: the maximum cost of describing one tool.
    largest_schema: u64,
}

#[derive(Serialize)]
struct PricedTool {
    server: String,
    name: String,
    /// The tokens of the tool's definition.
    tokens: u64,
}

impl Routes<'_> {
    /// Returns the costs of the catalogue and of its forms. O(all definitions).
    pub(super) fn overview(&self) -> RouteResult<CatalogueStep> {
        self.check_parameters(&[])?;
        let estimator = self.request.policy.settings_for("", "tools/list").estimator;
        let price = |text: &[u8]| estimator.price(text);
        let numbers: Vec<u32> = (0..).zip(self.index.tools()).map(|(number, _)| number).collect();
        let stored = self.reader.tools(&numbers)?;
        let priced = |(indexed, (definition, _)): (IndexedTool<'_>, &(String, Usage))| PricedTool {
            server: indexed.server.to_owned(),
            name: indexed.name.to_owned(),
            tokens: price(definition.as_bytes()),
        };
        let tools: Vec<PricedTool> = self.index.tools().zip(&stored).map(priced).collect();
        let definitions: Vec<Tool<'_>> = (0..)
            .zip(&stored)
            .filter_map(|(number, (definition, usage))| {
                Some(Tool { usage: *usage, ..tool(&self.index, number, definition)? })
            })
            .collect();
        let tokens = TierTokens {
            full_list: price(&self.list(&definitions, &estimator, false)),
            tiered_list: price(&self.list(&definitions, &estimator, true)),
            hot: price(&serde_json::to_vec(&self.hot_body()?).unwrap_or_default()),
            categories: price(&serde_json::to_vec(&self.categories_body()?).unwrap_or_default()),
            largest_schema: tools.iter().map(|tool| tool.tokens).max().unwrap_or_default(),
        };
        Ok(body(self.request, 200, &OverviewBody { tool_count: tools.len(), tokens, tools }))
    }

    /// Returns the list that clients get: the tiered one if `is_tiered`, else the full one.
    fn list(&self, tools: &[Tool<'_>], estimator: &Estimator, is_tiered: bool) -> Vec<u8> {
        write_list(&TierList {
            request: self.request,
            settings: &self.request.settings(),
            estimator,
            tools,
            hidden: &[],
            unmatched: &[],
            held: &[],
            suspicious: &[],
            is_tiered,
            has_meta_tools: is_tiered,
        })
        .list
    }
}
