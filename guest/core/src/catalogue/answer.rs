//! Answers calls of the catalogue's own tools.

mod browse;
mod forward;
mod own_arguments;

use context_guard_catalogue::Index;
use context_guard_catalogue::rank::{Filter, Found, SearchRequest};
use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::forward::direct_call;

use super::definitions::{MetaTool, meta_tool, meta_tool_name};
use super::describe::described_within;
use super::resolve::{resolve, shown};
use super::stored::CatalogueReader;
use super::{CatalogueAnswer, CatalogueError, CatalogueRequest, CatalogueStep, INVALID_PARAMS};
use crate::json::text::quoted;
use crate::policy::{CallTools, ToolDetail};
use crate::snapshot::stored::Loaded;

/// The default number of hits of all queries together.
const DEFAULT_LIMIT: usize = 10;
/// The maximum number of hits of all queries together.
const MAX_LIMIT: usize = 50;
/// The maximum number of queries in one search.
const MAX_QUERIES: usize = 8;
/// The maximum number of tools that one call may ask to describe.
const MAX_DESCRIBED: usize = 10;
/// The maximum tokens of the definitions in one answer. A single larger definition is allowed.
const MAX_DESCRIBED_TOKENS: u64 = 4_000;

/// The `params` of a `tools/call` request.
#[derive(Deserialize)]
struct CallParameters<'m> {
    name: String,
    #[serde(borrow, default)]
    arguments: Option<&'m RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'m RawValue>,
}

/// An argument that is one text or a list of texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    fn into_vec(self) -> Vec<String> {
        match self {
            Texts::One(text) => vec![text],
            Texts::Many(texts) => texts,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SearchArguments {
    queries: Texts,
    server: Option<String>,
    category: Option<String>,
    read_only: Option<bool>,
    max_latency_ms: Option<f64>,
    min_success_rate: Option<f64>,
    limit: Option<usize>,
    detail: Option<ToolDetail>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DescribeArguments {
    names: Texts,
}

/// A value, or the step that the host must perform instead: load entries, compile, or send an
/// error.
type CatalogueResult<T> = Result<T, CatalogueStep>;

/// Answers a `tools/call` request with these `params`.
pub(super) fn call(
    request: &CatalogueRequest<'_>,
    parameters: &[u8],
    loaded: &Loaded,
) -> CatalogueStep {
    let Ok(parameters) = serde_json::from_slice::<CallParameters<'_>>(parameters) else {
        let message = request.envelope.error(INVALID_PARAMS, "the call has no name of a tool");
        return CatalogueStep::Answer(CatalogueAnswer {
            message,
            is_error: true,
            needs_shaping: false,
        });
    };
    let reader = CatalogueReader::new(request, loaded);
    let answer = || -> CatalogueResult<CatalogueStep> {
        let bytes = reader.index_bytes()?;
        let index = Index::open(bytes).ok_or(CatalogueStep::Compile)?;
        let catalogue = Catalogue { request, reader: &reader, index };
        match catalogue.own_tool(&parameters.name) {
            Some(MetaTool::Search) => catalogue.search(&parameters),
            Some(MetaTool::Describe) => catalogue.describe(&parameters),
            Some(MetaTool::Browse) => catalogue.browse(&parameters),
            Some(MetaTool::CallRead) => catalogue.call(&parameters, true),
            Some(MetaTool::Call) => catalogue.call(&parameters, false),
            None => catalogue.direct(&parameters),
        }
    };
    answer().unwrap_or_else(|step| step)
}

struct Catalogue<'a> {
    request: &'a CatalogueRequest<'a>,
    reader: &'a CatalogueReader<'a>,
    index: Index<'a>,
}

impl Catalogue<'_> {
    /// Returns the catalogue's own tool with this name. `None` if there is none, or if an upstream
    /// has a tool of the same name. Without split call tools, there is no tool for read-only calls.
    fn own_tool(&self, name: &str) -> Option<MetaTool> {
        let is_taken =
            |name: &str| self.index.tools_named(name).iter().any(|tool| self.is_named(*tool, name));
        let tool = meta_tool(name)?;
        let split = self.request.settings().call_tools.unwrap_or_default() == CallTools::Split;
        (meta_tool_name(tool, is_taken) == name && (tool != MetaTool::CallRead || split))
            .then_some(tool)
    }

    fn is_named(&self, tool: u32, name: &str) -> bool {
        self.index.tool(tool).is_some_and(|tool| tool.wire_name == name)
    }

    fn error(&self, error: &CatalogueError) -> CatalogueStep {
        self.request.fail(error)
    }

    fn bad_request(&self, text: impl Into<String>) -> CatalogueStep {
        self.error(&CatalogueError::new(text))
    }

    fn search(&self, parameters: &CallParameters<'_>) -> CatalogueResult<CatalogueStep> {
        let arguments: SearchArguments = self.own_arguments(MetaTool::Search, parameters)?;
        let queries = arguments.queries.into_vec();
        if queries.is_empty() || queries.len() > MAX_QUERIES {
            return Err(self.bad_request(format!("queries must have 1 to {MAX_QUERIES} texts")));
        }
        let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(self.bad_request(format!("limit must be from 1 to {MAX_LIMIT}")));
        }
        if arguments.min_success_rate.is_some_and(|rate| !(1.0..=100.0).contains(&rate)) {
            let text = "min_success_rate is a percentage from 1 to 100";
            return Err(self.bad_request(text));
        }
        if arguments.max_latency_ms.is_some_and(|latency| latency < 0.0) {
            return Err(self.bad_request("max_latency_ms is a number from 0 on"));
        }
        self.check_group(arguments.server.as_deref(), arguments.category.as_deref())?;
        let filter = Filter {
            server: arguments.server.as_deref(),
            category: arguments.category.as_deref(),
            read_only: arguments.read_only,
            max_latency_ms: arguments.max_latency_ms,
            min_success_rate: arguments.min_success_rate,
        };
        let search = SearchRequest {
            queries: queries.iter().map(String::as_str).collect(),
            filter,
            limit,
            min_score: 0.0,
        };
        let found = self.index.search(&search);
        let detail =
            arguments.detail.unwrap_or_else(|| self.request.settings().detail.unwrap_or_default());
        let tools: Vec<u32> = found.hits.iter().map(|hit| hit.tool).collect();
        let definitions = self.reader.definitions(&tools)?;
        let fits = self.fits_beside(60 * queries.len() as u64 + 1);
        let described = |(tool, definition): (&u32, &String)| {
            described_within(&self.index, *tool, definition, detail, &fits)
        };
        let texts: Vec<String> = tools.iter().zip(&definitions).map(described).collect();
        Ok(self.request.text(&[self.search_text(&queries, &found, &texts)]))
    }

    /// Returns a function that returns true for a text that fits the budget of an answer beside
    /// others with this number of tokens.
    fn fits_beside(&self, others: u64) -> impl Fn(&str) -> bool + use<> {
        let settings = self.request.policy.settings_for("", "context_guard_search_tools");
        let allowance = settings.estimator.allowance(settings.threshold).saturating_sub(others);
        move |text: &str| settings.estimator.cost(text.as_bytes()) <= allowance
    }

    /// Returns the answer to a search: the hits of each query, as many as the budget allows.
    fn search_text(&self, queries: &[String], found: &Found, texts: &[String]) -> String {
        let settings = self.request.policy.settings_for("", "context_guard_search_tools");
        let allowance = settings.estimator.allowance(settings.threshold);
        let mut shown_hits = 0;
        let mut tokens = 60 * queries.len() as u64;
        for text in texts {
            tokens += settings.estimator.cost(text.as_bytes()) + 1;
            if tokens > allowance && shown_hits > 0 {
                break;
            }
            shown_hits += 1;
        }
        let mut lines = Vec::new();
        for (number, query) in queries.iter().enumerate() {
            lines.push(format!("query {}: {}", number + 1, shown(query.trim())));
            let before = lines.len();
            let hits = found.hits.iter().zip(texts).take(shown_hits);
            lines.extend(hits.filter(|(hit, _)| hit.query == number).map(|(_, text)| text.clone()));
            let Some(result) = found.queries.get(number) else { continue };
            // A query without any tool must not look as if none matched.
            if lines.len() == before && result.total > 0 {
                lines.push(format!(
                    "{} matches, under other queries or beyond the limit",
                    result.total
                ));
            }
            if result.total == 0 {
                lines.push("no match".to_owned());
            } else if result.is_weak {
                let servers = result.nearest_servers.join(", ");
                // The only upstream of a host may have no name.
                let servers = if servers.is_empty() {
                    servers
                } else {
                    format!("; nearest servers: {servers}")
                };
                lines.push(format!("weak match{servers}"));
            }
        }
        let is_unnamed = self.index.tools().all(|tool| tool.server.is_empty());
        let narrow = match (found.total > shown_hits, is_unnamed) {
            (true, false) => "; narrow with server= or category=",
            (true, true) => "; narrow with more words",
            (false, _) => "",
        };
        lines.push(format!("shown {shown_hits} of {}{narrow}", found.total));
        lines.join("\n")
    }

    /// Returns an error for the model if no tool belongs to the server, or to the category.
    fn check_group(&self, server: Option<&str>, category: Option<&str>) -> CatalogueResult<()> {
        let names = |group: fn(&context_guard_catalogue::index::IndexedTool<'_>) -> String| {
            let mut names: Vec<String> = self.index.tools().map(|tool| group(&tool)).collect();
            names.sort();
            names.dedup();
            names
        };
        if let Some(server) = server {
            let servers = names(|tool| tool.server.to_owned());
            if !servers.iter().any(|name| name == server) {
                let list = listed("servers", &servers, server);
                return Err(self.bad_request(format!("no server \"{}\"; {list}", shown(server))));
            }
        }
        if let Some(category) = category {
            let categories = names(|tool| tool.category.to_owned());
            if !categories.iter().any(|name| name == category) {
                let list = listed("categories", &categories, category);
                let text = format!("no category \"{}\"; {list}", shown(category));
                return Err(self.error(&CatalogueError::new(text)));
            }
        }
        Ok(())
    }

    fn describe(&self, parameters: &CallParameters<'_>) -> CatalogueResult<CatalogueStep> {
        let arguments: DescribeArguments = self.own_arguments(MetaTool::Describe, parameters)?;
        let mut names = arguments.names.into_vec();
        if names.is_empty() || names.len() > MAX_DESCRIBED {
            return Err(self.bad_request(format!("names must have 1 to {MAX_DESCRIBED} texts")));
        }
        let (mut tools, mut errors) = (Vec::new(), Vec::new());
        names.retain(|name| match resolve(&self.index, name) {
            Ok(tool) => {
                tools.push(tool);
                true
            }
            Err(error) => {
                errors.push(error.text);
                false
            }
        });
        if tools.is_empty() {
            return Err(self.bad_request(errors.join("\n")));
        }
        let definitions = self.reader.definitions(&tools)?;
        let estimator = self.request.policy.settings_for("", "tools/list").estimator;
        let mut texts: Vec<String> = Vec::new();
        let mut tokens = 0;
        for definition in &definitions {
            tokens += estimator.cost(definition.as_bytes());
            if tokens > MAX_DESCRIBED_TOKENS && !texts.is_empty() {
                break;
            }
            texts.push(definition.clone());
        }
        let is_large = texts.len() == 1 && tokens > MAX_DESCRIBED_TOKENS;
        if texts.len() < names.len() {
            let rest: Vec<String> = names
                .iter()
                .skip(texts.len())
                .map(|name| String::from_utf8_lossy(&quoted(name)).into_owned())
                .collect();
            texts.push(format!(
                "shown {} of {}; call again with names=[{}]",
                texts.len(),
                names.len(),
                rest.join(",")
            ));
        }
        texts.extend(errors);
        Ok(match self.request.text(&texts) {
            CatalogueStep::Answer(answer) => {
                CatalogueStep::Answer(CatalogueAnswer { needs_shaping: is_large, ..answer })
            }
            step => step,
        })
    }
}

/// Returns all names of this kind. If there are many, returns those that are most similar to a
/// wrong name, or the first ones.
fn listed(kind: &str, names: &[String], wrong: &str) -> String {
    const MAX_LISTED: usize = 10;
    let all = names.iter().map(String::as_str);
    let similar = context_guard_catalogue::similar::nearest(wrong, all.clone(), 3);
    let (label, some): (&str, Vec<&str>) = if names.len() > MAX_LISTED && !similar.is_empty() {
        ("similar", similar)
    } else {
        (kind, all.take(MAX_LISTED).collect())
    };
    let more = if some.len() < names.len() { ", …" } else { "" };
    format!("{label}: {}{more}", some.join(", "))
}
