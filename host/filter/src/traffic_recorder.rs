//! Records exchanges, so that a dry run can replay them under another policy.

use super::layer::{GuardCall, Layer, Next, RequestOutput, ResponseOutput};
use super::ticket::GuardTicket;
use crate::engine::Result;
use crate::recording::Recording;

/// A layer that adds each shaped exchange to the recording: request, upstream response and
/// decision.
pub(super) struct TrafficRecorder(pub(super) Recording);

impl Layer for TrafficRecorder {
    fn on_request(&self, call: GuardCall<'_>, next: Next<'_>) -> Result<RequestOutput> {
        let mut output = next.on_request(call)?;
        if let RequestOutput::Forward { ticket, .. } = &mut output {
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
        if let Some(request) = &ticket.request {
            self.0.offer(call.cx, request, call.message, &output.decision);
        }
        Ok(output)
    }
}
