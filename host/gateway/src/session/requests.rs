//! Requests of the client: the guard answers them, or the upstream does.

use std::borrow::Cow;

use context_guard_protocol::RequestId;

use super::{FromClient, Session};
use crate::engine::Decision;
use crate::exchange::{Exchange, GuardedResponse, NextStep};
use crate::telemetry::Outcome;
use crate::upstream_catalogue::{CatalogueStep, ClientRequest, UpstreamCatalogue};

impl Session {
    /// Passes a request to the catalogue of the upstream's tools, or else through the filter.
    pub(super) fn dispatch<'m>(
        &self,
        id: RequestId,
        exchange: Exchange,
        message: &'m [u8],
    ) -> FromClient<'m> {
        match self.catalogue.as_ref().map(|catalogue| catalogue.begin(&id, message)) {
            None | Some(ClientRequest::Other) => self.request(id, exchange, Cow::Borrowed(message)),
            Some(ClientRequest::Fetch(list)) => {
                let exchange = self.begin(id.as_str(), &list);
                self.request(id, exchange, Cow::Owned(list))
            }
            Some(ClientRequest::Known(tools)) => {
                match UpstreamCatalogue::call(exchange.clone(), self.filter(), message, &tools) {
                    CatalogueStep::Answer(answer, decision) => {
                        self.answered(&exchange, decision.as_deref(), answer)
                    }
                    CatalogueStep::Call(call) => {
                        let exchange = self.begin(id.as_str(), &call);
                        self.request(id, exchange, Cow::Owned(call))
                    }
                }
            }
        }
    }

    /// Passes a request through the filter, and notes it if it goes to the upstream.
    fn request<'m>(
        &self,
        id: RequestId,
        mut exchange: Exchange,
        message: Cow<'m, [u8]>,
    ) -> FromClient<'m> {
        match exchange.on_request(self.filter(), &message) {
            NextStep::Answer(answer, decision) => self.answered(&exchange, Some(&decision), answer),
            NextStep::Forward(changed) => {
                if let Some(recorder) = &self.recorder {
                    exchange.audit_references(recorder);
                }
                self.state().pending.insert(id, exchange);
                let upstream = changed.map_or(message, Cow::Owned);
                FromClient { upstream: Some(upstream), client: None }
            }
        }
    }

    /// Records an answer of the guard, and returns it.
    fn answered<'m>(
        &self,
        exchange: &Exchange,
        decision: Option<&Decision>,
        answer: Vec<u8>,
    ) -> FromClient<'m> {
        if let Some(recorder) = &self.recorder {
            exchange.record(recorder, decision, answer.len(), Outcome::Passed);
        }
        FromClient { upstream: None, client: Some(answer) }
    }

    /// Replaces a long list of tools by the guard's short one, or by the answer to the call of one
    /// of the guard's tools that waits for the list.
    pub(super) fn shorten_list(
        &self,
        exchange: &Exchange,
        message: &[u8],
        guarded: &mut GuardedResponse,
    ) {
        let Some(catalogue) = &self.catalogue else { return };
        let Some(id) = RequestId::parse(exchange.id()) else { return };
        let list = guarded.shaped.as_deref().unwrap_or(message);
        let begin = |request: &[u8]| self.begin(id.as_str(), request);
        let Some(short) = catalogue.listed(&id, list, &self.upstream, self.filter(), begin) else {
            return;
        };
        if let (Some(decision), Some(short)) = (&mut guarded.decision, &short.decision) {
            decision.estimated_tokens = short.estimated_tokens;
            decision.response_bytes = short.response_bytes;
        }
        guarded.shaped = Some(short.message);
    }
}
