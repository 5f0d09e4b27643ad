//! One HTTP upstream behind the front: whatever the guard leaves alone passes as it came, headers and statuses too.
//!
//! Answers are told by session and id, not by exchange: one may arrive on a later GET.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;
use lru::LruCache;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::blocking::run_blocking;
use super::front::{Caller, NAME, PROTOCOL_VERSION, SESSION_ID, header, scope};
use super::session::{FromClient, Session};
use super::upstream::Failure;
use super::upstream::http_upstream::{HttpUpstream, data, passed_on};
use super::wire::reply;
use super::wire::sse::{Event, Framer};
use crate::filter::Filter;
use crate::message::{Head, Kind, each};
use crate::telemetry::Recorder;

/// The one upstream.
pub(crate) struct SingleUpstream {
    pub(crate) upstream: Arc<HttpUpstream>,
    filter: Arc<Filter>,
    recorder: Arc<Recorder>,
    sessions: Mutex<LruCache<String, Arc<Session>>>,
    /// Streams that only wait end with it.
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
            // Somebody else's session is one that there is not.
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
        let waiting = Waiting::of(&message);
        let sent = self.upstream.send(Method::POST, None, &headers, message).await;
        let response = match sent {
            Ok(response) => response,
            Err(failure) => return self.fail(session, &waiting, client, &failure),
        };
        let name = header(response.headers(), SESSION_ID);
        self.keep(name, session);
        if is_events(response.headers()) {
            return self.stream(Arc::clone(session), response, Some((waiting, client)));
        }
        if !is_json(response.headers()) {
            return passed(response);
        }
        let (head, incoming) = response.into_parts();
        let answer = match self.upstream.collect(incoming).await {
            Ok(answer) => answer,
            Err(failure) => return self.fail(session, &waiting, client, &failure),
        };
        let shaped =
            run_blocking(&self.filter, answer.len(), || match session.from_upstream(&answer) {
                Cow::Borrowed(_) => None,
                Cow::Owned(shaped) => Some(shaped),
            })
            .await;
        // What has no answer in it, such as an error of the transport, ends the request as well.
        for request in &waiting.0 {
            session.failed(request, answer.len());
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

    /// Answers every request with why there is no answer.
    fn fail(
        &self,
        session: &Session,
        waiting: &Waiting,
        own: Option<Vec<u8>>,
        failure: &Failure,
    ) -> Response {
        let answers = waiting.fail(session, failure);
        if answers.is_empty() {
            let failed = reply::error("null", failure.code(), &failure.to_string());
            return reply::json(status(failure), failed);
        }
        let batch = answers.len() + usize::from(own.is_some()) > 1;
        let body = match (own, answers.as_slice()) {
            (None, [answer]) if !batch => answer.clone(),
            (own, answers) => {
                let failed = super::envelope::join(answers);
                own.map_or(failed.clone(), |own| joined(&own, &failed))
            }
        };
        reply::json(StatusCode::OK, body)
    }

    /// An event stream on its way to the client, each event shaped as it comes. `post`: the requests it answers, and what the guard answered itself.
    fn stream(
        &self,
        session: Arc<Session>,
        response: http::Response<Incoming>,
        post: Option<(Waiting, Option<Vec<u8>>)>,
    ) -> Response {
        let (head, incoming) = response.into_parts();
        let (waiting, own) = post.map_or((None, None), |(waiting, own)| (Some(waiting), own));
        let mut ready = std::collections::VecDeque::new();
        if let Some(own) = own {
            for message in each(&own) {
                ready.push_back(Event::message(None, message).0);
            }
        }
        let stream = Stream {
            upstream: Arc::clone(&self.upstream),
            session,
            incoming: Some(incoming),
            framer: Framer::default(),
            // A stream that was asked for by GET, or by a subscription, may be silent for long.
            patient: waiting.as_ref().is_none_or(Waiting::listens),
            waiting: waiting.unwrap_or_default(),
            resumable: false,
            ready,
        };
        let patient = stream.patient;
        let body = stream::unfold(stream, |mut stream| async move {
            let part = stream.next().await?;
            Some((Ok::<_, std::convert::Infallible>(Bytes::from(part)), stream))
        });
        let body = if patient {
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

/// Requests that were sent on and are not answered yet, whole.
#[derive(Default)]
struct Waiting(Vec<Bytes>);

impl Waiting {
    fn of(body: &Bytes) -> Self {
        let requests = each(body).into_iter().filter(|message| {
            Head::read(message).and_then(|head| head.kind()) == Some(Kind::Request)
        });
        Self(requests.map(|request| body.slice_ref(request)).collect())
    }

    /// Whether it holds a stream open.
    fn listens(&self) -> bool {
        self.0.iter().any(|request| {
            Head::read(request).is_some_and(|head| head.method() == "subscriptions/listen")
        })
    }

    fn answered(&mut self, id: &RawValue) {
        self.0.retain(|request| {
            Head::read(request).and_then(|head| head.id).is_none_or(|waits| waits.get() != id.get())
        });
    }

    fn fail(&self, session: &Session, failure: &Failure) -> Vec<Vec<u8>> {
        let fail = |request: &Bytes| {
            let answer = reply::failure(request, failure.code(), &failure.to_string());
            session.failed(request, answer.len());
            answer
        };
        self.0.iter().map(fail).collect()
    }
}

struct Stream {
    upstream: Arc<HttpUpstream>,
    session: Arc<Session>,
    /// None once it has ended.
    incoming: Option<Incoming>,
    framer: Framer,
    patient: bool,
    waiting: Waiting,
    /// Whether an event had an id: then the client may come back for the rest.
    resumable: bool,
    ready: std::collections::VecDeque<Vec<u8>>,
}

impl Stream {
    /// The next bytes for the client; none at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if let Some(event) = self.framer.next_event() {
                return Some(self.shaped(event).await);
            }
            let incoming = self.incoming.as_mut()?;
            let read = if self.patient {
                data(incoming).await.map_err(|reason| {
                    Failure::Unavailable(format!("The upstream broke off in its answer: {reason}."))
                })
            } else {
                self.upstream.part(incoming).await
            };
            match read {
                Ok(Some(bytes)) => {
                    self.framer.push(&bytes);
                    if self.framer.pending_bytes() > self.upstream.max_bytes() && !self.ends() {
                        self.end(&self.upstream.too_large());
                    }
                }
                Ok(None) => {
                    if let Some(event) = self.framer.finish() {
                        let event = self.shaped(event).await;
                        self.ready.push_back(event);
                    }
                    let unanswered = !self.waiting.0.is_empty() && !self.resumable;
                    self.incoming = None;
                    if unanswered {
                        self.end(&Failure::Unavailable(
                            "The upstream ended its stream without an answer.".to_owned(),
                        ));
                    }
                }
                Err(failure) => self.end(&failure),
            }
        }
    }

    /// Whether a whole event is there after all.
    fn ends(&mut self) -> bool {
        match self.framer.next_event() {
            Some(event) => {
                self.ready.push_back(event.0);
                true
            }
            None => false,
        }
    }

    /// No more will come: says so for every request that waits.
    fn end(&mut self, failure: &Failure) {
        self.incoming = None;
        self.framer.finish();
        for answer in self.waiting.fail(&self.session, failure) {
            self.ready.push_back(Event::message(None, &answer).0);
        }
        self.waiting.0.clear();
    }

    async fn shaped(&mut self, event: Event) -> Vec<u8> {
        self.resumable |= event.id().is_some();
        let Some(data) = event.data() else { return event.0 };
        for message in each(&data) {
            if let Some(head) =
                Head::read(message).filter(|head| head.kind() == Some(Kind::Response))
                && let Some(id) = head.id
            {
                self.waiting.answered(id);
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

/// A response whose body passes as it comes.
fn passed(response: http::Response<Incoming>) -> Response {
    let (head, body) = response.into_parts();
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = passed_on(&head.headers);
    response
}

/// Has a header that mirrors a name tell the one that a changed message has.
fn rename(headers: &mut Cow<'_, HeaderMap>, message: &[u8]) {
    let subject = Head::read(message).and_then(|head| head.subject().map(Cow::into_owned));
    if let Some(name) =
        subject.filter(|name| headers.contains_key(NAME) && header(headers, NAME) != name)
        && let Ok(name) = HeaderValue::from_str(&name)
    {
        headers.to_mut().insert(NAME, name);
    }
}

/// The answers of guard and upstream to one batch.
fn joined(own: &[u8], answer: &[u8]) -> Vec<u8> {
    super::envelope::join(&[each(own), each(answer)].concat())
}

fn is_events(headers: &HeaderMap) -> bool {
    header(headers, CONTENT_TYPE).starts_with("text/event-stream")
}

fn is_json(headers: &HeaderMap) -> bool {
    header(headers, CONTENT_TYPE).starts_with("application/json")
        && !headers.contains_key(CONTENT_ENCODING)
}

fn status(failure: &Failure) -> StatusCode {
    match failure {
        Failure::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    }
}
