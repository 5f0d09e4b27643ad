//! The price of the whole original, without reading all of it.

use super::{Estimator, Measure};
use crate::json::text::{self, Form};

/// Above this the total is extrapolated: pricing megabytes would cost more than all the rest.
const EXACT_BYTES: usize = 64 * 1024;
const SAMPLES: usize = 16;
const SAMPLE_BYTES: usize = 2 * 1024;

/// Tokens of an original, exact or extrapolated from samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Original {
    /// Estimated tokens.
    pub tokens: u64,
    /// What it counts against a budget.
    pub cost: u64,
    /// Whether it was extrapolated.
    pub sampled: bool,
}

impl Original {
    /// Prices `bytes`, which stand in `form`: all of them up to 64 kB, else 16 evenly spaced samples of 2 kB.
    #[must_use]
    pub fn price(estimator: &Estimator, bytes: &[u8], form: Form) -> Self {
        if bytes.len() <= EXACT_BYTES {
            let Measure { tokens, cost } = estimator.measure(&text::visible(bytes, form));
            return Self { tokens, cost, sampled: false };
        }
        let stride = bytes.len() / SAMPLES;
        let (mut tokens, mut cost, mut priced) = (0u64, 0u64, 0u64);
        for sample in 0..SAMPLES {
            let from = text::boundary(bytes, sample * stride, form);
            let to = text::boundary(bytes, sample * stride + SAMPLE_BYTES, form);
            let part = bytes.get(from..to).unwrap_or_default();
            let measure = estimator.measure(&text::visible(part, form));
            tokens += measure.tokens;
            cost += measure.cost;
            priced += part.len() as u64;
        }
        let whole = |part: u64| {
            u64::try_from(u128::from(part) * bytes.len() as u128 / u128::from(priced.max(1)))
                .unwrap_or(u64::MAX)
        };
        Self { tokens: whole(tokens), cost: whole(cost), sampled: true }
    }

    /// The sum of two originals.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            cost: self.cost + other.cost,
            sampled: self.sampled || other.sampled,
        }
    }
}
