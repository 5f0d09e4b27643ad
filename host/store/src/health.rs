//! The state of a shared store. Each change is logged once, and faults are counted.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{info, warn};

/// The time without further faults after which a full or evicting store counts as recovered.
const RECOVERY_TIME: Duration = Duration::from_secs(60);

/// The numbers of faults of a store since it was opened, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreFaults {
    /// The number of operations that failed because the store was unreachable or known to be down,
    /// and of calls that were served without it.
    pub unavailable: u64,
    /// The number of calls that failed because the store was full.
    pub full: u64,
    /// The number of entries that the store dropped before they expired.
    pub evicted: u64,
    /// The number of values that were changed outside of the gateways, or protected with another
    /// key.
    pub rejected: u64,
}

#[derive(Default)]
struct HealthState {
    is_down: bool,
    faults: StoreFaults,
    /// The time of the last call that found the store full. `None` after the store has recovered.
    full: Option<Instant>,
    /// The time of the last check that found evicted entries. `None` after the store has recovered.
    evicting: Option<Instant>,
}

fn report_failure(reason: &str) {
    warn!(
        "the cursor store cannot be reached: {reason}; answers still fit, cursors use local copies or repeat the call"
    );
}

/// The state of a shared store.
#[derive(Default)]
pub(crate) struct Health(Mutex<HealthState>);

impl Health {
    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true unless the last call or probe failed.
    pub(crate) fn is_up(&self) -> bool {
        !self.state().is_down
    }

    pub(crate) fn faults(&self) -> StoreFaults {
        self.state().faults
    }

    /// Counts a call that was skipped because the store is down.
    pub(crate) fn skipped(&self) {
        self.state().faults.unavailable += 1;
    }

    /// Counts a failed call. Returns true if the store was up before. The caller then starts a
    /// probe.
    pub(crate) fn failed(&self, reason: &str) -> bool {
        let mut state = self.state();
        state.faults.unavailable += 1;
        let was_up = !std::mem::replace(&mut state.is_down, true);
        if was_up {
            report_failure(reason);
        }
        was_up
    }

    /// Records that a probe did not reach the store. Returns true if the store was up before. The
    /// caller then starts to probe it repeatedly.
    pub(crate) fn failed_probe(&self, reason: &str) -> bool {
        let was_up = !std::mem::replace(&mut self.state().is_down, true);
        if was_up {
            report_failure(reason);
        }
        was_up
    }

    /// Records that a probe has reached the store.
    pub(crate) fn recovered(&self) {
        if std::mem::replace(&mut self.state().is_down, false) {
            info!("the cursor store is reachable again");
        }
    }

    /// Counts a call that the store refused because it is full.
    pub(crate) fn full(&self) {
        let mut state = self.state();
        state.faults.full += 1;
        if state.full.replace(Instant::now()).is_none() {
            warn!(
                "the cursor store is full: new cursors work at this gateway only. Raise its maxmemory, or lower cursorTtl"
            );
        }
    }

    /// Counts the entries that the store has evicted since the last check. Records the recovery
    /// after [`RECOVERY_TIME`] without faults.
    pub(crate) fn evicted(&self, entries: u64) {
        let mut state = self.state();
        state.faults.evicted += entries;
        let now = Instant::now();
        if entries > 0 && state.evicting.replace(now).is_none() {
            warn!(
                "the cursor store evicts entries before they expire: their cursors are lost. Raise its maxmemory, or lower cursorTtl"
            );
        }
        let is_over = |since: &Instant| now - *since >= RECOVERY_TIME;
        if state.full.take_if(|since| is_over(since)).is_some() {
            info!("the cursor store is no longer full");
        }
        if state.evicting.take_if(|since| is_over(since)).is_some() {
            info!("the cursor store no longer evicts entries");
        }
    }
}
