//! Plain JSON APIs behind the guard. They keep their paths, accept the guard's parameters in the
//! query, and report errors as problem documents (RFC 9457).

mod passed_body;

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use context_guard_protocol::header::{self, is_event_stream};
use context_guard_protocol::http::{HttpResponse, ResponseHead};
use context_guard_protocol::path;
use context_guard_protocol::rest::{self, RestRequest};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;

use self::passed_body::{PassedBody, PendingRecord};
use super::admission::Admission;
use super::exchange::{Exchange, NextStep};
use super::fair_queue::Place;
use super::tasks::{GuardInput, run_blocking};
use super::upstream::Failure;
use super::upstream::http_upstream::{HttpUpstream, response_headers};
use super::{Gateway, headers, reply};
use crate::config::{Rest as Config, RestEndpoint, is_below};
use crate::engine::CallContext;
use crate::filter::Filter;
use crate::telemetry::{Outcome, Recorder};

/// Headers with which clients override the method of a request.
const METHOD_OVERRIDES: [&str; 3] =
    ["x-http-method-override", "x-http-method", "x-method-override"];

/// A JSON API whose responses the guard shapes.
pub(crate) struct Rest {
    upstream: Arc<HttpUpstream>,
    config: Config,
    filter: Arc<Filter>,
    recorder: Arc<Recorder>,
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

    /// Returns the length of the API's prefix if it matches the path, otherwise `None`. The API
    /// with the longest match serves the request.
    pub(crate) fn claims(&self, path: &str) -> Option<usize> {
        let prefix = &self.config.prefix;
        is_below(path, prefix).then(|| prefix.trim_end_matches('/').len())
    }

    /// Returns the HTTP upstream that serves the API.
    pub(crate) fn upstream(&self) -> &HttpUpstream {
        &self.upstream
    }

    /// Sends a client's request to the JSON API, and returns its response, shaped by the guard.
    /// `path` is the normalized path of the request.
    pub(crate) async fn serve(
        &self,
        admission: &Admission,
        path: &str,
        parts: &Parts,
        body: Bytes,
    ) -> Response {
        if let Some(name) = METHOD_OVERRIDES.iter().find(|name| parts.headers.contains_key(**name))
        {
            let detail = format!("{name} is refused: rules apply to the method of the request.");
            self.recorder.refused(&admission.principal, "malformed", &detail);
            return problem(StatusCode::BAD_REQUEST, "bad_request", &detail);
        }
        let rule = self.rule(&parts.method, path);
        if rule.is_some_and(|rule| !rule.allow) {
            let detail = format!("{} {path} is switched off here (allow: false).", parts.method);
            self.recorder.refused(&admission.principal, "endpoint", &detail);
            return problem(StatusCode::FORBIDDEN, "endpoint_off", &detail);
        }
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let target = format!("{path}{query}");
        if rule.map_or(parts.method == Method::GET, |rule| rule.guard) {
            return self.serve_guarded(admission, &target, parts, body, rule).await;
        }
        let record = self.begin(admission, parts, format!("{} {path}", parts.method));
        let sent = self.send(admission, &parts.method, &target, &parts.headers, body).await;
        match sent {
            Ok((response, turn)) => self.pass(admission, record, response, turn),
            Err(failure) => {
                record.finish(None, 0, Outcome::UpstreamError);
                failed(&failure)
            }
        }
    }

    /// Returns a response of the API unchanged. The request is recorded, and its permit returned,
    /// when the body ends. An event stream within the limits of streams returns the permit at once.
    fn pass(
        &self,
        admission: &Admission,
        record: PendingRecord,
        response: http::Response<Incoming>,
        turn: Place,
    ) -> Response {
        let (head, body) = response.into_parts();
        let record = record.occupying(admission.clone(), turn);
        // A stream beyond the limits occupies the places of its request, as any response does.
        let long_lived = is_event_stream(headers::header(&head.headers, CONTENT_TYPE))
            .then(|| admission.open_stream().ok())
            .flatten();
        let (upstream, owner) = (&self.upstream, &admission.owner);
        let body = PassedBody::start(body, upstream, owner, long_lived, record);
        respond(head.status, response_headers(&head.headers), body)
    }

    /// Begins the record of a client's request.
    fn begin(
        &self,
        admission: &Admission,
        parts: &Parts,
        endpoint: impl Into<String>,
    ) -> PendingRecord {
        let context = CallContext {
            principal: admission.storage_scope(&parts.headers).to_string(),
            request_id: self.recorder.next_request(),
            upstream: self.upstream.name.clone(),
            ..CallContext::default()
        };
        let exchange = Exchange::new(context, endpoint, Some(&self.recorder));
        PendingRecord::new(exchange, &self.recorder)
    }

    /// Returns the first configured rule that matches a request, or `None` if none does.
    fn rule(&self, method: &Method, path: &str) -> Option<&RestEndpoint> {
        self.config.endpoints.iter().find(|rule| rule.matches(method.as_str(), path))
    }

    /// Waits for the caller's permit, and sends a request to the API. The permit is returned when
    /// the [`Place`] is dropped.
    ///
    /// # Errors
    /// The queue for permits is full, or the request to the API failed.
    async fn send(
        &self,
        admission: &Admission,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<(http::Response<Incoming>, Place), Failure> {
        let turn = self.upstream.turns.take(&admission.caller, 1).await?;
        let response = self
            .upstream
            .send(method.clone(), Some(target), admission.caller_names(), headers, body)
            .await?;
        Ok((response, turn))
    }

    async fn serve_guarded(
        &self,
        admission: &Admission,
        target: &str,
        parts: &Parts,
        body: Bytes,
        rule: Option<&RestEndpoint>,
    ) -> Response {
        let own = rule.map_or(&[][..], |rule| &rule.own);
        let request = RestRequest::parse(parts.method.as_str(), target, own);
        let mut record = self.begin(admission, parts, request.endpoint());
        let call = request.tool_call();
        let next =
            run_blocking(&self.filter, &admission.caller, GuardInput::Request(&call), || {
                record.exchange.on_request_uncached(&self.filter, &call)
            });
        if let NextStep::Answer(answer, decision) = next.await {
            record.finish(Some(decision), answer.len(), Outcome::Passed);
            return write(HeaderMap::new(), request.response(200, &answer));
        }
        let mut headers = parts.headers.clone();
        // A part of a body cannot be shaped, nor can the report that a body has not changed.
        for name in header::PARTIAL_REQUEST_HEADERS {
            headers.remove(name);
        }
        let target = request.target();
        let sent = self.send(admission, &parts.method, &target, &headers, body).await;
        let collected = match sent {
            Err(failure) => Err(failure),
            Ok((response, turn)) => {
                if !can_shape(response.status(), response.headers()) {
                    return self.pass(admission, record, response, turn);
                }
                let (head, body) = response.into_parts();
                self.upstream.collect(body, &admission.owner).await.map(|body| (head, body))
            }
        };
        let (head, body) = match collected {
            Ok(collected) => collected,
            Err(failure) => {
                record.finish(None, 0, Outcome::UpstreamError);
                return failed(&failure);
            }
        };
        let headers = response_headers(&head.headers);
        let Some(message) = rest::wrap_body(&body) else {
            record.finish(None, body.len(), Outcome::Passed);
            return respond(head.status, headers, Body::from(body));
        };
        let guarded =
            run_blocking(&self.filter, &admission.caller, GuardInput::Response(&message), || {
                record.exchange.on_response(&self.filter, &message)
            })
            .await;
        let bytes = guarded.shaped.as_ref().map_or(body.len(), Vec::len);
        record.finish(guarded.decision.map(Box::new), bytes, guarded.outcome);
        match guarded.shaped {
            None => respond(head.status, headers, Body::from(body)),
            Some(answer) => write(headers, request.response(head.status.as_u16(), &answer)),
        }
    }
}

impl Gateway {
    /// Dispatches a request to the JSON API whose prefix is the longest that matches the path.
    pub(crate) async fn dispatch_rest(
        &self,
        admission: &Admission,
        parts: &Parts,
        body: Bytes,
    ) -> Response {
        if self.rest.is_empty() {
            return reply::not_found(parts.uri.path(), &self.config.path);
        }
        let path = match path::normalize(parts.uri.path()) {
            Ok(path) => path,
            Err(error) => {
                let detail = format!("{error}: send the path in its normal form (RFC 3986, 6.2.2)");
                self.recorder.refused(&admission.principal, "malformed", &detail);
                return problem(StatusCode::BAD_REQUEST, "bad_request", &detail);
            }
        };
        let apis = self.rest.iter().filter_map(|rest| Some((rest.claims(&path)?, rest)));
        match apis.max_by_key(|(length, _)| *length) {
            Some((_, api)) => api.serve(admission, &path, parts, body).await,
            None => reply::not_found(&path, &self.config.path),
        }
    }
}

fn can_shape(status: StatusCode, headers: &HeaderMap) -> bool {
    let encoding =
        headers.get(CONTENT_ENCODING).map(|_| headers::header(headers, CONTENT_ENCODING));
    rest::can_shape(&ResponseHead {
        status: status.as_u16(),
        content_type: headers::header(headers, CONTENT_TYPE),
        is_encoded: header::is_encoded(encoding),
        content_length: None,
    })
}

/// Returns the HTTP response with the status, headers and body of `response`. Adds its headers to
/// `headers`, those of the upstream.
fn write(mut headers: HeaderMap, response: HttpResponse) -> Response {
    for name in header::WHOLE_BODY_HEADERS {
        headers.remove(name);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(response.content_type));
    for (name, value) in response.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    let status = StatusCode::from_u16(response.status).unwrap_or(StatusCode::OK);
    respond(status, headers, Body::from(response.body))
}

fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn failed(failure: &Failure) -> Response {
    let (status, code) = match failure {
        Failure::Timeout(_) => (StatusCode::GATEWAY_TIMEOUT, "upstream_timeout"),
        Failure::TooLarge(_) => (StatusCode::BAD_GATEWAY, "upstream_too_large"),
        _ => (StatusCode::BAD_GATEWAY, "upstream_unavailable"),
    };
    problem(status, code, &failure.to_string())
}

/// Returns an error response as a problem document (RFC 9457).
pub(crate) fn problem(status: StatusCode, code: &str, detail: &str) -> Response {
    write(HeaderMap::new(), rest::problem(status.as_u16(), code, detail))
}
