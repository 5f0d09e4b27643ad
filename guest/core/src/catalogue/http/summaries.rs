//! The routes that return pages of summaries.

use std::collections::BTreeSet;

use context_guard_catalogue::rank::{Filter, SearchRequest};
use context_guard_catalogue::signature;
use serde_json::value::{RawValue, to_raw_value};

use super::bodies::{
    FoundTool, OrderedMembers, Pagination, SummariesBody, SummaryTool, latency, returns, rounded,
};
use super::{RouteResult, RouteStep, Routes, bad_request, body};
use crate::catalogue::CatalogueStep;
use crate::catalogue::resolve::shown;
use crate::catalogue::stored::tool;
use crate::policy::ToolDetail;

/// The default token budget of a page.
const DEFAULT_SUMMARY_TOKENS: u64 = 4_000;

/// The tokens of the names of members around the parts of a tool.
const NAME_TOKENS: u64 = 40;

/// Returns the error for an unknown name of this kind, with up to 20 known names.
fn unknown(
    kind: &str,
    code: &'static str,
    plural: &str,
    name: &str,
    known: &BTreeSet<&str>,
) -> RouteStep {
    const MAX_NAMES: usize = 20;
    let names: Vec<&str> = known.iter().copied().take(MAX_NAMES).collect();
    let more = if known.len() > MAX_NAMES { ", …" } else { "" };
    let text = format!("no {kind} \"{}\"; {plural}: {}{more}", shown(name), names.join(", "));
    RouteStep::Problem(404, code, text)
}

impl Routes<'_> {
    /// Returns the numbers of the tools that `filter` accepts, by falling score.
    fn by_score(&self, filter: &Filter<'_>) -> Vec<u32> {
        let accepted = (0..).zip(self.index.tools()).filter(|(_, tool)| filter.accepts(tool));
        let mut tools: Vec<(u32, f32)> =
            accepted.map(|(number, tool)| (number, tool.tier_score)).collect();
        tools.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        tools.into_iter().map(|(number, _)| number).collect()
    }

    /// Returns an error if no tool has this category.
    fn check_category(&self, name: &str) -> RouteResult<()> {
        let names: BTreeSet<&str> = self.index.tools().map(|tool| tool.category).collect();
        match names.contains(name) {
            true => Ok(()),
            false => Err(unknown("category", "category_not_found", "categories", name, &names)),
        }
    }

    /// Returns an error if no tool has this server.
    fn check_server(&self, name: &str) -> RouteResult<()> {
        let names: BTreeSet<&str> = self.index.tools().map(|tool| tool.server).collect();
        match names.contains(name) {
            true => Ok(()),
            false => Err(unknown("server", "server_not_found", "servers", name, &names)),
        }
    }

    pub(super) fn category(&self, name: &str) -> RouteResult<CatalogueStep> {
        self.check_parameters(&["page", "page_size", "offset", "max_tokens"])?;
        let tools = self.by_score(&Filter { category: Some(name), ..Filter::default() });
        self.check_category(name)?;
        let scored: Vec<(u32, Option<f32>)> = tools.into_iter().map(|tool| (tool, None)).collect();
        self.summaries(&format!("category={name}"), &scored, ToolDetail::Summary)
    }

    pub(super) fn search(&self) -> RouteResult<CatalogueStep> {
        self.check_parameters(&[
            "q",
            "category",
            "server",
            "read_only",
            "max_latency_ms",
            "min_success_rate",
            "min_score",
            "detail",
            "limit",
            "page",
            "page_size",
            "offset",
            "max_tokens",
        ])?;
        let queries: Vec<&str> = self
            .route
            .query
            .iter()
            .filter(|(name, _)| name == "q")
            .map(|(_, value)| value.as_str())
            .collect();
        if queries.len() > 8 {
            return Err(bad_request("q occurs at most 8 times"));
        }
        let read_only = match self.parameter("read_only") {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return Err(bad_request("read_only is true or false")),
        };
        let min_success_rate = self.number("min_success_rate")?;
        if min_success_rate.is_some_and(|rate| !(1.0..=100.0).contains(&rate)) {
            return Err(bad_request("min_success_rate is a percentage from 1 to 100"));
        }
        let detail = match self.parameter("detail").map(|name| serde_json::from_value(name.into()))
        {
            None => ToolDetail::Summary,
            Some(Ok(detail)) => detail,
            Some(Err(_)) => {
                return Err(bad_request("detail is names, summary, signature or full"));
            }
        };
        let min_score: Option<f32> = self.number("min_score")?;
        if min_score.is_some_and(|score| !(score.is_finite() && score >= 0.0)) {
            return Err(bad_request("min_score is a number from 0 on"));
        }
        if min_score.is_some() && queries.is_empty() {
            return Err(bad_request("min_score needs q: tools have scores of a search only"));
        }
        let limit = self.number("limit")?.unwrap_or(usize::MAX);
        if limit == 0 {
            return Err(bad_request("limit is a number from 1 on"));
        }
        let max_latency_ms: Option<f64> = self.number("max_latency_ms")?;
        if max_latency_ms.is_some_and(|latency| !(latency.is_finite() && latency >= 0.0)) {
            return Err(bad_request("max_latency_ms is a number from 0 on"));
        }
        self.parameter("server").map_or(Ok(()), |name| self.check_server(name))?;
        self.parameter("category").map_or(Ok(()), |name| self.check_category(name))?;
        let filter = Filter {
            server: self.parameter("server"),
            category: self.parameter("category"),
            read_only,
            max_latency_ms,
            min_success_rate,
        };
        let scored: Vec<(u32, Option<f32>)> = if queries.is_empty() {
            self.by_score(&filter).into_iter().take(limit).map(|tool| (tool, None)).collect()
        } else {
            let min_score = min_score.unwrap_or_default();
            let limit = limit.min(self.index.tool_count());
            let search = SearchRequest { queries: queries.clone(), filter, limit, min_score };
            let hits = self.index.search(&search).hits;
            hits.iter().map(|hit| (hit.tool, Some(hit.score))).collect()
        };
        let filter: Vec<String> = self
            .route
            .query
            .iter()
            .filter(|(name, _)| {
                !["page", "page_size", "offset", "max_tokens"].contains(&name.as_str())
            })
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        self.summaries(&filter.join("&"), &scored, detail)
    }

    /// Returns a page of the tools `scored`, each with this detail.
    fn summaries(
        &self,
        filter: &str,
        scored: &[(u32, Option<f32>)],
        detail: ToolDetail,
    ) -> RouteResult<CatalogueStep> {
        let tokens = self.max_tokens(DEFAULT_SUMMARY_TOKENS)?;
        let page = self.page()?;
        let total = scored.len();
        let on_page: Vec<(u32, Option<f32>)> =
            scored.iter().skip(page.offset).take(page.size).copied().collect();
        let numbers: Vec<u32> = on_page.iter().map(|(number, _)| *number).collect();
        let stored = self.reader.tools(&numbers)?;
        let mut summaries = Vec::new();
        for ((number, score), (definition, _)) in on_page.iter().zip(&stored) {
            summaries.extend(self.found_tool(*number, *score, definition, detail, tokens));
        }
        let listed = summaries.len();
        let tools = self.fit(summaries, tokens);
        let next = page.offset + tools.len();
        // A client that follows the links reaches the end by them.
        let follows_links = self.parameter("offset").is_some() && next < total;
        let budget = (tools.len() < listed || follows_links)
            .then(|| self.budget(tokens, tools.len(), total, next));
        let pagination = Pagination {
            page: page.page,
            page_size: page.size,
            total_count: total,
            total_pages: total.div_ceil(page.size),
        };
        Ok(body(
            self.request,
            200,
            &SummariesBody {
                tier: "tool_summaries",
                filter: filter.to_owned(),
                tools,
                pagination,
                budget,
            },
        ))
    }

    /// Returns a tool with this detail, as JSON. If a body with the tool alone exceeds `tokens`, it
    /// has fewer parameters, or a signature instead of the definition. `None` if its definition
    /// cannot be parsed.
    fn found_tool(
        &self,
        number: u32,
        score: Option<f32>,
        definition: &str,
        detail: ToolDetail,
        tokens: u64,
    ) -> Option<Box<RawValue>> {
        let parsed = tool(&self.index, number, definition)?;
        let indexed = self.index.tool(number)?;
        let tool = format!("{}::{}", indexed.server, indexed.name);
        let server = indexed.server.to_owned();
        let score = score.map(|score| rounded(f64::from(score), 1_000.0));
        if detail == ToolDetail::Summary {
            let mut summary = SummaryTool {
                tool,
                server,
                description: signature::first_sentence(&parsed),
                params: OrderedMembers(signature::parameters(&parsed)),
                returns: returns(&parsed),
                avg_latency: latency(indexed.average_ms),
                score,
            };
            let total = summary.params.0.len();
            while summary.params.0.len() > 1 && !self.fits(&summary, tokens) {
                summary.params.0.truncate((summary.params.0.len() - 1) / 2);
                let omitted = total - summary.params.0.len();
                summary.params.0.push(("…".to_owned(), format!("{omitted} more")));
            }
            return to_raw_value(&summary).ok();
        }
        let is_short = |text: &str| self.fits(&(text, &tool, &server), tokens - NAME_TOKENS);
        let definition: Option<&RawValue> = match detail {
            ToolDetail::Full if is_short(definition) => {
                Some(serde_json::from_str(definition).ok()?)
            }
            _ => None,
        };
        let has_signature = detail != ToolDetail::Names && definition.is_none();
        let signature = has_signature.then(|| signature::fitted(&parsed, &is_short));
        to_raw_value(&FoundTool { tool, server, signature, definition, score }).ok()
    }
}
