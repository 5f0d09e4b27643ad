//! Leaves a share of the sessions unshaped, as the control group of a comparison.

use std::sync::Arc;

use super::layer::{GuardCall, Layer, Next, ResponseOutput};
use super::ticket::GuardTicket;
use crate::engine::Result;
use crate::revision::{Revisions, session_percentile};

/// A layer that sends the upstream's original answer instead of the shaped one to sessions of the
/// control group. The setting `rollout.unshaped` is the size of that group, in percent.
pub(super) struct Holdback {
    revisions: Arc<Revisions>,
}

impl Holdback {
    pub(super) fn new(revisions: Arc<Revisions>) -> Self {
        Self { revisions }
    }
}

impl Layer for Holdback {
    fn on_response(
        &self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
        next: Next<'_>,
    ) -> Result<ResponseOutput> {
        let mut output = next.on_response(call, ticket)?;
        let percent = self.revisions.options().unshaped;
        // The list for the catalogue is the gateway's own, which no client may get. The response
        // to a call of one of the guard's tools may be the upstream's list, which is no result.
        let endpoint = output.decision.endpoint.as_str();
        let tool = endpoint.rsplit("::").next().unwrap_or(endpoint);
        let is_own = call.cx.catalog_version.is_some() || tool.starts_with("context_guard_");
        if percent > 0 && !is_own && session_percentile(call.cx, 0) < percent {
            output.decision.unshaped = true;
            output.shaped = None;
        }
        Ok(output)
    }
}
