//! The tool catalogue over HTTP. The guard creates the response bodies.

use axum::response::Response;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH,
};
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::Aggregator;
use super::client::{Client, MAX_WAITING_BYTES, Origin};
use super::lists::MergedTools;
use crate::admission::Admission;
use crate::byte_channel::byte_channel;
use crate::catalogue_tools::version_of;
use crate::exchange::{Exchange, NextStep};
use crate::message::{Head, member};
use crate::protocol_mode::ClientInfo;
use crate::reply;
use crate::rest::problem;
use crate::tasks::{GuardInput, run_blocking};
use crate::telemetry::Outcome;

/// The base path of the catalogue's routes at the admin endpoint.
const ADMIN_PREFIX: &str = "/admin/v1/catalogue";
/// The JSON-RPC method of the request to the guard for the body of a route.
const ROUTE_METHOD: &str = "context-guard/catalogue";

/// The response header with the names of the upstreams whose tools are not known yet, so that they
/// are missing from the catalogue.
const UNLISTED_HEADER: HeaderName = HeaderName::from_static("context-guard-unlisted");
/// The maximum number of names in [`UNLISTED_HEADER`]. Proxies limit the size of headers.
const MAX_UNLISTED: usize = 50;

/// Returns the part of a path after `prefix`, the base path of the catalogue's routes. `None` if
/// the path is not one of them.
pub(crate) fn route_path<'p>(prefix: &str, path: &'p str) -> Option<&'p str> {
    path.strip_prefix(prefix)?.strip_prefix('/')
}

impl Aggregator {
    /// Serves a route of the catalogue. `path` is the path after the base path `prefix`.
    pub(crate) async fn serve_route(
        &self,
        admission: &Admission,
        parts: &Parts,
        prefix: &str,
        path: &str,
    ) -> Response {
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            let detail = "the catalogue is read with GET";
            let mut refused = problem(StatusCode::METHOD_NOT_ALLOWED, "bad_request", detail);
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        let client = Client::stateless(admission, ClientInfo::gateway(), &parts.headers);
        private(self.serve_route_to(client, parts, &Route::parse(prefix, path, parts)).await)
    }

    /// Serves a route of the catalogue to an operator. It shows the tools of those upstreams that
    /// work without a client's token.
    pub(crate) async fn serve_admin_route(&self, parts: &Parts, path: &str) -> Response {
        let route = Route::parse(ADMIN_PREFIX, path, parts);
        private(self.serve_route_to(Client::gateway(), parts, &route).await)
    }

    async fn serve_route_to(&self, client: Client, parts: &Parts, route: &Route<'_>) -> Response {
        // Nobody receives questions of the upstream: they are refused at once.
        let (out, _) = byte_channel(MAX_WAITING_BYTES);
        let origin = Origin::new(&client, &out);
        let merged = self.lists.known_tools(&origin).await;
        if merged.lists.is_empty() {
            let detail = "tools are not listed yet: retry in 2 s";
            return problem(StatusCode::SERVICE_UNAVAILABLE, "catalogue_not_ready", detail);
        }
        let mut response = self.serve_route_of(&origin, parts, route, &merged).await;
        if !merged.unlisted.is_empty() {
            let names: Vec<&str> =
                merged.unlisted.iter().take(MAX_UNLISTED).map(String::as_str).collect();
            if let Ok(names) = HeaderValue::from_str(&names.join(", ")) {
                response.headers_mut().insert(UNLISTED_HEADER, names);
            }
        }
        response
    }

    async fn serve_route_of(
        &self,
        origin: &Origin<'_>,
        parts: &Parts,
        route: &Route<'_>,
        merged: &MergedTools,
    ) -> Response {
        let client = origin.client;
        let request = route.request();
        let mut exchange = self.catalogue_exchange(origin, &request, merged);
        let etag = self.route_etag(&exchange, route);
        if has_tag(parts, |tag| tag == etag) {
            return tagged(reply::empty(StatusCode::NOT_MODIFIED), &etag);
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
            NextStep::Forward(None) => {
                self.compile(origin, &exchange, "1", merged).await.ok().flatten()
            }
            NextStep::Forward(Some(_)) => None,
        };
        match answer.as_deref().and_then(route_response) {
            // Any body is the current one for `*`, but only a route that exists has one.
            Some((StatusCode::OK, _)) if has_tag(parts, |tag| tag == "*") => {
                tagged(reply::empty(StatusCode::NOT_MODIFIED), &etag)
            }
            Some((StatusCode::OK, body)) => tagged(reply::json(StatusCode::OK, body), &etag),
            Some((status, body)) => {
                let mut response = reply::json(status, body);
                let kind = HeaderValue::from_static("application/problem+json");
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            None => {
                let detail = "the guard cannot read the catalogue now: retry in 2 s";
                problem(StatusCode::SERVICE_UNAVAILABLE, "catalogue_not_ready", detail)
            }
        }
    }

    /// Returns the entity tag of a route: a hash of the catalogue's version, the guard's revision
    /// and the request.
    fn route_etag(&self, exchange: &Exchange, route: &Route<'_>) -> String {
        let Route { prefix, path, query } = route;
        let revision = self.filter.revisions().choose(&exchange.context).number;
        let version = exchange.context.catalog_version.as_deref().unwrap_or_default();
        let hash = Sha256::digest(format!("{version}\n{revision}\n{prefix}\n{path}\n{query}"));
        format!("\"{}\"", version_of(&hash))
    }
}

/// A request for a catalogue route.
struct Route<'r> {
    /// The base path of all routes.
    prefix: &'r str,
    /// The path after the base path.
    path: &'r str,
    query: &'r str,
}

impl<'r> Route<'r> {
    fn parse(prefix: &'r str, path: &'r str, parts: &'r Parts) -> Self {
        Self { prefix, path, query: parts.uri.query().unwrap_or_default() }
    }

    /// Returns the JSON-RPC request to the guard for the body of the route.
    fn request(&self) -> Vec<u8> {
        let segments = self.path.split('/').map(|segment| decoded(segment, false));
        let segments: Vec<String> = segments.collect();
        let parameters = self.query.split('&').filter(|parameter| !parameter.is_empty());
        let query: Vec<(String, String)> = parameters
            .map(|parameter| {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                (decoded(name, true), decoded(value, true))
            })
            .collect();
        let params = json!({"prefix": self.prefix, "segments": segments, "query": query});
        json!({"jsonrpc": "2.0", "id": 1, "method": ROUTE_METHOD, "params": params})
            .to_string()
            .into_bytes()
    }
}

/// Returns true if `If-None-Match` of a request has a tag that `is_match` accepts. The comparison
/// is weak (RFC 9110, 13.1.2), because a proxy that compresses bodies may have weakened a tag.
fn has_tag(parts: &Parts, is_match: impl Fn(&str) -> bool) -> bool {
    parts.headers.get_all(IF_NONE_MATCH).iter().any(|value| {
        let tags = value.to_str().unwrap_or_default().split(',').map(str::trim);
        tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag)).any(&is_match)
    })
}

/// Marks a response as one that only the client may store, and must validate before each use.
/// Errors are marked too, because caches may store a 404 unless a header forbids it.
fn private(mut response: Response) -> Response {
    let value = HeaderValue::from_static("private, no-cache");
    response.headers_mut().insert(CACHE_CONTROL, value);
    response
}

fn tagged(mut response: Response, etag: &str) -> Response {
    if let Ok(etag) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(ETAG, etag);
    }
    response
}

/// Decodes the percent-encoding of a part of a URL. `is_query` is true if `+` represents a space.
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

/// Returns the HTTP status and body in the guard's answer. `None` if the answer is an error or
/// lacks one of them.
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
        assert_eq!(route_path("/api/v1/tools", "/api/v1/tools/hot"), Some("hot"));
        assert_eq!(route_path("/api/v1/tools", "/api/v1/toolshed/hot"), None);
        assert_eq!(route_path("/t", "/mcp"), None);
    }

    #[test]
    fn tags_are_compared_weakly() {
        let has = |value: &str| {
            let request = http::Request::get("/").header(IF_NONE_MATCH, value).body(()).unwrap();
            has_tag(&request.into_parts().0, |tag| tag == "\"a\"")
        };
        assert!(has("\"a\"") && has("\"b\", W/\"a\""));
        assert!(!has("\"b\"") && !has("*") && !has("a"));
    }

    #[test]
    fn requests_are_decoded() {
        let route = Route { prefix: "/t", path: "category/a%20b", query: "q=x+y&q=100%&page=2" };
        let request = route.request();
        let request: serde_json::Value = serde_json::from_slice(&request).unwrap();
        assert_eq!(request["params"]["segments"], json!(["category", "a b"]));
        let query = json!([["q", "x y"], ["q", "100%"], ["page", "2"]]);
        assert_eq!(request["params"]["query"], query);
    }
}
