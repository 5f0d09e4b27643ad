//! Directions of words and texts. Texts about similar things have similar directions, even if they
//! have no word in common.
//!
//! `data/vectors.py` makes the table of words from a sentence encoder.

use xxhash_rust::xxh3::xxh3_64;

/// The number of dimensions.
pub(crate) const DIMENSIONS: usize = 64;
/// The size of a record of the table: four bytes of the stem's hash, and two dimensions per byte.
const RECORD_BYTES: usize = 4 + DIMENSIONS / 2;
/// The value of a component of 1 in a quantized direction.
const SCALE: f32 = 127.0;

/// The directions of common English stems, sorted by the hash of the stem.
static TABLE: &[u8] = include_bytes!("../data/vectors.bin");

/// A direction with components from -127 to 127, or zeros if the direction is unknown.
pub(crate) type WideDirection = [i16; DIMENSIONS];
/// The components of a direction in an index, as signed bytes.
pub(crate) type StoredDirection = [u8; DIMENSIONS];

/// A weighted sum of directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DirectionSum([f32; DIMENSIONS]);

impl Default for DirectionSum {
    fn default() -> Self {
        Self([0.0; DIMENSIONS])
    }
}

impl DirectionSum {
    /// Returns the direction of a stem with length 1. `None` if the table does not have the stem.
    pub(crate) fn stem(stem: &str) -> Option<Self> {
        let key = xxh3_64(stem.as_bytes()) as u32;
        let (records, _) = TABLE.as_chunks::<RECORD_BYTES>();
        let at = records.binary_search_by_key(&key, record_key).ok()?;
        let (_, packed) = records.get(at)?.split_first_chunk::<4>()?;
        let mut sum = Self::default();
        for (pair, byte) in sum.0.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
            // The shifts extend the signs of the two halves.
            *pair = [(byte << 4).cast_signed() >> 4, byte.cast_signed() >> 4].map(f32::from);
        }
        Some(sum.normalized())
    }

    /// Adds another sum times `weight`.
    pub(crate) fn add(&mut self, other: &Self, weight: f32) {
        for (sum, value) in self.0.iter_mut().zip(other.0) {
            *sum += weight * value;
        }
    }

    /// Returns the sum with length 1. A sum of zeros remains.
    pub(crate) fn normalized(self) -> Self {
        let length = self.0.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length > 0.0 { Self(self.0.map(|value| value / length)) } else { self }
    }

    /// Returns the direction of the sum.
    #[allow(clippy::cast_possible_truncation, reason = "components are at most 127")]
    pub(crate) fn direction(self) -> WideDirection {
        self.normalized().0.map(|value| (SCALE * value).round() as i16)
    }
}

/// Returns the form in which an index stores a direction.
#[allow(clippy::cast_possible_truncation, reason = "components are at most 127")]
pub(crate) fn stored(direction: &WideDirection) -> StoredDirection {
    direction.map(|component| (component as i8).cast_unsigned())
}

fn record_key(record: &[u8; RECORD_BYTES]) -> u32 {
    let [a, b, c, d, ..] = *record;
    u32::from_le_bytes([a, b, c, d])
}

/// Returns the direction that an index stores.
#[inline]
pub(crate) fn loaded(direction: &StoredDirection) -> WideDirection {
    let mut components = [0; DIMENSIONS];
    for (component, byte) in components.iter_mut().zip(direction) {
        *component = i16::from(byte.cast_signed());
    }
    components
}

/// Returns the cosine of the angle between two directions. 0 if one is unknown.
#[inline]
pub(crate) fn similarity(left: &WideDirection, right: &WideDirection) -> f32 {
    // Sums of products of 16 bits are one vector instruction.
    let products = left.iter().zip(right).map(|(left, right)| i32::from(*left) * i32::from(*right));
    to_f32(products.sum()) / (SCALE * SCALE)
}

#[allow(clippy::cast_precision_loss, reason = "at most 64 products of 127 and 127")]
fn to_f32(sum: i32) -> f32 {
    sum as f32
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::text::Splitter;

    fn direction(text: &str) -> WideDirection {
        let mut sum = DirectionSum::default();
        for term in Splitter::default().split(text) {
            sum.add(&DirectionSum::stem(&term.text).unwrap(), 1.0);
        }
        sum.direction()
    }

    #[test]
    fn table_is_sorted() {
        let (records, rest) = TABLE.as_chunks::<RECORD_BYTES>();
        assert!(rest.is_empty() && records.len() > 7_000);
        assert!(records.is_sorted_by_key(record_key));
    }

    #[test]
    fn similar_texts_have_similar_directions() {
        let shares = direction("buy shares");
        let same = similarity(&shares, &shares);
        let similar = similarity(&shares, &direction("stock market"));
        let other = similarity(&shares, &direction("merge branches"));
        assert!((same - 1.0).abs() < 0.02, "{same}");
        assert!(similar > 0.3 && other < 0.2, "{similar} {other}");
    }

    #[test]
    fn stored_directions_are_loaded() {
        let direction = direction("sell stocks");
        assert_eq!(loaded(&stored(&direction)), direction);
    }

    #[test]
    fn unknown_words_have_no_direction() {
        assert_eq!(DirectionSum::stem("qqqzzz"), None);
        let unknown = DirectionSum::default().direction();
        assert!(similarity(&unknown, &direction("garden")).abs() < f32::EPSILON);
    }
}
