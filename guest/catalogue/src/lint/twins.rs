//! Finds tools of different servers that a model cannot distinguish.
//!
//! Two tools are near-twins if 80 % of the terms of their names, descriptions and parameters are
//! equal. Candidates are found by prefix filtering: similar sets share a term among their rarest
//! ones (R. Bayardo et al., "Scaling up all pairs similarity search", WWW 2007).

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Level, ParsedTool, plural};
use crate::document::Json;
use crate::lint::definition::description;
use crate::text::Splitter;

/// The minimum share of equal terms of near-twins, in percent.
const MIN_SIMILARITY: usize = 80;
/// The minimum number of terms of a tool. Shorter texts may be equal by chance.
const MIN_TERMS: usize = 6;

/// Returns a finding for each tool that has a near-twin among the earlier tools of other servers.
pub(super) fn find(tools: &[ParsedTool<'_>]) -> Vec<Finding> {
    if tools.iter().all(|tool| tools.first().is_some_and(|first| first.server == tool.server)) {
        return Vec::new();
    }
    let sets = term_sets(tools);
    // The earlier tools by each term of their prefixes.
    let mut earlier: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut findings = Vec::new();
    for (at, (tool, terms)) in tools.iter().zip(&sets).enumerate() {
        if terms.len() < MIN_TERMS {
            continue;
        }
        // Sets with this similarity share a term among as many of their rarest terms.
        let prefix = terms.len() - (terms.len() * MIN_SIMILARITY).div_ceil(100) + 1;
        let prefix = terms.get(..prefix).unwrap_or_default();
        let candidates: BTreeSet<usize> =
            prefix.iter().filter_map(|term| earlier.get(term)).flatten().copied().collect();
        let mut twins: Vec<(usize, &ParsedTool<'_>)> = candidates
            .into_iter()
            .filter_map(|other| Some((tools.get(other)?, sets.get(other)?)))
            .filter(|(other, _)| other.server != tool.server)
            .map(|(other, set)| (similarity(terms, set), other))
            .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
            .collect();
        // The first of equally similar tools.
        twins.sort_by_key(|(similarity, _)| std::cmp::Reverse(*similarity));
        if let Some((similarity, twin)) = twins.first() {
            let others = match twins.len() - 1 {
                0 => String::new(),
                count => format!(", and {} more", plural(count, "tool")),
            };
            findings.push(Finding {
                level: Level::Warning,
                rule: "near-twin",
                server: tool.server.to_owned(),
                tool: Some(tool.name.clone()),
                message: format!(
                    "{similarity} % of its words are those of {}::{}{others}: a model cannot tell them apart",
                    twin.server, twin.name
                ),
            });
        }
        for term in prefix {
            earlier.entry(*term).or_default().push(at);
        }
    }
    findings
}

/// Returns the terms of each tool as numbers, from rare to frequent ones.
fn term_sets(tools: &[ParsedTool<'_>]) -> Vec<Vec<u32>> {
    let mut splitter = Splitter::default();
    let texts: Vec<BTreeSet<String>> = tools
        .iter()
        .map(|tool| {
            let schema = tool.document.get("inputSchema");
            let parameters = schema.and_then(|schema| schema.get("properties"));
            let parameters = parameters.map_or(&[][..], Json::members);
            let names = parameters.iter().map(|(name, _)| name.as_str());
            let all = [tool.name.as_str(), description(&tool.document)].into_iter().chain(names);
            all.flat_map(|text| splitter.split(text)).map(|term| term.text).collect()
        })
        .collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for term in texts.iter().flatten() {
        *counts.entry(term).or_default() += 1;
    }
    let mut order: Vec<(usize, &str)> =
        counts.into_iter().map(|(term, count)| (count, term)).collect();
    order.sort_unstable();
    let ranks: BTreeMap<&str, u32> =
        order.iter().zip(0..).map(|((_, term), rank)| (*term, rank)).collect();
    texts
        .iter()
        .map(|terms| {
            let mut set: Vec<u32> =
                terms.iter().filter_map(|term| ranks.get(term.as_str()).copied()).collect();
            set.sort_unstable();
            set
        })
        .collect()
}

/// Returns the size of the intersection of two sorted sets in percent of their union.
fn similarity(left: &[u32], right: &[u32]) -> usize {
    let common = left.iter().filter(|term| right.binary_search(term).is_ok()).count();
    let union = left.len() + right.len() - common;
    (common * 100).checked_div(union).unwrap_or_default()
}
