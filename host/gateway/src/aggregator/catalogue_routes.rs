//! The tool catalogue over HTTP. The guard makes the bodies.

use axum::response::Response;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH};
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::Aggregator;
use super::client::{Client, MAX_WAITING_BYTES, Origin};
use crate::admission::Admission;
use crate::byte_channel::byte_channel;
use crate::exchange::NextStep;
use crate::message::{Head, member};
use crate::protocol_mode::ClientInfo;
use crate::reply;
use crate::rest::problem;
use crate::tasks::{GuardInput, run_blocking};
use crate::telemetry::Outcome;

/// The base path of the routes.
const PREFIX: &str = "/api/v1/tools";
/// The method of requests to the guard for the body of a route.
const ROUTE_METHOD: &str = "context-guard/catalogue";

/// Returns the part of a path after the base path of the catalogue's routes.
pub(crate) fn route_path(path: &str) -> Option<&str> {
    path.strip_prefix(PREFIX)?.strip_prefix('/')
}

impl Aggregator {
    /// Serves a route of the catalogue. `path` is the path after the base path.
    pub(crate) async fn serve_route(
        &self,
        admission: &Admission,
        parts: &Parts,
        path: &str,
    ) -> Response {
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            let detail = "the catalogue is read with GET";
            return problem(StatusCode::METHOD_NOT_ALLOWED, "bad_request", detail);
        }
        let client = Client::stateless(admission, ClientInfo::gateway(), &parts.headers);
        self.serve_route_to(client, parts, path).await
    }

    /// Serves a route of the catalogue to the operator, who sees the tools of the servers that
    /// need no client's token.
    pub(crate) async fn serve_admin_route(&self, parts: &Parts, path: &str) -> Response {
        self.serve_route_to(Client::gateway(), parts, path).await
    }

    async fn serve_route_to(&self, client: Client, parts: &Parts, path: &str) -> Response {
        let (out, _ignored) = byte_channel(MAX_WAITING_BYTES);
        let origin = Origin::new(&client, &out);
        let merged = self.lists.known_tools(&origin).await;
        if merged.lists.is_empty() {
            let detail = "tools are not listed yet: retry in 2 s";
            return problem(StatusCode::SERVICE_UNAVAILABLE, "catalogue_not_ready", detail);
        }
        let query = parts.uri.query().unwrap_or_default();
        let request = route_request(path, query);
        let mut exchange = self.catalogue_exchange(&origin, &request, &merged);
        let etag = self.route_etag(&exchange, path, query);
        let matches = |value: &HeaderValue| {
            let value = value.to_str().unwrap_or_default();
            value.split(',').any(|tag| matches!(tag.trim(), "*") || tag.trim() == etag)
        };
        if parts.headers.get_all(IF_NONE_MATCH).iter().any(matches) {
            return with_cache_headers(reply::empty(StatusCode::NOT_MODIFIED), &etag);
        }
        let next =
            run_blocking(&self.filter, &client.caller, GuardInput::Request(&request), || {
                exchange.on_request_uncached(&self.filter, &request)
            });
        let answer = match next.await {
            NextStep::Answer(answer, decision) => {
                exchange.record(&self.recorder, Some(&decision), answer.len(), Outcome::Passed);
                Some(answer)
            }
            NextStep::Forward(None) => self.compile(&origin, &exchange, "1", &merged).await,
            NextStep::Forward(Some(_)) => None,
        };
        match answer.as_deref().and_then(route_response) {
            Some((StatusCode::OK, body)) => {
                with_cache_headers(reply::json(StatusCode::OK, body), &etag)
            }
            Some((status, body)) => {
                let mut response = reply::json(status, body);
                let kind = HeaderValue::from_static("application/problem+json");
                response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
                response
            }
            None => {
                let detail = "the guard cannot read the catalogue now: retry in 2 s";
                problem(StatusCode::SERVICE_UNAVAILABLE, "catalogue_not_ready", detail)
            }
        }
    }

    /// Returns a hash of the catalogue's version, the guard's revision and the request.
    fn route_etag(&self, exchange: &crate::exchange::Exchange, path: &str, query: &str) -> String {
        let revision = self.filter.revisions().choose(&exchange.context).number;
        let version = exchange.context.catalog_version.as_deref().unwrap_or_default();
        let hash = Sha256::digest(format!("{version}\n{revision}\n{path}\n{query}"));
        let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("\"{hex}\"")
    }
}

fn with_cache_headers(mut response: Response, etag: &str) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(ETAG, etag);
    }
    response
}

/// Returns the request to the guard for a route.
fn route_request(path: &str, query: &str) -> Vec<u8> {
    let segments: Vec<String> = path.split('/').map(|segment| decoded(segment, false)).collect();
    let query: Vec<(String, String)> = query
        .split('&')
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            (decoded(name, true), decoded(value, true))
        })
        .collect();
    let params = json!({"prefix": PREFIX, "segments": segments, "query": query});
    json!({"jsonrpc": "2.0", "id": 1, "method": ROUTE_METHOD, "params": params})
        .to_string()
        .into_bytes()
}

/// Returns a part of a URL without percent-encoding. `is_query` is true if `+` means a space.
fn decoded(text: &str, is_query: bool) -> String {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let mut ahead = bytes.clone();
        match byte {
            b'+' if is_query => out.push(b' '),
            b'%' => match (digit(ahead.next()), digit(ahead.next())) {
                (Some(high), Some(low)) => {
                    out.push(u8::try_from(high * 16 + low).unwrap_or_default());
                    bytes = ahead;
                }
                _ => out.push(byte),
            },
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns status and body of the guard's answer.
fn route_response(answer: &[u8]) -> Option<(StatusCode, Vec<u8>)> {
    let result = Head::read(answer)?.result?;
    let status: u16 = member(result, "status")?.get().parse().ok()?;
    let body = member(result, "body")?.get().as_bytes().to_vec();
    Some((StatusCode::from_u16(status).ok()?, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_routes_are_recognized() {
        assert_eq!(route_path("/api/v1/tools/hot"), Some("hot"));
        assert_eq!(route_path("/api/v1/toolshed/hot"), None);
        assert_eq!(route_path("/mcp"), None);
    }

    #[test]
    fn requests_are_decoded() {
        let request = route_request("category/a%20b", "q=x+y&q=100%&page=2");
        let request: serde_json::Value = serde_json::from_slice(&request).unwrap();
        assert_eq!(request["params"]["segments"], json!(["category", "a b"]));
        let query = json!([["q", "x y"], ["q", "100%"], ["page", "2"]]);
        assert_eq!(request["params"]["query"], query);
    }
}
