//! A single HTTP upstream behind the gateway. Messages that the guard does not change pass
//! verbatim, including headers and statuses.
//!
//! A response is matched with its request by session and id rather than by HTTP exchange, because
//! it may arrive on a later GET.

mod passed_sessions;
mod response_stream;
mod unanswered;

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

use self::passed_sessions::PassedSessions;
use self::response_stream::{PostedRequests, ResponseStream, StreamState};
use self::unanswered::UnansweredRequests;
use super::admission::Admission;
use super::headers::{PROTOCOL_VERSION, SESSION_ID, client_override, header, update_routing};
use super::reply;
use super::session::{ForwardedRequests, FromClient, Session};
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
    sessions: PassedSessions,
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
        let sessions = PassedSessions::new(limits, Arc::clone(&recorder));
        let (tasks, is_replica) = (Arc::new(TaskOwners::new()), AtomicBool::new(false));
        Self { upstream, filter, recorder, sessions, tasks, is_replica, closing }
    }

    /// Ends idle sessions, with a pause of at most `max_pause` between two searches. Runs until its
    /// task is dropped.
    pub(crate) async fn sweep(&self, max_pause: Duration) {
        self.sessions.sweep(max_pause).await;
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
            self.sessions.remove(header(&parts.headers, SESSION_ID));
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
        let session = self.sessions.find(principal, header(headers, SESSION_ID));
        session.map(|session| session.protocol_version())
    }

    /// Returns the session that a request names, or a new one if it names none. `None` if the
    /// upstream has not issued the id to this principal, or too long ago.
    fn session(&self, admission: &Admission, parts: &Parts) -> Option<Arc<Session>> {
        let (principal, name) = (&admission.principal, header(&parts.headers, SESSION_ID));
        if !name.is_empty() {
            return self.sessions.find(principal, name);
        }
        let scope = admission.storage_scope(&parts.headers);
        let version = header(&parts.headers, PROTOCOL_VERSION);
        Some(Arc::new(self.new_session((principal, &admission.owner), &scope, name, version)))
    }

    /// Returns a session of a principal, in the share of an owner.
    fn new_session(
        &self,
        (principal, owner): (&Arc<str>, &Arc<str>),
        scope: &str,
        name: &str,
        version: &str,
    ) -> Session {
        Session::new(Arc::clone(&self.filter), scope, &self.upstream.name)
            .recorded(Arc::clone(&self.recorder), principal, name, version)
            .with_detached_memory(self.sessions.detached_memory(), owner)
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
        if self.sessions.contains(name) {
            return;
        }
        let session = self.new_session((principal, owner), &scope(), name, &client.version);
        session.set_client_name(client.name());
        self.sessions.add(owner, name, &Arc::new(session));
    }

    /// Records that the upstream has issued the session id `name` to a caller.
    fn remember(&self, name: &str, session: &Arc<Session>, admission: &Admission) {
        session.set_name(name);
        if !name.is_empty() {
            self.sessions.add(&admission.owner, name, session);
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
        // If the client disconnects, this future is dropped, and `forwarded` with it.
        let (FromClient { upstream, client }, forwarded) =
            run_blocking(&self.filter, &admission.caller, GuardInput::Request(&body), || {
                let passed = session.pass_from_client(&body, profile.as_deref());
                (passed, ForwardedRequests::new(session, &body))
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
            let (own, admission) = (client, admission.clone());
            let post = PostedRequests { unanswered, forwarded, own, admission, turn };
            return self.stream(Arc::clone(session), response, long_lived, Some(post)).await;
        }
        if !is_plain_json(response.headers()) {
            // This response has no answers. Unless it is an error, they come on another stream.
            if response.status().is_success() && !is_encoded_body(response.headers()) {
                forwarded.detach();
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use crate::access::http_client;
    use crate::config::Upstream;
    use crate::headers::ForwardedCredentials;
    use crate::session::tests::{filter, session};
    use crate::store::clock::SystemClock;
    use crate::upstream::client::UpstreamClient;

    const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: silence\n\n";

    /// A client's session with an upstream that the test plays.
    struct UpstreamSetup {
        single: SingleUpstream,
        listener: TcpListener,
        session: Arc<Session>,
    }

    impl UpstreamSetup {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let recorder = Arc::new(Recorder::new(0, None, Arc::new(SystemClock)));
            let (config, credentials) = (Upstream::default(), ForwardedCredentials::None);
            let client = UpstreamClient::Shared(Box::new(http_client()));
            let (max, metrics) = (1_000, Arc::clone(&recorder));
            let upstream =
                HttpUpstream::new(&config, &url, credentials, None, max, client, metrics).unwrap();
            let (upstream, closing) = (Arc::new(upstream), CancellationToken::new());
            let single =
                SingleUpstream::new(upstream, filter(), recorder, &Limits::default(), closing);
            let session = Arc::new(session());
            single.sessions.add(&"p".into(), "s", &session);
            Self { single, listener, session }
        }

        /// Sends a request of the client. The upstream answers the beginning `answer`, or nothing
        /// if it is empty. Returns the response, if there is one, and the upstream's connection.
        async fn send(&self, answer: &str) -> (Option<Response>, TcpStream) {
            let request = http::Request::post("/mcp").header(SESSION_ID, "s");
            let (parts, body) = request
                .body(Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#))
                .unwrap()
                .into_parts();
            let admission = Admission::of_principal("p");
            let served = self.single.serve(&admission, &parts, body);
            let accepted = async {
                let mut server = self.listener.accept().await.unwrap().0;
                assert!(server.read(&mut [0; 1_000]).await.unwrap() > 0);
                assert!(self.session.is_waiting());
                server.write_all(answer.as_bytes()).await.unwrap();
                server
            };
            if answer.is_empty() {
                tokio::select! {
                    server = accepted => (None, server),
                    response = served => panic!("{response:?}"),
                }
            } else {
                let (response, server) = tokio::join!(served, accepted);
                (Some(response), server)
            }
        }
    }

    #[tokio::test]
    async fn requests_of_clients_that_disconnect_are_removed() {
        let setup = UpstreamSetup::start().await;
        let unanswered = setup.send("").await;
        assert!(!setup.session.is_waiting());
        let (response, server) = setup.send(EVENTS).await;
        assert!(setup.session.is_waiting());
        drop(response);
        assert!(!setup.session.is_waiting());
        // The answer may come on a later stream.
        let accepted = setup
            .send("HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            .await;
        assert!(setup.session.is_waiting());
        let _ = setup.session.pass_from_upstream(br#"{"id":1,"result":{}}"#, None);
        assert!(!setup.session.is_waiting());
        setup.session.set_resumable();
        let resumable = setup.send("").await;
        assert!(setup.session.is_waiting());
        drop((unanswered, server, accepted, resumable));
    }

    #[tokio::test]
    async fn comments_before_the_first_message_are_not_all_collected() {
        let setup = UpstreamSetup::start().await;
        setup.single.join_fleet(None);
        let comment = format!(":{}\n\n", "x".repeat(900));
        let comments = comment.repeat(100);
        let (response, server) = setup.send(&format!("{EVENTS}{comments}")).await;
        drop(server);
        let mut body = response.unwrap().into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(first.len() < 70_000, "{}", first.len());
        let rest = body.collect().await.unwrap().to_bytes();
        let all = [first, rest].concat();
        assert!(String::from_utf8_lossy(&all).starts_with(&format!(": silence\n\n{comments}")));
    }
}
