//! Answers repeated calls of read-only tools from the cache of upstream answers.

use std::sync::Arc;

use super::layer::{AnswerSource, GuardCall, Layer, Next, RequestOutput, ResponseOutput};
use super::ticket::GuardTicket;
use crate::cache::{Cache, CacheKey};
use crate::engine::CacheTier;
use crate::engine::Result;
use context_guard_protocol::Head;
use context_guard_protocol::edit::with_id;

/// A layer that stores the upstream's unshaped answers to calls. The guard shapes an answer anew
/// for each later call with the same key.
pub(super) struct AnswerCache(pub(super) Arc<Cache>);

impl AnswerCache {
    fn key(&self, call: GuardCall<'_>, request: &[u8]) -> Option<CacheKey> {
        self.0.key(call.cx, &call.revision.origin.policy, request)
    }

    /// Returns the cached upstream answer for `key`, shaped for this call and with its request id.
    /// `None` if there is no such answer, or a step fails.
    fn lookup(
        &self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
        key: &CacheKey,
        next: Next<'_>,
    ) -> Option<RequestOutput> {
        let hit = self.0.get(key)?;
        let message = with_id(&hit.message, Head::read(call.message)?.raw_id());
        let mut output = next.on_response(GuardCall { message: &message, ..call }, ticket).ok()?;
        // The tier is known only after shaping, and each tier has its own maximum age.
        output.decision.cache = Some(self.0.fresh_tier(&hit, &output.decision)?);
        let answer = output.shaped.unwrap_or(message);
        Some(RequestOutput::Answer(answer, output.decision, AnswerSource::Cache))
    }
}

impl Layer for AnswerCache {
    fn on_request(&self, call: GuardCall<'_>, next: Next<'_>) -> Result<RequestOutput> {
        let mut output = next.on_request(call)?;
        if !call.may_use_cache {
            return Ok(output);
        }
        match &mut output {
            RequestOutput::Forward { changed, ticket } if ticket.wants_response() => {
                let sent = changed.as_deref().unwrap_or(call.message);
                if let Some(key) = self.key(call, sent) {
                    if let Some(answer) = self.lookup(call, ticket, &key, next) {
                        return Ok(answer);
                    }
                    ticket.cache_key = Some(key);
                }
            }
            RequestOutput::Forward { .. } => {}
            // The guard answered the same call in another form from its snapshot, which is a copy
            // of the cached answer. Metrics count this as a hit.
            RequestOutput::Answer(_, decision, _) => {
                if self
                    .key(call, call.message)
                    .is_some_and(|key| self.0.is_same_call(&key, decision))
                {
                    decision.cache = Some(CacheTier::of_answer(decision));
                }
            }
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
        if let Some(key) = &ticket.cache_key {
            self.0.put(key, &output.decision, call.message);
        }
        Ok(output)
    }
}
