//! The clock of stores and guard calls. Tests can set it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// Returns the current time, measured from 1970-01-01T00:00:00Z.
    fn now(&self) -> Duration;
}

/// The clock of the operating system.
#[derive(Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// A clock for tests and replays, which advances only on request.
#[derive(Debug)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Returns a clock at the time `now`, in milliseconds since 1970.
    #[must_use]
    pub fn at_ms(now: u64) -> Self {
        Self(AtomicU64::new(now))
    }

    /// Sets the clock to the time `now`, in milliseconds since 1970.
    pub fn set_ms(&self, now: u64) {
        self.0.store(now, Ordering::SeqCst);
    }

    /// Advances the clock by this number of milliseconds.
    pub fn advance_ms(&self, by: u64) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}
