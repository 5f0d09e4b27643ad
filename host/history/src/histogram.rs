//! Histograms with buckets of powers of two, which can be merged.

/// The number of buckets.
const BUCKETS: usize = 64;

/// A histogram of 64 buckets. Bucket 0 counts zeros, and bucket `n` the numbers from 2^(n-1) to
/// 2^n - 1. Larger numbers belong to the last bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram([u64; BUCKETS]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

fn bucket(value: u64) -> usize {
    ((u64::BITS - value.leading_zeros()) as usize).min(BUCKETS - 1)
}

impl Histogram {
    /// Counts a number.
    pub fn add(&mut self, value: u64) {
        if let Some(count) = self.0.get_mut(bucket(value)) {
            *count += 1;
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count = count.saturating_add(more);
        }
    }

    /// Returns the number of counted numbers.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns an estimate of a quantile, such as 0.95, which lies in the bucket of the true value:
    /// it is at most twice or half as large. `None` for an empty histogram.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate between the bounds of a bucket"
    )]
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let total = self.count();
        if total == 0 {
            return None;
        }
        let rank = (quantile.clamp(0.0, 1.0) * total as f64).ceil().max(1.0) as u64;
        let mut before = 0;
        for (at, count) in self.0.iter().enumerate() {
            if before + count >= rank {
                let (low, high) = match at {
                    0 => return Some(0.0),
                    at => ((1_u64 << (at - 1)) as f64, (1_u64 << at) as f64),
                };
                // Numbers are taken as evenly distributed within their bucket.
                return Some(low + (high - low) * (rank - before) as f64 / (*count as f64 + 1.0));
            }
            before += count;
        }
        None
    }

    /// Returns the histogram as bytes: for each bucket that is not empty, its number as one byte,
    /// and its count as LEB128.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (at, count) in (0_u8..).zip(self.0).filter(|(_, count)| *count > 0) {
            bytes.push(at);
            let mut rest = count;
            while rest >= 0x80 {
                bytes.push(u8::try_from(rest & 0x7f).unwrap_or_default() | 0x80);
                rest >>= 7;
            }
            bytes.push(u8::try_from(rest).unwrap_or_default());
        }
        bytes
    }

    /// Reads a histogram from bytes. Damaged parts are left out.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut histogram = Self::default();
        histogram.merge_bytes(bytes);
        histogram
    }

    /// Adds the counts of a histogram in bytes. O(buckets that are not empty).
    pub(crate) fn merge_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes.iter();
        while let Some(at) = rest.next() {
            let (mut count, mut shift) = (0_u64, 0_u32);
            for byte in rest.by_ref() {
                count |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            if let Some(bucket) = self.0.get_mut(usize::from(*at)) {
                *bucket = bucket.saturating_add(count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_the_bucket_of_the_true_value() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        (1..=1_000).for_each(|value| histogram.add(value));
        for quantile in [0.01, 0.5, 0.95, 0.99, 1.0] {
            let found = histogram.quantile(quantile).unwrap_or_default();
            let exact = quantile * 1_000.0;
            assert!(found > exact / 2.0 && found < exact * 2.0, "{quantile}: {found}");
        }
        histogram.add(u64::MAX);
        assert_eq!(histogram.count(), 1_001);
    }

    proptest::proptest! {
        #[test]
        fn bytes_and_merges_keep_all_counts(
            one in proptest::collection::vec(proptest::num::u64::ANY, 0..200),
            other in proptest::collection::vec(0_u64..5_000, 0..200),
        ) {
            let of = |values: &[u64]| {
                let mut histogram = Histogram::default();
                values.iter().for_each(|value| histogram.add(*value));
                histogram
            };
            let mut merged = Histogram::from_bytes(&of(&one).to_bytes());
            merged.merge(&of(&other));
            proptest::prop_assert_eq!(merged, of(&[one, other].concat()));
        }

        #[test]
        fn damaged_bytes_do_not_fail(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80),
        ) {
            let _ = Histogram::from_bytes(&bytes).quantile(0.5);
        }
    }
}
