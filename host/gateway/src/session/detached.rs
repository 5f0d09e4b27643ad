//! Pending requests whose HTTP exchange has ended, and whose answers may come on a later stream.

use std::collections::VecDeque;
use std::sync::Arc;

use context_guard_protocol::RequestId;

use crate::memory_shares::{MemoryShare, MemoryShares};

/// The maximum number of requests of a session whose answers may come on a later stream. Beyond
/// it, the oldest is removed, and its answer passes unchanged.
pub(super) const MAX_DETACHED: usize = 256;
/// The maximum memory of these requests of a session, in bytes.
pub(super) const MAX_DETACHED_BYTES: usize = 2 << 20;
/// The maximum memory of these requests of all sessions, in bytes.
const MAX_TOTAL_DETACHED_BYTES: usize = 128 << 20;
/// The maximum memory of these requests of an owner's sessions, in bytes.
const MAX_OWNER_DETACHED_BYTES: usize = 32 << 20;
/// The memory for requests of all sessions whose answers may come on a later stream.
pub(crate) fn detached_memory() -> Arc<MemoryShares> {
    MemoryShares::new(MAX_TOTAL_DETACHED_BYTES, MAX_OWNER_DETACHED_BYTES)
}

/// A pending request: its id, and its number among the pending requests. Clients may use the id
/// again, but not the number.
pub(super) type PendingNumber = (RequestId, u64);

/// The pending requests without an exchange, the oldest first.
#[derive(Default)]
pub(super) struct DetachedRequests {
    requests: VecDeque<(PendingNumber, usize)>,
    pub(super) bytes: usize,
    /// Counts `bytes` with those of other sessions. `None` in a session with a client of its own.
    share: Option<MemoryShare>,
}

impl DetachedRequests {
    /// Counts the requests with those of other sessions.
    pub(super) fn count_in(&mut self, share: MemoryShare) {
        self.share = Some(share);
    }

    /// Removes the request with this number, which is no longer pending.
    pub(super) fn remove(&mut self, number: u64) {
        let found = self.requests.iter().position(|((_, known), _)| *known == number);
        if let Some((_, bytes)) = found.and_then(|at| self.requests.remove(at)) {
            self.bytes -= bytes;
            self.count();
        }
    }

    /// Adds a request of `bytes` bytes. Returns the requests that exceed a limit.
    pub(super) fn add(&mut self, request: PendingNumber, bytes: usize) -> Vec<PendingNumber> {
        self.requests.push_back((request, bytes));
        self.bytes += bytes;
        let max_bytes = self.count();
        let mut excess = Vec::new();
        while (self.requests.len() > MAX_DETACHED || self.bytes > max_bytes)
            && let Some((oldest, bytes)) = self.requests.pop_front()
        {
            self.bytes -= bytes;
            excess.push(oldest);
        }
        self.count();
        excess
    }

    /// Counts the bytes with those of other sessions. Returns the maximum number of bytes.
    fn count(&mut self) -> usize {
        let max = self.share.as_mut().map_or(usize::MAX, |share| share.resize(self.bytes));
        max.min(MAX_DETACHED_BYTES)
    }
}
