//! One request of a client and its response, as every part of the gateway carries it: stdio, the
//! single upstream, the aggregator and REST.

use std::time::{Duration, Instant};

use crate::engine::{CallContext, Decision};
use crate::filter::{Filter, Request, Ticket};
use crate::telemetry::{AnswerEvent, Outcome, Recorder};

/// An exchange between its arrival and its recorded answer.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// Principal, session, client and upstream.
    pub(crate) context: CallContext,
    /// The JSON-RPC method, or the endpoint of a REST request.
    pub(crate) endpoint: String,
    /// The maximum time until the next message of the upstream. `None` if the transport enforces
    /// its own limit.
    pub(crate) timeout: Option<Duration>,
    started: Instant,
    /// The revision of the guard that began the exchange, and its state.
    ticket: Option<Ticket>,
}

/// The next step for a request.
pub(crate) enum NextStep {
    /// Send the request to the upstream, with other bytes if there are any.
    Forward(Option<Vec<u8>>),
    /// Send this answer to the client.
    Answer(Vec<u8>, Box<Decision>),
}

/// A response after the guard has seen it.
pub(crate) struct GuardedResponse {
    /// The message to send. `None` sends the response unchanged.
    pub(crate) shaped: Option<Vec<u8>>,
    pub(crate) decision: Option<Decision>,
    pub(crate) outcome: Outcome,
}

impl Exchange {
    pub(crate) fn new(context: CallContext, endpoint: impl Into<String>) -> Self {
        let (endpoint, started) = (endpoint.into(), Instant::now());
        Self { context, endpoint, timeout: None, started, ticket: None }
    }

    /// Passes the request to the guard.
    pub(crate) fn on_request(&mut self, filter: &Filter, message: &[u8]) -> NextStep {
        let decision = filter.request(&self.context, message);
        self.next_step(decision)
    }

    /// Passes the request to the guard, but not to its cache.
    pub(crate) fn on_request_uncached(&mut self, filter: &Filter, message: &[u8]) -> NextStep {
        let decision = filter.request_uncached(&self.context, message);
        self.next_step(decision)
    }

    fn next_step(&mut self, decision: Request) -> NextStep {
        match decision {
            Request::Answer(answer, decision) => NextStep::Answer(answer, decision),
            Request::Forward(changed, ticket) => {
                self.ticket = Some(ticket);
                NextStep::Forward(changed)
            }
        }
    }

    /// Returns true if the guard wants to see the response.
    pub(crate) fn wants_response(&self) -> bool {
        self.ticket.as_ref().is_some_and(|ticket| !ticket.is_pass())
    }

    /// Passes the response to the guard.
    pub(crate) fn on_response(&self, filter: &Filter, message: &[u8]) -> GuardedResponse {
        let Some(ticket) = &self.ticket else {
            return GuardedResponse { shaped: None, decision: None, outcome: Outcome::Passed };
        };
        let (shaped, decision) = filter.response_with_decision(&self.context, ticket, message);
        let outcome = Outcome::of_answer(!ticket.is_pass(), decision.as_ref());
        GuardedResponse { shaped, decision, outcome }
    }

    /// Records an answer that the guard has made or shaped.
    pub(crate) fn record(
        &self,
        recorder: &Recorder,
        decision: Option<&Decision>,
        bytes: usize,
        outcome: Outcome,
    ) {
        recorder.answered(&AnswerEvent {
            cx: &self.context,
            endpoint: &self.endpoint,
            decision,
            latency: self.started.elapsed(),
            bytes,
            outcome,
        });
    }
}
