//! Ranks the tools of an index by their relevance for queries.

mod common;
mod correct;
mod edits;
mod query;
mod scorer;
mod spaces;

use std::collections::HashSet;

use crate::index::{Index, IndexedTool};
use crate::text::Splitter;

use self::scorer::{Scorer, Scratch};

/// The best score of a query below which the result is a weak match.
pub const WEAK_SCORE: f32 = 0.45;
/// The maximum number of servers in the result of a weak match.
const NEAREST_SERVERS: usize = 3;

/// Restrictions on the tools that a search finds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter<'a> {
    /// Only tools of this server.
    pub server: Option<&'a str>,
    /// Only tools of this category.
    pub category: Option<&'a str>,
    /// If true, only tools that change nothing; if false, only other tools.
    pub read_only: Option<bool>,
    /// Only tools with a measured mean latency of at most this.
    pub max_latency_ms: Option<f64>,
    /// Only tools with a measured success rate of at least this, in percent.
    pub min_success_rate: Option<f64>,
}

impl Filter<'_> {
    /// Returns true if a search may find the tool.
    #[must_use]
    pub fn accepts(&self, tool: &IndexedTool<'_>) -> bool {
        self.server.is_none_or(|server| server == tool.server)
            && self.category.is_none_or(|category| category == tool.category)
            && self.read_only.is_none_or(|read_only| read_only == tool.read_only)
            && self.max_latency_ms.is_none_or(|limit| {
                tool.average_ms.is_some_and(|measured| f64::from(measured) <= limit)
            })
            && self.min_success_rate.is_none_or(|limit| {
                tool.success_percent.is_some_and(|measured| f64::from(measured) >= limit)
            })
    }
}

/// A search: queries, restrictions and the maximum number of hits.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchRequest<'a> {
    /// The queries, one for each need of the caller.
    pub queries: Vec<&'a str>,
    /// The restrictions.
    pub filter: Filter<'a>,
    /// The maximum number of hits of all queries together.
    pub limit: usize,
    /// The minimum score of a hit.
    pub min_score: f32,
}

impl<'a> SearchRequest<'a> {
    /// Creates a search for ten tools, without restrictions.
    #[must_use]
    pub fn new(query: &'a str) -> Self {
        Self { queries: vec![query], filter: Filter::default(), limit: 10, min_score: 0.0 }
    }
}

/// A tool that a search found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// The number of the tool in the index.
    pub tool: u32,
    /// The score. About 1 if most of the query matches.
    pub score: f32,
    /// The index of the query among the queries of the search.
    pub query: usize,
    /// True if the query is the name of the tool, in any notation.
    pub is_exact: bool,
    /// True if the query is the name of the tool, byte for byte.
    pub is_verbatim: bool,
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The hits, best first, alternating between the queries.
    pub hits: Vec<Hit>,
    /// The result of each query, without its hits.
    pub queries: Vec<QueryResult>,
    /// The number of tools that match any query, including those without a hit.
    pub total: usize,
}

/// The result of one query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryResult {
    /// The number of tools that match.
    pub total: usize,
    /// True if no tool matches well.
    pub is_weak: bool,
    /// The servers of the best tools, if the match is weak.
    pub nearest_servers: Vec<String>,
}

impl Index<'_> {
    /// Searches the index. The same index and request always give the same hits in the same order.
    #[must_use]
    pub fn search(&self, request: &SearchRequest<'_>) -> Found {
        let mut splitter = Splitter::default();
        // Without restrictions, the records of the tools need not be read.
        let is_restricted = request.filter != Filter::default();
        let accepted: Option<Vec<bool>> =
            is_restricted.then(|| self.tools().map(|tool| request.filter.accepts(&tool)).collect());
        // Tools that are left out below must not count among the best.
        let is_complete = is_restricted || request.min_score > 0.0;
        let needed = if is_complete { usize::MAX } else { shown_at_most(request.limit) };
        let mut scratch = Scratch::new(self);
        let mut ranked: Vec<Vec<Hit>> = Vec::new();
        let mut found = Found::default();
        let mut matched = vec![false; self.tool_count()];
        for (number, query) in request.queries.iter().enumerate() {
            let mut hits = self.rank(query, number, needed, &mut splitter, &mut scratch);
            hits.retain(|hit| {
                accepted.as_ref().is_none_or(|accepted| {
                    accepted.get(hit.tool as usize).copied().unwrap_or_default()
                }) && (hit.is_exact || hit.score >= request.min_score)
            });
            for hit in &hits {
                if let Some(matched) = matched.get_mut(hit.tool as usize) {
                    *matched = true;
                }
            }
            found.queries.push(self.describe(&mut hits, request.limit));
            ranked.push(hits);
        }
        found.total = matched.iter().filter(|matched| **matched).count();
        found.hits = take_turns(&ranked, request.limit);
        found
    }

    /// Returns the hits of one query, in the order of the index. `number` is the index of the
    /// query, and `needed` the number of hits that can be shown.
    fn rank(
        &self,
        query: &str,
        number: usize,
        needed: usize,
        splitter: &mut Splitter,
        scratch: &mut Scratch,
    ) -> Vec<Hit> {
        let names = query::exact_names(query);
        let exact: Vec<u32> = names.iter().flat_map(|name| self.tools_named(name)).collect();
        let scorer = Scorer { index: self };
        let mut scores = scorer.score(query, needed, splitter, scratch);
        for tool in &exact {
            // A name without any letter has no term.
            if let Err(at) = scores.binary_search_by_key(tool, |(tool, _)| *tool) {
                scores.insert(at, (*tool, 1.0));
            }
        }
        let hit = |(tool, score)| {
            let is_exact = exact.contains(&tool);
            let is_verbatim = is_exact
                && self.tool(tool).is_some_and(|tool| {
                    names.contains(&tool.wire_name) || names.contains(&tool.name)
                });
            Hit { tool, score, query: number, is_exact, is_verbatim }
        };
        scores.into_iter().map(hit).collect()
    }

    /// Sorts the hits: exact names first, those in the notation of the query before others, then by
    /// score, then in the order of the index. Keeps at most `limit` or 16 of them, whichever is
    /// more. Returns the result of the query.
    fn describe(&self, hits: &mut Vec<Hit>, limit: usize) -> QueryResult {
        let total = hits.len();
        let order = |left: &Hit, right: &Hit| {
            let names = |hit: &Hit| (hit.is_verbatim, hit.is_exact);
            names(right)
                .cmp(&names(left))
                .then(right.score.total_cmp(&left.score))
                .then(left.tool.cmp(&right.tool))
        };
        // Only the hits that can be shown are sorted: a common word matches most tools.
        let needed = shown_at_most(limit);
        if total > needed {
            hits.select_nth_unstable_by(needed, order);
            hits.truncate(needed);
        }
        hits.sort_unstable_by(order);
        let is_weak = hits.first().is_none_or(|best| !best.is_exact && best.score < WEAK_SCORE);
        let mut nearest_servers: Vec<String> = Vec::new();
        for hit in hits.iter().filter(|_| is_weak) {
            if let Some(tool) = self.tool(hit.tool)
                && nearest_servers.len() < NEAREST_SERVERS
                && !nearest_servers.iter().any(|server| server == tool.server)
            {
                nearest_servers.push(tool.server.to_owned());
            }
        }
        QueryResult { total, is_weak, nearest_servers }
    }
}

/// Returns the number of hits of one query that are sorted.
fn shown_at_most(limit: usize) -> usize {
    limit.max(16)
}

/// Merges the hits of several queries: takes the best hit of each query in turn. Each tool appears
/// once.
fn take_turns(ranked: &[Vec<Hit>], limit: usize) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    let mut queues: Vec<_> = ranked.iter().map(|hits| hits.iter()).collect();
    let mut seen = HashSet::new();
    while hits.len() < limit {
        let before = hits.len();
        for queue in &mut queues {
            if hits.len() < limit
                && let Some(hit) = queue.find(|hit| !seen.contains(&hit.tool))
            {
                seen.insert(hit.tool);
                hits.push(*hit);
            }
        }
        if hits.len() == before {
            break;
        }
    }
    hits
}

/// Splits a query into its needs, for tests and benchmarks. Empty if it has only one.
#[must_use]
pub fn needs(query: &str) -> Vec<String> {
    query::needs(query, &mut Splitter::default())
}
