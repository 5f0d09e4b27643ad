//! An MCP server that searches documents with BM25, over stdio: `semantic_search` and
//! `find_vendor_info`. It answers with whole documents, as such servers do. The guard adds
//! `response_mode`, `filter_ids` and `min_score` to its tools.
//!
//! `cargo run --example search_server [-- FOLDER]` searches the Markdown and text files of a
//! folder. The default is the documentation of the crates that cargo has downloaded: real documents
//! by many vendors, on any machine that built this project.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "standard output is the protocol")]

mod documents;

use std::io::{BufRead, Write};
use std::path::PathBuf;

use bm25::{Document as Text, Language, SearchEngine, SearchEngineBuilder};
use documents::Document;
use serde_json::{Value, json};

/// The maximum number of results.
const MAX_RESULTS: u64 = 100;

struct Server {
    documents: Vec<Document>,
    engine: SearchEngine<u32>,
}

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).or_else(documents::of_cargo);
    let documents = folder.as_deref().map(documents::read).unwrap_or_default();
    if documents.is_empty() {
        eprintln!(
            "search_server: no documents were found. Name a folder with .md or .txt files: search_server FOLDER"
        );
        std::process::exit(2);
    }
    let texts = (0u32..).zip(&documents).map(|(id, document)| Text::new(id, document.searched()));
    let engine =
        SearchEngineBuilder::with_documents(Language::English, texts.collect::<Vec<_>>()).build();
    let server = Server { documents, engine };
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        if let Ok(request) = serde_json::from_str::<Value>(&line)
            && let Some(answer) = server.answer(&request)
        {
            writeln!(output, "{answer}")?;
            output.flush()?;
        }
        line.clear();
    }
    Ok(())
}

impl Server {
    /// Returns the answer to a request. None for a notification.
    fn answer(&self, request: &Value) -> Option<Value> {
        let id = request.get("id")?;
        let params = request.get("params").unwrap_or(&Value::Null);
        let result = match request.get("method")?.as_str()? {
            "initialize" => json!({
                "protocolVersion": params.get("protocolVersion").unwrap_or(&json!("2025-11-25")),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "search-server", "version": "1.0.0"},
            }),
            "ping" => json!({}),
            "tools/list" => json!({ "tools": tools() }),
            "tools/call" => self.call(params),
            method => {
                let error =
                    json!({"code": -32601, "message": format!("method not found: {method}")});
                return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn call(&self, params: &Value) -> Value {
        let arguments = params.get("arguments").unwrap_or(&Value::Null);
        let outcome = match params.get("name").and_then(Value::as_str).unwrap_or_default() {
            "semantic_search" => self.search(arguments),
            "find_vendor_info" => self.vendor(arguments),
            other => Err(format!("unknown tool: {other}")),
        };
        match outcome {
            Ok(found) => json!({"content": [{"type": "text", "text": found.to_string()}]}),
            Err(reason) => json!({"content": [{"type": "text", "text": reason}], "isError": true}),
        }
    }

    fn search(&self, arguments: &Value) -> Result<Value, String> {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default();
        if !(2..=1_000).contains(&query.chars().count()) {
            return Err("query must have 2 to 1000 characters".to_owned());
        }
        let top = arguments.get("top_k").and_then(Value::as_u64).unwrap_or(10);
        if !(1..=MAX_RESULTS).contains(&top) {
            return Err(format!("top_k must be from 1 to {MAX_RESULTS}"));
        }
        let vendor = arguments.get("vendor_filter").and_then(Value::as_str);
        let least = arguments.get("min_score").and_then(Value::as_f64).unwrap_or(0.0);
        let related =
            arguments.get("include_relationships").and_then(Value::as_bool).unwrap_or(false);
        let mut found = self.engine.search(query, None);
        // Documents of equal score have a fixed order, so that a query always has the same answer.
        found.sort_by(|left, right| {
            right.score.total_cmp(&left.score).then(left.document.id.cmp(&right.document.id))
        });
        let best = found.first().map_or(1.0, |best| f64::from(best.score)).max(f64::MIN_POSITIVE);
        let results: Vec<Value> = found
            .iter()
            .filter_map(|found| {
                let document = self.documents.get(usize::try_from(found.document.id).ok()?)?;
                // Scores are percentages of the best one.
                let score = (f64::from(found.score) / best * 100.0).round() / 100.0;
                let wanted =
                    vendor.is_none_or(|vendor| document.vendor == vendor) && score >= least;
                wanted.then(|| document.json(Some(score), related))
            })
            .take(usize::try_from(top).unwrap_or(usize::MAX))
            .collect();
        Ok(json!({"query": query, "total": results.len(), "results": results}))
    }

    fn vendor(&self, arguments: &Value) -> Result<Value, String> {
        let vendor = arguments.get("vendor").and_then(Value::as_str).unwrap_or_default();
        let documents: Vec<Value> = self
            .documents
            .iter()
            .filter(|document| document.vendor == vendor)
            .map(|document| document.json(None, true))
            .collect();
        if documents.is_empty() {
            return Err(format!(
                "no vendor {vendor:?}: semantic_search returns the vendor of each document"
            ));
        }
        Ok(json!({"vendor": vendor, "total": documents.len(), "documents": documents}))
    }
}

fn tools() -> Value {
    json!([
        {
            "name": "semantic_search", "description": "Documents on a subject, the best first, whole.", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "required": ["query"], "properties": {
                "query": {"type": "string", "minLength": 2, "maxLength": 1000},
                "vendor_filter": {"type": "string"},
                "top_k": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "default": 10},
                "min_score": {"type": "number", "minimum": 0, "maximum": 1},
                "include_relationships": {"type": "boolean", "default": false},
            }},
        },
        {
            "name": "find_vendor_info", "description": "All documents of one vendor, whole.", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "required": ["vendor"], "properties": {"vendor": {"type": "string"}}},
        },
    ])
}
