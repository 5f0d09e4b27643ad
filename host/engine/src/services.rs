//! The services of the host for the guard.

use std::sync::Arc;

use context_guard_cursor_store::{Clock, CursorStore};

/// The services that a guard may use: a store and a clock.
#[derive(Clone)]
pub struct HostServices {
    /// The store of snapshots, to which cursors refer.
    pub store: Arc<dyn CursorStore>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
}

impl HostServices {
    /// Returns the current time in milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.now().as_millis()).unwrap_or(u64::MAX)
    }
}
