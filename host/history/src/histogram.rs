//! Histograms with buckets of powers of two, which can be merged.

use crate::varint;

/// The value of a 4-bit half which means that a separate number follows.
const ESCAPE: u8 = 0x0f;
/// The number of buckets.
const BUCKETS: usize = 64;

/// A histogram of 64 buckets. Bucket 0 counts zeros, and bucket `n` the numbers from 2^(n-1) to
/// 2^n - 1. Larger numbers belong to the last bucket.
///
/// An empty histogram has no buckets in memory, because most queries read none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(Option<Box<[u64; BUCKETS]>>);

fn bucket(value: u64) -> usize {
    ((u64::BITS - value.leading_zeros()) as usize).min(BUCKETS - 1)
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.add_count(bucket(value), 1);
    }

    fn add_count(&mut self, bucket: usize, more: u64) {
        let buckets = self.0.get_or_insert_with(|| Box::new([0; BUCKETS]));
        if let Some(count) = buckets.get_mut(bucket) {
            *count = count.saturating_add(more);
        }
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        self.0.iter().flat_map(|buckets| buckets.iter().copied())
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, more) in other.counts().enumerate().filter(|(_, more)| *more > 0) {
            self.add_count(bucket, more);
        }
    }

    /// Returns the number of added values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts().sum()
    }

    /// Returns an estimate of a quantile, such as 0.95. The estimate is in the same bucket as the
    /// true value, and so at most twice or half as large. The last bucket has no upper bound, so
    /// that a value in it may be much larger than the estimate. `None` for an empty histogram.
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
        for (at, count) in self.counts().enumerate() {
            if before + count >= rank {
                let (low, high) = match at {
                    0 => return Some(0.0),
                    at => ((1_u64 << (at - 1)) as f64, (1_u64 << at) as f64),
                };
                // Numbers are taken as evenly distributed within their bucket.
                return Some(low + (high - low) * (rank - before) as f64 / (count as f64 + 1.0));
            }
            before += count;
        }
        None
    }

    /// Appends the serialized histogram: the number of non-empty buckets as one byte, then a byte
    /// for each of them.
    ///
    /// The high half of that byte is the distance to the previous bucket, and the low half is the
    /// count. Most are small. A half that is [`ESCAPE`] is followed by the number itself.
    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let filled = || (0_u8..).zip(self.counts()).filter(|(_, count)| *count > 0);
        bytes.push(u8::try_from(filled().count()).unwrap_or_default());
        let mut before = 0;
        for (bucket, count) in filled() {
            let distance = bucket - before;
            before = bucket;
            let low = u8::try_from(count).map_or(ESCAPE, |count| count.min(ESCAPE));
            bytes.push(distance.min(ESCAPE) << 4 | low);
            if distance >= ESCAPE {
                bytes.push(distance);
            }
            if low == ESCAPE {
                varint::write(bytes, count);
            }
        }
    }

    /// Adds the counts of a serialized histogram, and removes it from the front of `bytes`. `None`
    /// if it is damaged.
    pub(crate) fn merge_written(&mut self, bytes: &mut &[u8]) -> Option<()> {
        let mut bucket = 0_usize;
        for _ in 0..varint::byte(bytes)? {
            let halves = varint::byte(bytes)?;
            let (mut distance, low) = (halves >> 4, halves & ESCAPE);
            if distance == ESCAPE {
                distance = varint::byte(bytes)?;
            }
            let count = if low == ESCAPE { varint::read(bytes)? } else { low.into() };
            bucket = bucket.checked_add(distance.into())?;
            self.add_count(bucket, count);
        }
        Some(())
    }

    /// Adds the counts of a histogram of schema version 1, in which the number of each bucket is
    /// one byte before its count. Ignores damaged parts.
    pub(crate) fn merge_version_1(&mut self, mut bytes: &[u8]) {
        while let Some(bucket) = varint::byte(&mut bytes)
            && let Some(count) = varint::read(&mut bytes)
        {
            self.add_count(bucket.into(), count);
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
            let mut bytes = Vec::new();
            of(&one).write(&mut bytes);
            let mut merged = of(&other);
            proptest::prop_assert!(merged.merge_written(&mut bytes.as_slice()).is_some());
            proptest::prop_assert_eq!(merged, of(&[one, other].concat()));
        }

        #[test]
        fn damaged_bytes_do_not_fail(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..80),
        ) {
            let mut histogram = Histogram::default();
            let _ = histogram.merge_written(&mut bytes.as_slice());
            let quantile = histogram.quantile(0.5);
            proptest::prop_assert_eq!(quantile.is_some(), histogram.count() > 0);
        }
    }
}
