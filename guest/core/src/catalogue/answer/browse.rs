//! Answers the tool that lists categories and their tools.

use serde::Deserialize;

use super::{CallParameters, Catalogue, CatalogueResult};
use crate::catalogue::CatalogueStep;
use crate::catalogue::definitions::MetaTool;
use crate::catalogue::describe::{categories, described, described_within};
use crate::policy::ToolDetail;

/// The number of tools on a page of a category.
const PAGE_TOOLS: usize = 20;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BrowseArguments {
    category: Option<String>,
    server: Option<String>,
    page: Option<usize>,
}

impl Catalogue<'_> {
    pub(super) fn browse(&self, parameters: &CallParameters<'_>) -> CatalogueResult<CatalogueStep> {
        let arguments: BrowseArguments = self.own_arguments(MetaTool::Browse, parameters)?;
        self.check_group(arguments.server.as_deref(), arguments.category.as_deref())?;
        if arguments.server.is_none() && arguments.category.is_none() {
            return Ok(self.browse_categories(arguments.page.unwrap_or(1)));
        }
        let mut tools: Vec<(u32, f32)> = (0..)
            .zip(self.index.tools())
            .filter(|(_, tool)| {
                arguments.server.as_deref().is_none_or(|server| server == tool.server)
                    && arguments.category.as_deref().is_none_or(|name| name == tool.category)
            })
            .map(|(number, tool)| (number, tool.tier_score))
            .collect();
        tools.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        let page = arguments.page.unwrap_or(1);
        let pages = tools.len().div_ceil(PAGE_TOOLS).max(1);
        if !(1..=pages).contains(&page) {
            return Err(
                self.bad_request(format!("page {page} does not exist; pages: 1 to {pages}"))
            );
        }
        let on_page: Vec<u32> = tools
            .iter()
            .skip((page - 1) * PAGE_TOOLS)
            .take(PAGE_TOOLS)
            .map(|tool| tool.0)
            .collect();
        let definitions = self.reader.definitions(&on_page)?;
        let mut lines = self.signatures(&on_page, &definitions);
        let more =
            if page < pages { format!("; more with page={}", page + 1) } else { String::new() };
        lines.push(format!("shown {} of {} tools{more}", on_page.len(), tools.len()));
        Ok(self.request.text(&[lines.join("\n")]))
    }

    /// Returns the signatures of the tools of a page. If they exceed the budget together, no one
    /// gets more than an equal part of it.
    fn signatures(&self, tools: &[u32], definitions: &[String]) -> Vec<String> {
        let endpoint = self.request.policy.settings_for("", "context_guard_browse_tools");
        let allowance = endpoint.estimator.allowance(endpoint.threshold).saturating_sub(40);
        let cost = |line: &str| endpoint.estimator.cost(line.as_bytes()) + 1;
        let (index, detail) = (&self.index, ToolDetail::Signature);
        let tools = || tools.iter().zip(definitions);
        let lines: Vec<String> =
            tools().map(|(tool, definition)| described(index, *tool, definition, detail)).collect();
        if lines.iter().map(|line| cost(line)).sum::<u64>() <= allowance {
            return lines;
        }
        let part = allowance / (lines.len() as u64).max(1);
        let fits = |line: &str| cost(line) <= part;
        tools()
            .map(|(tool, definition)| described_within(index, *tool, definition, detail, &fits))
            .collect()
    }

    /// Returns one page of the overview of all categories, with as many as the budget allows.
    fn browse_categories(&self, page: usize) -> CatalogueStep {
        let settings = self.request.settings();
        let order = |name: &str| {
            let mut rules = settings.categories.iter().flatten();
            rules.find(|rule| rule.name == name).map_or(0, |rule| rule.order)
        };
        let overview = categories(&self.index, order);
        let endpoint = self.request.policy.settings_for("", "context_guard_browse_tools");
        let allowance = endpoint.estimator.allowance(endpoint.threshold.min(4_000));
        let mut pages: Vec<Vec<String>> = vec![Vec::new()];
        let mut tokens = 40;
        for category in &overview {
            let plural = |count: usize, name: &str| {
                format!("{count} {name}{}", if count == 1 { "" } else { "s" })
            };
            let line = format!(
                "{}: {}, {} ({})",
                category.name,
                plural(category.tools, "tool"),
                plural(category.servers, "server"),
                category.popular.join(", ")
            );
            tokens += endpoint.estimator.cost(line.as_bytes()) + 1;
            if tokens > allowance {
                pages.push(Vec::new());
                tokens = 40;
            }
            if let Some(page) = pages.last_mut() {
                page.push(line);
            }
        }
        let count = pages.len();
        let Some(lines) = page.checked_sub(1).and_then(|page| pages.get_mut(page)) else {
            return self.bad_request(format!("page {page} does not exist; pages: 1 to {count}"));
        };
        let more =
            if page < count { format!("; more with page={}", page + 1) } else { String::new() };
        let shown = lines.len();
        lines.push(format!(
            "shown {shown} of {} categories; list tools with category= or server={more}",
            overview.len()
        ));
        self.request.text(&[lines.join("\n")])
    }
}
