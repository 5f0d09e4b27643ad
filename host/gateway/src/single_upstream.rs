//! A single HTTP upstream: messages that the guard does not change pass with their headers and status.
//!
//! Responses are correlated by session and id, not by exchange: one may arrive on a later GET.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use context_guard_protocol::batch::{join_batch, split_batch};
use context_guard_protocol::sse::{Event, Framer};
use context_guard_protocol::{Head, Kind, PendingRequests, RequestId, header as header_values};
use futures_util::{StreamExt, stream};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;
use lru::LruCache;
use tokio_util::sync::CancellationToken;

use super::blocking::run_blocking;
use super::front::{Caller, NAME, PROTOCOL_VERSION, SESSION_ID, header, scope};
use super::session::{FromClient, Session};
use super::upstream::Failure;
use super::upstream::http_upstream::{HttpUpstream, data, passed_on};
use super::wire::reply;
use crate::filter::Filter;
use crate::telemetry::Recorder;

/// The only upstream of a gateway.
pub(crate) struct SingleUpstream {
    pub(crate) upstream: Arc<HttpUpstream>,
    filter: Arc<Filter>,
    recorder: Arc<Recorder>,
    sessions: Mutex<LruCache<String, Arc<Session>>>,
    /// Ends idle streams when the gateway stops.
    closing: CancellationToken,
}

impl SingleUpstream {
    pub(crate) fn new(
        upstream: Arc<HttpUpstream>,
        filter: Arc<Filter>,
        recorder: Arc<Recorder>,
        sessions: NonZeroUsize,
        closing: CancellationToken,
    ) -> Self {
        let sessions = Mutex::new(LruCache::new(sessions));
        Self { upstream, filter, recorder, sessions, closing }
    }

    /// Serves a request of a client.
    pub(crate) async fn serve(&self, caller: &Caller, parts: &Parts, body: Bytes) -> Response {
        let name = header(&parts.headers, SESSION_ID);
        let session = match self.session(caller, parts) {
            Some(session) => session,
            // A session of another principal is reported as unknown, so that ids cannot be probed.
            None => {
                return reply::refuse(
                    StatusCode::NOT_FOUND,
                    "null",
                    reply::REFUSED,
                    "Session not found",
                );
            }
        };
        if parts.method == Method::POST {
            return self.post(&session, parts, body).await;
        }
        if parts.method == Method::DELETE && !name.is_empty() {
            self.sessions.lock().unwrap_or_else(PoisonError::into_inner).pop(name);
        }
        let sent = self.upstream.send(parts.method.clone(), None, &parts.headers, body).await;
        match sent {
            Ok(response) if is_events(response.headers()) => self.stream(session, response, None),
            Ok(response) => passed(response),
            Err(failure) => {
                let failed = reply::error("null", failure.code(), &failure.to_string());
                reply::json(status(&failure), failed)
            }
        }
    }

    /// The session of this name, if it is this principal's; a new one where there is none. The upstream knows best which there are.
    fn session(&self, caller: &Caller, parts: &Parts) -> Option<Arc<Session>> {
        let name = header(&parts.headers, SESSION_ID);
        if !name.is_empty() {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(session) = sessions.get(name) {
                return (session.owner() == caller.principal.as_ref()).then(|| Arc::clone(session));
            }
        }
        let scope = scope(&caller.principal, &parts.headers);
        let session = Session::new(Arc::clone(&self.filter), &scope, &self.upstream.name).recorded(
            Arc::clone(&self.recorder),
            &caller.principal,
            name,
            header(&parts.headers, PROTOCOL_VERSION),
        );
        let session = Arc::new(session);
        self.keep(name, &session);
        Some(session)
    }

    fn keep(&self, name: &str, session: &Arc<Session>) {
        if !name.is_empty() {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.put(name.to_owned(), Arc::clone(session));
            self.recorder.metrics.sessions(sessions.len());
        }
    }

    async fn post(&self, session: &Arc<Session>, parts: &Parts, body: Bytes) -> Response {
        let FromClient { upstream, client } =
            run_blocking(&self.filter, body.len(), || session.from_client(&body)).await;
        let Some(message) = upstream else {
            return reply::json(StatusCode::OK, client.unwrap_or_default());
        };
        let mut headers = Cow::Borrowed(&parts.headers);
        let message = match message {
            Cow::Borrowed(_) => body.clone(),
            Cow::Owned(message) => {
                rename(&mut headers, &message);
                message.into()
            }
        };
        let mut unanswered = Unanswered::new(&message);
        let sent = self.upstream.send(Method::POST, None, &headers, message).await;
        let response = match sent {
            Ok(response) => response,
            Err(failure) => return self.fail(session, &mut unanswered, client, &failure),
        };
        let name = header(response.headers(), SESSION_ID);
        self.keep(name, session);
        if is_events(response.headers()) {
            return self.stream(Arc::clone(session), response, Some((unanswered, client)));
        }
        if !is_json(response.headers()) {
            // The upstream may answer notifications with 202. The guard's own answers remain.
            return client.map_or_else(|| passed(response), |own| reply::json(StatusCode::OK, own));
        }
        let (head, incoming) = response.into_parts();
        let answer = match self.upstream.collect(incoming).await {
            Ok(answer) => answer,
            Err(failure) => return self.fail(session, &mut unanswered, client, &failure),
        };
        let shaped =
            run_blocking(&self.filter, answer.len(), || match session.from_upstream(&answer) {
                Cow::Borrowed(_) => None,
                Cow::Owned(shaped) => Some(shaped),
            })
            .await;
        // A body without an answer, such as a transport error, ends the request as well.
        for (_, request) in unanswered.requests.drain() {
            session.failed(&request, answer.len());
        }
        let answer = shaped.map_or(answer, Bytes::from);
        let answer = match client {
            Some(own) => joined(&own, &answer).into(),
            None => answer,
        };
        let mut response = Response::new(Body::from(answer));
        *response.status_mut() = head.status;
        *response.headers_mut() = passed_on(&head.headers);
        response
    }

    /// Answers all unanswered requests with the failure.
    fn fail(
        &self,
        session: &Session,
        unanswered: &mut Unanswered,
        own: Option<Vec<u8>>,
        failure: &Failure,
    ) -> Response {
        let answers = unanswered.fail(session, failure);
        if answers.is_empty() {
            let failed = reply::error("null", failure.code(), &failure.to_string());
            return reply::json(status(failure), failed);
        }
        let batch = answers.len() + usize::from(own.is_some()) > 1;
        let body = match (own, answers.as_slice()) {
            (None, [answer]) if !batch => answer.clone(),
            (own, answers) => {
                let failed = join_batch(answers);
                own.map_or(failed.clone(), |own| joined(&own, &failed))
            }
        };
        reply::json(StatusCode::OK, body)
    }

    /// Forwards an event stream and shapes its events. `post` holds the requests that it answers, and
    /// the guard's own answers.
    fn stream(
        &self,
        session: Arc<Session>,
        response: http::Response<Incoming>,
        post: Option<(Unanswered, Option<Vec<u8>>)>,
    ) -> Response {
        let (head, incoming) = response.into_parts();
        let (unanswered, own) = post.map_or((None, None), |(requests, own)| (Some(requests), own));
        let mut ready = std::collections::VecDeque::new();
        if let Some(own) = own {
            for message in split_batch(&own) {
                ready.push_back(Event::message(None, message).0);
            }
        }
        let stream = Stream {
            upstream: Arc::clone(&self.upstream),
            session,
            incoming: Some(incoming),
            framer: Framer::default(),
            // The stream of a GET or of a subscription may be silent without limit.
            has_no_timeout: unanswered.as_ref().is_none_or(|requests| requests.has_subscription),
            unanswered: unanswered.unwrap_or_default(),
            is_resumable: false,
            ready,
        };
        let has_no_timeout = stream.has_no_timeout;
        let body = stream::unfold(stream, |mut stream| async move {
            let part = stream.next().await?;
            Some((Ok::<_, std::convert::Infallible>(Bytes::from(part)), stream))
        });
        let body = if has_no_timeout {
            Body::from_stream(body.take_until(self.closing.clone().cancelled_owned()))
        } else {
            Body::from_stream(body)
        };
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = passed_on(&head.headers);
        response
    }
}

/// The requests of a POST that the upstream has not answered yet.
#[derive(Default)]
struct Unanswered {
    requests: PendingRequests<Bytes>,
    /// One of the requests opens a subscription.
    has_subscription: bool,
}

impl Unanswered {
    fn new(body: &Bytes) -> Self {
        let mut unanswered = Self::default();
        for message in split_batch(body) {
            if let Some(head) =
                Head::read(message).filter(|head| head.kind() == Some(Kind::Request))
                && let Some(id) = head.request_id()
            {
                unanswered.has_subscription |= head.method() == "subscriptions/listen";
                unanswered.requests.insert(id, body.slice_ref(message));
            }
        }
        unanswered
    }

    /// Answers all requests with the failure.
    fn fail(&mut self, session: &Session, failure: &Failure) -> Vec<Vec<u8>> {
        let fail = |(_, request): (RequestId, Bytes)| {
            let answer = reply::failure(&request, failure.code(), &failure.to_string());
            session.failed(&request, answer.len());
            answer
        };
        self.requests.drain().into_iter().map(fail).collect()
    }
}

struct Stream {
    upstream: Arc<HttpUpstream>,
    session: Arc<Session>,
    /// None once it has ended.
    incoming: Option<Incoming>,
    framer: Framer,
    has_no_timeout: bool,
    unanswered: Unanswered,
    /// An event had an id, so the client may resume the stream and receive the rest there.
    is_resumable: bool,
    ready: std::collections::VecDeque<Vec<u8>>,
}

impl Stream {
    /// The next bytes for the client, or none at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if let Some(event) = self.framer.next_event() {
                return Some(self.shaped(event).await);
            }
            if self.framer.pending_bytes() > self.upstream.max_bytes() {
                self.end(&self.upstream.too_large());
                continue;
            }
            let incoming = self.incoming.as_mut()?;
            let read = if self.has_no_timeout {
                data(incoming).await.map_err(|reason| {
                    Failure::Unavailable(format!("The upstream broke off in its answer: {reason}."))
                })
            } else {
                self.upstream.part(incoming).await
            };
            match read {
                Ok(Some(bytes)) => self.framer.push(&bytes),
                Ok(None) => {
                    if let Some(event) = self.framer.finish() {
                        let event = self.shaped(event).await;
                        self.ready.push_back(event);
                    }
                    self.incoming = None;
                    if !self.unanswered.requests.is_empty() && !self.is_resumable {
                        self.end(&Failure::Unavailable(
                            "The upstream ended its stream without an answer.".to_owned(),
                        ));
                    }
                }
                Err(failure) => self.end(&failure),
            }
        }
    }

    /// Ends the stream, and answers all unanswered requests with the failure.
    fn end(&mut self, failure: &Failure) {
        self.incoming = None;
        self.framer.finish();
        for answer in self.unanswered.fail(&self.session, failure) {
            self.ready.push_back(Event::message(None, &answer).0);
        }
    }

    async fn shaped(&mut self, event: Event) -> Vec<u8> {
        self.is_resumable |= event.id().is_some();
        let Some(data) = event.data() else { return event.0 };
        for message in split_batch(&data) {
            if let Some(head) =
                Head::read(message).filter(|head| head.kind() == Some(Kind::Response))
                && let Some(id) = head.request_id()
            {
                self.unanswered.requests.remove(&id);
            }
        }
        let session = &self.session;
        let shaped =
            run_blocking(session.filter(), data.len(), || match session.from_upstream(&data) {
                Cow::Borrowed(_) => None,
                Cow::Owned(shaped) => Some(shaped),
            })
            .await;
        match shaped {
            Some(shaped) => event.with_data(&shaped).0,
            None => event.0,
        }
    }
}

/// Forwards a response unchanged.
fn passed(response: http::Response<Incoming>) -> Response {
    let (head, body) = response.into_parts();
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = passed_on(&head.headers);
    response
}

/// Updates the `Mcp-Name` header of a request whose message was changed.
fn rename(headers: &mut Cow<'_, HeaderMap>, message: &[u8]) {
    let subject = Head::read(message).and_then(|head| head.subject().map(Cow::into_owned));
    if let Some(name) = subject.filter(|_| headers.contains_key(NAME))
        && let Ok(name) = HeaderValue::from_str(&header_values::encode_value(&name))
    {
        headers.to_mut().insert(NAME, name);
    }
}

/// Joins the answers of guard and upstream to one batch.
fn joined(own: &[u8], answer: &[u8]) -> Vec<u8> {
    join_batch(&[split_batch(own), split_batch(answer)].concat())
}

fn is_events(headers: &HeaderMap) -> bool {
    header_values::is_event_stream(header(headers, CONTENT_TYPE)) && !is_encoded(headers)
}

fn is_json(headers: &HeaderMap) -> bool {
    header_values::is_json(header(headers, CONTENT_TYPE)) && !is_encoded(headers)
}

fn is_encoded(headers: &HeaderMap) -> bool {
    header_values::is_encoded(
        headers.get(CONTENT_ENCODING).map(|_| header(headers, CONTENT_ENCODING)),
    )
}

fn status(failure: &Failure) -> StatusCode {
    match failure {
        Failure::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    }
}
