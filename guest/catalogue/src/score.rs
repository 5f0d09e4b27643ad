//! Scores of tools by their usage, and tiers of scores.

use serde::{Deserialize, Serialize};

/// The call statistics of one tool. An answer with `isError` is a failure. Latency excludes
/// queueing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// The number of calls.
    pub total: u64,
    /// The number of calls that succeeded.
    pub success: u64,
    /// The mean latency in milliseconds.
    pub average_ms: f64,
    /// The 95th percentile of the latency in milliseconds.
    pub p95_ms: f64,
    /// The number of calls in the last 7 days.
    pub uses_7d: u64,
    /// The number of calls in the last 30 days.
    pub uses_30d: u64,
}

/// The class of a tool by its score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tier {
    /// A score of .80 or more.
    Hot,
    /// A score of .60 or more.
    Warm,
    /// A score of .30 or more.
    Standard,
    /// Every other score.
    Cold,
}

impl Usage {
    /// Returns the score of the tool, from 0 to 1 with two decimals. A tool without calls has 0.
    ///
    /// ```
    /// use context_guard_catalogue::score::Usage;
    ///
    /// let usage = Usage {
    ///     total: 400,
    ///     success: 390,
    ///     average_ms: 120.0,
    ///     uses_7d: 90,
    ///     uses_30d: 400,
    ///     ..Usage::default()
    /// };
    /// assert_eq!(usage.tier_score(), 0.51);
    /// ```
    #[must_use]
    pub fn tier_score(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        let ratio = |part: u64, whole: u64| (to_f64(part) / to_f64(whole.max(1))).clamp(0.0, 1.0);
        let latency = if self.average_ms.is_finite() { self.average_ms } else { f64::MAX };
        let score = 0.40 * (to_f64(self.total) / 10_000.0).min(1.0)
            + 0.30 * ratio(self.success, self.total)
            + 0.20 * (1.0 - latency.max(0.0) / 1_000.0).max(0.0)
            + 0.10 * ratio(self.uses_7d, self.uses_30d);
        (score * 100.0).round() / 100.0
    }

    /// Returns the tier of the score.
    #[must_use]
    pub fn tier(&self) -> Tier {
        match self.tier_score() {
            score if score >= 0.80 => Tier::Hot,
            score if score >= 0.60 => Tier::Warm,
            score if score >= 0.30 => Tier::Standard,
            _ => Tier::Cold,
        }
    }

    /// Returns the success rate in percent. `None` without calls.
    #[must_use]
    pub fn success_percent(&self) -> Option<f64> {
        (self.total > 0).then(|| 100.0 * to_f64(self.success.min(self.total)) / to_f64(self.total))
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of calls, far below 2^52")]
fn to_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(total: u64, success: u64, average_ms: f64, uses_7d: u64, uses_30d: u64) -> Usage {
        Usage { total, success, average_ms, p95_ms: 0.0, uses_7d, uses_30d }
    }

    #[test]
    fn scores_follow_the_formula() {
        let vectors = [
            (usage(12_453, 12_291, 47.0, 820, 3_100), 0.91, Tier::Hot),
            (usage(5_000, 5_000, 0.0, 500, 500), 0.80, Tier::Hot),
            (usage(400, 390, 120.0, 90, 400), 0.51, Tier::Standard),
            (usage(0, 0, 0.0, 0, 0), 0.0, Tier::Cold),
        ];
        for (usage, score, tier) in vectors {
            assert_eq!((usage.tier_score(), usage.tier()), (score, tier), "{usage:?}");
        }
    }

    #[test]
    fn unusual_measurements_remain_in_range() {
        for usage in [usage(1, 9, f64::NAN, 9, 1), usage(u64::MAX, 0, -5.0, u64::MAX, 0)] {
            assert!((0.0..=1.0).contains(&usage.tier_score()), "{usage:?}");
        }
    }
}
