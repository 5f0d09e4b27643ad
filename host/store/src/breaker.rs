//! A circuit breaker for an upstream.
//!
//! It opens after several consecutive failures, and refuses requests for a pause. Then it admits
//! one request as a trial.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum time for which the breaker refuses requests.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The time for which a caller counts after its last request.
const CALLER_TIME: Duration = Duration::from_secs(60);
/// The maximum number of callers that are counted. The failures of further ones have no effect.
const MAX_CALLERS: usize = 1_024;

/// The requests of one caller.
#[derive(Debug)]
struct CallerState {
    /// The time of the last request.
    last: Instant,
    /// The number of failures since the last success of any caller.
    failures: u32,
}

#[derive(Debug, Default)]
struct State {
    /// The number of failures since the last success that all callers share.
    failures: u32,
    callers: HashMap<Box<str>, CallerState>,
    /// The time until which requests are refused. `None` if the breaker is closed.
    until: Option<Instant>,
    /// The number of failures since the breaker opened.
    extensions: u32,
    /// True if a request has failed since the last success.
    has_failed: bool,
}

impl State {
    /// Returns the state of a caller that sends a request at the time `now`. `None` if too many
    /// callers are counted.
    fn caller(&mut self, caller: &str, now: Instant) -> Option<&mut CallerState> {
        // Two look-ups, because an entry needs an owned key.
        if !self.callers.contains_key(caller) {
            if self.callers.len() >= MAX_CALLERS {
                self.callers.retain(|_, one| is_recent(one, now));
            }
            if self.callers.len() >= MAX_CALLERS {
                return None;
            }
            self.callers.insert(caller.into(), CallerState { last: now, failures: 0 });
        }
        let found = self.callers.get_mut(caller)?;
        found.last = now;
        Some(found)
    }

    /// Returns the number of failures that count towards `max`, at which the breaker opens.
    fn count(&self, max: u32, now: Instant) -> u32 {
        let recent = || self.callers.values().filter(|one| is_recent(one, now));
        let callers = u32::try_from(recent().count()).unwrap_or(u32::MAX);
        let max_own = max.div_ceil(callers.clamp(1, max.max(1)));
        recent().map(|one| one.failures.min(max_own)).fold(self.failures, u32::saturating_add)
    }
}

fn is_recent(caller: &CallerState, now: Instant) -> bool {
    now.saturating_duration_since(caller.last) <= CALLER_TIME
}

/// A circuit breaker for one upstream.
///
/// A failure may be the fault of the request, so that a single caller must not open the breaker for
/// the others. If as many callers sent requests within a minute as failures open the breaker, each
/// counts at most once. If there are fewer, the failures that one caller may contribute increase,
/// so that the breaker also protects the only caller. Failures that are known to concern all
/// callers have no such limit.
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

    /// Admits or refuses a request of a caller at the time `now`. After a pause, one request is
    /// admitted. All others are refused until its result is recorded, or another pause has passed.
    ///
    /// Closes the breaker if its failures no longer suffice, because there is another caller.
    ///
    /// # Errors
    /// The time until the next request is admitted.
    pub fn admit(&self, caller: &str, now: Instant) -> Result<(), Duration> {
        let mut state = self.state();
        let _ = state.caller(caller, now);
        let Some(until) = state.until else { return Ok(()) };
        if state.count(self.max_failures, now) < self.max_failures {
            state.until = None;
            return Ok(());
        }
        if now < until {
            return Err(until - now);
        }
        // Extending the pause before the result is known keeps all other requests out.
        state.until = Some(now + self.pause);
        Ok(())
    }

    /// Returns true if a request at the time `now` would be admitted. Unlike [`Self::admit`], does
    /// not use up the trial.
    pub fn can_admit(&self, now: Instant) -> bool {
        self.state().until.is_none_or(|until| now >= until)
    }

    /// Returns true if another caller sent a request within the last minute.
    pub fn has_others(&self, caller: &str, now: Instant) -> bool {
        self.state().callers.iter().any(|(name, one)| **name != *caller && is_recent(one, now))
    }

    /// Records a successful request, which closes the breaker.
    pub fn succeeded(&self) {
        let mut state = self.state();
        if !std::mem::take(&mut state.has_failed) {
            return;
        }
        (state.failures, state.until, state.extensions) = (0, None, 0);
        state.callers.values_mut().for_each(|one| one.failures = 0);
    }

    /// Records a failed request, which may open the breaker. Returns true if it was closed before
    /// and is open now. `caller` is `None` if the failure concerns all callers, for example because
    /// the upstream cannot be reached.
    pub fn failed(&self, caller: Option<&str>, now: Instant) -> bool {
        let mut state = self.state();
        state.has_failed = true;
        match caller.map(|caller| state.caller(caller, now)) {
            None => state.failures = state.failures.saturating_add(1),
            Some(Some(own)) => own.failures = own.failures.saturating_add(1),
            Some(None) => {}
        }
        if state.count(self.max_failures, now) < self.max_failures {
            return false;
        }
        let was_open = state.until.is_some();
        state.extensions = if was_open { (state.extensions + 1).min(6) } else { 0 };
        let until = now + (self.pause * 2u32.pow(state.extensions)).min(MAX_PAUSE);
        state.until = Some(until);
        !was_open
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

    const ALICE: Option<&str> = Some("alice");

    #[test]
    fn failures_open_and_success_closes() {
        let breaker = Breaker::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(!breaker.failed(ALICE, start) && breaker.admit("alice", start).is_ok());
        assert!(breaker.failed(ALICE, start) && !breaker.failed(ALICE, start));
        breaker.succeeded();
        assert!(!breaker.failed(ALICE, start) && breaker.failed(ALICE, start));
        assert_eq!(breaker.admit("alice", after(4)), Err(Duration::from_secs(6)));
        assert!(!breaker.can_admit(after(9)) && breaker.can_admit(after(10)));
        assert!(breaker.admit("alice", after(10)).is_ok(), "one is let through");
        assert!(breaker.admit("alice", after(11)).is_err(), "the others wait for it");
        breaker.failed(ALICE, after(12));
        assert_eq!(
            breaker.admit("alice", after(12)),
            Err(Duration::from_secs(20)),
            "twice as long"
        );
        breaker.end_pause(after(13));
        assert!(
            breaker.admit("alice", after(13)).is_ok() && breaker.is_open(),
            "the pause ended early"
        );
        breaker.succeeded();
        assert!(breaker.admit("alice", after(13)).is_ok() && !breaker.is_open());
    }

    #[test]
    fn one_of_several_callers_opens_nothing() {
        let breaker = Breaker::new(5, Duration::from_secs(10));
        let now = Instant::now();
        breaker.admit("bob", now).unwrap();
        assert!((0..40).all(|_| !breaker.failed(ALICE, now)) && !breaker.is_open());
        assert!(breaker.has_others("alice", now) && breaker.has_others("bob", now));
        // Both fail: the fault is the upstream's.
        assert!(!breaker.failed(Some("bob"), now) && breaker.failed(Some("bob"), now));
        assert!(breaker.admit("bob", now).is_err());
        breaker.succeeded();
        assert!(!breaker.is_open() && !breaker.failed(Some("bob"), now));
    }

    #[test]
    fn another_caller_closes_the_breaker_of_a_single_one() {
        let breaker = Breaker::new(5, Duration::from_secs(10));
        let now = Instant::now();
        assert_eq!((0..40).filter(|_| breaker.failed(ALICE, now)).count(), 1);
        assert!(breaker.admit("alice", now).is_err() && !breaker.has_others("alice", now));
        assert!(breaker.admit("bob", now).is_ok() && !breaker.is_open());
        assert!(!breaker.failed(ALICE, now) && breaker.admit("bob", now).is_ok());
    }

    #[test]
    fn callers_are_forgotten() {
        let breaker = Breaker::new(2, Duration::from_secs(10));
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        breaker.admit("bob", start).unwrap();
        assert!(!breaker.failed(ALICE, start) && !breaker.failed(ALICE, after(30)));
        assert!(breaker.failed(ALICE, after(61)), "bob sent no request for a minute");
        let breaker = Breaker::new(2, Duration::from_secs(10));
        assert!(!breaker.failed(ALICE, start) && breaker.failed(ALICE, after(600)), "in a row");
    }

    #[test]
    fn shared_failures_open_the_breaker_for_all() {
        let breaker = Breaker::new(3, Duration::from_secs(10));
        let now = Instant::now();
        for caller in 0..MAX_CALLERS {
            breaker.admit(&caller.to_string(), now).unwrap();
        }
        assert!((0..9).all(|_| !breaker.failed(ALICE, now)), "too many callers to count one more");
        assert!(!breaker.failed(None, now) && !breaker.failed(None, now));
        assert!(breaker.failed(None, now) && breaker.admit("5", now).is_err());
    }
}
