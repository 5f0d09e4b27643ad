//! Repeats a guard call without the shared store of snapshots when that store fails.

use std::sync::Arc;

use super::layer::{GuardCall, Layer, Next, RequestOutput, ResponseOutput};
use super::ticket::GuardTicket;
use crate::engine::{CallContext, HostServices};
use crate::engine::{Error, Result};

/// A layer that repeats a call with the local store if the shared store fails. It reports to the
/// guard that the shared store is unavailable.
///
/// While the shared store is known to be down, the guard is called only once, because the work of
/// the first call would be lost.
pub(super) struct StoreFallback;

fn without_store(call: GuardCall<'_>) -> (HostServices, CallContext) {
    let store = &call.services.store;
    let store = store.fallback_store().unwrap_or_else(|| Arc::clone(store));
    // The guard then applies the `cursorMode` of the policy.
    let cx = CallContext { store_unavailable: true, ..call.cx.clone() };
    (HostServices { store, clock: Arc::clone(&call.services.clock) }, cx)
}

impl Layer for StoreFallback {
    fn on_request(&self, call: GuardCall<'_>, next: Next<'_>) -> Result<RequestOutput> {
        if call.services.store.is_up() {
            match next.on_request(call) {
                Err(Error::Store(_)) => {}
                result => return result,
            }
        }
        let (services, cx) = without_store(call);
        next.on_request(GuardCall { services: &services, cx: &cx, ..call })
    }

    fn on_response(
        &self,
        call: GuardCall<'_>,
        ticket: &GuardTicket,
        next: Next<'_>,
    ) -> Result<ResponseOutput> {
        if call.services.store.is_up() {
            match next.on_response(call, ticket) {
                Err(Error::Store(_)) => {}
                result => return result,
            }
        }
        let (services, cx) = without_store(call);
        next.on_response(GuardCall { services: &services, cx: &cx, ..call }, ticket)
    }
}
