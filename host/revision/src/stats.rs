//! The statistics of a revision, from which promotion and rollback are decided.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::principals::{MAX_PRINCIPALS, PrincipalHash};
use crate::config::RollbackLimits;
use crate::engine::{Decision, LossClass};

/// The number of latency buckets. Their bounds are powers of two in microseconds, up to half a
/// minute. The last one also counts longer calls.
const LATENCY_BUCKETS: usize = 26;

/// The maximum number of principals that a replica sends to the others. It bounds the size of the
/// exchange.
const MAX_LISTED: usize = 256;

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

/// The calls in the current and the previous time span, by principal.
#[derive(Debug, Default)]
struct Window {
    since: Option<Instant>,
    now: HashMap<PrincipalHash, PrincipalCalls>,
    before: HashMap<PrincipalHash, PrincipalCalls>,
}

/// The calls of each principal.
type Tally = HashMap<PrincipalHash, PrincipalCalls>;

/// The counts of one principal's calls.
#[derive(Clone, Copy, Debug, Default)]
struct PrincipalCalls {
    calls: u64,
    /// The number of failed calls that another revision answered.
    faults: u64,
}

impl Window {
    /// Returns the current counts of a principal. Starts a new time span if the current one is
    /// older than `span`. `None` if the maximum number of principals is reached.
    fn principal(&mut self, hash: PrincipalHash, span: Duration) -> Option<&mut PrincipalCalls> {
        self.advance(span);
        let is_new = !self.now.contains_key(&hash);
        (!is_new || self.now.len() < MAX_PRINCIPALS).then(|| self.now.entry(hash).or_default())
    }

    /// Starts a new time span if the current one is older than `span`.
    fn advance(&mut self, span: Duration) {
        let now = Instant::now();
        let age = self.since.map_or(Duration::MAX, |since| now.saturating_duration_since(since));
        if age > span {
            let current = std::mem::take(&mut self.now);
            self.before = if age > span * 2 { HashMap::new() } else { current };
            self.since = Some(now);
        }
    }

    /// Returns the counts of each principal over both time spans.
    fn total(&self) -> Tally {
        let mut total = self.before.clone();
        for (hash, now) in &self.now {
            let sum = total.entry(*hash).or_default();
            sum.calls += now.calls;
            sum.faults += now.faults;
        }
        total
    }
}

/// The recent calls of a revision at one replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WindowReport {
    /// The number of principals.
    pub(super) principals: u64,
    /// The number of failed calls that another revision answered.
    pub(super) faults: u64,
    /// Principals, each with the numbers of its calls and failures.
    listed: Vec<(PrincipalHash, u64, u64)>,
}

/// Returns the reason for a rollback, judging by the calls at several replicas together. `None` if
/// the revision is healthy. See [`RevisionStats::is_bad`].
pub(super) fn rollback_reason(windows: &[WindowReport], limits: &RollbackLimits) -> Option<String> {
    let (mut tally, mut others) = (Tally::new(), 0);
    for window in windows {
        others += window.principals.saturating_sub(window.listed.len() as u64);
        for (hash, calls, faults) in &window.listed {
            let sum = tally.entry(*hash).or_default();
            sum.calls += calls;
            sum.faults += faults;
        }
    }
    tally_rollback_reason(&tally, others, limits)
}

/// Returns the reason for a rollback, judging by the calls of principals. `others` is the number of
/// further principals, whose calls are taken as successful. `None` if the revision is healthy.
fn tally_rollback_reason(window: &Tally, others: u64, limits: &RollbackLimits) -> Option<String> {
    let principals = window.len() as u64 + others;
    let max_faults = limits.faults.div_ceil(principals.clamp(1, limits.faults.max(1)));
    let counted: u64 = window.values().map(|own| own.faults.min(max_faults)).sum();
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    let rates = window.values().map(|own| own.faults as f64 / own.calls.max(1) as f64);
    #[allow(clippy::cast_precision_loss, reason = "a rate")]
    let rate = rates.sum::<f64>() / principals.max(1) as f64;
    (counted >= limits.faults && rate > limits.fault_rate).then(|| {
        let sum = |number: fn(&PrincipalCalls) -> u64| window.values().map(number).sum::<u64>();
        format!(
            "{} of its last {} calls failed, of {} principals, and another revision answered them (rollout.limits.faultRate is {})",
            sum(|own| own.faults),
            sum(|own| own.calls),
            window.values().filter(|own| own.faults > 0).count(),
            limits.fault_rate
        )
    })
}

/// The statistics of a revision at one point in time, counted since its deployment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// The number of guard calls.
    pub calls: u64,
    /// The number of failed guard calls.
    pub faults: u64,
    /// The number of answers about which the guard made a decision.
    pub answers: u64,
    /// The number of answers that the guard changed, also without a loss.
    pub shaped: u64,
    /// The total estimated tokens of the original answers.
    pub original_tokens: u64,
    /// The total estimated tokens of the answers sent to clients.
    pub sent_tokens: u64,
    /// The total time of guard calls, in microseconds.
    pub micros: u64,
}

impl RevisionStats {
    /// Counts a guard call of duration `took`. `principal` is `None` for a call of the gateway
    /// itself. `span` is the time for which calls count towards a rollback.
    pub(super) fn called(
        &self,
        principal: Option<PrincipalHash>,
        took: Duration,
        failed: bool,
        span: Duration,
    ) {
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
        let Some(principal) = principal else { return };
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = window.principal(principal, span) {
            own.calls += 1;
        }
    }

    /// Counts a failed call of a principal that another revision answered. `span` is the time for
    /// which it counts towards a rollback.
    pub(super) fn blame(&self, principal: PrincipalHash, span: Duration) {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = window.principal(principal, span) {
            own.faults += 1;
        }
    }

    /// Counts an answer, with the guard's decision about it.
    pub fn answered(&self, decision: &Decision) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.shaped.fetch_add(u64::from(decision.loss != LossClass::None), Ordering::Relaxed);
        self.original_tokens.fetch_add(decision.original_tokens, Ordering::Relaxed);
        self.sent_tokens.fetch_add(decision.estimated_tokens, Ordering::Relaxed);
    }

    /// Counts a further read of an answer. Only the sent tokens count, because the answer itself
    /// was counted.
    pub fn read(&self, decision: &Decision) {
        self.sent_tokens.fetch_add(decision.estimated_tokens, Ordering::Relaxed);
    }

    /// Returns the reason for a rollback if too many recent calls failed that another revision
    /// answered. `None` if the revision is healthy.
    ///
    /// A single principal must not decide which revision serves the others. If `limits.faults` or
    /// more principals call, each counts at most once, even if many of its calls fail. If there are
    /// fewer, the failures that one principal may contribute increase, so that the only user of a
    /// gateway is protected, too. The rate of failed calls is the mean over principals for the same
    /// reason.
    pub(super) fn is_bad(&self, limits: &RollbackLimits) -> Option<String> {
        let window = self.window.lock().unwrap_or_else(PoisonError::into_inner).total();
        tally_rollback_reason(&window, 0, limits)
    }

    /// Returns the calls in the window, for other replicas. `span` is the time for which calls
    /// count. Lists principals if `is_listed` is true, or there are failures.
    pub(super) fn window(&self, is_listed: bool, span: Duration) -> WindowReport {
        let window = {
            let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
            // Without calls, nothing else ends the time span.
            window.advance(span);
            window.total()
        };
        let faults: u64 = window.values().map(|own| own.faults).sum();
        let principals = window.len() as u64;
        let mut listed: Vec<(PrincipalHash, u64, u64)> = Vec::new();
        if is_listed || faults > 0 {
            listed.extend(window.iter().map(|(hash, own)| (*hash, own.calls, own.faults)));
            // Those with failures come first.
            listed.sort_unstable_by_key(|(_, _, faults)| std::cmp::Reverse(*faults));
            listed.truncate(MAX_LISTED);
        }
        WindowReport { principals, faults, listed }
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
    /// microseconds. The bound is a power of two. It is too low for calls that take longer than
    /// half a minute, and 1 without calls.
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

    const SPAN: Duration = Duration::from_secs(60);

    fn limits() -> RollbackLimits {
        RollbackLimits { faults: 3, fault_rate: 0.1, ..RollbackLimits::default() }
    }

    fn fail(stats: &RevisionStats, principal: PrincipalHash, times: u64) {
        for _ in 0..times {
            stats.called(Some(principal), Duration::from_micros(100), true, SPAN);
            stats.blame(principal, SPAN);
        }
    }

    fn succeed(stats: &RevisionStats, principal: PrincipalHash, times: u64) {
        for _ in 0..times {
            stats.called(Some(principal), Duration::from_micros(3_000), false, SPAN);
        }
    }

    #[test]
    fn rate_needs_enough_faults() {
        let stats = RevisionStats::default();
        fail(&stats, 1, 2);
        assert_eq!(stats.is_bad(&limits()), None);
        fail(&stats, 1, 1);
        assert!(stats.is_bad(&limits()).is_some());
        succeed(&stats, 1, 40);
        assert_eq!(stats.is_bad(&limits()), None);
        assert_eq!((stats.snapshot().calls, stats.snapshot().faults), (43, 3));
        assert_eq!((stats.quantile(10), stats.quantile(990)), (128, 4096));
    }

    #[test]
    fn one_of_many_principals_cannot_roll_back() {
        let stats = RevisionStats::default();
        fail(&stats, 1, 50);
        assert!(stats.is_bad(&limits()).is_some());
        succeed(&stats, 2, 1);
        assert_eq!(stats.is_bad(&limits()), None);
        fail(&stats, 2, 1);
        assert!(stats.is_bad(&limits()).is_some());
        succeed(&stats, 3, 1);
        assert_eq!(stats.is_bad(&limits()), None);
        fail(&stats, 3, 1);
        // Many calls of one principal neither hide nor cause the failures of the others.
        succeed(&stats, 4, 10_000);
        assert!(stats.is_bad(&limits()).is_some());
        (5..60).for_each(|principal| succeed(&stats, principal, 1));
        assert_eq!(stats.is_bad(&limits()), None);
    }

    #[test]
    fn faults_at_several_replicas_add_up() {
        let replicas = [(); 3].map(|()| RevisionStats::default());
        // One principal: each replica alone has too few of its failures.
        replicas.iter().for_each(|replica| fail(replica, 1, 1));
        assert!(replicas.iter().all(|replica| replica.is_bad(&limits()).is_none()));
        let windows = || [0, 1, 2].map(|at: usize| replicas[at].window(true, SPAN));
        assert!(rollback_reason(&windows()[..2], &limits()).is_none());
        assert!(rollback_reason(&windows(), &limits()).is_some());
        // A principal counts once, at however many replicas.
        replicas.iter().for_each(|replica| succeed(replica, 2, 1));
        assert!(rollback_reason(&windows(), &limits()).is_none());
        // Principals that are not listed lower the rate.
        replicas.iter().for_each(|replica| fail(replica, 2, 5));
        assert!(rollback_reason(&windows(), &limits()).is_some());
        let healthy = RevisionStats::default();
        (100..200).for_each(|principal| succeed(&healthy, principal, 1));
        let all = [windows().to_vec(), vec![healthy.window(false, SPAN)]].concat();
        assert!(rollback_reason(&all, &limits()).is_none());
    }

    #[test]
    fn unanswered_faults_do_not_count() {
        let stats = RevisionStats::default();
        for _ in 0..50 {
            stats.called(Some(1), Duration::ZERO, true, SPAN);
            stats.called(None, Duration::ZERO, true, SPAN);
        }
        assert_eq!((stats.is_bad(&limits()), stats.snapshot().faults), (None, 100));
    }

    #[test]
    fn old_faults_expire() {
        let limits = RollbackLimits { faults: 1, fault_rate: 0.0, ..RollbackLimits::default() };
        let stats = RevisionStats::default();
        stats.called(Some(1), Duration::ZERO, true, SPAN);
        stats.blame(1, SPAN);
        assert!(stats.is_bad(&limits).is_some());
        {
            let mut window = stats.window.lock().unwrap();
            window.since = window.since.and_then(|since| since.checked_sub(SPAN * 5));
        }
        // Other replicas do not count them either, even if no later call is made.
        assert_eq!(stats.window(true, SPAN), WindowReport::default());
        stats.called(Some(1), Duration::ZERO, false, SPAN);
        assert_eq!(stats.is_bad(&limits), None);
    }
}
