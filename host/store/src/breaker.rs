//! A circuit breaker for an upstream or a store.
//!
//! It opens after several consecutive failures, and refuses requests for a pause. Then it admits
//! one request as a trial.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum time for which the breaker refuses requests.
const MAX_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct State {
    /// The number of consecutive failures since the last success.
    failures: u32,
    /// The time until which requests are refused. `None` if the breaker is closed.
    until: Option<Instant>,
}

/// A circuit breaker for one upstream or one store.
#[derive(Debug)]
pub struct Breaker {
    max_failures: u32,
    pause: Duration,
    state: Mutex<State>,
}

impl Breaker {
    /// Creates a breaker that opens after `max_failures` consecutive failures.
    ///
    /// It then refuses requests for the time `pause`. Each further failure doubles this time, up to
    /// 64 times `pause`, but at most one minute.
    pub fn new(max_failures: u32, pause: Duration) -> Self {
        Self { max_failures, pause, state: Mutex::new(State::default()) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits or refuses a request at the time `now`. After a pause, one request is admitted. All
    /// others are refused until its result is recorded, or another pause has passed.
    ///
    /// # Errors
    /// The time until the next request is admitted.
    pub fn admit(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state();
        match state.until {
            Some(until) if now < until => Err(until - now),
            Some(_) => {
                // Extending the pause before the result is known keeps all other requests out.
                state.until = Some(now + self.pause);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns true if a request at the time `now` would be admitted. Unlike [`Self::admit`], does
    /// not use up the trial.
    pub fn can_admit(&self, now: Instant) -> bool {
        self.state().until.is_none_or(|until| now >= until)
    }

    /// Records a successful request, which closes the breaker.
    pub fn succeeded(&self) {
        *self.state() = State::default();
    }

    /// Records a failed request, which may open the breaker. Returns true if it was closed before
    /// and is open now.
    pub fn failed(&self, now: Instant) -> bool {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        if state.failures < self.max_failures {
            return false;
        }
        let doublings = (state.failures - self.max_failures).min(6);
        let until = now + (self.pause * 2u32.pow(doublings)).min(MAX_PAUSE);
        state.until.replace(until).is_none()
    }

    /// Ends the pause of an open breaker at the time `now`, so that it admits a request as a trial.
    pub fn end_pause(&self, now: Instant) {
        let mut state = self.state();
        state.until = state.until.map(|until| until.min(now));
    }

    /// Returns true if the breaker is open, because too many requests have failed since the last
    /// success.
    pub fn is_open(&self) -> bool {
        self.state().until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_open_and_success_closes() {
        let breaker = Breaker::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(!breaker.failed(start) && breaker.admit(start).is_ok());
        assert!(breaker.failed(start) && !breaker.failed(start));
        breaker.succeeded();
        assert!(!breaker.failed(start) && breaker.failed(start));
        assert_eq!(breaker.admit(after(4)), Err(Duration::from_secs(6)));
        assert!(!breaker.can_admit(after(9)) && breaker.can_admit(after(10)));
        assert!(breaker.admit(after(10)).is_ok(), "one is let through");
        assert!(breaker.admit(after(11)).is_err(), "the others wait for it");
        breaker.failed(after(12));
        assert_eq!(breaker.admit(after(12)), Err(Duration::from_secs(20)), "twice as long");
        breaker.end_pause(after(13));
        assert!(breaker.admit(after(13)).is_ok() && breaker.is_open(), "the pause ended early");
        breaker.succeeded();
        assert!(breaker.admit(after(13)).is_ok() && !breaker.is_open());
    }
}
