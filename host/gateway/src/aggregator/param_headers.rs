//! Tool parameters that stateless requests repeat in `Mcp-Param-*` headers. A tool declares them
//! with `x-mcp-header` in its input schema (MCP 2026-07-28, Streamable HTTP).

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use context_guard_protocol::header::{decode_value, encode_value};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::fair_cache::{FairCache, Weighted};
use crate::headers::PARAM_PREFIX;
use crate::message::{Head, member};

/// The maximum number of headers of the tools of an upstream. Those of further tools are ignored.
const MAX_UPSTREAM_HEADERS: usize = 20_000;
/// The maximum number of headers of all owners and upstreams. Beyond it, those of the upstream with
/// the most headers are removed.
const MAX_HEADERS: usize = 400_000;
/// The maximum total length of the names that lead to a parameter, in bytes. Each parameter stores
/// all of them.
const MAX_PATH_BYTES: usize = 1_024;
/// The maximum nesting depth of declared parameters.
const MAX_DEPTH: usize = 16;

/// A parameter of a tool that requests repeat in a header.
#[derive(Clone, Debug, PartialEq)]
struct ParamHeader {
    name: HeaderName,
    /// The names of the members that lead to the parameter in the arguments.
    path: Vec<String>,
}

/// The owner of stored answers, and the index of an upstream.
type Key = (Arc<str>, usize);

/// The declared headers of the tools of an upstream.
#[derive(Default)]
pub(super) struct DeclaredHeaders {
    /// The headers by the tool's own name.
    tools: HashMap<String, Vec<ParamHeader>>,
    /// The number of headers of all tools.
    count: usize,
}

impl DeclaredHeaders {
    /// Adds the headers that a tool (raw JSON) declares. Does nothing if there are too many.
    pub(super) fn add(&mut self, name: &str, tool: &str) {
        if memchr::memmem::find(tool.as_bytes(), b"\"x-mcp-header\"").is_none() {
            return;
        }
        let headers = parse(tool);
        if headers.is_empty() || self.count + headers.len() > MAX_UPSTREAM_HEADERS {
            return;
        }
        self.count += headers.len();
        let replaced = self.tools.insert(name.to_owned(), headers);
        self.count -= replaced.map_or(0, |replaced| replaced.len());
    }
}

/// The parameter headers that the tools of upstreams declare, by owner and upstream.
pub(super) struct ParamHeaders(Mutex<HeaderTable>);

struct HeaderTable {
    upstreams: FairCache<Key, StoredHeaders>,
    /// The number of headers that a pair counts in addition to its own, which limits the number of
    /// pairs.
    overhead: usize,
}

/// The declared headers of an upstream, with their cost.
struct StoredHeaders {
    declared: DeclaredHeaders,
    cost: usize,
}

impl Weighted for StoredHeaders {
    fn cost(&self) -> usize {
        self.cost
    }
}

impl ParamHeaders {
    /// Creates an empty table for at most `max` pairs of owner and upstream.
    pub(super) fn new(max: NonZeroUsize) -> Self {
        let upstreams = FairCache::new(MAX_HEADERS, MAX_HEADERS);
        // The pairs take at most half of the places.
        let overhead = MAX_HEADERS / 2 / max;
        Self(Mutex::new(HeaderTable { upstreams, overhead }))
    }

    fn table(&self) -> MutexGuard<'_, HeaderTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the headers of an upstream by those that its current tools declare.
    pub(super) fn learn(&self, scope: &Arc<str>, server: usize, declared: DeclaredHeaders) {
        let mut table = self.table();
        let key = (Arc::clone(scope), server);
        if declared.count == 0 {
            table.upstreams.pop(&key);
        } else {
            let cost = declared.count + table.overhead;
            table.upstreams.put(key, StoredHeaders { declared, cost });
        }
    }

    /// Returns the declared headers of the tool that a request calls, with the values of their
    /// parameters in the request's arguments.
    fn values(&self, scope: &Arc<str>, server: usize, request: &[u8]) -> Vec<(HeaderName, Value)> {
        let Some(head) = Head::read(request).filter(|head| head.method() == "tools/call") else {
            return Vec::new();
        };
        let name = head.parameters().name.unwrap_or_default();
        let key = (Arc::clone(scope), server);
        let mut table = self.table();
        let known = table.upstreams.get(&key);
        let headers = known.and_then(|known| known.declared.tools.get(&*name).cloned());
        drop(table);
        let Some(headers) = headers else { return Vec::new() };
        let arguments = head.params.and_then(|params| member(params.get(), "arguments"));
        let arguments: Value = arguments
            .and_then(|arguments| serde_json::from_str(arguments.get()).ok())
            .unwrap_or_default();
        let values = headers.into_iter().filter_map(|header| {
            let value = header.path.iter().try_fold(&arguments, |at, step| at.get(step))?;
            (!value.is_null()).then(|| (header.name, value.clone()))
        });
        values.collect()
    }

    /// Returns the parameter headers for a request to an upstream, computed from the request's
    /// arguments.
    pub(super) fn build(&self, scope: &Arc<str>, server: usize, request: &[u8]) -> HeaderMap {
        let values = self.values(scope, server, request).into_iter();
        let headers = values.filter_map(|(name, value)| {
            let value = HeaderValue::from_str(&encode_value(&text(&value)?)).ok()?;
            Some((name, value))
        });
        headers.collect()
    }

    /// Returns a description of the first difference between a client's headers and the arguments
    /// of its request, or `None` if they agree. Headers of missing or null arguments are not
    /// compared.
    pub(super) fn mismatch(
        &self,
        scope: &Arc<str>,
        server: usize,
        request: &[u8],
        headers: &HeaderMap,
    ) -> Option<String> {
        for (name, value) in self.values(scope, server, request) {
            let Some(expected) = text(&value) else { continue };
            let Some(header) = headers.get(&name) else {
                return Some(format!("the header {name} is missing; the body says `{expected}`"));
            };
            let header = header.to_str().unwrap_or_default().trim();
            let decoded = decode_value(header);
            let is_equal = decoded.as_ref().is_some_and(|decoded| {
                // `42` and `42.0` are the same number.
                let number = || decoded.parse::<f64>().ok().filter(|_| value.is_number());
                *decoded == expected
                    || number().is_some_and(|number| value.as_f64() == Some(number))
            });
            if !is_equal {
                let reason = format!("the header {name} says `{header}`, the body `{expected}`");
                return Some(reason);
            }
        }
        None
    }
}

/// Returns the text of a value in a header. `None` if the value is an object, a list or null.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns the headers that a tool (raw JSON) declares.
fn parse(tool: &str) -> Vec<ParamHeader> {
    let mut headers = Vec::new();
    let schema = member(tool, "inputSchema")
        .and_then(|schema| serde_json::from_str::<Value>(schema.get()).ok());
    if let Some(schema) = schema {
        collect(&schema, &mut Vec::new(), &mut headers);
    }
    headers
}

/// Adds the headers that the properties of a schema declare to `headers`. `path` has the names of
/// the members that lead to the schema. Only nested properties may declare headers.
fn collect(schema: &Value, path: &mut Vec<String>, headers: &mut Vec<ParamHeader>) {
    let path_bytes: usize = path.iter().map(String::len).sum();
    if path.len() >= MAX_DEPTH {
        return;
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        if path_bytes + name.len() > MAX_PATH_BYTES {
            continue;
        }
        path.push(name.clone());
        let declared = property.get("x-mcp-header").and_then(Value::as_str);
        let header = declared.filter(|declared| !declared.is_empty()).and_then(|declared| {
            HeaderName::try_from(format!("{PARAM_PREFIX}{declared}").to_ascii_lowercase()).ok()
        });
        if let Some(name) = header {
            headers.push(ParamHeader { name, path: path.clone() });
        }
        collect(property, path, headers);
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: &str = r#"{"name":"t","inputSchema":{"type":"object","properties":{
        "region":{"type":"string","x-mcp-header":"Region"},
        "plain":{"type":"string"},
        "options":{"type":"object","properties":{"size":{"type":"integer","x-mcp-header":"Size"}}},
        "broken":{"type":"string","x-mcp-header":"not a token"}}}}"#;

    fn call(arguments: &str) -> Vec<u8> {
        format!(
            r#"{{"id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
        )
        .into_bytes()
    }

    fn declared(name: &str, tool: &str) -> DeclaredHeaders {
        let mut declared = DeclaredHeaders::default();
        declared.add(name, tool);
        declared
    }

    fn learned() -> (ParamHeaders, Arc<str>) {
        let headers = ParamHeaders::new(NonZeroUsize::MIN);
        let scope: Arc<str> = "p".into();
        headers.learn(&scope, 0, declared("t", TOOL));
        (headers, scope)
    }

    #[test]
    fn headers_are_built_from_arguments() {
        let (headers, scope) = learned();
        let built = |arguments: &str| {
            let built = headers.build(&scope, 0, &call(arguments));
            let get = |name: &str| built.get(name).map(|value| value.to_str().unwrap().to_owned());
            (built.len(), get("mcp-param-region"), get("mcp-param-size"))
        };
        assert_eq!(
            built(r#"{"region":"größe","plain":"x","options":{"size":42}}"#),
            (2, Some("=?base64?Z3LDtsOfZQ==?=".into()), Some("42".into()))
        );
        assert_eq!(built(r#"{"region":null}"#), (0, None, None));
        assert!(headers.build(&scope, 1, &call(r#"{"region":"x"}"#)).is_empty());
        headers.learn(&scope, 0, declared("t", r#"{"name":"t"}"#));
        assert_eq!(built(r#"{"region":"x"}"#), (0, None, None));
    }

    #[test]
    fn headers_of_vanished_tools_are_removed() {
        let (headers, scope) = learned();
        headers.learn(&scope, 0, declared("other", TOOL));
        assert!(headers.build(&scope, 0, &call(r#"{"region":"x"}"#)).is_empty());
        let table = headers.table();
        assert_eq!(table.upstreams.iter().map(|(_, own)| own.declared.count).sum::<usize>(), 2);
    }

    #[test]
    fn number_of_headers_is_limited() {
        let mut many =
            DeclaredHeaders { count: MAX_UPSTREAM_HEADERS - 3, ..DeclaredHeaders::default() };
        ["a", "b"].iter().for_each(|name| many.add(name, TOOL));
        assert_eq!((many.count, many.tools.len()), (MAX_UPSTREAM_HEADERS - 1, 1));
        let headers = ParamHeaders::new(NonZeroUsize::new(4).unwrap());
        headers.learn(&"ann".into(), 0, declared("t", TOOL));
        for owner in 0..30 {
            let many = DeclaredHeaders { count: MAX_UPSTREAM_HEADERS, ..declared("t", TOOL) };
            headers.learn(&owner.to_string().into(), 1, many);
        }
        let table = headers.table();
        assert!(table.upstreams.contains(&("ann".into(), 0)), "another upstream evicts it");
        assert!(table.upstreams.iter().count() <= 8);
    }

    #[test]
    fn long_paths_are_ignored() {
        let long = "x".repeat(MAX_PATH_BYTES);
        let tool = TOOL.replace("options", &long);
        assert_eq!(declared("t", &tool).count, 1);
        assert_eq!(declared("t", TOOL).count, 2);
    }

    #[test]
    fn headers_must_match_arguments() {
        let (headers, scope) = learned();
        let mismatch = |arguments: &str, sent: &[(&'static str, &str)]| {
            let sent = sent.iter().map(|(name, value)| {
                (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
            });
            headers.mismatch(&scope, 0, &call(arguments), &sent.collect())
        };
        let region = "mcp-param-region";
        assert_eq!(mismatch(r#"{"region":"eu"}"#, &[(region, "eu")]), None);
        assert_eq!(mismatch(r#"{"region":"größe"}"#, &[(region, "=?base64?Z3LDtsOfZQ==?=")]), None);
        assert_eq!(mismatch(r#"{"options":{"size":42}}"#, &[("mcp-param-size", "42.0")]), None);
        assert_eq!(mismatch("{}", &[(region, "ignored")]), None);
        for wrong in ["us", "=?base64?!!?=", ""] {
            assert!(mismatch(r#"{"region":"eu"}"#, &[(region, wrong)]).is_some(), "{wrong}");
        }
        assert!(mismatch(r#"{"region":"eu"}"#, &[]).unwrap().contains("mcp-param-region"));
    }
}
