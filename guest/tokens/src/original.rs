//! Estimates the tokens of an upstream response, or a part of it, without reading all of it.

use super::{Estimator, Measure, WordCache};
use context_guard_json::text::{self, Form};

/// The size of a text, in bytes, above which its tokens are extrapolated from samples: estimating
/// megabytes would take longer than shaping them.
const EXACT_BYTES: u64 = 64 * 1024;
/// The size of a text, in bytes, up to which its tokens are never extrapolated: the samples would
/// be a third of the text.
const LEAST_BYTES: u64 = 24 * 1024;
/// A number of bytes per token that many texts have. A text of at most 64 kB that is shorter than
/// the token limit times this number is estimated as a whole.
const MOST_BYTES: u64 = 3;
/// The size of a sample, in bytes. Many short samples represent varied text better than few long
/// ones, but each sample cuts a word at both ends.
const SAMPLE_BYTES: usize = 256;
/// The number of bytes of a text for which one sample is taken, within the limits on the number of
/// samples.
const STRIDE: usize = 32 * 1024;
/// The minimum number of samples that are taken from a text.
const LEAST_SAMPLES: usize = 32;
/// The maximum number of samples that are taken from a text.
const MOST_SAMPLES: usize = 256;

/// The estimated tokens of an upstream's response, or of a part of the response, before shaping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginalCost {
    /// The estimated tokens.
    pub tokens: u64,
    /// The cost against a budget: the estimated tokens, plus a safety margin if they may be too
    /// low.
    pub cost: u64,
    /// True if tokens and cost are extrapolated from samples.
    pub sampled: bool,
}

/// The limits between which the cost of a response must be exact, in tokens.
#[derive(Clone, Copy, Debug)]
pub struct PriceLimits {
    /// A cost that exceeds every limit of the call.
    pub over: u64,
    /// A cost that is within every limit of the call.
    pub under: u64,
}

impl OriginalCost {
    /// Estimates the tokens of `bytes`. Reads up to 64 kB as a whole, and estimates longer texts
    /// from samples of 32 to 256 equal parts. O(1): reads 8 to 64 kB.
    #[must_use]
    pub fn estimate(estimator: &Estimator, bytes: &[u8], form: Form) -> Self {
        Self::estimate_near(estimator, bytes, form, PriceLimits { over: u64::MAX, under: 0 })
    }

    /// Estimates the tokens of `bytes` for a caller that needs exact costs only between two limits.
    /// Texts of more than 64 kB are always extrapolated. Those of more than 24 kB are if samples
    /// show a cost above the upper limit. If the cost is far below the lower limit, the tables
    /// determine it.
    #[must_use]
    pub fn estimate_near(
        estimator: &Estimator,
        bytes: &[u8],
        form: Form,
        limits: PriceLimits,
    ) -> Self {
        let length = bytes.len() as u64;
        let over = length > LEAST_BYTES && length / MOST_BYTES > limits.over;
        let sampled =
            (length > EXACT_BYTES || over).then(|| Self::from_samples(estimator, bytes, form));
        match sampled.filter(|sampled| length > EXACT_BYTES || sampled.cost > limits.over) {
            Some(sampled) => sampled,
            None => {
                let text = text::visible(bytes, form);
                let Measure { tokens, cost } = estimator.measure_up_to(&text, limits.under);
                Self { tokens, cost, sampled: false }
            }
        }
    }

    fn from_samples(estimator: &Estimator, bytes: &[u8], form: Form) -> Self {
        let samples = (bytes.len() / STRIDE).clamp(LEAST_SAMPLES, MOST_SAMPLES);
        let stride = bytes.len() / samples;
        let (mut tokens, mut cost, mut priced) = (0u64, 0u64, 0u64);
        let mut words = WordCache::default();
        for sample in 0..samples {
            let offset =
                sample * stride + sample_offset(sample, stride.saturating_sub(SAMPLE_BYTES));
            let (part, length) = text::sample(bytes, offset, SAMPLE_BYTES, form);
            let measure = estimator.measure_in(&mut words, &part);
            tokens += measure.tokens;
            cost += measure.cost;
            priced += length as u64;
        }
        let whole = |part: u64| {
            u64::try_from(u128::from(part) * bytes.len() as u128 / u128::from(priced.max(1)))
                .unwrap_or(u64::MAX)
        };
        Self { tokens: whole(tokens), cost: whole(cost), sampled: true }
    }

    /// Returns the sums of two estimates. `sampled` is true if either is extrapolated.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            cost: self.cost + other.cost,
            sampled: self.sampled || other.sampled,
        }
    }
}

/// Returns the offset, below `limit`, of sample number `sample` in its part of the text. The offset
/// is pseudo-random. With a constant one, records as long as the parts would always show the same
/// field.
fn sample_offset(sample: usize, limit: usize) -> usize {
    let scattered = (sample as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    usize::try_from((scattered * limit as u64) >> 32).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_close_to_the_exact_cost() {
        let estimator = Estimator::default();
        for records in [2_000u64, 20_000, 100_000] {
            let mut text = String::new();
            for at in 0..records {
                let id = at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                text.push_str(&format!(
                    "{{\"id\":\"{id:016x}\",\"name\":\"Guest number {at}\",\"note\":\""
                ));
                (0..id % 40).for_each(|_| text.push_str("a quiet room with a view, "));
                text.push_str("\"}\n");
            }
            let exact = estimator.price(text.as_bytes());
            let sampled = OriginalCost::estimate(&estimator, text.as_bytes(), Form::Raw);
            assert!(sampled.sampled);
            assert!(sampled.tokens.abs_diff(exact) * 20 <= exact, "{} of {exact}", sampled.tokens);
        }
    }
}
