//! The statistics of a revision, which decide on promotion and rollback.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::config::RollbackLimits;
use crate::engine::{Decision, LossClass};

/// The number of latency buckets. Their bounds are powers of two in microseconds, up to half a
/// minute.
const LATENCY_BUCKETS: usize = 26;

/// The statistics of the guard calls of one revision.
#[derive(Debug, Default)]
pub struct RevisionStats {
    calls: AtomicU64,
    faults: AtomicU64,
    answers: AtomicU64,
    shaped: AtomicU64,
    original_tokens: AtomicU64,
    sent_tokens: AtomicU64,
    micros: AtomicU64,
    times: [AtomicU64; LATENCY_BUCKETS],
    window: Mutex<Window>,
}

/// The numbers of calls in the current and the previous time span, each as (calls, failed calls).
#[derive(Debug, Default)]
struct Window {
    since: Option<Instant>,
    now: (u64, u64),
    before: (u64, u64),
}

/// The statistics of a revision at one point in time, counted since its deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// The number of guard calls.
    pub calls: u64,
    /// The number of failed guard calls.
    pub faults: u64,
    /// The number of answers that the guard made a decision about.
    pub answers: u64,
    /// The number of answers that the guard changed.
    pub shaped: u64,
    /// The total estimated tokens of the original answers.
    pub original_tokens: u64,
    /// The total estimated tokens of the answers sent to clients.
    pub sent_tokens: u64,
    /// The total time of guard calls, in microseconds.
    pub micros: u64,
}

impl RevisionStats {
    /// Counts a guard call of duration `took`. `span` is the time for which failures count towards
    /// a rollback.
    pub fn called(&self, took: Duration, failed: bool, span: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(micros, Ordering::Relaxed);
        let bucket = usize::try_from(u64::BITS - micros.leading_zeros()).unwrap_or(0);
        if let Some(bucket) = self.times.get(bucket.min(LATENCY_BUCKETS - 1)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        if failed {
            self.faults.fetch_add(1, Ordering::Relaxed);
        }
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let age = window.since.map_or(Duration::MAX, |since| now.saturating_duration_since(since));
        if age > span {
            window.before = if age > span * 2 { (0, 0) } else { window.now };
            window.now = (0, 0);
            window.since = Some(now);
        }
        window.now.0 += 1;
        window.now.1 += u64::from(failed);
    }

    /// Counts an answer, with the guard's decision about it.
    pub fn answered(&self, decision: &Decision) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.shaped.fetch_add(u64::from(decision.loss != LossClass::None), Ordering::Relaxed);
        self.original_tokens.fetch_add(decision.original_tokens, Ordering::Relaxed);
        self.sent_tokens.fetch_add(decision.estimated_tokens, Ordering::Relaxed);
    }

    /// Counts a further read of an answer: only the tokens sent, because the answer itself has
    /// counted.
    pub fn read(&self, decision: &Decision) {
        self.sent_tokens.fetch_add(decision.estimated_tokens, Ordering::Relaxed);
    }

    /// Returns the reason for a rollback if too many recent calls failed. `None` if the revision is
    /// healthy.
    pub fn is_bad(&self, limits: &RollbackLimits) -> Option<String> {
        let window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let (calls, faults) = (window.now.0 + window.before.0, window.now.1 + window.before.1);
        #[allow(clippy::cast_precision_loss, reason = "a rate")]
        let rate = faults as f64 / calls.max(1) as f64;
        (faults >= limits.faults && rate > limits.fault_rate).then(|| {
            format!(
                "{faults} of its last {calls} calls failed (rollout.limits.faultRate is {})",
                limits.fault_rate
            )
        })
    }

    /// Returns the current statistics.
    #[must_use]
    pub fn snapshot(&self) -> StatsSnapshot {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        StatsSnapshot {
            calls: read(&self.calls),
            faults: read(&self.faults),
            answers: read(&self.answers),
            shaped: read(&self.shaped),
            original_tokens: read(&self.original_tokens),
            sent_tokens: read(&self.sent_tokens),
            micros: read(&self.micros),
        }
    }

    /// Returns an upper bound on the duration of `per_mille` thousandths of all calls, in
    /// microseconds. It is a power of two.
    fn quantile(&self, per_mille: u64) -> u64 {
        let counts: Vec<u64> =
            self.times.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let wanted = (counts.iter().sum::<u64>() * per_mille).div_ceil(1_000);
        let mut seen = 0;
        for (at, count) in counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return 1 << at;
            }
        }
        0
    }

    /// Returns a report of the statistics in JSON.
    pub(super) fn json(&self) -> Value {
        let StatsSnapshot { calls, faults, answers, shaped, original_tokens, sent_tokens, micros } =
            self.snapshot();
        json!({
            "calls": calls, "faults": faults, "answers": answers, "shaped": shaped,
            "originalTokens": original_tokens, "sentTokens": sent_tokens,
            "microsPerCall": micros.checked_div(calls).unwrap_or_default(),
            "microsP50Below": self.quantile(500), "microsP99Below": self.quantile(990),
        })
    }
}

impl StatsSnapshot {
    /// Returns the mean duration of a call, in microseconds.
    #[must_use]
    pub fn mean_micros(&self) -> u64 {
        self.micros.checked_div(self.calls).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_needs_enough_faults() {
        let limits = RollbackLimits { faults: 3, fault_rate: 0.1, ..RollbackLimits::default() };
        let span = Duration::from_secs(60);
        let stats = RevisionStats::default();
        for _ in 0..2 {
            stats.called(Duration::from_micros(100), true, span);
        }
        assert_eq!(stats.is_bad(&limits), None);
        stats.called(Duration::from_micros(100), true, span);
        assert!(stats.is_bad(&limits).is_some());
        for _ in 0..40 {
            stats.called(Duration::from_micros(3_000), false, span);
        }
        assert_eq!(stats.is_bad(&limits), None);
        assert_eq!((stats.snapshot().calls, stats.snapshot().faults), (43, 3));
        assert_eq!((stats.quantile(10), stats.quantile(990)), (128, 4096));
    }

    #[test]
    fn old_faults_expire() {
        let limits = RollbackLimits { faults: 1, fault_rate: 0.0, ..RollbackLimits::default() };
        let span = Duration::from_millis(1);
        let stats = RevisionStats::default();
        stats.called(Duration::ZERO, true, span);
        assert!(stats.is_bad(&limits).is_some());
        std::thread::sleep(span * 5);
        stats.called(Duration::ZERO, false, span);
        assert_eq!(stats.is_bad(&limits), None);
    }
}
