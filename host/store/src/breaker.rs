//! A circuit breaker: after so many failures in a row an upstream, or a store, is left alone for a while, then tried by one request.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest time that an upstream is left alone.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct State {
    /// In a row.
    failures: u32,
    /// Until when it is left alone.
    until: Option<Instant>,
}

/// The breaker of one of them.
#[derive(Debug)]
pub struct Breaker {
    most: u32,
    pause: Duration,
    state: Mutex<State>,
}

impl Breaker {
    /// One that opens after `most` failures in a row, for `pause` at first and twice as long each time, up to a minute.
    pub fn new(most: u32, pause: Duration) -> Self {
        Self { most, pause, state: Mutex::new(State::default()) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request may be tried; otherwise how long it is to wait. When the time is over one request is let through, and the others wait for what
    /// becomes of it.
    pub fn admit(&self, now: Instant) -> Result<(), Duration> {
        let mut state = self.state();
        match state.until {
            Some(until) if now < until => Err(until - now),
            Some(_) => {
                state.until = Some(now + self.pause);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// It answered.
    pub fn succeeded(&self) {
        *self.state() = State::default();
    }

    /// It did not.
    pub fn failed(&self, now: Instant) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        if state.failures >= self.most {
            let doublings = (state.failures - self.most).min(6);
            state.until = Some(now + (self.pause * 2u32.pow(doublings)).min(LONGEST));
        }
    }

    /// Whether it is left alone.
    pub fn is_open(&self) -> bool {
        self.state().until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_open_it_and_an_answer_closes_it() {
        let breaker = Breaker::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        breaker.failed(start);
        assert!(breaker.admit(start).is_ok());
        breaker.failed(start);
        assert_eq!(breaker.admit(after(4)), Err(Duration::from_secs(6)));
        assert!(breaker.admit(after(10)).is_ok(), "one is let through");
        assert!(breaker.admit(after(11)).is_err(), "the others wait for it");
        breaker.failed(after(12));
        assert_eq!(breaker.admit(after(12)), Err(Duration::from_secs(20)), "twice as long");
        breaker.succeeded();
        assert!(breaker.admit(after(13)).is_ok() && !breaker.is_open());
    }
}
