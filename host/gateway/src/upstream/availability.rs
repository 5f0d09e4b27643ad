//! The last known state of an upstream. Each change is logged once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use tracing::{info, warn};

use crate::telemetry::Recorder;

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// No request has been sent yet, or a probe reached the upstream after its last failure.
    Unknown,
    Up,
    /// The upstream failed. Contains the reason.
    Down(String),
    /// The upstream failed, but a later probe reached it. Contains the reason of the failure.
    Reachable(String),
    /// A probe failed. Contains the reason.
    Missing(String),
}

/// The last known state of an upstream, for the log, the metrics and the admin endpoint.
pub(crate) struct Availability {
    name: String,
    state: Mutex<(State, Instant)>,
    recorder: Arc<Recorder>,
}

impl Availability {
    pub(crate) fn new(name: &str, recorder: Arc<Recorder>) -> Self {
        let state = Mutex::new((State::Unknown, Instant::now()));
        Self { name: name.to_owned(), state, recorder }
    }

    fn state(&self) -> MutexGuard<'_, (State, Instant)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the state. Returns the previous state if it was of another kind, otherwise `None`.
    fn change(&self, new: State) -> Option<State> {
        let mut state = self.state();
        let is_same = match (&state.0, &new) {
            // No request has been answered in between.
            (State::Reachable(_), State::Down(_)) => true,
            (old, new) => std::mem::discriminant(old) == std::mem::discriminant(new),
        };
        if is_same {
            // The newest reason is reported, but not logged again.
            state.0 = new;
            return None;
        }
        Some(std::mem::replace(&mut *state, (new, Instant::now())).0)
    }

    /// Records that the upstream has answered. `consequence` is the end of the log message.
    pub(crate) fn up(&self, consequence: &str) {
        self.recorder.metrics.upstream_is(&self.name, true);
        match self.change(State::Up) {
            Some(State::Unknown) => info!(upstream = self.name, "upstream is up"),
            Some(_) => warn!(upstream = self.name, "upstream is up again{consequence}"),
            None => {}
        }
    }

    /// Records that the upstream failed. Logs `reason` if that is a change of the state.
    pub(crate) fn down(&self, reason: &str) {
        self.failed(State::Down(reason.to_owned()), reason);
    }

    /// Records that the upstream failed, without logging. The caller logs it.
    pub(crate) fn down_quietly(&self, reason: &str) {
        self.recorder.metrics.upstream_is(&self.name, false);
        self.change(State::Down(reason.to_owned()));
    }

    /// Records that a probe failed. Has no effect if the upstream answered the last request.
    pub(crate) fn probe_failed(&self, reason: &str) {
        if !self.is_up() {
            self.failed(State::Missing(reason.to_owned()), reason);
        }
    }

    fn failed(&self, state: State, reason: &str) {
        self.recorder.metrics.upstream_is(&self.name, false);
        if matches!(self.change(state), Some(State::Unknown | State::Up)) {
            warn!(upstream = self.name, "upstream is down: {reason}");
        }
    }

    /// Records that a probe succeeded. An upstream whose requests failed is down until it answers
    /// one, but may answer again if `can_call` is true, which means that the gateway sends requests
    /// to it now.
    pub(crate) fn probe_succeeded(&self, can_call: bool) {
        let mut state = self.state();
        match &state.0 {
            State::Missing(_) => *state = (State::Unknown, Instant::now()),
            State::Down(reason) if can_call => state.0 = State::Reachable(reason.clone()),
            _ => return,
        }
        info!(upstream = self.name, "upstream can be reached again");
    }

    /// Returns true if the upstream has answered a request, and was not recorded as down since
    /// then.
    pub(crate) fn is_up(&self) -> bool {
        self.state().0 == State::Up
    }

    /// Returns true if the upstream was recorded as down, by a request or a probe, and not as up
    /// since then.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.state().0, State::Down(_) | State::Reachable(_) | State::Missing(_))
    }

    /// Returns true if the upstream is not down, or a probe has reached it since its last failure.
    ///
    /// Readiness depends on this: load balancers send no requests to a gateway that is not ready,
    /// so that no answer to a request could end an outage.
    pub(crate) fn may_answer(&self) -> bool {
        !matches!(self.state().0, State::Down(_) | State::Missing(_))
    }

    /// Returns the state as a JSON object.
    pub(crate) fn report(&self) -> Value {
        let (state, since) = self.state().clone();
        let (name, reason) = match state {
            State::Unknown => ("unknown", None),
            State::Up => ("up", None),
            State::Down(reason) | State::Reachable(reason) | State::Missing(reason) => {
                ("down", Some(reason))
            }
        };
        let mut report = json!({
            "name": self.name,
            "state": name,
            "up": name != "down",
            "seconds": since.elapsed().as_secs(),
        });
        if let (Some(reason), Some(members)) = (reason, report.as_object_mut()) {
            members.insert("reason".to_owned(), reason.into());
        }
        report
    }
}
