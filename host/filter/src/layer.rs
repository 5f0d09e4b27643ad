//! The interface of a layer, and the guard call at the end of the stack.

use std::sync::Arc;

use crate::engine::{CallContext, Decision, HostServices, Outcome, RequestVerdict};
use crate::engine::{Error, Result};
use crate::revision::Revision;

use super::ticket::GuardTicket;

/// A call of the guard on its way through the stack.
#[derive(Clone, Copy)]
pub(super) struct GuardCall<'a> {
    pub(super) cx: &'a CallContext,
    pub(super) services: &'a HostServices,
    pub(super) revision: &'a Arc<Revision>,
    /// The JSON-RPC message: the request or the response.
    pub(super) message: &'a [u8],
    /// The cache may answer the request. It must not if the answer has its own headers, or if the
    /// request is replayed only for a ticket: its response has already arrived.
    pub(super) may_use_cache: bool,
}

/// The result of a request.
pub(super) enum RequestOutput {
    /// The request is sent to the upstream, with other bytes if `changed` is set.
    Forward { changed: Option<Vec<u8>>, ticket: GuardTicket },
    /// The guard or the cache answers the request.
    Answer(Vec<u8>, Decision),
}

/// The result of a response.
pub(super) struct ResponseOutput {
    /// The message to send. `None` sends the response unchanged.
    pub(super) shaped: Option<Vec<u8>>,
    pub(super) decision: Decision,
}

/// One duty of the filter.
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

/// The rest of the stack, as a layer sees it.
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
                ticket: GuardTicket::new(Arc::clone(call.revision), forward.ticket),
            },
            RequestVerdict::Answer(answer) => {
                RequestOutput::Answer(answer.message, answer.decision)
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

/// Returns true if the component itself failed, rather than the message or the store.
pub(super) fn is_guard_fault(fault: &Error) -> bool {
    matches!(fault, Error::Trap(_))
}
