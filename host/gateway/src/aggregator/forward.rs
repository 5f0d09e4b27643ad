//! A request and its answer, with all that is said between them: past the guard, to the upstream, and back.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use serde_json::value::RawValue;

use super::client_session::{ClientSession, nobody};
use super::translate;
use super::{Aggregator, Ask};
use crate::config::Isolation;
use crate::engine::{CallContext, Decision};
use crate::filter::{Request, Ticket};
use crate::gateway::blocking::run_blocking;
use crate::gateway::upstream::Failure;
use crate::gateway::upstream::connection::{ProtocolMode, UpstreamConnection, UpstreamRequest};
use crate::gateway::upstream::request_table::UpstreamReply;
use crate::gateway::wire::reply;
use crate::message::{Head, Kind, MODERN, member, members};
use crate::telemetry::{AnswerEvent, Outcome};

/// A request that is on its way.
pub(super) struct InFlightRequest {
    pub(super) server: usize,
    /// As the client's protocol mode has it, under the upstream's names.
    pub(super) request: Vec<u8>,
    pub(super) method: String,
    pub(super) cx: CallContext,
    pub(super) ticket: Ticket,
    pub(super) call: UpstreamRequest,
    pub(super) since: Instant,
    /// How often the upstream asked for input.
    pub(super) rounds: usize,
    pub(super) questions: Questions,
}

/// What the client of a request was asked in its course. With the request they end too.
#[derive(Default)]
pub(super) struct Questions(Option<Arc<ClientSession>>, Vec<u64>);

impl Questions {
    /// Whether one of them waits for its answer.
    fn wait(&self) -> bool {
        self.0.as_ref().is_some_and(|session| session.is_asked(&self.1))
    }

    /// Puts a question of an upstream to the client: the message for it.
    fn ask(
        &mut self,
        session: &Arc<ClientSession>,
        connection: &Arc<UpstreamConnection>,
        question: &[u8],
    ) -> Vec<u8> {
        let (number, message) = session.ask_for(connection, question);
        self.0 = Some(Arc::clone(session));
        self.1.push(number);
        message
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            session.forget(&self.1);
        }
    }
}

impl Aggregator {
    pub(super) fn context(&self, ask: &Ask<'_>, server: Option<usize>) -> CallContext {
        let upstream = server.and_then(|server| self.servers.get(server));
        let session = ask.client.session.as_ref();
        CallContext {
            principal: ask.client.scope.to_string(),
            session: session.map(|session| session.id.clone()).unwrap_or_default(),
            request_id: self.recorder.next_request(),
            upstream: upstream.map(|upstream| upstream.name.clone()).unwrap_or_default(),
            protocol_version: match ask.client.mode {
                ProtocolMode::Stateless => MODERN.to_owned(),
                ProtocolMode::Stateful => ask.client.info.version.clone(),
            },
            client_name: ask.client.info.name(),
            ..CallContext::default()
        }
    }

    /// The answer of an upstream to a request under its own names, shaped, in the client's protocol mode.
    pub(super) async fn exchange(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        server: usize,
        request: Vec<u8>,
    ) -> Vec<u8> {
        let since = Instant::now();
        if let Some(state) = Head::read(&request).and_then(|head| self.input_state(&head)) {
            return self.resume(ask, &state, &request).await;
        }
        let cx = self.context(ask, Some(server));
        let verdict =
            run_blocking(&self.filter, request.len(), || self.filter.request(&cx, &request)).await;
        let (message, ticket) = match verdict {
            Request::Answer(answer, decision) => {
                let method = Head::read(&request).map(|head| head.method().to_owned());
                let method = method.unwrap_or_default();
                self.record(&cx, &method, since, Some(&decision), answer.len(), Outcome::Passed);
                return answer;
            }
            Request::Forward(message, ticket) => {
                (message.map_or(Cow::Borrowed(request.as_slice()), Cow::Owned), ticket)
            }
        };
        let message = message.into_owned();
        self.send_and_follow(ask, server, cx, &request, message, ticket, since).await
    }

    /// Sends on what the guard made of a request, and follows it to its answer.
    #[allow(clippy::too_many_arguments, reason = "an in-flight request is made of")]
    pub(super) async fn send_and_follow(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        server: usize,
        cx: CallContext,
        request: &[u8],
        message: Vec<u8>,
        ticket: Ticket,
        since: Instant,
    ) -> Vec<u8> {
        let method = Head::read(request).map(|head| head.method().to_owned()).unwrap_or_default();
        match self.send(ask, server, message).await {
            Ok(call) => {
                let questions = Questions::default();
                let in_flight = InFlightRequest {
                    server,
                    request: request.to_vec(),
                    method,
                    cx,
                    ticket,
                    call,
                    since,
                    rounds: 0,
                    questions,
                };
                self.follow(ask, in_flight).await
            }
            Err(failure) => self.fail(&cx, &method, request, since, &failure),
        }
    }

    /// Sends a request to an upstream, in its era.
    pub(super) async fn send(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        server: usize,
        message: Vec<u8>,
    ) -> Result<UpstreamRequest, Failure> {
        let connection = self.connection(ask.client, server).await?;
        let level = ask.client.session.as_ref().and_then(|session| session.log_level());
        let message = translate::request(
            ask.client.mode,
            connection.mode,
            message,
            &ask.client.info,
            level.as_deref(),
        );
        connection.request(&message).await
    }

    /// Follows a request to its answer.
    pub(super) async fn follow(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        mut in_flight: InFlightRequest,
    ) -> Vec<u8> {
        let upstream = Arc::clone(&in_flight.call.connection().server);
        let Some(_permit) = upstream.permit().await else { return Vec::new() };
        loop {
            match Self::next(&mut in_flight).await {
                UpstreamReply::Related(message) => {
                    let head = Head::read(&message);
                    let Some(head) = head else { continue };
                    if head.kind() != Some(Kind::Request) {
                        if translate::is_wanted(ask.client.mode, &in_flight.request, &head) {
                            let _ = ask.out.send(message);
                        }
                        continue;
                    }
                    // An upstream asks the client something.
                    let shared = upstream.isolation == Isolation::Shared;
                    match &ask.client.session {
                        Some(session) if !shared => {
                            let connection = Arc::clone(in_flight.call.connection());
                            let _ = ask.out.send(in_flight.questions.ask(
                                session,
                                &connection,
                                &message,
                            ));
                        }
                        None if !shared => return self.suspend(ask, in_flight, &message),
                        _ => in_flight.call.connection().send_in_background(nobody(head.raw_id())),
                    }
                }
                UpstreamReply::Failed(failure) => {
                    return self.fail(
                        &in_flight.cx,
                        &in_flight.method,
                        &in_flight.request,
                        in_flight.since,
                        &failure,
                    );
                }
                UpstreamReply::Answer(answer) => {
                    upstream.succeeded();
                    if ask.client.mode == ProtocolMode::Stateful
                        && in_flight.call.connection().mode == ProtocolMode::Stateless
                        && let Some(wanted) = super::input_requests::wanted(&answer)
                    {
                        match self.request_input(ask, &mut in_flight, &wanted).await {
                            Ok(()) => continue,
                            Err(answer) => return answer,
                        }
                    }
                    return self.finish(ask, &in_flight, answer).await;
                }
            }
        }
    }

    /// What comes next on a request, in the upstream's time. While the client is asked something, it has all the time it wants.
    async fn next(in_flight: &mut InFlightRequest) -> UpstreamReply {
        if in_flight.questions.wait() || in_flight.call.connection().enforces_timeout() {
            return in_flight.call.next().await;
        }
        let server = Arc::clone(&in_flight.call.connection().server);
        match tokio::time::timeout(server.timeout(), in_flight.call.next()).await {
            Ok(reply) => reply,
            Err(_) => {
                server.failed();
                UpstreamReply::Failed(Failure::Timeout(format!(
                    "The upstream `{}` did not answer within {} s.",
                    server.name,
                    server.timeout().as_secs()
                )))
            }
        }
    }

    /// Shapes an answer and says it in the client's protocol mode.
    async fn finish(&self, ask: &Ask<'_>, in_flight: &InFlightRequest, answer: Vec<u8>) -> Vec<u8> {
        self.learn_task(ask, in_flight, &answer);
        let (shaped, decision) = run_blocking(&self.filter, answer.len(), || {
            self.filter.response_with_decision(&in_flight.cx, &in_flight.ticket, &answer)
        })
        .await;
        let outcome = Outcome::of_answer(!in_flight.ticket.is_pass(), decision.as_ref());
        let answer = shaped.unwrap_or(answer);
        let mode = in_flight.call.connection().mode;
        let answer = translate::response(ask.client.mode, mode, &in_flight.method, answer);
        self.record(
            &in_flight.cx,
            &in_flight.method,
            in_flight.since,
            decision.as_ref(),
            answer.len(),
            outcome,
        );
        answer
    }

    /// Remembers whose a task is that an answer announces.
    fn learn_task(&self, ask: &Ask<'_>, in_flight: &InFlightRequest, answer: &[u8]) {
        if in_flight.method != "tools/call" || memchr::memmem::find(answer, b"\"taskId\"").is_none()
        {
            return;
        }
        let Some(result) = Head::read(answer).and_then(|head| head.result) else { return };
        for (name, value) in members(result) {
            let id = match name.as_str() {
                "taskId" => Some(value.get()),
                "task" => member(value.get(), "taskId").map(RawValue::get),
                _ => None,
            };
            if let Some(id) = id.and_then(|id| serde_json::from_str::<String>(id).ok()) {
                self.router.learn_task(&ask.client.principal, &id, in_flight.server);
            }
        }
    }

    /// The answer to a request that an upstream failed on.
    pub(super) fn fail(
        &self,
        cx: &CallContext,
        method: &str,
        request: &[u8],
        since: Instant,
        failure: &Failure,
    ) -> Vec<u8> {
        let answer = reply::failure(request, failure.code(), &failure.to_string());
        self.record(cx, method, since, None, answer.len(), Outcome::UpstreamError);
        answer
    }

    pub(super) fn record(
        &self,
        cx: &CallContext,
        endpoint: &str,
        since: Instant,
        decision: Option<&Decision>,
        bytes: usize,
        outcome: Outcome,
    ) {
        let latency = since.elapsed();
        self.recorder.answered(&AnswerEvent { cx, endpoint, decision, latency, bytes, outcome });
    }
}
