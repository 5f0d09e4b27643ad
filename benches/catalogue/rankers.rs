//! The rankers that are compared: this project's, the crate `bm25`, and FastMCP's search.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use bm25::{Document, Language, SearchEngine, SearchEngineBuilder};
use context_guard_catalogue::index::{self, Index, Settings};
use context_guard_catalogue::rank::{self, SearchRequest};
use context_guard_catalogue::tool::Tool;
use serde_json::{Value, json};

use super::data::{Data, ToolRecord};

/// The number of tools that a ranker returns.
const SHOWN: usize = 10;

/// A ranker over one catalogue.
pub(crate) trait Ranker {
    /// Returns the positions of the best tools for a query, best first.
    fn rank(&self, query: &str) -> Vec<usize>;
}

/// This project's ranker. `splits` passes each need of a query as a query of its own.
pub(crate) struct Guard {
    pub(crate) index: Vec<u8>,
    pub(crate) splits: bool,
}

pub(crate) fn compile(tools: &[ToolRecord], settings: &Settings) -> Vec<u8> {
    let parsed: Vec<Tool<'_>> = tools
        .iter()
        .filter_map(|tool| Tool::parse(&tool.server, &tool.id, &tool.definition))
        .collect();
    assert_eq!(parsed.len(), tools.len(), "a definition is not an object with a name");
    index::compile(&parsed, settings)
}

impl Ranker for Guard {
    fn rank(&self, query: &str) -> Vec<usize> {
        let Some(index) = Index::open(&self.index) else { return Vec::new() };
        let needs = if self.splits { rank::needs(query) } else { Vec::new() };
        let mut request = SearchRequest::new(query);
        if !needs.is_empty() {
            request.queries = needs.iter().map(String::as_str).collect();
        }
        index.search(&request).hits.iter().map(|hit| hit.tool as usize).collect()
    }
}

/// The crate `bm25` with English stems, over the text that FastMCP searches.
pub(crate) struct StemmedBm25(SearchEngine<u32>);

impl StemmedBm25 {
    pub(crate) fn new(tools: &[ToolRecord]) -> Self {
        let documents = (0..).zip(tools).map(|(id, tool)| Document::new(id, tool.text()));
        let documents: Vec<Document<u32>> = documents.collect();
        Self(SearchEngineBuilder::with_documents(Language::English, documents).build())
    }
}

impl Ranker for StemmedBm25 {
    fn rank(&self, query: &str) -> Vec<usize> {
        let mut found = self.0.search(query, None);
        found.sort_by(|left, right| {
            right.score.total_cmp(&left.score).then(left.document.id.cmp(&right.document.id))
        });
        found.iter().take(SHOWN).map(|found| found.document.id as usize).collect()
    }
}

/// The rankings of FastMCP's search, computed in one run of its own code.
pub(crate) struct Recorded(HashMap<String, Vec<usize>>);

impl Ranker for Recorded {
    fn rank(&self, query: &str) -> Vec<usize> {
        self.0.get(query).cloned().unwrap_or_default()
    }
}

/// Runs the search of the FastMCP that `python` has installed, for all queries of a catalogue.
pub(crate) fn fastmcp(python: &Path, data: &Data, catalogue: &str) -> Result<Recorded> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/catalogue/fastmcp_search.py");
    let tools = data.catalogues.get(catalogue).context("no such catalogue")?;
    let tools: Vec<Value> = tools.iter().map(ToolRecord::as_listed).collect();
    let sets = data.sets.iter().filter(|set| set.catalogue == catalogue);
    let queries: Vec<&str> =
        sets.flat_map(|set| &set.queries).map(|query| query.query.as_str()).collect();
    let input = json!({"tools": tools, "queries": queries, "limit": SHOWN}).to_string();
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", python.display()))?;
    child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "fastmcp_search.py failed");
    let ranked: Vec<Vec<usize>> = serde_json::from_slice(&output.stdout)?;
    Ok(Recorded(queries.into_iter().map(str::to_owned).zip(ranked).collect()))
}
