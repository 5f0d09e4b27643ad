//! A plain JSON API behind the guard: the same paths, the guard's parameters in the query, errors as problem+json.
//!
//! To the guard an endpoint is a tool named `GET /path`, and a body is what that tool answers with. All shaping is the guard's.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LINK};
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::blocking::run_blocking;
use super::front::{Caller, scope};
use super::upstream::Failure;
use super::upstream::http_upstream::{HttpUpstream, passed_on};
use crate::answer;
use crate::config::{Rest as Config, RestEndpoint};
use crate::engine::{CallContext, Decision};
use crate::filter::{Filter, Request};
use crate::telemetry::{Answered, Outcome, Recorder, glob};

/// Parameters that are the guard's under their own names, unless an endpoint keeps them.
const PLAIN: [&str; 9] = [
    "cursor",
    "limit",
    "pages",
    "startLine",
    "endLine",
    "fields",
    "response_mode",
    "filter_ids",
    "min_score",
];
/// Every parameter of the guard can be written with this before it.
const PREFIX: &str = "_guard_";
/// Headers that describe the whole body, and no part of it.
const OF_THE_WHOLE: [&str; 6] =
    ["etag", "last-modified", "accept-ranges", "content-md5", "digest", "repr-digest"];
/// What an answer lost, for those who look at headers.
const LOSS: HeaderName = HeaderName::from_static("x-context-guard");

/// A JSON API.
pub(crate) struct Rest {
    upstream: Arc<HttpUpstream>,
    config: Config,
    filter: Arc<Filter>,
    recorder: Arc<Recorder>,
}

/// A request, taken apart.
struct Asked {
    /// `GET /path`.
    endpoint: String,
    /// The query without the guard's parameters, as it is spelt.
    query: String,
    /// The guard's parameters.
    guard: Map<String, Value>,
    /// The upstream's, for the guard to tell two requests apart.
    own: Map<String, Value>,
}

impl Rest {
    pub(crate) fn new(
        upstream: Arc<HttpUpstream>,
        config: Config,
        filter: Arc<Filter>,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self { upstream, config, filter, recorder }
    }

    /// Whether a path is its, and how much of the path says so.
    pub(crate) fn claims(&self, path: &str) -> Option<usize> {
        let prefix = self.config.prefix.trim_end_matches('/');
        let rest = path.strip_prefix(prefix)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(prefix.len())
    }

    /// How it is reached.
    pub(crate) fn upstream(&self) -> &HttpUpstream {
        &self.upstream
    }

    /// Serves a request of a client.
    pub(crate) async fn serve(&self, caller: &Caller, parts: &Parts, body: Bytes) -> Response {
        let path = parts.uri.path();
        let flags = self.config.endpoints.iter().find(|flags| {
            (flags.method == "*" || flags.method.eq_ignore_ascii_case(parts.method.as_str()))
                && glob(&flags.path, path)
        });
        if flags.is_some_and(|flags| !flags.allow) {
            let detail = format!("{} {path} is switched off here (allow: false).", parts.method);
            return problem(StatusCode::FORBIDDEN, "endpoint_off", &detail);
        }
        let guarded = flags.map_or(parts.method == Method::GET, |flags| flags.guard);
        if !guarded {
            let target = parts.uri.path_and_query().map_or(path, |target| target.as_str());
            let method = parts.method.clone();
            return match self.upstream.send(method, Some(target), &parts.headers, body).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    respond(head.status, passed_on(&head.headers), Body::new(body))
                }
                Err(failure) => failed(&failure),
            };
        }
        self.guarded(caller, parts, body, flags).await
    }

    async fn guarded(
        &self,
        caller: &Caller,
        parts: &Parts,
        body: Bytes,
        flags: Option<&RestEndpoint>,
    ) -> Response {
        let since = Instant::now();
        let asked = Asked::of(parts, flags);
        let cx = CallContext {
            principal: scope(&caller.principal, &parts.headers).to_string(),
            request_id: self.recorder.next_request(),
            upstream: self.upstream.name.clone(),
            ..CallContext::default()
        };
        let record = |decision: Option<&Decision>, bytes: usize, outcome: Outcome| {
            let (endpoint, latency) = (asked.endpoint.as_str(), since.elapsed());
            self.recorder.answered(&Answered {
                cx: &cx,
                endpoint,
                decision,
                latency,
                bytes,
                outcome,
            });
        };
        let mut arguments = asked.own.clone();
        arguments.insert("_guard".to_owned(), asked.guard.clone().into());
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": asked.endpoint, "arguments": arguments}});
        let call = call.to_string().into_bytes();
        let ticket = match run_blocking(&self.filter, call.len(), || {
            self.filter.request_uncached(&cx, &call)
        })
        .await
        {
            Request::Forward(_, ticket) => ticket,
            Request::Answer(answer, decision) => {
                record(Some(&decision), answer.len(), Outcome::Passed);
                return shaped(
                    parts,
                    &asked,
                    StatusCode::OK,
                    HeaderMap::new(),
                    &answer,
                    Some(&decision),
                );
            }
        };
        let path = parts.uri.path();
        let target = if asked.query.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{}", asked.query)
        };
        let mut headers = parts.headers.clone();
        // A part of the upstream's bytes, or word that the whole has not changed, is nothing to shape.
        for name in ["range", "if-range", "if-none-match", "if-modified-since"] {
            headers.remove(name);
        }
        let sent = self.upstream.send(parts.method.clone(), Some(&target), &headers, body).await;
        let collected = match sent {
            Err(failure) => Err(failure),
            Ok(response) => {
                let (head, body) = response.into_parts();
                if !head.status.is_success() || !is_text(&head.headers) {
                    record(None, 0, Outcome::Passed);
                    return respond(head.status, passed_on(&head.headers), Body::new(body));
                }
                self.upstream.collect(body).await.map(|body| (head, body))
            }
        };
        let (head, body) = match collected {
            Ok(collected) => collected,
            Err(failure) => {
                record(None, 0, Outcome::UpstreamError);
                return failed(&failure);
            }
        };
        let headers = passed_on(&head.headers);
        let Some(message) = wrapped(&body) else {
            record(None, body.len(), Outcome::Passed);
            return respond(head.status, headers, Body::from(body));
        };
        let (answer, decision) = run_blocking(&self.filter, message.len(), || {
            self.filter.response_with_decision(&cx, &ticket, &message)
        })
        .await;
        let outcome = Outcome::of_answer(!ticket.is_pass(), decision.as_ref());
        let bytes = answer.as_ref().map_or(body.len(), Vec::len);
        record(decision.as_ref(), bytes, outcome);
        match answer {
            None => respond(head.status, headers, Body::from(body)),
            Some(answer) => shaped(parts, &asked, head.status, headers, &answer, decision.as_ref()),
        }
    }
}

impl Asked {
    fn of(parts: &Parts, flags: Option<&RestEndpoint>) -> Self {
        let (mut query, mut guard, mut own) = (Vec::new(), Map::new(), Map::new());
        let kept = |name: &str| flags.is_some_and(|flags| flags.own.iter().any(|own| own == name));
        for pair in parts.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name), decoded(value));
            let guarded = name
                .strip_prefix(PREFIX)
                .map(str::to_owned)
                .or_else(|| (PLAIN.contains(&name.as_str()) && !kept(&name)).then(|| name.clone()));
            match guarded {
                Some(name) => {
                    guard.insert(name, number(value));
                }
                None => {
                    query.push(pair);
                    own.insert(name, value.into());
                }
            }
        }
        let endpoint = format!("{} {}", parts.method, parts.uri.path());
        Self { endpoint, query: query.join("&"), guard, own }
    }

    /// The way to what follows.
    fn next(&self, parts: &Parts, cursor: &str) -> String {
        let query = if self.query.is_empty() { String::new() } else { format!("{}&", self.query) };
        format!("{}?{query}cursor={cursor}", parts.uri.path())
    }
}

/// A value as the guard takes it: numbers are numbers.
fn number(value: String) -> Value {
    match value.parse::<i64>() {
        Ok(number) => number.into(),
        Err(_) => match value.parse::<f64>() {
            Ok(number) if number.is_finite() => number.into(),
            _ => value.into(),
        },
    }
}

/// A part of a query as it is meant.
fn decoded(text: &str) -> String {
    let text = text.replace('+', " ");
    percent_encoding::percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

/// A body as what a tool answers with; none where it is no text.
fn wrapped(body: &[u8]) -> Option<Vec<u8>> {
    let text = serde_json::to_string(std::str::from_utf8(body).ok()?).ok()?;
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":{text}}}]}}}}"#
    );
    Some(message.into_bytes())
}

/// What the guard made of a body, as a response.
fn shaped(
    parts: &Parts,
    asked: &Asked,
    status: StatusCode,
    mut headers: HeaderMap,
    answer: &[u8],
    decision: Option<&Decision>,
) -> Response {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    let texts = answer::texts(&answer);
    if decision.is_some_and(|decision| decision.mode == "error") {
        let detail = texts.join(" ");
        let code = ["cursor_expired", "cursor_invalid"]
            .into_iter()
            .find(|code| detail.contains(code))
            .unwrap_or("bad_request");
        let status =
            if code == "cursor_expired" { StatusCode::GONE } else { StatusCode::BAD_REQUEST };
        return problem(status, code, &detail);
    }
    let contract = answer.pointer("/result/_meta/dev.context-guard~1result");
    let fact = |name: &str| contract.and_then(|contract| contract.get(name)).cloned();
    let content = texts.iter().find(|text| !text.starts_with("[context-guard]"));
    let content = content.map(|text| (*text).to_owned()).unwrap_or_default();
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&content).is_ok();
    let cursor = fact("nextCursor").and_then(|cursor| cursor.as_str().map(str::to_owned));
    let body = if is_json {
        content
    } else {
        let mut chunk = json!({"content": content});
        if let (Some(chunk), Some(Value::Object(contract))) = (chunk.as_object_mut(), contract) {
            for name in ["chunkIndex", "totalChunks", "nextCursor", "metadata"] {
                if let Some(value) = contract.get(name) {
                    chunk.insert(name.to_owned(), value.clone());
                }
            }
        }
        chunk.to_string()
    };
    for name in OF_THE_WHOLE {
        headers.remove(name);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let loss = fact("loss").and_then(|loss| HeaderValue::from_str(loss.as_str()?).ok());
    if let Some(loss) = loss {
        headers.insert(LOSS, loss);
    }
    if let Some(cursor) = cursor
        && let Ok(link) =
            HeaderValue::from_str(&format!("<{}>; rel=\"next\"", asked.next(parts, &cursor)))
    {
        headers.append(LINK, link);
    }
    respond(status, headers, Body::from(body))
}

fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Whether there is something to shape: text that is not compressed.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    !headers.contains_key(CONTENT_ENCODING)
        && (kind.starts_with("text/") || kind.contains("json"))
        && !kind.starts_with("text/event-stream")
}

fn failed(failure: &Failure) -> Response {
    let (status, code) = match failure {
        Failure::Timeout(_) => (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"),
        Failure::TooLarge(_) => (StatusCode::BAD_GATEWAY, "upstream_too_large"),
        _ => (StatusCode::BAD_GATEWAY, "upstream_unavailable"),
    };
    problem(status, code, &failure.to_string())
}

/// An error as RFC 9457 has it.
pub(crate) fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    let title = status.canonical_reason().unwrap_or_default();
    let body = json!({"type": "about:blank", "title": title, "status": status.as_u16(), "detail": detail, "code": code});
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(uri: &str, own: &[&str]) -> Asked {
        let (parts, ()) = http::Request::get(uri).body(()).unwrap().into_parts();
        let flags = RestEndpoint {
            method: "*".into(),
            path: "*".into(),
            guard: true,
            allow: true,
            own: own.iter().map(|name| (*name).to_owned()).collect(),
        };
        Asked::of(&parts, Some(&flags))
    }

    #[test]
    fn the_guards_parameters_are_taken_out_and_the_rest_stays_as_it_is_spelt() {
        let request = asked(
            "/a/b?q=x%20y&limit=5&fields=id%2Cname&_guard_where=a%3D1&z=+&min_score=0.5",
            &[],
        );
        assert_eq!(
            (request.endpoint.as_str(), request.query.as_str()),
            ("GET /a/b", "q=x%20y&z=+")
        );
        let guard = json!({"limit": 5, "fields": "id,name", "where": "a=1", "min_score": 0.5});
        assert_eq!(Value::from(request.guard), guard);
        assert_eq!(Value::from(request.own), json!({"q": "x y", "z": " "}));
        let own = asked("/a?limit=5&_guard_limit=2", &["limit"]);
        assert_eq!((own.query.as_str(), Value::from(own.guard)), ("limit=5", json!({"limit": 2})));
    }
}
