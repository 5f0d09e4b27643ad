//! Repeats a failed guard call on another revision (a guard component under a policy).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::error;

use super::layer::{GuardCall, Layer, Next, RequestOutput, ResponseOutput, is_guard_fault};
use super::ticket::GuardTicket;
use crate::engine::{Error, Result};
use crate::revision::{Revision, Revisions};

/// The maximum size, in bytes, of a request that is retained until its response arrives. Without
/// the request, another revision cannot shape the response.
pub(super) const MAX_RETAINED_REQUEST_BYTES: usize = 1 << 20;

/// A layer that reports failed guard calls, and repeats each once on the fallback revision, if
/// there is one.
pub(super) struct Failover {
    revisions: Arc<Revisions>,
    faults: AtomicU64,
}

impl Failover {
    pub(super) fn new(revisions: Arc<Revisions>) -> Self {
        Self { revisions, faults: AtomicU64::new(0) }
    }

    pub(super) fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    fn report(&self, call: GuardCall<'_>, kind: &str, fault: &Error) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        error!(
            request = call.cx.request_id,
            upstream = call.cx.upstream,
            revision = call.revision.number,
            "guard failed on a {kind}: {fault}"
        );
        if is_guard_fault(fault) {
            self.revisions.failed(call.revision);
        }
    }

    /// Returns the revision on which to repeat a failed call. `None` if there is none, or if the
    /// message or the store caused the fault, which would then recur.
    fn fallback_for(&self, revision: &Revision, fault: &Error) -> Option<Arc<Revision>> {
        self.revisions.fallback_for(revision).filter(|_| is_guard_fault(fault))
    }

    /// Returns true if another revision may have to repeat the request. A revision on trial counts,
    /// because it may be promoted before the response arrives.
    fn may_replay(&self, revision: &Revision) -> bool {
        self.revisions.current().trial.is_some() || self.revisions.fallback_for(revision).is_some()
    }

    /// Shapes a response with the fallback revision. That revision first processes the retained
    /// request, to get its own ticket. `None` if there is no such revision or request, or if this
    /// fails too.
    fn replay(
        &self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
        next: Next<'_>,
        fault: &Error,
    ) -> Option<ResponseOutput> {
        let request = ticket.request.as_deref()?;
        let fallback = self.fallback_for(&ticket.revision, fault)?;
        let call = GuardCall { revision: &fallback, may_use_cache: false, ..call };
        let RequestOutput::Forward { ticket: mut replayed, .. } =
            next.on_request(GuardCall { message: request, ..call }).ok()?
        else {
            return None;
        };
        replayed.request.clone_from(&ticket.request);
        replayed.cache_key.clone_from(&ticket.cache_key);
        next.on_response(call, &replayed).ok()
    }
}

impl Layer for Arc<Failover> {
    fn on_request(&self, call: GuardCall<'_>, next: Next<'_>) -> Result<RequestOutput> {
        let mut output = next.on_request(call).or_else(|fault| {
            self.report(call, "request", &fault);
            let Some(fallback) = self.fallback_for(call.revision, &fault) else {
                return Err(fault);
            };
            next.on_request(GuardCall { revision: &fallback, ..call })
        })?;
        if let RequestOutput::Forward { ticket, .. } = &mut output
            && call.message.len() <= MAX_RETAINED_REQUEST_BYTES
            && self.may_replay(&ticket.revision)
        {
            ticket.retain_request(call.message);
        }
        Ok(output)
    }

    fn on_response(
        &self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
        next: Next<'_>,
    ) -> Result<ResponseOutput> {
        next.on_response(call, ticket).or_else(|fault| {
            self.report(call, "response", &fault);
            self.replay(call, ticket, next, &fault).ok_or(fault)
        })
    }
}
