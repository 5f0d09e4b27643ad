//! The byte limit for upstream answers that the guard failed to shape.

use context_guard_protocol::fallback;

use crate::engine::OnFault;

/// Applies the policy's `onFault` to an answer: see [`context_guard_protocol::fallback::limit`].
/// Returns `None` if the answer can be sent unchanged.
#[must_use]
pub(crate) fn limit(message: &[u8], on_fault: OnFault, limit: usize) -> Option<Vec<u8>> {
    let on_fault = match on_fault {
        OnFault::Pass => fallback::OnFault::Pass,
        OnFault::Limit => fallback::OnFault::Limit,
        OnFault::Block => fallback::OnFault::Block,
    };
    fallback::limit(message, on_fault, limit)
}
