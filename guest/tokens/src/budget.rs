//! The budget of one answer, and what is reported of it.

use serde::{Deserialize, Serialize};

use super::Estimator;

/// What an answer may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// How tokens are counted.
    pub estimator: Estimator,
    /// The threshold that applies, in tokens.
    pub threshold: u64,
}

impl Budget {
    /// Tokens, by the estimator, that an answer may be filled with.
    #[must_use]
    pub fn allowance(&self) -> u64 {
        self.estimator.allowance(self.threshold)
    }
}

/// The budget as it is reported (FR-009, FR-012).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenBudget {
    /// Estimated tokens of the answer.
    pub estimated_tokens: u64,
    /// Share of the threshold that is used: 0 to 1, two decimals.
    pub budget_used: f64,
    /// Tokens of the threshold that are left.
    pub budget_remaining: u64,
}

impl TokenBudget {
    /// The report on `estimated` tokens under `threshold`.
    #[must_use]
    pub fn new(estimated: u64, threshold: u64) -> Self {
        // In whole hundredths, so that every host spells the same number.
        let hundredths = (estimated * 100 / threshold.max(1)).min(100);
        Self {
            estimated_tokens: estimated,
            budget_used: f64::from(u32::try_from(hundredths).unwrap_or(100)) / 100.0,
            budget_remaining: threshold.saturating_sub(estimated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_is_capped_at_one() {
        let over = TokenBudget::new(9_000, 4_000);
        assert_eq!((over.budget_used, over.budget_remaining), (1.0, 0));
        let half = TokenBudget::new(2_000, 4_000);
        assert_eq!((half.budget_used, half.budget_remaining), (0.5, 2_000));
    }
}
