//! Bytes in blocks of 64, and sets of places in them: one bit a byte, so that most bytes are looked at 16 at a time and never one by one.

use wide::u8x16;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 64;

/// A block: 64 bytes, those beyond the end of the text being 0.
#[derive(Clone, Copy)]
pub(crate) struct Block([u8x16; 4]);

impl Block {
    /// The block that begins at `at`.
    #[inline]
    pub(crate) fn at(bytes: &[u8], at: usize) -> Self {
        let rest = bytes.get(at..).unwrap_or_default();
        match rest.first_chunk::<BLOCK>() {
            Some(block) => Self::of(block),
            None => {
                let mut block = [0; BLOCK];
                block.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                Self::of(&block)
            }
        }
    }

    #[inline]
    fn of(bytes: &[u8; BLOCK]) -> Self {
        let mut parts = [u8x16::default(); 4];
        for (part, bytes) in parts.iter_mut().zip(bytes.as_chunks().0) {
            *part = u8x16::new(*bytes);
        }
        Self(parts)
    }

    /// Where `test` holds: where its lanes have their highest bit set.
    #[inline]
    fn places(self, test: impl Fn(u8x16) -> u8x16) -> u64 {
        let [first, second, third, fourth] =
            self.0.map(|part| u64::from(test(part).to_bitmask() & 0xFFFF));
        first | second << 16 | third << 32 | fourth << 48
    }

    /// Where `byte` stands.
    #[inline]
    pub(crate) fn is(self, byte: u8) -> u64 {
        let byte = u8x16::splat(byte);
        self.places(|part| part.simd_eq(byte))
    }

    /// Where a letter stands, given as a small one, small or capital.
    #[inline]
    pub(crate) fn letter(self, letter: u8) -> u64 {
        let (fold, letter) = (u8x16::splat(0x20), u8x16::splat(letter));
        self.places(|part| (part | fold).simd_eq(letter))
    }

    /// Where a bracket stands: `[`, `]`, `{` or `}`, which differ in one bit each.
    #[inline]
    pub(crate) fn brackets(self) -> u64 {
        let (fold, open, close) = (u8x16::splat(0x20), u8x16::splat(b'{'), u8x16::splat(b'}'));
        self.places(|part| {
            let folded = part | fold;
            folded.simd_eq(open) | folded.simd_eq(close)
        })
    }
}

/// The places in a set, the first first.
#[inline]
pub(crate) fn places(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let place = set.trailing_zeros() as usize;
            set &= set - 1;
            place
        })
    })
}

/// Each place, and all between it and the next one in the set, are in the result; then they are not; and so on.
#[inline]
pub(crate) fn between(set: u64) -> u64 {
    let mut mask = set;
    for shift in [1, 2, 4, 8, 16, 32] {
        mask ^= mask << shift;
    }
    mask
}

/// Which bytes a backslash before them escapes, block after block.
#[derive(Clone, Copy, Default)]
pub(crate) struct Escapes {
    /// Whether the first byte of the next block is escaped: 0 or 1.
    carry: u64,
}

impl Escapes {
    /// The escaped places of a block with backslashes at these.
    #[inline]
    pub(crate) fn next(&mut self, slashes: u64) -> u64 {
        const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
        if slashes == 0 {
            return std::mem::take(&mut self.carry);
        }
        // A run of backslashes escapes every other one of them, and the byte after it where its length is odd: that is what a subtraction over the runs tells.
        let free = slashes & !self.carry;
        let series = ((free << 1) | ODD).wrapping_sub(free) ^ ODD;
        let escaped = series ^ (slashes | self.carry);
        self.carry = (series & slashes) >> 63;
        escaped
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            3 => Just(b'\\'),
            1 => Just(b'"'),
            1 => prop_oneof![Just(b'['), Just(b']'), Just(b'{'), Just(b'}')],
            1 => any::<u8>(),
        ];
        prop::collection::vec(byte, 0..200)
    }

    proptest! {
        #[test]
        fn escapes_are_those_of_a_walk(text in text()) {
            let (mut walked, mut at) = (vec![false; text.len() + 1], 0);
            while at < text.len() {
                if text[at] == b'\\' {
                    walked[at + 1] = true;
                    at += 1;
                }
                at += 1;
            }
            let mut escapes = Escapes::default();
            for (number, block) in text.chunks(BLOCK).enumerate() {
                let escaped = escapes.next(Block::at(&text, number * BLOCK).is(b'\\'));
                for at in 0..block.len() {
                    prop_assert_eq!(escaped >> at & 1 == 1, walked[number * BLOCK + at]);
                }
            }
        }

        #[test]
        fn brackets_are_found(text in text()) {
            let found: Vec<usize> = (0..text.len())
                .step_by(BLOCK)
                .flat_map(|from| places(Block::at(&text, from).brackets()).map(move |at| from + at))
                .collect();
            let expected: Vec<usize> =
                (0..text.len()).filter(|at| b"[]{}".contains(&text[*at])).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
