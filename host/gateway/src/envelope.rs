//! Message heads, as the single-upstream path reads them.

use context_guard_protocol::batch::Body;
pub(super) use context_guard_protocol::batch::join_batch as join;
pub(super) use context_guard_protocol::{Envelope, RequestId as Id};

/// Splits a batch. Returns none for a single message.
pub(super) fn batch(message: &[u8]) -> Option<Vec<&[u8]>> {
    match Body::parse(message) {
        Body::Single(_) => None,
        Body::Batch(messages) => Some(messages),
    }
}
