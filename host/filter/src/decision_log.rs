//! Reports each decision of the guard in the statistics of its revision and in the log.

use tracing::info;

use super::layer::{AnswerSource, GuardCall, Layer, Next, RequestOutput, ResponseOutput};
use super::ticket::GuardTicket;
use crate::engine::Result;
use crate::engine::{Decision, LossClass};

/// A layer that counts and logs the guard's decisions, and adds the revision's number to each.
pub(super) struct DecisionLog;

impl DecisionLog {
    fn report(call: GuardCall<'_>, decision: &mut Decision, is_read: bool) {
        if is_read {
            call.revision.stats.read(decision);
        } else {
            call.revision.stats.answered(decision);
        }
        decision.revision = Some(call.revision.number);
        if decision.loss == LossClass::None && decision.mode == "full" {
            return;
        }
        info!(
            target: "context_guard::decisions",
            request = call.cx.request_id,
            endpoint = decision.endpoint,
            mode = decision.mode,
            original_tokens = decision.original_tokens,
            tokens = decision.estimated_tokens,
            original_bytes = decision.original_bytes,
            bytes = decision.response_bytes,
            "shaped an answer"
        );
    }
}

impl Layer for DecisionLog {
    fn on_request(&self, call: GuardCall<'_>, next: Next<'_>) -> Result<RequestOutput> {
        let mut output = next.on_request(call)?;
        if let RequestOutput::Answer(_, decision, source) = &mut output {
            Self::report(call, decision, *source == AnswerSource::Guard);
        }
        Ok(output)
    }

    fn on_response(
        &self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
        next: Next<'_>,
    ) -> Result<ResponseOutput> {
        let mut output = next.on_response(call, ticket)?;
        Self::report(call, &mut output.decision, false);
        Ok(output)
    }
}
