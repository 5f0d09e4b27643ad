//! The state of a session: its pending requests, and what its messages have told about the client.

use context_guard_protocol::{PendingRequests, RequestId};

use super::detached::{DetachedRequests, PendingNumber};
use crate::exchange::Exchange;
use crate::unattributed::UnattributedAnswers;

/// The MCP revision with batches.
const BATCH_VERSION: &str = "2025-03-26";

/// The number of copies of its id that a pending request has in addition to that in its exchange.
const ID_COPIES: usize = 3;

/// The state of a session.
#[derive(Default)]
pub(super) struct SessionState {
    pub(super) pending: PendingRequests<Exchange>,
    /// Those of `pending` whose HTTP exchange has ended.
    pub(super) detached: DetachedRequests,
    pub(super) protocol_version: String,
    pub(super) client_name: Option<String>,
    /// The client whose profile applies instead of that of `client_name`.
    pub(super) client_override: Option<String>,
    /// True after an event with an id on any stream, with which clients can resume streams of the
    /// session.
    pub(super) is_resumable: bool,
    /// True after the client has sent a batch.
    pub(super) has_sent_batch: bool,
    pub(super) unattributed: UnattributedAnswers,
}

impl SessionState {
    /// Returns true if the client may receive batches, which MCP 2025-03-26 alone defines.
    pub(super) fn accepts_batches(&self) -> bool {
        self.has_sent_batch || self.protocol_version == BATCH_VERSION
    }

    /// Removes the request that an answer with the id `id` belongs to.
    pub(super) fn answer(&mut self, id: &RequestId) -> Option<Exchange> {
        let id = self.pending.find(id)?;
        let number = self.pending.number(&id)?;
        self.unattributed.answered(number);
        self.detached.remove(number);
        self.pending.remove(&id)
    }

    /// Removes a request that is not answered.
    pub(super) fn abandon(&mut self, id: &RequestId) -> Option<Exchange> {
        let number = self.pending.number(id)?;
        self.unattributed.abandoned(number);
        self.detached.remove(number);
        self.pending.remove(id)
    }

    /// Keeps a pending request whose answer may come on a later stream, within limits.
    pub(super) fn detach(&mut self, request: PendingNumber) {
        let (id, number) = &request;
        if self.pending.number(id) != Some(*number) {
            return;
        }
        let Some(exchange) = self.pending.get(id) else { return };
        let bytes = exchange.retained_bytes() + ID_COPIES * id.as_str().len();
        self.detached.remove(*number);
        for oldest in self.detached.add(request, bytes) {
            self.abandon_pending(&oldest);
        }
    }

    /// Removes a request that is not answered, if it is still pending.
    pub(super) fn abandon_pending(&mut self, (id, number): &PendingNumber) {
        if self.pending.number(id) == Some(*number) {
            self.abandon(id);
        }
    }
}
