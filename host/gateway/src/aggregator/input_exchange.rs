//! Translates server-to-client requests of upstreams (such as elicitations) between protocol modes.
//!
//! A stateful upstream sends a request to the client and waits for the answer. A stateless upstream
//! answers `input_required` and expects the original request again, with the input. For a client of
//! the other mode, the gateway converts between the two forms.

use std::time::Instant;

use serde_json::Value;
use serde_json::value::RawValue;

use super::client::Origin;
use super::forward::Forwarder;
use super::in_flight::InFlightRequest;
use super::input_requests::{InputRequest, InputRequests};
use crate::exchange::Exchange;
use crate::message::{Head, append_members, member, members, splice, with_id, with_member};
use crate::reply;
use crate::telemetry::Outcome;

/// The key in `inputRequests` for a stateful upstream's server-to-client request, which a stateless
/// client receives.
const QUESTION: &str = "question";
/// The maximum number of times that a stateless upstream may request input during one request.
const MAX_INPUT_ROUNDS: usize = 16;

impl Forwarder {
    /// Sends the requests for input in a stateless upstream's `input_required` result to a stateful
    /// client. Then sends the original request again, with the client's answers.
    ///
    /// # Errors
    /// The error response for the client. The client does not answer or reads too slowly, the
    /// upstream requests input too many times, or the repeated request cannot be sent.
    pub(super) async fn request_input(
        &self,
        origin: &Origin<'_>,
        in_flight: &mut InFlightRequest,
        input: &InputRequest,
    ) -> Result<(), Vec<u8>> {
        let id = raw_id(&in_flight.request).to_owned();
        in_flight.input_rounds += 1;
        let exchange = in_flight.exchange.clone();
        let refuse =
            |reason: &str| Err(self.refuse(&exchange, &id, reply::NOT_TRANSLATABLE, reason));
        let session = origin.client.session.as_ref();
        let Some(session) = session.filter(|_| in_flight.input_rounds <= MAX_INPUT_ROUNDS) else {
            return refuse("The upstream asks for input too many times.");
        };
        // The upstream has nothing to do until it gets the request again.
        in_flight.turn = None;
        let asked = Instant::now();
        let mut responses = Vec::new();
        for (name, question) in &input.questions {
            let question = members(question);
            let member = |name: &str| {
                question.iter().find(|(key, _)| key == name).map(|(_, value)| value.get())
            };
            let method: String = member("method")
                .and_then(|method| serde_json::from_str(method).ok())
                .unwrap_or_default();
            let (request, answer) = session.ask(&method, member("params").unwrap_or("{}"));
            if !origin.send_request(request) {
                return refuse("The client reads too slowly to be asked.");
            }
            let Ok(answer) = answer.await else { return refuse("The client is gone.") };
            let Some(result) = Head::read(&answer).and_then(|head| head.result) else {
                return refuse(&format!(
                    "The upstream asks for {method}, and the client did not answer that: {}",
                    String::from_utf8_lossy(&answer)
                ));
            };
            responses.push(format!("{}:{result}", Value::from(name.as_str())));
        }
        in_flight.started += asked.elapsed();
        let mut added = format!(r#""inputResponses":{{{}}}"#, responses.join(","));
        if let Some(state) = &input.state {
            added.push_str(&format!(r#","requestState":{state}"#));
        }
        if let Some(params) = Head::read(&in_flight.request).and_then(|head| head.params) {
            // The members of an earlier round are replaced.
            let cleared = with_member(params.get(), "inputResponses", None);
            let cleared = with_member(&cleared, "requestState", None);
            in_flight.request =
                splice(&in_flight.request, params.get(), &append_members(&cleared, &added));
        }
        let sent = match self.take_turn(origin, in_flight.server).await {
            Ok(turn) => {
                in_flight.turn = Some(turn);
                in_flight.exchange.upstream_admitted();
                self.send(origin, in_flight.server, in_flight.request.clone()).await
            }
            Err(failure) => Err(failure),
        };
        match sent {
            Ok((call, _)) => {
                in_flight.call = call;
                Ok(())
            }
            Err(failure) => Err(self.fail(&in_flight.exchange, &in_flight.request, &failure)),
        }
    }

    /// Records that a request is refused because it needs input, and returns the error response.
    fn refuse(&self, exchange: &Exchange, id: &str, code: i64, reason: &str) -> Vec<u8> {
        let answer = reply::error(id, code, reason);
        exchange.record(&self.recorder, None, answer.len(), Outcome::Refused);
        answer
    }

    /// Returns a stateful upstream's server-to-client request as an `input_required` answer for a
    /// stateless client. The client's request is suspended until the client repeats it with the
    /// input. Returns an error response if the request is too long to be suspended, or the system
    /// provides no random numbers.
    pub(super) fn suspend(
        &self,
        origin: &Origin<'_>,
        mut in_flight: InFlightRequest,
        question: &[u8],
    ) -> Vec<u8> {
        in_flight.turn = None;
        // The upstream has begun the request, so that it must not be repeated in a new session.
        in_flight.repeatable = None;
        let id = raw_id(&in_flight.request).to_owned();
        let exchange = in_flight.exchange.clone();
        exchange.upstream_suspended();
        let bytes = in_flight.request.len();
        if !InputRequests::<InFlightRequest>::admits(bytes) {
            let reason = "The upstream asks for input, and the request is too long to wait for it.";
            return self.refuse(&exchange, &id, reply::NOT_TRANSLATABLE, reason);
        }
        let head = Head::read(question);
        let suspended = head.and_then(|head| {
            let client = origin.client;
            let (principal, owner, id) = (&client.principal, &client.owner, head.raw_id());
            let state = self.input_requests.suspend(principal, owner, in_flight, bytes, id)?;
            Some((head, state))
        });
        let Some((head, state)) = suspended else {
            let reason = "The upstream's question cannot be passed on.";
            return self.refuse(&exchange, &id, reply::NOT_TRANSLATABLE, reason);
        };
        let method = Value::from(head.method());
        let params = head.params.map_or("{}", RawValue::get);
        let result = format!(
            r#"{{"resultType":"input_required","inputRequests":{{"{QUESTION}":{{"method":{method},"params":{params}}}}},"requestState":"{state}"}}"#
        );
        let answer = reply::result(&id, &result);
        exchange.record(&self.recorder, None, answer.len(), Outcome::Passed);
        answer
    }

    /// Sends the client's input to the upstream of the suspended request with the `requestState`
    /// `state`. Sends an error if `request` has no input. Returns the response to the suspended
    /// request, or an error response if the state is unknown.
    pub(super) async fn resume(&self, origin: &Origin<'_>, state: &str, request: &[u8]) -> Vec<u8> {
        let id = raw_id(request).to_owned();
        let Some(pending) = self.input_requests.take(&origin.client.principal, state) else {
            let reason = "requestState is not known here, or no longer: begin the request again.";
            let exchange = self.begin(origin, None, request);
            return self.refuse(&exchange, &id, reply::INVALID_PARAMS, reason);
        };
        let mut in_flight = pending.request;
        in_flight.started += pending.since.elapsed();
        let params = Head::read(request).and_then(|head| head.params);
        let responses = params.and_then(|params| member(params.get(), "inputResponses"));
        let response = responses.and_then(|responses| member(responses.get(), QUESTION));
        let question_id = &pending.question_id;
        let answer = match response {
            Some(response) => reply::result(question_id, response.get()),
            None => reply::error(question_id, reply::INVALID_PARAMS, "The client did not answer."),
        };
        match self.take_turn(origin, in_flight.server).await {
            Ok(turn) => in_flight.turn = Some(turn),
            Err(failure) => return self.fail(&in_flight.exchange, request, &failure),
        }
        in_flight.exchange.upstream_admitted();
        if let Err(failure) = in_flight.call.connection().send(answer).await {
            return self.fail(&in_flight.exchange, request, &failure);
        }
        in_flight.request = with_id(&in_flight.request, &id);
        // Boxed to keep the future of `forward` small. The answer has the id of the first request.
        let answer = Box::pin(self.follow(origin, in_flight)).await;
        with_id(&answer, &id)
    }
}

fn raw_id(message: &[u8]) -> &str {
    Head::read(message).map_or("null", |head| head.raw_id())
}
