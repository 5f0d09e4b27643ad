//! The circuit breaker of an upstream. Clients' calls open and close it. The gateway's own traffic,
//! such as event streams, does not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracing::warn;

use super::Failure;
use super::availability::Availability;
use crate::config::UpstreamLimits;
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

    /// Admits a call. While the circuit is open, admits one call as a trial after each pause.
    ///
    /// # Errors
    /// The failure to report if the call is not admitted.
    pub(super) fn admit(&self) -> Result<(), Failure> {
        self.breaker.admit(Instant::now()).map_err(|wait| Failure::circuit_open(&self.name, wait))
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

    /// Counts a failed call. Returns true if the call opened the circuit. `is_unreachable` is true
    /// if the call did not reach the upstream.
    pub(super) fn failed(&self, reason: &str, is_unreachable: bool) -> bool {
        self.is_unreachable.store(is_unreachable, Ordering::Relaxed);
        let is_opened = self.breaker.failed(Instant::now());
        self.recorder.metrics.upstream_failed(&self.name);
        if is_opened {
            self.availability.down_quietly(reason);
            warn!(upstream = self.name, "circuit opened, calls are refused for now: {reason}");
        } else if is_unreachable || self.is_open() {
            self.availability.down(reason);
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
        circuit.failed("it cannot be reached", true);
        assert!(!may_answer() && !circuit.is_open());
        circuit.probed(Ok(()));
        assert!(may_answer() && circuit.availability.is_down() && !circuit.availability.is_up());
        circuit.failed("it cannot be reached", true);
        assert!(!may_answer());
        circuit.probed(Err("it cannot be reached".to_owned()));
        circuit.probed(Ok(()));
        assert!(may_answer() && !circuit.availability.is_down());
        // The pause of the open circuit has passed.
        circuit.failed("it cannot be reached", true);
        assert!(!may_answer() && circuit.is_open());
        circuit.probed(Ok(()));
        assert!(may_answer() && circuit.is_open());
    }

    #[test]
    fn upstream_without_calls_cannot_answer() {
        let circuit = circuit(60);
        (0..3).for_each(|_| drop(circuit.failed("it did not answer", false)));
        circuit.probed(Ok(()));
        assert!(circuit.is_open() && !circuit.availability.may_answer());
        circuit.reached();
        circuit.probed(Ok(()));
        assert!(circuit.is_open() && circuit.availability.may_answer());
    }
}
