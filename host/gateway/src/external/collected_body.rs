//! The treatment of bodies from Envoy. Those that arrive in parts are collected, in memory whose
//! size is limited for all of them.

use std::sync::Arc;

use crate::memory_shares::{MemoryShare, MemoryShares};

/// The maximum total size of all bodies, in bytes, unless a single body may be larger.
const MAX_TOTAL_BYTES: usize = 512 << 20;

/// The memory for the bodies of all exchanges. Each principal may use half of it.
pub(super) fn body_memory(max_body: usize) -> Arc<MemoryShares> {
    let total = MAX_TOTAL_BYTES.max(max_body.saturating_mul(2));
    MemoryShares::new(total, total / 2)
}

/// The treatment of a body.
pub(super) enum BodyState {
    /// The body passes unchanged.
    Pass,
    /// Envoy sends the whole body in one message.
    Whole,
    /// The bytes are collected until the body ends.
    Collect(CollectedBody),
    /// The events of a stream are shaped one by one.
    Events,
    /// The body was already replaced. Its remaining chunks are dropped.
    Drop,
}

impl BodyState {
    /// Returns the collected bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        if let Self::Collect(body) = self { body.into_bytes() } else { Vec::new() }
    }
}

/// The parts of a body that have arrived.
pub(super) struct CollectedBody {
    bytes: Vec<u8>,
    max_bytes: usize,
    share: MemoryShare,
}

impl CollectedBody {
    /// Creates an empty body of at most `max_bytes` bytes, in the share of a principal.
    pub(super) fn new(max_bytes: usize, memory: &Arc<MemoryShares>, principal: &str) -> Self {
        Self { bytes: Vec::new(), max_bytes, share: memory.holder(&principal.into()) }
    }

    /// Appends a part. Returns false if the body is too long, or longer than its part of the memory
    /// for all bodies.
    pub(super) fn push(&mut self, part: &[u8]) -> bool {
        self.bytes.extend_from_slice(part);
        let max_bytes = self.share.resize(self.bytes.len()).min(self.max_bytes);
        self.bytes.len() <= max_bytes
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes, which no longer count.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_all_exchanges_share_memory() {
        let memory = MemoryShares::new(1_000, 500);
        let body = |principal: &str| CollectedBody::new(400, &memory, principal);
        let (mut first, mut second, mut other) = (body("ann"), body("ann"), body("bob"));
        assert!(first.push(&[0; 400]) && second.push(&[0; 100]) && other.push(&[0; 400]));
        assert!(!second.push(&[0; 200]), "the principal has two bodies");
        assert_eq!(second.into_bytes().len(), 300);
        assert!(!first.push(&[0; 1]), "the body is too long");
        drop(first);
        assert!(body("ann").push(&[0; 400]));
    }
}
