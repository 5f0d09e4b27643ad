//! The circuit breaker of an upstream. Clients' calls open and close it. The gateway's own traffic,
//! such as event streams, does not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use super::Failure;
use super::availability::Availability;
use crate::config::UpstreamLimits;
use crate::revision::GATEWAY_PRINCIPAL;
use crate::store::Breaker;
use crate::telemetry::Recorder;

/// The circuit breaker of an upstream, with its metrics. Each change is logged once.
pub(crate) struct Circuit {
    name: String,
    breaker: Breaker,
    pub(crate) availability: Availability,
    /// True if the last failed call did not reach the upstream.
    is_unreachable: AtomicBool,
    recorder: Arc<Recorder>,
}

impl Circuit {
    pub(super) fn new(name: &str, limits: &UpstreamLimits, recorder: Arc<Recorder>) -> Self {
        Self {
            name: name.to_owned(),
            breaker: Breaker::new(limits.failures, Duration::from_secs(limits.pause_seconds)),
            availability: Availability::new(name, Arc::clone(&recorder)),
            is_unreachable: AtomicBool::new(false),
            recorder,
        }
    }

    /// Admits a call of the caller `owner`. While the circuit is open, admits one call as a trial
    /// after each pause.
    ///
    /// # Errors
    /// The failure to report if the call is not admitted.
    pub(super) fn admit(&self, owner: &str) -> Result<(), Failure> {
        let was_open = self.is_open();
        let admitted = self.breaker.admit(owner, Instant::now());
        if was_open && !self.is_open() {
            info!(upstream = self.name, "circuit closed, because calls of few callers failed");
        }
        admitted.map_err(|wait| Failure::circuit_open(&self.name, wait))
    }

    /// Returns the failure to report if the circuit is open. Unlike [`Self::admit`], does not use
    /// up the trial call.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.is_open() {
            return Err(Failure::circuit_open(&self.name, Duration::ZERO));
        }
        Ok(())
    }

    /// Closes the circuit after the upstream has responded.
    pub(super) fn succeeded(&self) {
        let was_open = self.breaker.is_open();
        self.is_unreachable.store(false, Ordering::Relaxed);
        self.breaker.succeeded();
        self.availability.up(if was_open { ": circuit closed, calls are sent" } else { "" });
    }

    /// Counts a failed call. Returns true if the call opened the circuit. `owner` is the caller, or
    /// `None` if the failure concerns all callers.
    pub(super) fn count(&self, failure: &Failure, owner: Option<&str>) -> bool {
        // No request can cause this.
        let owner = owner.filter(|_| !matches!(failure, Failure::Unreachable(_)));
        let is_unreachable = matches!(failure, Failure::Unreachable(_) | Failure::Unavailable(_));
        self.failed(&failure.to_string(), is_unreachable, owner)
    }

    /// Counts a failed call, as [`Self::count`]. `is_unreachable` is true if the call may not have
    /// reached the upstream.
    pub(super) fn failed(&self, reason: &str, is_unreachable: bool, owner: Option<&str>) -> bool {
        let now = Instant::now();
        // The gateway's own requests contain no input of callers.
        let owner = owner.filter(|owner| *owner != GATEWAY_PRINCIPAL);
        self.is_unreachable.store(is_unreachable, Ordering::Relaxed);
        let is_opened = self.breaker.failed(owner, now);
        self.recorder.metrics.upstream_failed(&self.name);
        // The failure may be the fault of the caller's request. If there are other callers, it does
        // not show that the upstream is down.
        let is_own = owner.is_some_and(|owner| self.breaker.has_others(owner, now));
        if is_opened {
            self.availability.down_quietly(reason);
            warn!(upstream = self.name, "circuit opened, calls are refused for now: {reason}");
        } else if self.is_open() || is_unreachable && !is_own {
            self.availability.down(reason);
        } else {
            debug!(upstream = self.name, "a call failed: {reason}");
        }
        is_opened
    }

    /// Records the result of a periodic probe, which sends no request. Success does not show that
    /// the upstream speaks MCP, so the upstream is not recorded as up.
    pub(crate) fn probed(&self, result: Result<(), String>) {
        match result {
            Ok(()) => self.availability.probe_succeeded(self.breaker.can_admit(Instant::now())),
            Err(reason) => self.availability.probe_failed(&reason),
        }
    }

    /// Records that a probe has reached the upstream. Closes the circuit if the last call did not
    /// reach the upstream. Otherwise admits one call as a trial.
    pub(super) fn reached(&self) {
        if self.is_unreachable.load(Ordering::Relaxed) {
            self.succeeded();
        } else {
            self.breaker.end_pause(Instant::now());
        }
    }

    /// Returns true if calls are refused because the upstream failed repeatedly.
    pub(crate) fn is_open(&self) -> bool {
        self.breaker.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::clock::SystemClock;

    fn circuit(pause_seconds: u64) -> Circuit {
        let limits = UpstreamLimits { failures: 3, pause_seconds, ..UpstreamLimits::default() };
        Circuit::new("s", &limits, Arc::new(Recorder::new(0, None, Arc::new(SystemClock))))
    }

    #[test]
    fn reachable_upstream_may_answer() {
        let circuit = circuit(0);
        let may_answer = || circuit.availability.may_answer();
        assert!(may_answer());
        circuit.failed("it cannot be reached", true, None);
        assert!(!may_answer() && !circuit.is_open());
        circuit.probed(Ok(()));
        assert!(may_answer() && circuit.availability.is_down() && !circuit.availability.is_up());
        circuit.failed("it cannot be reached", true, None);
        assert!(!may_answer());
        circuit.probed(Err("it cannot be reached".to_owned()));
        circuit.probed(Ok(()));
        assert!(may_answer() && !circuit.availability.is_down());
        // The pause of the open circuit has passed.
        circuit.failed("it cannot be reached", true, None);
        assert!(!may_answer() && circuit.is_open());
        circuit.probed(Ok(()));
        assert!(may_answer() && circuit.is_open());
    }

    #[test]
    fn upstream_without_calls_cannot_answer() {
        let circuit = circuit(60);
        for _ in 0..3 {
            circuit.failed("it did not answer", false, Some("alice"));
        }
        circuit.probed(Ok(()));
        assert!(circuit.is_open() && !circuit.availability.may_answer());
        circuit.reached();
        circuit.probed(Ok(()));
        assert!(circuit.is_open() && circuit.availability.may_answer());
    }

    #[test]
    fn one_caller_does_not_close_the_upstream_to_others() {
        let circuit = circuit(60);
        circuit.admit("alice").unwrap();
        let failures = [
            Failure::Timeout("it did not answer".to_owned()),
            Failure::Unavailable("its process ended".to_owned()),
        ];
        for failure in failures.iter().cycle().take(40) {
            circuit.admit("mallory").unwrap();
            assert!(!circuit.count(failure, Some("mallory")));
        }
        assert!(circuit.availability.may_answer() && circuit.admit("alice").is_ok());
        // Not the fault of a request.
        let unreachable = Failure::Unreachable("it cannot be reached".to_owned());
        let opened = (0..3).filter(|_| circuit.count(&unreachable, Some("mallory")));
        assert_eq!(opened.count(), 1);
        assert!(circuit.admit("alice").is_err() && !circuit.availability.may_answer());
    }

    #[test]
    fn failures_of_the_only_caller_open_the_circuit() {
        let circuit = circuit(60);
        let failure = Failure::Unavailable("its process ended".to_owned());
        circuit.admit("alice").unwrap();
        assert!(!circuit.count(&failure, Some("alice")) && circuit.availability.is_down());
        assert!(!circuit.count(&failure, Some("alice")) && circuit.count(&failure, Some("alice")));
        assert!(circuit.admit("alice").is_err());
        assert!(circuit.admit("bob").is_ok(), "the fault may be that of alice");
    }
}
