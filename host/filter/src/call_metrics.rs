//! Measures the duration and the failures of guard calls, per revision.

use std::sync::Arc;
use std::time::Instant;

use super::layer::{GuardCall, Layer, Next, RequestOutput, ResponseOutput, is_guard_fault};
use super::ticket::GuardTicket;
use crate::engine::Result;
use crate::revision::Revisions;

/// A layer that records the duration and failure of each guard call in the revision's statistics.
/// Promotion and rollback depend on these statistics.
pub(super) struct CallMetrics {
    revisions: Arc<Revisions>,
}

impl CallMetrics {
    pub(super) fn new(revisions: Arc<Revisions>) -> Self {
        Self { revisions }
    }

    fn measure<T>(&self, call: GuardCall<'_>, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let started = Instant::now();
        let result = run();
        let failed = result.as_ref().is_err_and(is_guard_fault);
        self.revisions.called(call.revision, &call.cx.principal, started.elapsed(), failed);
        result
    }
}

impl Layer for CallMetrics {
    fn on_request(&self, call: GuardCall<'_>, next: Next<'_>) -> Result<RequestOutput> {
        self.measure(call, || next.on_request(call))
    }

    fn on_response(
        &self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
        next: Next<'_>,
    ) -> Result<ResponseOutput> {
        self.measure(call, || next.on_response(call, ticket))
    }
}
