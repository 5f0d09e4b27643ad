//! Mirrors exchanges to the shadow revision, which processes live traffic without answering it.

use std::sync::Arc;

use super::failover::MAX_RETAINED_REQUEST_BYTES;
use super::layer::{GuardCall, Layer, Next, RequestOutput, ResponseOutput};
use super::ticket::GuardTicket;
use crate::engine::Result;
use crate::revision::{Revisions, ShadowExchange};

/// A layer that sends a copy of each shaped exchange to the shadow revision, if a trial has one.
pub(super) struct ShadowMirror {
    revisions: Arc<Revisions>,
}

impl ShadowMirror {
    pub(super) fn new(revisions: Arc<Revisions>) -> Self {
        Self { revisions }
    }
}

impl Layer for ShadowMirror {
    fn on_request(&self, call: GuardCall<'_>, next: Next<'_>) -> Result<RequestOutput> {
        let mut output = next.on_request(call)?;
        if let RequestOutput::Forward { ticket, .. } = &mut output
            && call.message.len() <= MAX_RETAINED_REQUEST_BYTES
            && self.revisions.current().trial.is_some()
        {
            ticket.retain_request(call.message);
        }
        Ok(output)
    }

    fn on_response(
        &self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
        next: Next<'_>,
    ) -> Result<ResponseOutput> {
        let output = next.on_response(call, ticket)?;
        let current = self.revisions.current();
        let shadow = current.trial.as_ref().and_then(|trial| trial.shadow.as_ref());
        if let (Some(request), Some(shadow)) = (&ticket.request, shadow) {
            shadow.offer(ShadowExchange {
                cx: call.cx.clone(),
                request: Arc::clone(request),
                response: call.message.to_vec(),
                decision: output.decision.clone(),
                shaped: output.shaped.clone(),
            });
        }
        Ok(output)
    }
}
