//! Requests that the upstream does not answer.

use context_guard_protocol::{Envelope, RequestId};

use super::Session;
use super::state::SessionState;
use crate::exchange::Exchange;
use crate::telemetry::Outcome;
use crate::upstream::Failure;

impl Session {
    /// Records the exchange as an upstream error, and returns the JSON-RPC error response for the
    /// client. The response is empty if the exchange is not of a JSON-RPC request.
    pub(super) fn failed(&self, exchange: &Exchange, failure: &Failure) -> Vec<u8> {
        let answer = exchange.fail(failure).unwrap_or_default();
        if let Some(recorder) = &self.recorder {
            exchange.record(recorder, None, answer.len(), Outcome::UpstreamError);
        }
        answer
    }

    /// Returns error responses for the requests to which answers without an id must belong. Those
    /// are the remaining requests, if all others were answered.
    pub(super) fn fail_by_exclusion(&self) -> Vec<Vec<u8>> {
        let (requests, reasons) = {
            let mut state = self.state();
            let SessionState { pending, detached, unattributed, .. } = &mut *state;
            let numbers = pending.numbers().map(|(number, _)| number);
            let Some((numbers, reasons)) = unattributed.resolve(numbers) else { return Vec::new() };
            let ids: Vec<RequestId> = pending
                .numbers()
                .filter(|(number, _)| numbers.contains(number))
                .map(|(_, id)| id.clone())
                .collect();
            numbers.iter().for_each(|number| detached.remove(*number));
            let requests: Vec<_> = ids.iter().filter_map(|id| pending.remove(id)).collect();
            (requests, reasons)
        };
        let failure = Failure::invalid_answer(&self.upstream, &reasons);
        requests.iter().map(|exchange| self.failed(exchange, &failure)).collect()
    }

    /// Records in telemetry that the upstream did not answer a request. `bytes` is the size of the
    /// error response to the client.
    pub(crate) fn fail(&self, request: &[u8], bytes: usize) {
        let id = Envelope::read(request).and_then(|envelope| envelope.id());
        let exchange = id.and_then(|id| self.state().abandon(&id));
        if let (Some(exchange), Some(recorder)) = (exchange, &self.recorder) {
            exchange.record(recorder, None, bytes, Outcome::UpstreamError);
        }
    }
}
