//! The trial of a new revision: the share of sessions it serves, and the verdict on it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use sha2::{Digest, Sha256};

use super::Revision;
use super::shadow::Shadow;
use super::stats::{RevisionStats, StatsSnapshot};
use super::{Mode, RolloutOptions};
use crate::engine::CallContext;

/// The maximum number of sessions, and of principals without a session, that are counted for each
/// side of a trial. It bounds memory.
const MAX_COUNTED_CALLERS: usize = 65_536;

/// A running trial.
pub struct Trial {
    /// The revision on trial.
    pub revision: Arc<Revision>,
    /// The rollout mode: canary, A/B comparison or shadow.
    pub mode: Mode,
    percent: AtomicU8,
    step: AtomicUsize,
    began: Mutex<(Instant, StatsSnapshot)>,
    /// The callers of both sides: of the active revision, and of the revision on trial.
    callers: Mutex<[Callers; 2]>,
    /// The statistics of the active revision at the start of the trial.
    before: StatsSnapshot,
    /// The comparison of the shadow with the active revision. `None` in other modes, or if the
    /// thread of the shadow cannot start.
    pub shadow: Option<Arc<Shadow>>,
}

/// The distinct callers that one revision serves during a trial, as hashes. Calls with a session
/// are counted by session.
#[derive(Debug, Default)]
struct Callers {
    sessions: HashSet<u64>,
    /// The principals of calls without a session.
    principals: HashSet<u64>,
}

impl Callers {
    fn kind(&mut self, cx: &CallContext) -> &mut HashSet<u64> {
        if cx.session.is_empty() { &mut self.principals } else { &mut self.sessions }
    }
}

/// The verdict on a running trial: to wait, to take a larger share, to promote or to end.
pub(super) enum Verdict {
    Wait,
    Step,
    Promote,
    End(String),
}

impl Trial {
    pub(super) fn new(
        revision: Arc<Revision>,
        options: &RolloutOptions,
        active: &RevisionStats,
        shadow: Option<Arc<Shadow>>,
    ) -> Self {
        let percent = match options.mode {
            Mode::Swap => 100,
            Mode::Canary => options.steps.first().copied().unwrap_or(100),
            Mode::Ab => options.share,
            Mode::Shadow => 0,
        };
        Self {
            began: Mutex::new((Instant::now(), revision.stats.snapshot())),
            callers: Mutex::default(),
            revision,
            mode: options.mode,
            percent: AtomicU8::new(percent),
            step: AtomicUsize::new(0),
            before: active.snapshot(),
            shadow,
        }
    }

    /// Returns the percentage of sessions that the revision on trial serves.
    #[must_use]
    pub fn percent(&self) -> u8 {
        self.percent.load(Ordering::Relaxed)
    }

    /// Returns the step of a canary, counted from 0.
    pub(super) fn step(&self) -> usize {
        self.step.load(Ordering::Relaxed)
    }

    /// Advances a canary to a step that another replica has reached. Returns false if this replica
    /// has already reached the step, or there is no such step.
    pub(super) fn join_step(&self, step: usize, options: &RolloutOptions) -> bool {
        let Some(percent) = options.steps.get(step).filter(|_| step > self.step()) else {
            return false;
        };
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        *began = (Instant::now(), self.revision.stats.snapshot());
        self.step.store(step, Ordering::Relaxed);
        self.percent.store(*percent, Ordering::Relaxed);
        true
    }

    /// Returns true if the revision on trial serves this caller, which its session or else its
    /// principal identifies. Also counts the caller. When the share grows, the trial keeps its
    /// sessions.
    pub(super) fn takes(&self, cx: &CallContext) -> bool {
        let takes = session_percentile(cx, self.revision.salt) < self.percent();
        let caller = caller_hash(cx, 0);
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let [active, candidate] = &mut *callers;
        let (own, other) = if takes { (candidate, active) } else { (active, candidate) };
        let own = own.kind(cx);
        if own.len() < MAX_COUNTED_CALLERS && own.insert(caller) {
            // A caller changes sides once, when the share grows.
            other.kind(cx).remove(&caller);
        }
        takes
    }

    pub(super) fn verdict(&self, options: &RolloutOptions, active: &RevisionStats) -> Verdict {
        if self.mode != Mode::Canary {
            return Verdict::Wait;
        }
        let (now, beside) = (self.revision.stats.snapshot(), active.snapshot());
        // Only calls since the begin of the trial are compared: earlier traffic differed.
        let calls = beside.calls - self.before.calls.min(beside.calls);
        let micros = beside.micros - self.before.micros.min(beside.micros);
        let usual = micros.checked_div(calls).unwrap_or_default();
        #[allow(clippy::cast_precision_loss, reason = "a ratio of times")]
        let slow = usual > 0 && now.mean_micros() as f64 > usual as f64 * options.limits.slowdown;
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = now.calls >= began.1.calls + options.step_calls;
        if enough && slow {
            return Verdict::End(format!(
                "its calls take {} us on average, those of the active revision {usual} us (rollout.limits.slowdown is {})",
                now.mean_micros(),
                options.limits.slowdown
            ));
        }
        if !enough || began.0.elapsed() < Duration::from_secs(options.step_seconds) {
            return Verdict::Wait;
        }
        let step = self.step.fetch_add(1, Ordering::Relaxed) + 1;
        *began = (Instant::now(), now);
        match options.steps.get(step) {
            Some(percent) => {
                self.percent.store(*percent, Ordering::Relaxed);
                Verdict::Step
            }
            None => Verdict::Promote,
        }
    }

    /// Returns the progress of the current canary step as JSON. Null for other modes.
    fn progress(&self, options: &RolloutOptions) -> Value {
        if self.mode != Mode::Canary {
            return Value::Null;
        }
        let began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        json!({
            "step": self.step.load(Ordering::Relaxed) + 1,
            "steps": options.steps.len(),
            "calls": self.revision.stats.snapshot().calls.saturating_sub(began.1.calls),
            "stepCalls": options.step_calls,
            "seconds": began.0.elapsed().as_secs(),
            "stepSeconds": options.step_seconds,
        })
    }

    /// Returns a JSON report that compares both revisions since the start of the trial.
    pub(super) fn json(&self, active: &Revision, options: &RolloutOptions) -> Value {
        let callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let [active_callers, candidate_callers] = &*callers;
        let side = |now: StatsSnapshot, before: StatsSnapshot, callers: &Callers| {
            let answers = now.answers.saturating_sub(before.answers);
            let sent = now.sent_tokens.saturating_sub(before.sent_tokens);
            let original = now.original_tokens.saturating_sub(before.original_tokens);
            let calls = now.calls.saturating_sub(before.calls);
            let micros = now.micros.saturating_sub(before.micros);
            json!({
                "sessions": callers.sessions.len(),
                "principals": callers.principals.len(),
                "calls": calls,
                "faults": now.faults.saturating_sub(before.faults),
                "answers": answers,
                "shaped": now.shaped.saturating_sub(before.shaped),
                "originalTokensPerAnswer": original.checked_div(answers).unwrap_or_default(),
                "sentTokensPerAnswer": sent.checked_div(answers).unwrap_or_default(),
                "microsPerCall": micros.checked_div(calls).unwrap_or_default(),
            })
        };
        json!({
            "generation": self.revision.json("trial"),
            "mode": self.mode,
            "percent": self.percent(),
            "progress": self.progress(options),
            "active": side(active.stats.snapshot(), self.before, active_callers),
            "candidate": side(
                self.revision.stats.snapshot(),
                StatsSnapshot::default(),
                candidate_callers,
            ),
            "shadow": self.shadow.as_ref().map(|shadow| shadow.report()),
        })
    }
}

/// Returns a number from 0 to 99 for a session or, without a session, for a principal. It is
/// constant, and equal at all replicas of a fleet. Different values of `salt` give independent
/// numbers.
pub fn session_percentile(cx: &CallContext, salt: u64) -> u8 {
    u8::try_from(caller_hash(cx, salt) % 100).unwrap_or(0)
}

fn caller_hash(cx: &CallContext, salt: u64) -> u64 {
    // All replicas of a fleet must agree, also those of another version of the program. The hashers
    // of the standard library may change.
    let caller = if cx.session.is_empty() { &cx.principal } else { &cx.session };
    let mut hash = Sha256::new();
    hash.update(salt.to_le_bytes());
    hash.update(caller);
    hash.finalize().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_split_evenly() {
        for salt in 1..50 {
            let below = |percent: u8| {
                let cx = |session: u32| CallContext {
                    principal: "key:one".into(),
                    session: format!("session-{session}"),
                    ..CallContext::default()
                };
                (0..400).filter(|at| session_percentile(&cx(*at), salt) < percent).count()
            };
            assert!((168..=232).contains(&below(50)), "{} of 400 under {salt}", below(50));
            assert!((8..=36).contains(&below(5)), "{} of 400 under {salt}", below(5));
        }
    }
}
