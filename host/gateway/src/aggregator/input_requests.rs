//! Questions to the client in the middle of a request, between the modes.
//!
//! A stateful upstream asks by a request of its own and waits; a stateless one answers `input_required` and is called again. Before the other kind of client the
//! gateway does what the client would have done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::value::RawValue;

use super::forward::InFlightRequest;
use super::{Aggregator, Ask};
use crate::gateway::wire::reply;
use crate::message::{Head, append, member, members, splice, with_id, with_member};
use crate::telemetry::Outcome;

/// Before the state that stands for a request which waits at the gateway.
const STATE: &str = "cg-parked-";
/// The name of the one question of a stateful upstream.
const QUESTION: &str = "question";
/// A stateless upstream that asks more often is not answered any more.
const MOST: usize = 16;

/// A request that waits for the client's answer to its upstream's question.
pub(super) struct PendingInput {
    in_flight: InFlightRequest,
    principal: Arc<str>,
    /// The id of the upstream's question, as it is spelt.
    question: String,
    since: Instant,
}

/// What a stateless upstream wants to know.
pub(super) struct InputRequest {
    questions: Vec<(String, String)>,
    state: Option<String>,
}

/// What an answer asks for, if it is no answer yet.
pub(super) fn wanted(answer: &[u8]) -> Option<InputRequest> {
    // Most answers are long before they are questions.
    memchr::memmem::find(answer, b"input_required")?;
    let result = members(Head::read(answer)?.result?);
    let member = |name: &str| result.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
    if member("resultType").map(RawValue::get) != Some("\"input_required\"") {
        return None;
    }
    let questions = member("inputRequests").map(|questions| members(questions.get()));
    Some(InputRequest {
        questions: questions
            .unwrap_or_default()
            .into_iter()
            .map(|(name, question)| (name, question.get().to_owned()))
            .collect(),
        state: member("requestState").map(|state| state.get().to_owned()),
    })
}

impl Aggregator {
    /// Asks a stateful client what a stateless upstream wants to know, and calls the upstream again. Otherwise the answer that the client gets.
    pub(super) async fn request_input(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        in_flight: &mut InFlightRequest,
        wanted: &InputRequest,
    ) -> Result<(), Vec<u8>> {
        let id = Head::read(&in_flight.request)
            .map_or_else(String::new, |head| head.raw_id().to_owned());
        let refuse = |reason: &str| Err(reply::error(&id, reply::NOT_TRANSLATABLE, reason));
        in_flight.rounds += 1;
        let Some(session) = ask.client.session.as_ref().filter(|_| in_flight.rounds <= MOST) else {
            return refuse("The upstream asks for input again and again.");
        };
        let mut responses = Vec::new();
        for (name, question) in &wanted.questions {
            let question = members(question);
            let member = |name: &str| {
                question.iter().find(|(key, _)| key == name).map(|(_, value)| value.get())
            };
            let method: String = member("method")
                .and_then(|method| serde_json::from_str(method).ok())
                .unwrap_or_default();
            let (request, answer) = session.ask(&method, member("params").unwrap_or("{}"));
            let _ = ask.out.send(request);
            let Ok(answer) = answer.await else { return refuse("The client is gone.") };
            let Some(result) = Head::read(&answer).and_then(|head| head.result) else {
                let reason = format!(
                    "The upstream asks for {method}, and the client did not answer that: {}",
                    String::from_utf8_lossy(&answer)
                );
                return refuse(&reason);
            };
            responses.push(format!("{}:{}", serde_json::Value::from(name.as_str()), result));
        }
        let mut added = format!(r#""inputResponses":{{{}}}"#, responses.join(","));
        if let Some(state) = &wanted.state {
            added.push_str(&format!(r#","requestState":{state}"#));
        }
        let request = Head::read(&in_flight.request).and_then(|head| head.params).map(|params| {
            // Of an earlier round nothing stays.
            let params = with_member(params.get(), "inputResponses", None);
            append(&with_member(&params, "requestState", None), &added)
        });
        if let Some(params) = request
            && let Some(old) = Head::read(&in_flight.request).and_then(|head| head.params)
        {
            in_flight.request = splice(&in_flight.request, old.get(), &params);
        }
        match self.send(ask, in_flight.server, in_flight.request.clone()).await {
            Ok(call) => {
                in_flight.call = call;
                Ok(())
            }
            Err(failure) => Err(self.fail(
                &in_flight.cx,
                &in_flight.method,
                &in_flight.request,
                in_flight.since,
                &failure,
            )),
        }
    }

    /// Answers a stateless client with the question of a stateful upstream, whose request waits meanwhile.
    pub(super) fn suspend(
        &self,
        ask: &Ask<'_>,
        in_flight: InFlightRequest,
        question: &[u8],
    ) -> Vec<u8> {
        let id = Head::read(&in_flight.request)
            .map_or_else(String::new, |head| head.raw_id().to_owned());
        let mut random = [0u8; 18];
        let head = Head::read(question);
        let (Some(head), Ok(())) = (head, getrandom::fill(&mut random)) else {
            return reply::error(
                &id,
                reply::NOT_TRANSLATABLE,
                "The upstream's question cannot be passed on.",
            );
        };
        let state = format!("{STATE}{}", URL_SAFE_NO_PAD.encode(random));
        let method = serde_json::Value::from(head.method());
        let params = head.params.map_or("{}", RawValue::get);
        let result = format!(
            r#"{{"resultType":"input_required","inputRequests":{{"{QUESTION}":{{"method":{method},"params":{params}}}}},"requestState":"{state}"}}"#
        );
        let answer = reply::result(&id, &result);
        self.record(
            &in_flight.cx,
            &in_flight.method,
            in_flight.since,
            None,
            answer.len(),
            Outcome::Passed,
        );
        let pending = PendingInput {
            in_flight,
            principal: Arc::clone(&ask.client.principal),
            question: head.raw_id().to_owned(),
            since: Instant::now(),
        };
        self.pending_inputs().put(state, pending);
        answer
    }

    /// The state of a request that waits here, if this is its continuation.
    pub(super) fn input_state(&self, head: &Head<'_>) -> Option<String> {
        let state = member(head.params?.get(), "requestState")?;
        let state: String = serde_json::from_str(state.get()).ok()?;
        state.starts_with(STATE).then_some(state)
    }

    /// Hands the client's answer to the upstream that waits for it, and follows its request on.
    pub(super) async fn resume(
        self: &Arc<Self>,
        ask: &Ask<'_>,
        state: &str,
        request: &[u8],
    ) -> Vec<u8> {
        let id = Head::read(request).map_or("null", |head| head.raw_id()).to_owned();
        let pending = {
            let mut all = self.pending_inputs();
            // Somebody else's is one that there is not.
            let own =
                all.peek(state).is_some_and(|pending| pending.principal == ask.client.principal);
            if own { all.pop(state) } else { None }
        };
        let Some(PendingInput { mut in_flight, question, .. }) = pending else {
            return reply::error(
                &id,
                reply::INVALID_PARAMS,
                "requestState is not known here, or no longer: begin the request again.",
            );
        };
        let params = Head::read(request).and_then(|head| head.params);
        let responses = params.and_then(|params| member(params.get(), "inputResponses"));
        let response = responses.and_then(|responses| member(responses.get(), QUESTION));
        let answer = match response {
            Some(response) => reply::result(&question, response.get()),
            None => reply::error(&question, reply::INVALID_PARAMS, "The client did not answer."),
        };
        if let Err(failure) = in_flight.call.connection().send(answer).await {
            return self.fail(&in_flight.cx, &in_flight.method, request, in_flight.since, &failure);
        }
        in_flight.request = with_id(&in_flight.request, &id);
        let answer = Box::pin(self.follow(ask, in_flight)).await;
        with_id(&answer, &id)
    }

    /// Gives up requests whose client did not come back.
    pub(super) fn expire_pending_inputs(&self, idle: Duration) {
        let mut pending_inputs = self.pending_inputs();
        while pending_inputs.peek_lru().is_some_and(|(_, pending)| pending.since.elapsed() > idle) {
            pending_inputs.pop_lru();
        }
    }
}
