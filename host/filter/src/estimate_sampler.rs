//! Compares the guard's token estimates with counts of a real tokenizer.

use std::sync::Arc;

use tracing::{info, warn};

use super::corrections::corrected_policy;
use super::layer::{GuardCall, Layer, Next, RequestOutput, ResponseOutput};
use super::ticket::GuardTicket;
use crate::engine::Decision;
use crate::engine::Result;
use crate::sampler::Sampler;

/// A layer that offers each answer for the client to the sampler of token estimates. With `learn`,
/// it also applies the sampler's corrections to the policy of the revision.
pub(super) struct EstimateSampler {
    sampler: Arc<Sampler>,
    learn: bool,
}

impl EstimateSampler {
    pub(super) fn new(sampler: Arc<Sampler>, learn: bool) -> Self {
        Self { sampler, learn }
    }

    fn sample(&self, call: GuardCall<'_>, decision: &Decision, message: &[u8]) {
        self.sampler.offer(call.cx.client_name.as_deref(), decision, message);
        if !self.learn {
            return;
        }
        let Some(corrections) = self.sampler.moved() else { return };
        let Some(policy) = corrected_policy(&call.revision.policy, &corrections) else { return };
        match call.revision.correct(call.services, &policy) {
            Ok(()) => info!(?corrections, "corrected token estimates by sampled counts"),
            Err(error) => warn!("cannot correct token estimates: {error}"),
        }
    }
}

impl Layer for EstimateSampler {
    fn on_request(&self, call: GuardCall<'_>, next: Next<'_>) -> Result<RequestOutput> {
        let output = next.on_request(call)?;
        if let RequestOutput::Answer(message, decision, _) = &output {
            self.sample(call, decision, message);
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
        self.sample(call, &output.decision, output.shaped.as_deref().unwrap_or(call.message));
        Ok(output)
    }
}
