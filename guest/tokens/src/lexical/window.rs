//! The byte classes of the next 64 bytes as bit sets. The end of a run is found by counting bits,
//! not by a loop over bytes.

use context_guard_json::blocks::{BLOCK_BYTES, ByteBlock};

/// The offset in a window from which the next window is loaded. A usual word that begins before it
/// ends inside the window.
const REACH: usize = 40;

/// The next 64 bytes of a text as bit sets, one for each class of bytes. Positions after the end of
/// the text are in none.
#[derive(Clone, Copy)]
pub(super) struct Window {
    from: usize,
    pub(super) lower: u64,
    pub(super) upper: u64,
    pub(super) digit: u64,
    /// The positions of letters and digits.
    pub(super) alphanumeric: u64,
    /// The positions of spaces, without tabs and line breaks.
    pub(super) blank: u64,
    /// The positions of white space of any kind, including line breaks.
    pub(super) space: u64,
    pub(super) punctuation: u64,
}

impl Window {
    /// Returns the window of the 64 bytes from the offset `from` on.
    #[inline(always)]
    pub(super) fn load(text: &[u8], from: usize) -> Self {
        let block = ByteBlock::load(text, from);
        let within = match text.len().saturating_sub(from) {
            rest @ ..BLOCK_BYTES => (1 << rest) - 1,
            _ => u64::MAX,
        };
        let (lower, upper) = (block.positions_in(b'a', b'z'), block.positions_in(b'A', b'Z'));
        let (digit, wide) = (block.positions_in(b'0', b'9'), block.non_ascii());
        let blank = block.positions_of(b' ');
        let space = blank | block.positions_in(b'\t', b'\r');
        let alphanumeric = lower | upper | digit;
        let punctuation = within & !(alphanumeric | wide | space);
        Self { from, lower, upper, digit, alphanumeric, blank, space, punctuation }
    }

    /// Loads the next window if the offset `at` is near the end of this one. `at` must not decrease
    /// between calls.
    #[inline(always)]
    pub(super) fn reach(&mut self, text: &[u8], at: usize) {
        if at - self.from > REACH {
            *self = Self::load(text, at);
        }
    }

    /// Returns true if the byte at the offset `at`, which must be in the window, is in the bit set
    /// `set`.
    #[inline]
    pub(super) fn has(&self, set: u64, at: usize) -> bool {
        (set >> ((at - self.from) & 63)) & 1 == 1
    }

    /// Returns true if the byte at the offset `at` is a space directly before a letter, a digit or
    /// punctuation. `at` must be in the window.
    #[inline]
    pub(super) fn is_single_blank(&self, at: usize) -> bool {
        self.has(self.blank & (self.alphanumeric | self.punctuation) >> 1, at)
    }

    /// Returns the number of consecutive bytes, from the offset `at` on, that are in a bit set.
    /// `of` selects the set from a window. O(n / 64) for long runs.
    #[inline]
    pub(super) fn run(&self, text: &[u8], at: usize, of: impl Fn(&Self) -> u64) -> usize {
        let offset = at - self.from;
        let set = u32::try_from(offset).ok().and_then(|offset| of(self).checked_shr(offset));
        let length = set.unwrap_or(0).trailing_ones() as usize;
        if offset + length < BLOCK_BYTES { length } else { beyond(text, at, length, of) }
    }

    /// Returns the bit sets of `length` bytes from the offset `at` on, with the first byte in the
    /// lowest bit. `None` if `length` is 0, or if not all bytes are in this window.
    #[inline]
    pub(super) fn cut(&self, at: usize, length: usize) -> Option<Run> {
        let offset = at - self.from;
        if length == 0 || offset + length > BLOCK_BYTES {
            return None;
        }
        let mask = u64::MAX >> (BLOCK_BYTES - length);
        let cut = |set: u64| (set >> offset) & mask;
        Some(Run { lower: cut(self.lower), upper: cut(self.upper), digit: cut(self.digit) })
    }
}

/// A run of letters and digits as bit sets by class. Its first byte is the lowest bit.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) lower: u64,
    pub(super) upper: u64,
    pub(super) digit: u64,
}

impl Run {
    /// Returns true if the run is one word: lower case, capitalized or upper case, and shorter than
    /// 20 letters. Longer runs may be ids.
    #[inline]
    pub(super) fn is_word(self) -> bool {
        const SHORTER_THAN_IDS: u64 = 1 << 19;
        let all = self.lower | self.upper;
        self.digit == 0 && all < SHORTER_THAN_IDS && (self.lower | 1 == all || self.lower == 0)
    }

    /// Returns the case of a word: 0 for lower case, 1 for capitalized, 2 for upper case.
    #[inline]
    pub(super) fn case(self) -> usize {
        match (self.upper, self.lower) {
            (0, _) => 0,
            (_, 0) => 2,
            _ => 1,
        }
    }

    /// Returns true if the run has digits only.
    #[inline]
    pub(super) fn is_number(self) -> bool {
        self.lower | self.upper == 0
    }

    /// Returns the number of bytes in the run whose class differs from that of the byte before
    /// them.
    pub(super) fn changes(self) -> usize {
        let begins = |set: u64| (set & !(set << 1) & !1).count_ones() as usize;
        begins(self.lower) + begins(self.upper) + begins(self.digit)
    }
}

#[cold]
fn beyond(text: &[u8], at: usize, mut length: usize, of: impl Fn(&Window) -> u64) -> usize {
    loop {
        let more = of(&Window::load(text, at + length)).trailing_ones() as usize;
        length += more;
        if more < BLOCK_BYTES {
            return length;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::classes::{Class, class};
    use super::*;

    proptest! {
        #[test]
        fn bits_match_the_classes(
            text in prop::collection::vec(any::<u8>(), 0..200),
            from in 0usize..200,
        ) {
            let window = Window::load(&text, from);
            for place in 0..BLOCK_BYTES {
                let class = text.get(from + place).map(|byte| class(*byte));
                let has = |set: u64| set >> place & 1 == 1;
                prop_assert_eq!(has(window.lower), class == Some(Class::Lower));
                prop_assert_eq!(has(window.upper), class == Some(Class::Upper));
                prop_assert_eq!(has(window.digit), class == Some(Class::Digit));
                let is_space = matches!(class, Some(Class::Space | Class::Newline | Class::Tab));
                prop_assert_eq!(has(window.space), is_space);
                prop_assert_eq!(has(window.blank), class == Some(Class::Space));
                prop_assert_eq!(has(window.punctuation), class == Some(Class::Punctuation));
            }
        }

        #[test]
        fn runs_end_with_their_bytes(
            lengths in prop::collection::vec((0usize..200, any::<bool>()), 1..6),
            from in 0usize..300,
        ) {
            let byte = |digit| if digit { b'7' } else { b'x' };
            let bytes = |(length, digit): &(usize, bool)| vec![byte(*digit); *length];
            let text: Vec<u8> = lengths.iter().flat_map(bytes).collect();
            prop_assume!(from <= text.len());
            let window = Window::load(&text, from.saturating_sub(30));
            let expected = text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            prop_assert_eq!(window.run(&text, from, |window| window.digit), expected);
        }
    }
}
