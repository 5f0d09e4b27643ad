//! Sums and histograms of calls over a sliding window of time, in memory.

use std::num::NonZeroUsize;
use std::time::Duration;

use context_guard_cursor_store::scope_principal;
use context_guard_history::{Event, Follows, Histogram, Outcome};
use lru::LruCache;

/// The number of slots of a window. The window advances by one slot at a time.
const SLOTS: u64 = 60;
/// The maximum number of principals whose metadata queries are counted. Beyond it, the principal
/// with the oldest query is dropped.
const MAX_PRINCIPALS: usize = 1_000;
/// The minimum number of samples for a value of `estimate_error`.
const MIN_SAMPLES: u64 = 5;

/// A sum that a window contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Calls,
    Followups,
    TokensBefore,
    TokensSent,
    TokensFollowup,
    BytesBefore,
    BytesSent,
    Oversized,
    Paged,
    Chunked,
    Condensed,
    Faults,
    Samples,
    SampledActual,
    SampledEstimate,
    AuditLost,
    DefinitionAlerts,
}

/// The number of sums in a window.
const COUNTS: usize = Count::DefinitionAlerts as usize + 1;

/// The sums and histograms of a period.
#[derive(Clone, Default)]
pub(super) struct Totals {
    counts: [u64; COUNTS],
    latency: Histogram,
    tokens: Histogram,
}

impl Totals {
    fn add(&mut self, count: Count, more: u64) {
        if let Some(sum) = self.counts.get_mut(count as usize) {
            *sum = sum.saturating_add(more);
        }
    }

    pub(super) fn get(&self, count: Count) -> u64 {
        self.counts.get(count as usize).copied().unwrap_or_default()
    }

    fn observe(&mut self, event: &Event) {
        if event.follows != Follows::Nothing {
            self.add(Count::Followups, 1);
            self.add(Count::TokensFollowup, event.tokens_sent);
            return;
        }
        let is_fault = matches!(event.outcome, Outcome::Fault | Outcome::UpstreamError);
        for (count, more) in [
            (Count::Calls, 1),
            (Count::TokensBefore, event.tokens_before),
            (Count::TokensSent, event.tokens_sent),
            (Count::BytesBefore, event.bytes_before),
            (Count::BytesSent, event.bytes_sent),
            (Count::Oversized, event.is_oversized.into()),
            (Count::Paged, event.is_paged.into()),
            (Count::Chunked, event.is_chunked.into()),
            (Count::Condensed, event.is_condensed.into()),
            (Count::Faults, is_fault.into()),
        ] {
            self.add(count, more);
        }
        self.latency.add(event.latency_us);
        self.tokens.add(event.tokens_before);
    }

    fn merge(&mut self, other: &Self) {
        for (sum, more) in self.counts.iter_mut().zip(other.counts) {
            *sum = sum.saturating_add(more);
        }
        self.latency.merge(&other.latency);
        self.tokens.merge(&other.tokens);
    }

    /// Returns the value of the metric `name` of a condition. `None` if the name is unknown, or
    /// there are no calls or samples to compute the value from.
    #[allow(clippy::cast_precision_loss, reason = "sums of one window")]
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        let sum = |count| self.get(count) as f64;
        let share = |part: f64, whole: f64| (whole > 0.0).then_some(part / whole);
        let saved = sum(Count::TokensBefore) - sum(Count::TokensSent);
        let net = saved - sum(Count::TokensFollowup);
        // Latencies are stored in microseconds.
        let milliseconds = |quantile| Some(self.latency.quantile(quantile)? / 1_000.0);
        match name {
            "calls" => Some(sum(Count::Calls)),
            "followups" => Some(sum(Count::Followups)),
            "tokens_before" => Some(sum(Count::TokensBefore)),
            "tokens_sent" => Some(sum(Count::TokensSent)),
            "tokens_followup" => Some(sum(Count::TokensFollowup)),
            "tokens_saved" => Some(saved),
            "net_tokens_saved" => Some(net),
            "tokens_p95" => self.tokens.quantile(0.95),
            "reduction" => share(net, sum(Count::TokensBefore)),
            "bytes_before" => Some(sum(Count::BytesBefore)),
            "bytes_sent" => Some(sum(Count::BytesSent)),
            "oversized" => Some(sum(Count::Oversized)),
            "oversized_share" => share(sum(Count::Oversized), sum(Count::Calls)),
            "paged" => Some(sum(Count::Paged)),
            "chunked" => Some(sum(Count::Chunked)),
            "condensed" => Some(sum(Count::Condensed)),
            "faults" => Some(sum(Count::Faults)),
            "fault_rate" => share(sum(Count::Faults), sum(Count::Calls)),
            "latency_p50" => milliseconds(0.5),
            "latency_p95" => milliseconds(0.95),
            "latency_p99" => milliseconds(0.99),
            "estimate_error" => {
                let (actual, estimate) = (sum(Count::SampledActual), sum(Count::SampledEstimate));
                let is_known = self.get(Count::Samples) >= MIN_SAMPLES;
                share((actual - estimate).abs(), actual).filter(|_| is_known)
            }
            "audit_lost" => Some(sum(Count::AuditLost)),
            "definition_alerts" => Some(sum(Count::DefinitionAlerts)),
            _ => None,
        }
    }
}

/// The contents of a slot, with its number. Slots are numbered from 1970.
#[derive(Clone, Default)]
struct Slot<T> {
    number: u64,
    contents: T,
}

/// A ring of the last [`SLOTS`] slots.
#[derive(Clone)]
struct Ring<T>(Vec<Slot<T>>);

impl<T: Clone + Default> Ring<T> {
    fn new() -> Self {
        Self(vec![Slot::default(); usize::try_from(SLOTS).unwrap_or_default()])
    }

    /// Returns the contents of the slot `number`. They are empty if the slot is new.
    fn slot(&mut self, number: u64) -> Option<&mut T> {
        let slot = self.0.get_mut(usize::try_from(number % SLOTS).unwrap_or_default())?;
        if slot.number != number {
            *slot = Slot { number, contents: T::default() };
        }
        Some(&mut slot.contents)
    }

    /// Returns the contents of the slots of the window that ends with slot `last`.
    fn recent(&self, last: u64) -> impl Iterator<Item = &T> {
        let is_recent = move |slot: &&Slot<T>| slot.number <= last && slot.number + SLOTS > last;
        self.0.iter().filter(is_recent).map(|slot| &slot.contents)
    }
}

/// A sliding window, which takes about 70 kB, and up to 1 MB more for principals. It covers its
/// length, less at most one sixtieth.
pub(super) struct Window {
    slot_ms: u64,
    totals: Ring<Totals>,
    /// The metadata queries of each principal. `None` if no alert uses them.
    principals: Option<LruCache<String, Ring<u32>>>,
}

impl Window {
    /// Creates a window of this length. It counts the metadata queries of principals if
    /// `has_principals` is true.
    pub(super) fn new(length: Duration, has_principals: bool) -> Self {
        let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let capacity = NonZeroUsize::new(MAX_PRINCIPALS).unwrap_or(NonZeroUsize::MIN);
        Self {
            slot_ms: (length_ms / SLOTS).max(1),
            totals: Ring::new(),
            principals: has_principals.then(|| LruCache::new(capacity)),
        }
    }

    /// Returns true if the window counts the metadata queries of principals.
    pub(super) fn has_principals(&self) -> bool {
        self.principals.is_some()
    }

    fn number(&self, now_ms: u64) -> u64 {
        now_ms / self.slot_ms
    }

    /// Counts a request in the slot of its time.
    pub(super) fn observe(&mut self, event: &Event) {
        let number = self.number(event.at_ms);
        if let Some(totals) = self.totals.slot(number) {
            totals.observe(event);
        }
    }

    /// Counts a metadata query of the principal in `scope`, the owner of stored answers.
    pub(super) fn queried_metadata(&mut self, scope: &str, now_ms: u64) {
        let principal = scope_principal(scope);
        let number = self.number(now_ms);
        let Some(principals) = &mut self.principals else { return };
        if !principals.contains(principal) {
            principals.put(principal.to_owned(), Ring::new());
        }
        if let Some(queries) = principals.get_mut(principal).and_then(|ring| ring.slot(number)) {
            *queries = queries.saturating_add(1);
        }
    }

    /// Adds `more` to a sum.
    pub(super) fn add(&mut self, count: Count, more: u64, now_ms: u64) {
        let number = self.number(now_ms);
        if let Some(totals) = self.totals.slot(number) {
            totals.add(count, more);
        }
    }

    /// Returns the sums of the window that ends at `now_ms`. O(slots).
    pub(super) fn totals(&self, now_ms: u64) -> Totals {
        let mut totals = Totals::default();
        self.totals.recent(self.number(now_ms)).for_each(|slot| totals.merge(slot));
        totals
    }

    /// Returns the largest number of metadata queries of one principal in the window.
    /// O(principals).
    pub(super) fn most_metadata_queries(&self, now_ms: u64) -> u64 {
        let last = self.number(now_ms);
        let principals = self.principals.iter().flatten();
        principals
            .map(|(_, ring)| ring.recent(last).map(|queries| u64::from(*queries)).sum())
            .max()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_790_000_000_000;

    #[test]
    fn calls_leave_the_window_after_its_length() {
        let mut window = Window::new(Duration::from_secs(60), false);
        for second in 0..120 {
            window.observe(&Event {
                at_ms: START + second * 1_000,
                tokens_before: 100,
                tokens_sent: 40,
                is_oversized: second % 4 == 0,
                latency_us: 2_000,
                ..Event::default()
            });
        }
        let totals = window.totals(START + 119_000);
        assert_eq!((totals.value("calls"), totals.value("oversized")), (Some(60.0), Some(15.0)));
        assert_eq!(totals.value("oversized_share"), Some(0.25));
        assert_eq!(totals.value("tokens_saved"), Some(3_600.0));
        let latency = totals.value("latency_p95").unwrap();
        assert!((1.0..4.1).contains(&latency), "{latency}");
        assert_eq!(window.totals(START + 178_000).value("calls"), Some(1.0));
        let empty = window.totals(START + 179_000);
        assert_eq!((empty.value("calls"), empty.value("oversized_share")), (Some(0.0), None));
    }

    #[test]
    fn follow_up_reads_are_no_calls() {
        let mut window = Window::new(Duration::from_secs(600), false);
        let call = Event { at_ms: START, tokens_before: 900, tokens_sent: 90, ..Event::default() };
        window.observe(&call);
        window.observe(&Event { follows: Follows::Call(None), tokens_sent: 1_000, ..call });
        let totals = window.totals(START);
        assert_eq!((totals.value("calls"), totals.value("followups")), (Some(1.0), Some(1.0)));
        assert_eq!(totals.value("net_tokens_saved"), Some(-190.0));
    }

    #[test]
    fn few_samples_have_no_estimate_error() {
        let mut window = Window::new(Duration::from_secs(600), false);
        for (samples, expected) in [(4, None), (1, Some(0.5))] {
            window.add(Count::Samples, samples, START);
            window.add(Count::SampledActual, samples * 200, START);
            window.add(Count::SampledEstimate, samples * 100, START);
            assert_eq!(window.totals(START).value("estimate_error"), expected);
        }
    }

    #[test]
    fn metadata_queries_of_all_scopes_count_for_their_principal() {
        let mut window = Window::new(Duration::from_secs(3_600), true);
        for query in 0..30 {
            let scope = context_guard_cursor_store::scope("a", &format!("{query:016x}"));
            window.queried_metadata(&scope, START);
        }
        assert_eq!(window.most_metadata_queries(START), 30);
    }

    #[test]
    fn metadata_queries_are_counted_by_principal() {
        let mut window = Window::new(Duration::from_secs(3_600), true);
        for query in 0..30 {
            window.queried_metadata("a", START + query * 1_000);
            window.queried_metadata(&format!("other {query}"), START);
        }
        assert_eq!(window.most_metadata_queries(START + 30_000), 30);
        for other in 0..MAX_PRINCIPALS {
            window.queried_metadata(&other.to_string(), START + 40_000);
        }
        assert_eq!(window.most_metadata_queries(START + 40_000), 1);
        assert_eq!(window.most_metadata_queries(START + 8_000_000), 0);
    }
}
