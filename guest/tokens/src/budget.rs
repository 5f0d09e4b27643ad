//! The token budget of a response to the client, and the report on its use.

use serde::{Deserialize, Serialize};

use super::Estimator;

/// The token budget of a response to the client, with the estimator to apply it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The estimator of the response's tokens.
    pub estimator: Estimator,
    /// The maximum tokens that the policy allows, including the estimator's safety margin.
    pub threshold: u64,
}

impl Budget {
    /// Returns the maximum number of estimated tokens that the response may have: the threshold
    /// minus the safety margin.
    #[must_use]
    pub fn allowance(&self) -> u64 {
        self.estimator.allowance(self.threshold)
    }
}

/// The report to the client on the use of a token budget (FR-009, FR-012).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenBudget {
    /// The estimated tokens of the response to the client.
    pub estimated_tokens: u64,
    /// The share of the budget that the response uses: 0 to 1, with two decimals.
    pub budget_used: f64,
    /// The tokens of the budget that the response leaves unused.
    pub budget_remaining: u64,
}

impl TokenBudget {
    /// Creates the report on a response of `estimated` tokens under a budget of `threshold` tokens.
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
