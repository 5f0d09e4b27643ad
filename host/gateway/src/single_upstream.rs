//! A single HTTP upstream behind the gateway. Messages that the guard does not change pass
//! verbatim, including headers and statuses.
//!
//! A response is matched with its request by session and id rather than by HTTP exchange, because
//! it may arrive on a later GET.

mod response_stream;
mod unanswered;

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use context_guard_protocol::answer::{quote, trim_padding};
use context_guard_protocol::batch::join_batch;
use context_guard_protocol::header::{is_encoded, is_event_stream, is_json};
use context_guard_protocol::{RequestFault, request_fault};
use futures_util::{StreamExt, stream};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::body::Incoming;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::response_stream::{PostedRequests, ResponseStream, StreamState};
use self::unanswered::UnansweredRequests;
use super::admission::Admission;
use super::headers::{PROTOCOL_VERSION, SESSION_ID, client_override, header, update_routing};
use super::reply;
use super::session::{FromClient, Session};
use super::session_table::SessionTable;
use super::task_owners::TaskOwners;
use super::tasks::{GuardInput, run_blocking};
use super::upstream::Failure;
use super::upstream::http_upstream::{HttpUpstream, response_headers};
use crate::access::ANONYMOUS;
use crate::config::Limits;
use crate::filter::Filter;
use crate::message::{Head, Kind, split_batch};
use crate::protocol_mode::ClientInfo;
use crate::store::CursorStore;
use crate::stream_limits::{OpenStream, TooManyStreams};
use crate::telemetry::Recorder;

/// The maximum time for which the head of a replica's response waits for the first event.
const MAX_HEAD_DELAY: Duration = Duration::from_secs(2);

/// Passes requests to a single HTTP upstream without the aggregator, and tracks the clients'
/// sessions with it.
pub(crate) struct SingleUpstream {
    upstream: Arc<HttpUpstream>,
    filter: Arc<Filter>,
    recorder: Arc<Recorder>,
    /// The sessions whose ids the upstream has issued.
    sessions: Mutex<SessionTable<Arc<Session>>>,
    tasks: Arc<TaskOwners>,
    /// True if the gateway is one of several replicas.
    is_replica: AtomicBool,
    /// A token that is cancelled when the gateway stops, which ends long-lived streams.
    closing: CancellationToken,
}

impl SingleUpstream {
    pub(crate) fn new(
        upstream: Arc<HttpUpstream>,
        filter: Arc<Filter>,
        recorder: Arc<Recorder>,
        limits: &Limits,
        closing: CancellationToken,
    ) -> Self {
        let sessions = Mutex::new(SessionTable::new(limits));
        let tasks = Arc::new(TaskOwners::new());
        let is_replica = AtomicBool::new(false);
        Self { upstream, filter, recorder, sessions, tasks, is_replica, closing }
    }

    fn sessions(&self) -> MutexGuard<'_, SessionTable<Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a client's HTTP request to the upstream and returns the upstream's response, shaped
    /// by the guard.
    pub(crate) async fn serve(
        &self,
        admission: &Admission,
        parts: &Parts,
        body: Bytes,
    ) -> Response {
        let Some(session) = self.session(admission, parts) else {
            let (status, text) = (StatusCode::NOT_FOUND, "Session not found");
            return reply::refuse(status, "null", reply::REFUSED, text);
        };
        if parts.method == Method::POST {
            return self.post(&session, admission, parts, body).await;
        }
        if parts.method == Method::DELETE {
            self.sessions().remove(header(&parts.headers, SESSION_ID));
        }
        let long_lived = (parts.method == Method::GET).then(|| admission.open_stream());
        let long_lived = match long_lived.transpose() {
            Ok(long_lived) => long_lived,
            Err(full) => return self.refuse_stream(admission, "null", full),
        };
        // Clients reopen their streams on their own while the upstream is away. That is no call.
        let (method, headers) = (parts.method.clone(), &parts.headers);
        match self.upstream.send_uncounted(method, None, &admission.principal, headers, body).await
        {
            Ok(response) if is_events(response.headers()) => {
                self.stream(session, response, long_lived, None).await
            }
            Ok(response) => unchanged(response),
            Err(failure) => transport_error(&failure),
        }
    }

    /// Returns the response that refuses a stream, for the request with this id (raw JSON).
    fn refuse_stream(&self, admission: &Admission, id: &str, full: TooManyStreams) -> Response {
        let text = full.to_string();
        self.recorder.refused(&admission.principal, "streams", &text);
        reply::refuse(full.status(), id, reply::REFUSED, &text)
    }

    /// Returns the protocol version of the principal's session whose id is in the headers.
    pub(crate) fn session_version(
        &self,
        principal: &Arc<str>,
        headers: &HeaderMap,
    ) -> Option<String> {
        let mut sessions = self.sessions();
        let session = sessions.get(header(headers, SESSION_ID))?;
        (session.owner() == principal.as_ref()).then(|| session.protocol_version())
    }

    /// Returns the session that a request names, or a new one if it names none. `None` if the
    /// upstream has not issued the id to this principal, or too long ago.
    fn session(&self, admission: &Admission, parts: &Parts) -> Option<Arc<Session>> {
        let principal = &admission.principal;
        let name = header(&parts.headers, SESSION_ID);
        if !name.is_empty() {
            let mut sessions = self.sessions();
            let session = sessions.get(name)?;
            return (session.owner() == principal.as_ref()).then(|| Arc::clone(session));
        }
        let scope = admission.storage_scope(&parts.headers);
        let session = Session::new(Arc::clone(&self.filter), &scope, &self.upstream.name).recorded(
            Arc::clone(&self.recorder),
            principal,
            name,
            header(&parts.headers, PROTOCOL_VERSION),
        );
        Some(Arc::new(session))
    }

    /// Makes the gateway one of several replicas. They share the owners of tasks by their store, if
    /// it is shared. Responses begin with their first event.
    pub(crate) fn join_fleet(&self, store: Option<&Arc<dyn CursorStore>>) {
        self.is_replica.store(true, Ordering::Relaxed);
        if let Some(store) = store {
            self.tasks.share(Arc::clone(store));
        }
    }

    /// Opens a session that another replica began, unless it is open here. `name` is the id that
    /// the upstream has issued. `scope` returns the owner of the answers that the guard
    /// stores.
    pub(crate) fn restore_session(
        &self,
        principal: &Arc<str>,
        owner: &Arc<str>,
        name: &str,
        client: &ClientInfo,
        scope: impl FnOnce() -> Arc<str>,
    ) {
        let mut sessions = self.sessions();
        if sessions.contains(name) {
            return;
        }
        let session = Session::new(Arc::clone(&self.filter), &scope(), &self.upstream.name);
        let recorder = Arc::clone(&self.recorder);
        let session = session.recorded(recorder, principal, name, &client.version);
        session.set_client_name(client.name());
        sessions.insert(owner, name.to_owned(), Arc::new(session));
        self.recorder.metrics.sessions(sessions.len());
    }

    /// Records that the upstream has issued the session id `name` to a caller.
    fn remember(&self, name: &str, session: &Arc<Session>, admission: &Admission) {
        session.set_name(name);
        if name.is_empty() {
            return;
        }
        let mut sessions = self.sessions();
        if !sessions.contains(name) {
            let owner = &admission.owner;
            sessions.insert(owner, name.to_owned(), Arc::clone(session));
            self.recorder.metrics.sessions(sessions.len());
        }
    }

    /// Returns the error response to a request about an unknown task or a task of another
    /// principal, and to `tasks/list`. `None` for anonymous callers. The upstream sees one
    /// credential for all principals, and cannot tell them apart.
    fn refuse_task(&self, principal: &str, body: &[u8]) -> Option<Response> {
        if principal == ANONYMOUS {
            return None;
        }
        split_batch(body).into_iter().filter_map(Head::read).find_map(|head| {
            let parameters = head.parameters();
            let task = parameters.task_id.as_deref().unwrap_or_default();
            let is_refused =
                head.method().starts_with("tasks/") && self.tasks.find(principal, task).is_none();
            let text =
                format!("Unknown task: {task}. It was begun by another client, or too long ago.");
            is_refused
                .then(|| reply::refuse(StatusCode::OK, head.raw_id(), reply::INVALID_PARAMS, &text))
        })
    }

    async fn post(
        &self,
        session: &Arc<Session>,
        admission: &Admission,
        parts: &Parts,
        body: Bytes,
    ) -> Response {
        let fault = match is_encoded_body(&parts.headers) {
            true => Some(RequestFault::Compressed),
            false => request_fault(&body),
        };
        if let Some(fault) = fault {
            return reply::fault(&fault);
        }
        if let Some(refusal) = self.refuse_task(&admission.principal, &body) {
            return refusal;
        }
        let profile = client_override(&parts.headers);
        let mut unanswered = UnansweredRequests::of_body(&body);
        // Before the requests are begun, so that a refusal leaves none of them pending.
        let long_lived = unanswered.has_subscription().then(|| admission.open_stream());
        let long_lived = match long_lived.transpose() {
            Ok(long_lived) => long_lived,
            Err(full) => {
                let id = Head::read(&body).map_or("null", |head| head.raw_id()).to_owned();
                return self.refuse_stream(admission, &id, full);
            }
        };
        let FromClient { upstream, client } =
            run_blocking(&self.filter, &admission.caller, GuardInput::Request(&body), || {
                session.pass_from_client(&body, profile.as_deref())
            })
            .await;
        let Some(message) = upstream else {
            return reply::json(StatusCode::OK, client.unwrap_or_default());
        };
        let mut headers = Cow::Borrowed(&parts.headers);
        let message = match message {
            Cow::Borrowed(_) => body.clone(),
            Cow::Owned(message) => {
                update_routing(&mut headers, &message);
                let message = message.into();
                unanswered = UnansweredRequests::of_body(&message);
                message
            }
        };
        let turn = match self.upstream.turns.take(&admission.caller, admission.messages).await {
            Ok(turn) => turn,
            Err(failure) => return fail(session, &mut unanswered, client, &failure),
        };
        let response = match self
            .upstream
            .send(Method::POST, None, (session.owner(), &admission.owner), &headers, message)
            .await
        {
            Ok(response) => response,
            Err(failure) => return fail(session, &mut unanswered, client, &failure),
        };
        self.remember(header(response.headers(), SESSION_ID), session, admission);
        if is_events(response.headers()) {
            let post =
                PostedRequests { unanswered, own: client, admission: admission.clone(), turn };
            return self.stream(Arc::clone(session), response, long_lived, Some(post)).await;
        }
        if !is_plain_json(response.headers()) {
            // The upstream answers a batch without requests with 202. The guard's answers remain.
            return match client {
                Some(own) => reply::json(StatusCode::OK, own),
                None => unchanged(response),
            };
        }
        let (head, incoming) = response.into_parts();
        let answer = match self.upstream.collect(incoming, &admission.owner).await {
            Ok(answer) => answer,
            Err(failure) => return fail(session, &mut unanswered, client, &failure),
        };
        let ids = unanswered.ids();
        for message in split_batch(trim_padding(&answer)) {
            unanswered.remove_answered(message);
            self.tasks.learn(session.owner(), message, 0);
        }
        let shaped =
            run_blocking(&self.filter, &admission.caller, GuardInput::Response(&answer), || {
                let messages = session.pass_from_upstream(&answer, Some(&ids));
                let is_unchanged = matches!(messages.as_slice(), [Cow::Borrowed(_)]);
                (!is_unchanged)
                    .then(|| messages.into_iter().map(Cow::into_owned).collect::<Vec<_>>())
            })
            .await;
        let start = quote(&String::from_utf8_lossy(trim_padding(&answer))).into_owned();
        // An empty body promises the answer on another stream.
        let is_odd = head.status == StatusCode::OK && !start.is_empty();
        let answer = if is_odd && !unanswered.is_empty() {
            let reason = format!("does not answer the request: {start}");
            let failure = Failure::invalid_answer(&self.upstream.name, &reason);
            let mut messages = unanswered.fail(session, &failure);
            messages.extend(
                shaped.unwrap_or_default().into_iter().filter(|message| is_answer(message)),
            );
            one_body(messages).into()
        } else {
            // An error of the transport has a body without a response, and ends the requests too.
            unanswered.record_failures(session, answer.len());
            shaped.map_or(answer, |messages| one_body(messages).into())
        };
        let answer = match client {
            Some(own) => join_bodies(&own, &answer).into(),
            None => answer,
        };
        respond(&head, Body::from(answer))
    }

    /// Returns the upstream's event stream with each event shaped by the guard. `post` has the
    /// requests that the stream answers. It is `None` for a GET. `long_lived` counts a stream that
    /// a GET or a subscription opened, which may be silent for any time.
    async fn stream(
        &self,
        session: Arc<Session>,
        response: http::Response<Incoming>,
        long_lived: Option<OpenStream>,
        post: Option<PostedRequests>,
    ) -> Response {
        let (head, incoming) = response.into_parts();
        let is_long_lived = long_lived.is_some();
        let upstream = Arc::clone(&self.upstream);
        let tasks = Arc::clone(&self.tasks);
        let stream = ResponseStream::new(upstream, session, tasks, incoming, long_lived, post);
        let mut state = StreamState::Next(stream);
        // A balancer can repeat a request at another replica until the response begins.
        if self.is_replica.load(Ordering::Relaxed) && !is_long_lived {
            let mut first = state.first_message();
            state = match timeout(MAX_HEAD_DELAY, &mut first).await {
                Ok((event, stream)) => StreamState::Ready(event, stream),
                Err(_) => StreamState::First(first),
            };
        }
        let body = stream::unfold(state, |state| async move {
            let (event, stream) = state.next().await;
            Some((Ok::<_, Infallible>(Bytes::from(event?)), StreamState::Next(stream)))
        });
        let body = if is_long_lived {
            Body::from_stream(body.take_until(self.closing.clone().cancelled_owned()))
        } else {
            Body::from_stream(body)
        };
        respond(&head, body)
    }
}

/// Returns a response that reports the failure to every unanswered request. `own` has the guard's
/// own answers to other requests of the same batch.
fn fail(
    session: &Session,
    unanswered: &mut UnansweredRequests,
    own: Option<Vec<u8>>,
    failure: &Failure,
) -> Response {
    let answers = unanswered.fail(session, failure);
    let body = match (own, answers.as_slice()) {
        (_, []) => return transport_error(failure),
        (None, [answer]) => answer.clone(),
        (None, answers) => join_batch(answers),
        (Some(own), answers) => join_bodies(&own, &join_batch(answers)),
    };
    reply::json(StatusCode::OK, body)
}

/// Returns the error response to an HTTP request that contains no JSON-RPC request.
fn transport_error(failure: &Failure) -> Response {
    let status = match failure {
        Failure::Timeout(_) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    reply::refuse(status, "null", failure.code(), &failure.to_string())
}

/// Returns the upstream's response with its body unchanged.
fn unchanged(response: http::Response<Incoming>) -> Response {
    let (head, body) = response.into_parts();
    respond(&head, Body::new(body))
}

fn respond(head: &http::response::Parts, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = head.status;
    *response.headers_mut() = response_headers(&head.headers);
    response
}

/// Returns a body with these messages: the answer, if there is one, or a batch. A request that is
/// not in a batch has one answer, beside which a JSON body has no place for other messages.
fn one_body(mut messages: Vec<Vec<u8>>) -> Vec<u8> {
    if messages.len() > 1 && messages.iter().filter(|message| is_answer(message)).count() == 1 {
        messages.retain(|message| is_answer(message));
    }
    match messages.as_slice() {
        [message] => message.clone(),
        messages => join_batch(messages),
    }
}

fn is_answer(message: &[u8]) -> bool {
    Head::read(message).is_some_and(|head| head.kind() == Some(Kind::Response))
}

/// Returns one JSON-RPC batch of the guard's own answers and the upstream's answers.
fn join_bodies(own: &[u8], answer: &[u8]) -> Vec<u8> {
    join_batch(&[split_batch(own), split_batch(answer)].concat())
}

fn is_events(headers: &HeaderMap) -> bool {
    is_event_stream(header(headers, CONTENT_TYPE)) && !is_encoded_body(headers)
}

fn is_plain_json(headers: &HeaderMap) -> bool {
    is_json(header(headers, CONTENT_TYPE)) && !is_encoded_body(headers)
}

/// Returns true if a body is compressed, so that the guard cannot read it. Such a request is
/// refused, and such a response passes unchanged.
fn is_encoded_body(headers: &HeaderMap) -> bool {
    is_encoded(headers.get(CONTENT_ENCODING).map(|_| header(headers, CONTENT_ENCODING)))
}
