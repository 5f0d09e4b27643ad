//! The shared permits (slots) of the fleet for requests in flight, which are counted in the store.

use std::sync::Arc;

use context_guard_protocol::to_hex;

use crate::fair_queue::{SLOT_LIFETIME, SharedSlots, SlotDemand, SlotFuture, SlotGrant};
use crate::store::{CursorStore, SlotRequest};

/// Divides the slots of principals among the replicas by means of the shared store.
pub(super) struct StoredSlots {
    store: Arc<dyn CursorStore>,
    /// The name of this process in the store, under which it holds slots.
    holder: String,
    limit: u32,
}

impl StoredSlots {
    pub(super) fn new(store: Arc<dyn CursorStore>, limit: usize) -> Self {
        let mut random = [0u8; 8];
        // Without random numbers the process could not encrypt either, so the store has no use.
        let _ = getrandom::fill(&mut random);
        Self { store, holder: to_hex(&random), limit: count(limit) }
    }
}

impl SharedSlots for StoredSlots {
    fn hold(&self, principal: &str, demand: SlotDemand) -> SlotFuture {
        let store = Arc::clone(&self.store);
        let principal = principal.to_owned();
        let request = SlotRequest {
            holder: self.holder.clone(),
            used: count(demand.used),
            waiting: count(demand.waiting),
            spare: count(demand.spare),
            limit: self.limit,
            lifetime: SLOT_LIFETIME,
        };
        Box::pin(async move {
            if !store.is_up() {
                return None;
            }
            let held = tokio::task::spawn_blocking(move || store.hold_slots(&principal, &request));
            let grant = held.await.ok()?.ok()?;
            let slots = usize::try_from(grant.slots).unwrap_or(usize::MAX);
            Some(SlotGrant { slots, is_contended: grant.is_contended })
        })
    }

    fn is_up(&self) -> bool {
        self.store.is_up()
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
