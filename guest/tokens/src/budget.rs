//! The token budget of an answer, and the report on it.

use serde::{Deserialize, Serialize};

use super::Estimator;

/// The token budget of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The token estimator.
    pub estimator: Estimator,
    /// The budget of the policy, in tokens.
    pub threshold: u64,
}

impl Budget {
    /// Returns the estimated tokens that an answer may have.
    #[must_use]
    pub fn allowance(&self) -> u64 {
        self.estimator.allowance(self.threshold)
    }
}

/// The report on a budget (FR-009, FR-012).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenBudget {
    /// The estimated tokens of the answer.
    pub estimated_tokens: u64,
    /// The used share of the budget: 0 to 1, with two decimals.
    pub budget_used: f64,
    /// The tokens of the budget that are left.
    pub budget_remaining: u64,
}

impl TokenBudget {
    /// Creates the report on an answer of `estimated` tokens.
    #[must_use]
    pub fn new(estimated: u64, threshold: u64) -> Self {
        // Whole hundredths, so that every host writes the same number.
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
    fn used_share_is_at_most_one() {
        let over = TokenBudget::new(9_000, 4_000);
        assert_eq!((over.budget_used, over.budget_remaining), (1.0, 0));
        let half = TokenBudget::new(2_000, 4_000);
        assert_eq!((half.budget_used, half.budget_remaining), (0.5, 2_000));
    }
}
