//! The interface of a filter layer, and the guard call at the end of the stack of layers.

use std::sync::Arc;

use crate::engine::{CallContext, Decision, HostServices, Outcome, RequestVerdict};
use crate::engine::{Error, Result};
use crate::revision::Revision;

use super::ticket::GuardTicket;

/// The arguments of a guard call, which every layer of the filter can read and replace.
#[derive(Clone, Copy)]
pub(super) struct GuardCall<'a> {
    pub(super) cx: &'a CallContext,
    pub(super) services: &'a HostServices,
    pub(super) revision: &'a Arc<Revision>,
    /// The whole JSON-RPC message to process: a request of the client or a response of the
    /// upstream.
    pub(super) message: &'a [u8],
    /// True if the cache may answer the request. False if the response has its own HTTP headers, or
    /// the request is repeated only to create a ticket.
    pub(super) may_use_cache: bool,
}

/// The source of an answer that was made without the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerSource {
    /// The guard, with a part of a stored answer, or a refusal.
    Guard,
    /// The cache of upstream answers, shaped for this call.
    Cache,
}

/// The outcome of processing a client's request.
pub(super) enum RequestOutput {
    /// The request is sent to the upstream: as `changed`, or verbatim if it is `None`. The ticket
    /// is needed to process the response.
    Forward { changed: Option<Vec<u8>>, ticket: GuardTicket },
    /// This answer, from the guard or the cache, is sent to the client. The upstream is not called.
    Answer(Vec<u8>, Decision, AnswerSource),
}

/// The outcome of processing an upstream's response.
pub(super) struct ResponseOutput {
    /// The shaped response for the client. `None` sends the upstream's response unchanged.
    pub(super) shaped: Option<Vec<u8>>,
    pub(super) decision: Decision,
}

/// One task of the filter, such as caching or validation. Both methods call the next layer. By
/// default they do nothing else.
pub(super) trait Layer: Send + Sync {
    fn on_request(&self, call: GuardCall<'_>, next: Next<'_>) -> Result<RequestOutput> {
        next.on_request(call)
    }

    fn on_response(
        &self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
        next: Next<'_>,
    ) -> Result<ResponseOutput> {
        next.on_response(call, ticket)
    }
}

/// The layers that follow the current one. The last of them calls the guard.
#[derive(Clone, Copy)]
pub(super) struct Next<'a>(&'a [Box<dyn Layer>]);

impl<'a> Next<'a> {
    pub(super) fn new(layers: &'a [Box<dyn Layer>]) -> Self {
        Self(layers)
    }

    /// Passes a request to the next layer, or to the guard after the last one.
    pub(super) fn on_request(self, call: GuardCall<'_>) -> Result<RequestOutput> {
        if let Some((layer, rest)) = self.0.split_first() {
            return layer.on_request(call, Next(rest));
        }
        Ok(match call.revision.request(call.services, call.cx, call.message)? {
            RequestVerdict::Forward(forward) => RequestOutput::Forward {
                changed: changed(forward.message),
                ticket: GuardTicket::new(
                    Arc::clone(call.revision),
                    forward.ticket,
                    forward.references,
                ),
            },
            RequestVerdict::Answer(answer) => {
                RequestOutput::Answer(answer.message, answer.decision, AnswerSource::Guard)
            }
        })
    }

    /// Passes a response to the next layer, or to the guard after the last one.
    pub(super) fn on_response(
        self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
    ) -> Result<ResponseOutput> {
        if let Some((layer, rest)) = self.0.split_first() {
            return layer.on_response(call, ticket, Next(rest));
        }
        let verdict =
            call.revision.response(call.services, call.cx, &ticket.bytes, call.message)?;
        Ok(ResponseOutput { shaped: changed(verdict.message), decision: verdict.decision })
    }
}

fn changed(outcome: Outcome) -> Option<Vec<u8>> {
    match outcome {
        Outcome::Unchanged => None,
        Outcome::Shaped(message) => Some(message),
    }
}

/// Returns true if the guard component itself failed (it trapped or exceeded its deadline). False
/// if the message or the store caused the fault.
pub(super) fn is_guard_fault(fault: &Error) -> bool {
    matches!(fault, Error::Trap(_) | Error::Deadline)
}
