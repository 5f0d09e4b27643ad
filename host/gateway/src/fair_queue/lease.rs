//! The shared permits (slots) that this replica holds for a principal.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

/// The slots of a principal at this replica.
#[derive(Default)]
pub(super) struct Lease {
    /// The maximum number of the principal's requests in flight that need a slot.
    slots: usize,
    /// The number of requests in flight that need a slot.
    pub(super) used: usize,
    /// The maximum of `used` in the current period.
    peak: usize,
    /// The number of unused slots below which more slots are requested in advance.
    low: usize,
    /// True if other replicas wait for slots.
    is_contended: bool,
    /// True while the task that holds the slots is about to ask the store, so that it need not be
    /// woken.
    is_asking: bool,
    /// The time of the request to the store that granted the slots. `None` if the store has not
    /// granted them.
    asked_at: Option<Instant>,
    /// Wakes the task that holds the slots.
    pub(super) changed: Arc<Notify>,
}

impl Lease {
    /// Returns true if one more request may start.
    pub(super) fn has_slot(&self) -> bool {
        self.used < self.slots
    }

    pub(super) fn start(&mut self, places: usize) {
        self.used += places;
        self.peak = self.peak.max(self.used);
        if !self.is_contended && self.slots < self.used + self.low {
            self.wake();
        }
    }

    pub(super) fn release(&mut self, places: usize) {
        self.used = self.used.saturating_sub(places);
        if self.is_contended {
            self.wake();
        }
    }

    /// Wakes the task that holds the slots, so that it asks the store.
    pub(super) fn wake(&self) {
        if !self.is_asking {
            self.changed.notify_one();
        }
    }

    /// Returns the number of slots for the requests in flight and `waiting` more, but at least for
    /// the maximum in the current period.
    pub(super) fn target(&self, waiting: usize) -> usize {
        self.peak.max(self.used + waiting)
    }

    /// Ends the current period. Returns true if no request used a slot in it.
    pub(super) fn end_period(&mut self) -> bool {
        std::mem::replace(&mut self.peak, self.used) == 0
    }

    /// Returns true if the store must be asked: more than `slots` are held, or they were granted
    /// before `limit` or not at all.
    pub(super) fn is_due(&self, slots: usize, limit: Instant) -> bool {
        self.slots > slots || self.asked_at.is_none_or(|asked| asked <= limit)
    }

    /// Gives up the slots beyond `slots`, which the store is about to grant to other replicas.
    pub(super) fn ask(&mut self, slots: usize) {
        self.slots = self.slots.min(slots);
        self.is_asking = true;
    }

    /// Sets the slots that the store granted in answer to a request at `asked_at`.
    pub(super) fn grant(&mut self, slots: usize, is_contended: bool, asked_at: Instant) {
        self.slots = slots;
        self.is_contended = is_contended;
        self.asked_at = Some(asked_at);
    }

    /// Sets the number of slots of this replica while the store does not answer.
    pub(super) fn set_share(&mut self, slots: usize) {
        self.slots = slots;
        self.is_contended = false;
        self.asked_at = None;
    }

    /// Sets the number of unused slots below which the task is woken.
    pub(super) fn set_low(&mut self, low: usize) {
        self.low = low;
    }

    /// Sets the state between two requests to the store. If `lacks_slots` is true, the task asks
    /// again soon and is not woken. Otherwise it waits until it is woken.
    pub(super) fn rest(&mut self, lacks_slots: bool) {
        self.is_asking = lacks_slots;
    }
}
