//! Repeats a failed guard call on another revision (a guard component under a policy).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use context_guard_protocol::Head;
use context_guard_protocol::argument::has_query;
use tracing::error;

use super::layer::{GuardCall, Layer, Next, RequestOutput, ResponseOutput, is_guard_fault};
use super::ticket::GuardTicket;
use crate::engine::{Error, Result};
use crate::revision::{Revision, Revisions};

/// The maximum size, in bytes, of a request that is retained for another revision until its
/// response arrives. Without the request, another revision cannot shape the response. A recording
/// retains requests of any size.
pub(super) const MAX_RETAINED_REQUEST_BYTES: usize = 1 << 20;

/// The maximum length, in characters, of an endpoint or principal in the log.
const MAX_LOGGED_CHARS: usize = 256;

/// A layer that reports failed guard calls. Repeats each once on the fallback revision, if there is
/// one.
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

    /// Logs and counts a failed call. `request` is the client's request, if it was retained.
    fn report(&self, call: GuardCall<'_>, kind: &str, request: Option<&[u8]>, fault: &Error) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        let subject = request.and_then(|request| {
            let head = Head::read(request)?;
            head.subject().map(|subject| subject.chars().take(MAX_LOGGED_CHARS).collect::<String>())
        });
        error!(
            request = call.cx.request_id,
            upstream = Some(call.cx.upstream.as_str()).filter(|name| !name.is_empty()),
            endpoint = subject.unwrap_or_default(),
            principal = call.cx.principal.chars().take(MAX_LOGGED_CHARS).collect::<String>(),
            revision = call.revision.number,
            "guard failed on a {kind}: {fault}"
        );
    }

    /// Returns the revision on which to repeat a failed call. `None` if there is none, or if the
    /// message, the store or the caller caused the fault, which would then recur.
    fn fallback_for(
        &self,
        revision: &Revision,
        request: &[u8],
        fault: &Error,
    ) -> Option<Arc<Revision>> {
        let is_of_guard = is_guard_fault(fault) && !is_callers_deadline(request, fault);
        self.revisions.fallback_for(revision).filter(|_| is_of_guard)
    }

    /// Returns true if another revision may have to repeat the request. A revision on trial counts,
    /// because it may be promoted before the response arrives.
    fn may_replay(&self, revision: &Revision) -> bool {
        self.revisions.current().trial.is_some() || self.revisions.fallback_for(revision).is_some()
    }

    /// Shapes a response with the fallback revision. That revision first processes the retained
    /// request, to create its own ticket. `None` if there is no such revision or request, or this
    /// fails too.
    fn replay(
        &self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
        next: Next<'_>,
        fault: &Error,
    ) -> Option<ResponseOutput> {
        let request = ticket.request.as_deref()?;
        let fallback = self.fallback_for(&ticket.revision, request, fault)?;
        let call = GuardCall { revision: &fallback, may_use_cache: false, ..call };
        let RequestOutput::Forward { ticket: mut replayed, .. } =
            next.on_request(GuardCall { message: request, ..call }).ok()?
        else {
            return None;
        };
        replayed.request.clone_from(&ticket.request);
        replayed.cache_key.clone_from(&ticket.cache_key);
        let output = next.on_response(call, &replayed).ok()?;
        self.revisions.failed(&ticket.revision, &call.cx.principal);
        Some(output)
    }
}

/// Returns true if a call exceeded its deadline because of a query of the caller. Such a call is
/// not repeated, and does not count against the revision. A client could otherwise choose the
/// active revision.
pub(super) fn is_callers_deadline(request: &[u8], fault: &Error) -> bool {
    matches!(fault, Error::Deadline) && has_query(request)
}

impl Layer for Arc<Failover> {
    fn on_request(&self, call: GuardCall<'_>, next: Next<'_>) -> Result<RequestOutput> {
        // A fault counts against a revision only if another one answers the same call.
        let mut output = next.on_request(call).or_else(|fault| {
            self.report(call, "request", Some(call.message), &fault);
            let Some(fallback) = self.fallback_for(call.revision, call.message, &fault) else {
                return Err(fault);
            };
            let output = next.on_request(GuardCall { revision: &fallback, ..call })?;
            self.revisions.failed(call.revision, &call.cx.principal);
            Ok(output)
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
            self.report(call, "response", ticket.request.as_deref(), &fault);
            self.replay(call, ticket, next, &fault).ok_or(fault)
        })
    }
}
