//! The costs of words, and a cache of them.

/// One token, in the unit of costs (1/4096 token).
pub(super) const ONE: i64 = 4096;

/// A slot of the word cache, with the cost of a word of up to eight bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Word {
    /// The letters of the word, with the first in the lowest byte.
    pub(super) letters: u64,
    pub(super) key: u16,
    /// The extra cost of an unusual word, in 1/4096 token. 0 for usual words.
    pub(super) further: u16,
    pub(super) cost: i32,
}

impl Word {
    /// Returns the slot in the word cache, 0 to 255, for a word of up to eight bytes. `key`
    /// combines its prefix, case and length. `letters` has its first letter in the lowest byte.
    #[inline]
    pub(super) fn place(key: usize, letters: u64) -> u8 {
        ((letters ^ (key as u64) << 56).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
    }
}

/// The costs of words, in 1/4096 token.
#[derive(Default)]
pub(super) struct WordsCost {
    /// The mean cost of usual words, which may belong to a natural language.
    usual: i64,
    /// The mean cost of unusual words, which belong to no natural language.
    unusual: i64,
    /// The extra cost of unusual words, beyond their mean cost.
    further: i64,
}

impl WordsCost {
    #[inline]
    pub(super) fn add(&mut self, cost: i64, further: i64) {
        if further == 0 {
            self.usual += cost;
        } else {
            self.unusual += cost;
            self.further += further;
        }
    }

    /// Returns the extra cost of the words. Applies it fully if at least a third of the words, by
    /// cost, are unusual. Among usual words, the unusual ones are mostly names, which cost little
    /// more than their mean.
    pub(super) fn caution(&self) -> i64 {
        let all = (self.usual + self.unusual).max(1);
        let share = self.unusual.saturating_mul(3).min(all);
        let caution = i128::from(self.further) * i128::from(share) / i128::from(all);
        i64::try_from(caution).unwrap_or(self.further)
    }

    /// Returns the part of the extra cost that may itself be too low. That is all of it if at least
    /// two thirds of the words are unusual, and none if less than a third is.
    pub(super) fn uncertain(&self) -> i64 {
        let all = (self.usual + self.unusual).max(1);
        let beyond = (self.unusual.saturating_mul(3) - all).clamp(0, all);
        let part = i128::from(self.caution()) * i128::from(beyond) / i128::from(all);
        i64::try_from(part).unwrap_or_else(|_| self.caution())
    }
}

/// The number of slots of the word cache.
pub(super) const WORDS: usize = 256;

/// Returns the extra cost, in 1/4096 token, of a word of `length` letters whose mean cost is
/// `cost`. Unusual words consist of more tokens than their letter pairs suggest. A high mean cost
/// for their length identifies them.
#[inline]
pub(super) fn further_cost(length: usize, cost: i64) -> i64 {
    let more = cost - ONE;
    if length < 2 || more <= 0 {
        return 0;
    }
    // The tokens after the first, for each letter after the first.
    let rate = more / (length as i64 - 1);
    more * ((rate - ONE / 12) * 7).clamp(0, ONE * 7 / 8) / ONE
}
