//! Forwards a client's request through the guard to an upstream, until its final response.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::HeaderMap;
use tracing::info;

use super::client::Origin;
use super::client_session::no_client;
use super::connections::Connections;
use super::in_flight::{ClientQuestions, InFlightRequest};
use super::input_requests::{InputRequest, InputRequests, resumed_state};
use super::param_headers::ParamHeaders;
use super::router::Router;
use super::translate;
use crate::config::Isolation;
use crate::engine::CallContext;
use crate::exchange::{Exchange, NextStep};
use crate::fair_queue::Place;
use crate::filter::Filter;
use crate::message::{Head, Kind, STATELESS_VERSION};
use crate::protocol_mode::ProtocolMode;
use crate::reply;
use crate::tasks::{GuardInput, run_blocking};
use crate::telemetry::{Outcome, Recorder};
use crate::upstream::Failure;
use crate::upstream::connection::{UpstreamConnection, UpstreamRequest};
use crate::upstream::request_table::UpstreamReply;

/// The interval at which the gateway checks that the client has answered an upstream's question.
const QUESTION_POLL: Duration = Duration::from_secs(1);

/// Sends clients' requests to upstreams, through the guard.
pub(super) struct Forwarder {
    pub(super) connections: Arc<Connections>,
    pub(super) router: Arc<Router>,
    pub(super) filter: Arc<Filter>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) input_requests: InputRequests,
    pub(super) param_headers: ParamHeaders,
    /// True if there is only one upstream, clients see its names without a prefix, and programs are
    /// disabled. The upstream's messages then pass without merging or renaming, and the guard
    /// itself may replace its list of tools by a tiered one.
    pub(super) is_transparent: bool,
}

impl Forwarder {
    /// Creates the exchange of a request with the upstream at index `server`. If that is `None`,
    /// the guard itself answers.
    pub(super) fn begin(
        &self,
        origin: &Origin<'_>,
        server: Option<usize>,
        request: &[u8],
    ) -> Exchange {
        let client = origin.client;
        let upstream = server.and_then(|server| self.connections.servers.get(server));
        let session = client.session.as_ref();
        let session = session.map(|session| session.id.clone()).unwrap_or_default();
        // An upstream may have other tools in each session.
        let lists_tools = (self.is_transparent && upstream.is_some()).then(|| session.clone());
        let context = CallContext {
            principal: client.scope.to_string(),
            session,
            request_id: self.recorder.next_request(),
            upstream: upstream.map(|upstream| upstream.name.clone()).unwrap_or_default(),
            protocol_version: match client.mode {
                ProtocolMode::Stateless => STATELESS_VERSION.to_owned(),
                ProtocolMode::Stateful => client.info.version.clone(),
            },
            client_name: client.name(),
            lists_tools,
            ..CallContext::default()
        };
        let head = Head::read(request);
        let mut exchange = Exchange::of_request(context, head.as_ref(), Some(&self.recorder));
        origin.parent.clone_into(&mut exchange.parent);
        // The aggregator records the client's request, for which several may be sent.
        match exchange.is_no_call() && server.is_some() {
            true => exchange.into_part(&self.recorder),
            false => exchange,
        }
    }

    /// Forwards a request whose names are already those of the upstream. Returns the upstream's
    /// response, shaped by the guard and in the client's protocol mode.
    pub(super) async fn forward(
        &self,
        origin: &Origin<'_>,
        server: usize,
        request: Vec<u8>,
    ) -> Vec<u8> {
        if let Some(state) = Head::read(&request).and_then(|head| resumed_state(&head)) {
            return self.resume(origin, &state, &request).await;
        }
        let exchange = self.begin(origin, Some(server), &request);
        self.forward_as(origin, server, exchange, request).await
    }

    /// Forwards a list request of the gateway itself, which reads the list in full.
    ///
    /// # Errors
    /// The reason why the upstream did not answer.
    pub(super) async fn forward_list(
        &self,
        origin: &Origin<'_>,
        server: usize,
        request: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let mut exchange = self.begin(origin, Some(server), &request);
        exchange.context.full_list = true;
        let failure = exchange.watch_failure();
        let answer = self.forward_as(origin, server, exchange, request).await;
        failure.get().cloned().map_or(Ok(answer), Err)
    }

    /// Forwards a call of a program, whose names are already those of the upstream. Returns the
    /// upstream's whole response in the client's protocol mode, and its estimated tokens.
    pub(super) async fn forward_whole(
        &self,
        origin: &Origin<'_>,
        server: usize,
        request: Vec<u8>,
    ) -> (Vec<u8>, u64) {
        let mut exchange = self.begin(origin, Some(server), &request);
        let counted = exchange.count_only();
        let answer = self.forward_as(origin, server, exchange, request).await;
        (answer, counted.load(Ordering::Relaxed))
    }

    async fn forward_as(
        &self,
        origin: &Origin<'_>,
        server: usize,
        mut exchange: Exchange,
        request: Vec<u8>,
    ) -> Vec<u8> {
        let next = run_blocking(
            &self.filter,
            &origin.client.caller,
            GuardInput::Request(&request),
            || exchange.on_request(&self.filter, &request),
        );
        match next.await {
            NextStep::Answer(answer, decision) => {
                exchange.record(&self.recorder, Some(&decision), answer.len(), Outcome::Passed);
                answer
            }
            NextStep::Forward(changed) => {
                exchange.audit_references(&self.recorder);
                let message = changed.unwrap_or_else(|| request.clone());
                self.send_and_follow(origin, server, exchange, &request, message).await
            }
        }
    }

    /// Sends `message` to the upstream at index `server`, and returns the shaped response.
    /// `message` is the version of the client's `request` that the guard returned.
    pub(super) async fn send_and_follow(
        &self,
        origin: &Origin<'_>,
        server: usize,
        exchange: Exchange,
        request: &[u8],
        message: Vec<u8>,
    ) -> Vec<u8> {
        let turn = match self.take_turn(origin, server).await {
            Ok(turn) => turn,
            Err(failure) => return self.fail(&exchange, request, &failure),
        };
        exchange.upstream_admitted();
        let (call, repeatable) = match self.send(origin, server, message).await {
            Ok(sent) => sent,
            Err(failure) => {
                // A process that no longer reads is as unavailable as one that does not answer.
                if matches!(failure, Failure::Timeout(_))
                    && let Some(server) = self.connections.servers.get(server)
                    && server.http.is_none()
                {
                    server.failed(&failure, &origin.client.owner);
                }
                return self.fail(&exchange, request, &failure);
            }
        };
        let in_flight = InFlightRequest {
            server,
            request: request.to_vec(),
            exchange,
            repeatable,
            call,
            turn: Some(turn),
            started: Instant::now(),
            input_rounds: 0,
            questions: ClientQuestions::default(),
        };
        self.follow(origin, in_flight).await
    }

    /// Waits for the client's turn at the upstream at index `server`, which is taken before a
    /// request is sent.
    pub(super) async fn take_turn(
        &self,
        origin: &Origin<'_>,
        server: usize,
    ) -> Result<Place, Failure> {
        let Some(upstream) = self.connections.servers.get(server) else {
            return Err(Failure::Unavailable("There is no such upstream.".to_owned()));
        };
        upstream.turns.take(&origin.client.caller, 1).await
    }

    /// Sends a request to the upstream at index `server`, translated into the upstream's protocol
    /// mode. Also returns `message` if it may have to be sent again, in a new session.
    pub(super) async fn send(
        &self,
        origin: &Origin<'_>,
        server: usize,
        message: Vec<u8>,
    ) -> Result<(UpstreamRequest, Option<Vec<u8>>), Failure> {
        let client = origin.client;
        let connection = self.connections.get(client, server).await?;
        let level = client.session.as_ref().and_then(|session| session.log_level());
        let headers = match connection.mode {
            ProtocolMode::Stateless => {
                let mut headers = client.param_headers();
                headers.extend(self.param_headers.build(&client.scope, server, &message));
                headers
            }
            ProtocolMode::Stateful => HeaderMap::new(),
        };
        let repeatable = connection.may_lose_session().then(|| message.clone());
        let message =
            translate::request(client.mode, connection.mode, message, &client.info, level);
        let request = async |connection: &Arc<UpstreamConnection>| match client.is_background {
            true => connection.request_uncounted(&message).await,
            false => connection.request(&message, &headers, &client.owner).await,
        };
        let call = match request(&connection).await {
            // The process was evicted after the search for the connection, and before the request
            // was sent. A new process is not idle, so that one more attempt suffices.
            Err(Failure::Evicted(reason)) => {
                let next = self.connections.get(client, server).await?;
                if next.mode != connection.mode {
                    return Err(Failure::Evicted(reason));
                }
                request(&next).await?
            }
            call => call?,
        };
        Ok((call, repeatable))
    }

    /// Processes the upstream's messages about a request, up to its response. Returns the shaped
    /// response for the client.
    pub(super) async fn follow(
        &self,
        origin: &Origin<'_>,
        mut in_flight: InFlightRequest,
    ) -> Vec<u8> {
        let client = origin.client;
        let upstream = Arc::clone(&in_flight.call.connection().server);
        let is_shared = upstream.isolation == Isolation::Shared;
        let enforces_timeout = in_flight.call.connection().enforces_timeout();
        in_flight.exchange.timeout = (!enforces_timeout).then(|| upstream.timeout());
        loop {
            match next_reply(&mut in_flight, &client.owner).await {
                UpstreamReply::Related(message) => {
                    let Some(head) = Head::read(&message) else { continue };
                    if head.kind() != Some(Kind::Request) {
                        if translate::is_wanted(client.mode, &in_flight.request, &head) {
                            origin.notify(message).await;
                        }
                        continue;
                    }
                    // The upstream asks the client a question.
                    // The gateway's own requests have no receiver.
                    let has_receiver = !is_shared && !origin.out.is_closed();
                    match &client.session {
                        Some(session) if has_receiver => {
                            let connection = Arc::clone(in_flight.call.connection());
                            let question = in_flight.questions.ask(session, &connection, &message);
                            if question.is_some_and(|question| origin.send_request(question)) {
                                // The client may answer before the gateway waits for the upstream.
                                in_flight.exchange.upstream_admitted();
                            } else {
                                in_flight.questions.withdraw_last();
                                connection.send_in_background(no_client(head.raw_id()));
                            }
                        }
                        None if has_receiver => return self.suspend(origin, in_flight, &message),
                        _ => {
                            let answer = no_client(head.raw_id());
                            in_flight.call.connection().send_in_background(answer);
                        }
                    }
                }
                UpstreamReply::Failed(Failure::SessionEnded(reason)) => {
                    // The upstream has not processed the request: it is sent again, once.
                    let Some(message) = in_flight.repeatable.take() else {
                        let failure = Failure::SessionEnded(reason);
                        return self.fail(&in_flight.exchange, &in_flight.request, &failure);
                    };
                    info!(upstream = upstream.name, "session ended, a new one is started");
                    match self.send(origin, in_flight.server, message).await {
                        Ok((call, _)) => in_flight.call = call,
                        Err(failure) => {
                            return self.fail(&in_flight.exchange, &in_flight.request, &failure);
                        }
                    }
                }
                UpstreamReply::Failed(failure) => {
                    return self.fail(&in_flight.exchange, &in_flight.request, &failure);
                }
                UpstreamReply::Answer(answer) => {
                    upstream.succeeded();
                    if client.mode == ProtocolMode::Stateful
                        && in_flight.call.connection().mode == ProtocolMode::Stateless
                        && let Some(input) = InputRequest::parse(&answer)
                    {
                        match self.request_input(origin, &mut in_flight, &input).await {
                            Ok(()) => continue,
                            Err(answer) => return answer,
                        }
                    }
                    return self.finish(origin, &in_flight, answer).await;
                }
            }
        }
    }

    /// Shapes the upstream's response and translates it into the client's protocol mode.
    async fn finish(
        &self,
        origin: &Origin<'_>,
        in_flight: &InFlightRequest,
        answer: Vec<u8>,
    ) -> Vec<u8> {
        let exchange = &in_flight.exchange;
        self.router.tasks.learn(&origin.client.principal, &answer, in_flight.server);
        let guarded = run_blocking(
            &self.filter,
            &origin.client.caller,
            GuardInput::Response(&answer),
            || exchange.on_response(&self.filter, &answer),
        )
        .await;
        if exchange.endpoint == "tools/list" {
            self.recorder.listed(&exchange.context.upstream, &answer);
        }
        let answer = match exchange.refuse_damaged(&guarded) {
            Some(refusal) => refusal,
            None => guarded.shaped.unwrap_or(answer),
        };
        let mode = in_flight.call.connection().mode;
        let head = Head::read(&in_flight.request);
        let method = head.as_ref().map_or("", Head::method);
        let answer = translate::response(origin.client.mode, mode, method, answer);
        // Records are of clients' requests.
        if origin.client.is_background {
            return answer;
        }
        let decision = guarded.decision.as_ref();
        exchange.record(&self.recorder, decision, answer.len(), guarded.outcome);
        answer
    }

    /// Records that the upstream failed to answer a request, and returns the error response.
    pub(super) fn fail(&self, exchange: &Exchange, request: &[u8], failure: &Failure) -> Vec<u8> {
        exchange.note_failure(failure);
        let answer = reply::failure(request, failure.code(), &failure.to_string());
        exchange.record(&self.recorder, None, answer.len(), Outcome::UpstreamError);
        answer
    }
}

/// Waits for the upstream's next message within the time limits. They are suspended while the
/// client has a question to answer, because a person may have to answer it. A timeout counts for
/// the caller `owner`.
async fn next_reply(in_flight: &mut InFlightRequest, owner: &str) -> UpstreamReply {
    while in_flight.questions.is_waiting() {
        let since = Instant::now();
        let reply = tokio::time::timeout(QUESTION_POLL, in_flight.call.next()).await;
        // The time of a person to answer is no latency of the upstream.
        in_flight.exchange.upstream_admitted();
        in_flight.started += since.elapsed();
        if let Ok(reply) = reply {
            return reply;
        }
    }
    let server = Arc::clone(&in_flight.call.connection().server);
    let limit = server.config.limits.call();
    let left = limit.saturating_sub(in_flight.started.elapsed());
    let wait = in_flight.exchange.timeout.unwrap_or(left).min(left);
    if let Ok(reply) = tokio::time::timeout(wait, in_flight.call.next()).await {
        return reply;
    }
    if wait == left {
        // The upstream answers other calls in time, so the circuit breaker does not count this.
        return UpstreamReply::Failed(Failure::call_too_long(&server.name, limit));
    }
    let failure = Failure::Timeout(format!(
        "The upstream `{}` did not answer within {} s.",
        server.name,
        wait.as_secs()
    ));
    server.failed(&failure, owner);
    UpstreamReply::Failed(failure)
}
