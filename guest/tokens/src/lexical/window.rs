//! The classes of the next 64 bytes as sets of places: the end of a run is then one count of bits, not a loop over its bytes.

use context_guard_json::blocks::{BLOCK_BYTES, ByteBlock};

/// How far the reader may go into a window before the next one is taken: what begins before that and is no longer than most words ends inside.
const REACH: usize = 40;

/// Sets of places by class, of 64 bytes; none of them has those beyond the end of the text.
#[derive(Clone, Copy)]
pub(super) struct Window {
    from: usize,
    pub(super) lower: u64,
    pub(super) upper: u64,
    pub(super) digit: u64,
    /// Letters and digits.
    pub(super) alphanumeric: u64,
    /// Spaces alone.
    pub(super) blank: u64,
    /// All white space.
    pub(super) space: u64,
    pub(super) punctuation: u64,
}

impl Window {
    /// The window that begins at `from`.
    #[inline(always)]
    pub(super) fn at(text: &[u8], from: usize) -> Self {
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

    /// Takes the next window where `at`, which never goes back, is near the end of this one.
    #[inline(always)]
    pub(super) fn reach(&mut self, text: &[u8], at: usize) {
        if at - self.from > REACH {
            *self = Self::at(text, at);
        }
    }

    /// Whether the byte at `at`, which is within reach, is in `set`.
    #[inline]
    pub(super) fn has(&self, set: u64, at: usize) -> bool {
        (set >> ((at - self.from) & 63)) & 1 == 1
    }

    /// Whether a space stands at `at`, which is within reach, and something else than white space after it.
    #[inline]
    pub(super) fn is_single_blank(&self, at: usize) -> bool {
        self.has(self.blank & (self.alphanumeric | self.punctuation) >> 1, at)
    }

    /// How many bytes from `at` on are in the set that `of` takes from a window. O(n / 64) for long runs.
    #[inline]
    pub(super) fn run(&self, text: &[u8], at: usize, of: impl Fn(&Self) -> u64) -> usize {
        let offset = at - self.from;
        let set = u32::try_from(offset).ok().and_then(|offset| of(self).checked_shr(offset));
        let length = set.unwrap_or(0).trailing_ones() as usize;
        if offset + length < BLOCK_BYTES { length } else { beyond(text, at, length, of) }
    }

    /// The places of `set` in a run that is in this window as a whole, the run's first byte being the lowest; none where it is not.
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

/// A run of letters and digits by class, its first byte being the lowest place.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) lower: u64,
    pub(super) upper: u64,
    pub(super) digit: u64,
}

impl Run {
    /// Whether it is one word: small letters, the first of which may be a capital, or capitals alone; and none of the length of ids.
    #[inline]
    pub(super) fn is_word(self) -> bool {
        const SHORTER_THAN_IDS: u64 = 1 << 19;
        let all = self.lower | self.upper;
        self.digit == 0 && all < SHORTER_THAN_IDS && (self.lower | 1 == all || self.lower == 0)
    }

    /// Of a word: 0 where its letters are small, 1 where only the first is not, else 2.
    #[inline]
    pub(super) fn case(self) -> usize {
        match (self.upper, self.lower) {
            (0, _) => 0,
            (_, 0) => 2,
            _ => 1,
        }
    }

    /// Whether it is digits alone.
    #[inline]
    pub(super) fn is_number(self) -> bool {
        self.lower | self.upper == 0
    }

    /// How often a byte is of another class than the one before it.
    pub(super) fn changes(self) -> usize {
        let begins = |set: u64| (set & !(set << 1) & !1).count_ones() as usize;
        begins(self.lower) + begins(self.upper) + begins(self.digit)
    }
}

#[cold]
fn beyond(text: &[u8], at: usize, mut length: usize, of: impl Fn(&Window) -> u64) -> usize {
    loop {
        let more = of(&Window::at(text, at + length)).trailing_ones() as usize;
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
        fn places_are_those_of_the_classes(text in prop::collection::vec(any::<u8>(), 0..200), from in 0usize..200) {
            let window = Window::at(&text, from);
            for place in 0..BLOCK_BYTES {
                let class = text.get(from + place).map(|byte| class(*byte));
                let has = |set: u64| set >> place & 1 == 1;
                prop_assert_eq!(has(window.lower), class == Some(Class::Lower));
                prop_assert_eq!(has(window.upper), class == Some(Class::Upper));
                prop_assert_eq!(has(window.digit), class == Some(Class::Digit));
                prop_assert_eq!(has(window.space), matches!(class, Some(Class::Space | Class::Newline | Class::Tab)));
                prop_assert_eq!(has(window.blank), class == Some(Class::Space));
                prop_assert_eq!(has(window.punctuation), class == Some(Class::Punctuation));
            }
        }

        #[test]
        fn runs_end_where_their_bytes_do(lengths in prop::collection::vec((0usize..200, any::<bool>()), 1..6), from in 0usize..300) {
            let text: Vec<u8> = lengths.iter().flat_map(|(length, digit)| std::iter::repeat_n(if *digit { b'7' } else { b'x' }, *length)).collect();
            prop_assume!(from <= text.len());
            let window = Window::at(&text, from.saturating_sub(30));
            let expected = text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            prop_assert_eq!(window.run(&text, from, |window| window.digit), expected);
        }
    }
}
