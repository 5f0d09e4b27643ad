//! Requests of the client, which the guard or the upstream answers.

use std::borrow::Cow;

use context_guard_protocol::RequestId;

use super::{FromClient, Session};
use crate::exchange::{Exchange, NextStep};
use crate::telemetry::Outcome;

impl Session {
    /// Passes a request through the filter. Stores the request as pending if it goes to the
    /// upstream.
    pub(super) fn request<'m>(
        &self,
        id: RequestId,
        mut exchange: Exchange,
        message: &'m [u8],
    ) -> FromClient<'m> {
        match exchange.on_request(self.filter(), message) {
            NextStep::Answer(answer, decision) => {
                if let Some(recorder) = &self.recorder {
                    exchange.record(recorder, Some(&decision), answer.len(), Outcome::Passed);
                }
                FromClient { upstream: None, client: Some(answer) }
            }
            NextStep::Forward(changed) => {
                if let Some(recorder) = &self.recorder {
                    exchange.audit_references(recorder);
                }
                self.state().pending.insert(id, exchange);
                let upstream = changed.map_or(Cow::Borrowed(message), Cow::Owned);
                FromClient { upstream: Some(upstream), client: None }
            }
        }
    }
}
