//! Bytes in blocks of 64, and sets of places in them: one bit a byte, so that most bytes are looked at 16 at a time and never one by one.

use wide::u8x16;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 64;

/// Bytes of a part of a block.
pub const PART: usize = 16;

/// A block: 64 bytes, those beyond the end of the text being 0.
#[derive(Clone, Copy)]
pub struct ByteBlock(u8x16, u8x16, u8x16, u8x16);

impl ByteBlock {
    /// The block that begins at `at`.
    #[inline(always)]
    pub fn load(bytes: &[u8], at: usize) -> Self {
        let rest = bytes.get(at..).unwrap_or_default();
        let last;
        let block = match rest.first_chunk::<BLOCK_BYTES>() {
            Some(block) => block,
            None => {
                last = padded(rest);
                &last
            }
        };
        match *block.as_chunks().0 {
            [a, b, c, d] => Self(u8x16::new(a), u8x16::new(b), u8x16::new(c), u8x16::new(d)),
            _ => Self(u8x16::ZERO, u8x16::ZERO, u8x16::ZERO, u8x16::ZERO),
        }
    }

    /// Where `test` holds: where its lanes have their highest bit set.
    #[inline]
    fn places(self, test: impl Fn(u8x16) -> u8x16) -> u64 {
        let set = |part: u8x16| u64::from(test(part).to_bitmask());
        set(self.0) | set(self.1) << 16 | set(self.2) << 32 | set(self.3) << 48
    }

    /// Where `byte` stands.
    #[inline]
    pub fn positions_of(self, byte: u8) -> u64 {
        let byte = u8x16::splat(byte);
        self.places(|part| part.simd_eq(byte))
    }

    /// Where a byte of `first..=last` stands.
    #[inline]
    pub fn positions_in(self, first: u8, last: u8) -> u64 {
        self.places(|part| in_range(part, first, last))
    }

    /// Where a byte beyond ASCII stands.
    #[inline]
    pub fn non_ascii(self) -> u64 {
        self.places(|part| part)
    }

    /// Whether any of these two stands here.
    #[inline]
    pub fn has_any(self, one: u8, other: u8) -> bool {
        let (one, other) = (u8x16::splat(one), u8x16::splat(other));
        let found = |part: u8x16| part.simd_eq(one) | part.simd_eq(other);
        (found(self.0) | found(self.1) | found(self.2) | found(self.3)).to_bitmask() != 0
    }

    /// Where brackets open, and where they close: `[` and `{` differ in one bit, and `]` and `}`.
    #[inline]
    pub fn brackets(self) -> (u64, u64) {
        let (fold, open, close) = (u8x16::splat(0x20), u8x16::splat(b'{'), u8x16::splat(b'}'));
        let folded = Self(self.0 | fold, self.1 | fold, self.2 | fold, self.3 | fold);
        (folded.places(|part| part.simd_eq(open)), folded.places(|part| part.simd_eq(close)))
    }
}

/// Three blocks, the bytes at the same place in each looked at together.
pub trait BlockTriple {
    /// Where `test` holds: where its lanes have their highest bit set.
    fn places(self, test: impl Fn([u8x16; 3]) -> u8x16) -> u64;
}

impl BlockTriple for [ByteBlock; 3] {
    #[inline(always)]
    fn places(self, test: impl Fn([u8x16; 3]) -> u8x16) -> u64 {
        let [one, two, three] = self;
        let tested = ByteBlock(
            test([one.0, two.0, three.0]),
            test([one.1, two.1, three.1]),
            test([one.2, two.2, three.2]),
            test([one.3, two.3, three.3]),
        );
        tested.places(|part| part)
    }
}

/// Fewer than 64 bytes, and zeros after them.
#[inline(never)]
fn padded(rest: &[u8]) -> [u8; BLOCK_BYTES] {
    let (whole, rest) = rest.as_chunks();
    let part = |at: usize| match whole.get(at) {
        Some(part) => *part,
        None if at == whole.len() => part(rest).to_array(),
        None => [0; PART],
    };
    let mut block = [0; BLOCK_BYTES];
    if let [a, b, c, d] = block.as_chunks_mut().0 {
        (*a, *b, *c, *d) = (part(0), part(1), part(2), part(3));
    }
    block
}

/// Fewer than 16 bytes, and zeros after them. Without a loop: the component has its deadline checked at every turn of one.
#[inline]
fn part(bytes: &[u8]) -> u8x16 {
    match bytes.split_first_chunk() {
        Some((first, rest)) => halves(u64::from_le_bytes(*first), half(rest)),
        None => halves(half(bytes), 0),
    }
}

/// Sixteen bytes, the first one lowest.
#[inline]
fn halves(first: u64, second: u64) -> u8x16 {
    let [a, b, c, d, e, f, g, h] = first.to_le_bytes();
    let [i, j, k, l, m, n, o, p] = second.to_le_bytes();
    u8x16::new([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
}

/// Fewer than eight bytes, the first one lowest.
#[inline]
fn half(bytes: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (bytes.len() - 4));
    }
    match *bytes {
        [a, b, c] => u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16,
        [a, b] => u64::from(a) | u64::from(b) << 8,
        [a] => u64::from(a),
        _ => 0,
    }
}

/// The next bytes, at most 16, and how many they are.
#[inline]
fn next(bytes: &[u8]) -> (u8x16, usize) {
    match bytes.first_chunk() {
        Some(whole) => (u8x16::new(*whole), PART),
        None => (part(bytes), bytes.len()),
    }
}

/// Where a byte of `first..=last` stands.
#[inline]
pub fn in_range(part: u8x16, first: u8, last: u8) -> u8x16 {
    let above = part - u8x16::splat(first);
    above.min(u8x16::splat(last - first)).simd_eq(above)
}

/// The place of the first of these two among 16 bytes.
#[inline]
pub fn first_position(part: &[u8; PART], one: u8, other: u8) -> Option<usize> {
    let part = u8x16::new(*part);
    let found = part.simd_eq(u8x16::splat(one)) | part.simd_eq(u8x16::splat(other));
    Some(found.to_bitmask().trailing_zeros() as usize).filter(|place| *place < PART)
}

/// How many bytes from `at` on stand before the first of these two; all that there are where none stands. O(n), 16 bytes a step: for strings, most of which are short.
#[inline]
pub fn find(bytes: &[u8], at: usize, one: u8, other: u8) -> usize {
    let (one, other) = (u8x16::splat(one), u8x16::splat(other));
    find_where(bytes, at, |part| part.simd_eq(one) | part.simd_eq(other))
}

/// How many bytes from `at` on stand before the first that `test` finds, by the highest bit of its lane; all that there are where none does.
#[inline]
pub fn find_where(bytes: &[u8], at: usize, test: impl Fn(u8x16) -> u8x16) -> usize {
    let mut rest = bytes.get(at..).unwrap_or_default();
    let length = rest.len();
    while let Some((next, after)) = rest.split_first_chunk::<PART>() {
        let found = test(u8x16::new(*next)).to_bitmask();
        if found != 0 {
            return length - rest.len() + found.trailing_zeros() as usize;
        }
        rest = after;
    }
    let found = test(part(rest)).to_bitmask();
    length - rest.len() + (found.trailing_zeros() as usize).min(rest.len())
}

/// Appends what stands before the first byte that `test` finds; how many bytes that is. O(n), 16 bytes a step; in a text that is `LONG` 64, where there were 16 without one.
#[inline(always)]
pub fn copy_until<const LONG: bool>(
    to: &mut Vec<u8>,
    from: &[u8],
    test: impl Fn(u8x16) -> u8x16,
) -> usize {
    let mut rest = from;
    loop {
        let (bytes, length) = next(rest);
        let plain = (test(bytes).to_bitmask().trailing_zeros() as usize).min(length);
        let end = to.len() + plain;
        // Always 16, which is one instruction, and none of those that should not be there.
        to.extend_from_slice(&bytes.to_array());
        to.truncate(end);
        rest = rest.get(plain..).unwrap_or_default();
        if plain < PART {
            return from.len() - rest.len();
        }
        while LONG
            && let Some((block, after)) = rest.split_first_chunk::<BLOCK_BYTES>()
            && ByteBlock::load(rest, 0).places(&test) == 0
        {
            to.extend_from_slice(block);
            rest = after;
        }
    }
}

/// Appends bytes. O(n): for a few, which what the component calls for any number takes longer for.
#[inline]
pub fn append(to: &mut Vec<u8>, from: &[u8]) {
    if from.len() < BLOCK_BYTES {
        to.reserve(from.len() + PART);
        copy_until::<false>(to, from, |_| u8x16::ZERO);
    } else {
        to.extend_from_slice(from);
    }
}

/// Bytes that [`ascii`] looks at in a turn: the component has its deadline checked at every turn of a loop.
const STRETCH: usize = 256;

/// How many bytes at the beginning are surely ASCII: all up to the stretch that has another. O(n), 256 bytes a step.
pub fn ascii_prefix_length(bytes: &[u8]) -> usize {
    let ascii = |stretch: &&[u8; STRETCH]| {
        let parts = stretch.as_chunks::<PART>().0;
        let all = parts.iter().fold(u8x16::ZERO, |all, part| all | u8x16::new(*part));
        all.to_bitmask() == 0
    };
    bytes.as_chunks::<STRETCH>().0.iter().take_while(ascii).count() * STRETCH
}

/// Whether no byte is beyond ASCII. O(n), 256 bytes a step.
pub fn is_ascii(bytes: &[u8]) -> bool {
    (ascii_prefix_length(bytes)..bytes.len())
        .step_by(BLOCK_BYTES)
        .all(|at| ByteBlock::load(bytes, at).non_ascii() == 0)
}

/// Whether both are the same. For names, most of which are short: what the component calls for any other comparison goes byte by byte.
#[inline]
pub fn equal_bytes(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    // The first bytes and the last, which may be some of the same.
    if let (Some(one), Some(two)) = (left.first_chunk::<8>(), right.first_chunk::<8>()) {
        return one == two
            && left.last_chunk::<8>() == right.last_chunk::<8>()
            && (left.len() <= PART
                || left.last_chunk::<PART>() == right.last_chunk::<PART>()
                    && long_same(left, right));
    }
    if let (Some(one), Some(two)) = (left.first_chunk::<4>(), right.first_chunk::<4>()) {
        return one == two && left.last_chunk::<4>() == right.last_chunk::<4>();
    }
    match (left, right) {
        ([a, b, c], [d, e, f]) => (a, b, c) == (d, e, f),
        ([a, b], [c, d]) => (a, b) == (c, d),
        ([a], [b]) => a == b,
        _ => true,
    }
}

/// Whether both are the same but for their last bytes, fewer than 16. O(n), 16 bytes a step.
#[inline(never)]
fn long_same(left: &[u8], right: &[u8]) -> bool {
    let mut pairs = left.as_chunks::<PART>().0.iter().zip(right.as_chunks::<PART>().0);
    pairs.all(|(one, two)| u8x16::new(*one).simd_eq(u8x16::new(*two)).to_bitmask() == 0xFFFF)
}

/// How many bytes from these places on are the same in both, none of them being `stop`. O(n), 16 bytes a step.
#[inline]
pub fn common_prefix_length(
    left: &[u8],
    from: usize,
    right: &[u8],
    other: usize,
    stop: u8,
) -> usize {
    let stop = u8x16::splat(stop);
    let mut left = left.get(from..).unwrap_or_default();
    let mut right = right.get(other..).unwrap_or_default();
    let mut same = 0;
    loop {
        let ((one, length), (two, other)) = (next(left), next(right));
        let ends = !one.simd_eq(two) | one.simd_eq(stop);
        let length = (ends.to_bitmask().trailing_zeros() as usize).min(length).min(other);
        same += length;
        if length < PART {
            return same;
        }
        left = left.get(PART..).unwrap_or_default();
        right = right.get(PART..).unwrap_or_default();
    }
}

/// The places in a set, the first first.
#[inline]
pub fn bit_positions(mut set: u64) -> impl Iterator<Item = usize> {
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
pub fn inside_mask(set: u64) -> u64 {
    let mut mask = set;
    for shift in [1, 2, 4, 8, 16, 32] {
        mask ^= mask << shift;
    }
    mask
}

/// Which bytes have backslashes before them, block after block: of the two before the next block, those that are backslashes, the nearer one being bit 1.
#[derive(Clone, Copy, Default)]
pub struct BackslashCarry(u64);

impl BackslashCarry {
    /// The places in a block with backslashes at these that have one right before them.
    #[inline(always)]
    pub fn before(self, slashes: u64) -> u64 {
        slashes << 1 | self.0 >> 1
    }

    /// The same, and those that have one two bytes before them; goes on to the next block.
    #[inline(always)]
    pub fn next(&mut self, slashes: u64) -> (u64, u64) {
        let two = (self.before(slashes), slashes << 2 | self.0);
        self.0 = slashes >> 62;
        two
    }
}

/// Backslashes right before a place, none of them before `from`. O(backslashes).
pub fn count_backslashes_before(bytes: &[u8], from: usize, at: usize) -> usize {
    let before = bytes.get(from..at).unwrap_or_default();
    before.iter().rev().take_while(|byte| **byte == b'\\').count()
}

/// Which bytes a backslash before them escapes, block after block.
#[derive(Clone, Copy, Default)]
pub struct EscapeState {
    /// Whether the first byte of the next block is escaped: 0 or 1.
    carry: u64,
}

impl EscapeState {
    /// The escaped places of a block with backslashes at these.
    #[inline]
    pub fn next(&mut self, slashes: u64) -> u64 {
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
        fn blocks_hold_their_bytes_and_zeros(text in prop::collection::vec(1u8.., 0..150), at in 0usize..160) {
            let block = ByteBlock::load(&text, at);
            for byte in 0..=255u8 {
                let expected = (0..BLOCK_BYTES).filter(|place| text.get(at + place).copied().unwrap_or(0) == byte);
                prop_assert!(bit_positions(block.positions_of(byte)).eq(expected));
            }
        }

        #[test]
        fn ascii_is_told(text in prop::collection::vec(0u8..=129, 0..150), before in 0usize..600) {
            prop_assert_eq!(is_ascii(&text), text.is_ascii());
            let text = [vec![b'a'; before], text].concat();
            let beyond = text.iter().position(|byte| !byte.is_ascii()).unwrap_or(text.len());
            prop_assert_eq!(ascii_prefix_length(&text), beyond / STRETCH * STRETCH);
        }

        #[test]
        fn the_first_of_two_is_found(text in text(), at in 0usize..220) {
            let rest = text.get(at..).unwrap_or_default();
            let expected = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            prop_assert_eq!(find(&text, at, b'"', b'\\'), expected.unwrap_or(rest.len()));
        }

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
            let mut escapes = EscapeState::default();
            for (number, block) in text.chunks(BLOCK_BYTES).enumerate() {
                let escaped = escapes.next(ByteBlock::load(&text, number * BLOCK_BYTES).positions_of(b'\\'));
                for at in 0..block.len() {
                    prop_assert_eq!(escaped >> at & 1 == 1, walked[number * BLOCK_BYTES + at]);
                }
            }
        }

        #[test]
        fn what_is_alike_ends_where_it_differs(text in text(), from in 0usize..220, change in 0usize..220) {
            let mut other = text.clone();
            if let Some(byte) = other.get_mut(change) {
                *byte ^= 1;
            }
            let (one, two) = (text.get(from..).unwrap_or_default(), other.get(from..).unwrap_or_default());
            let expected = one.iter().zip(two).take_while(|(one, two)| one == two && **one != b'"').count();
            prop_assert_eq!(common_prefix_length(&text, from, &other, from, b'"'), expected);
            prop_assert_eq!(common_prefix_length(&text, from, two, 0, b'"'), expected);
            prop_assert_eq!(equal_bytes(one, two), one == two);
            prop_assert!(!equal_bytes(&text, two) || text == two);
        }

        #[test]
        fn brackets_are_found(text in text()) {
            let found: Vec<usize> = (0..text.len())
                .step_by(BLOCK_BYTES)
                .flat_map(|from| bit_positions({
                    let (open, close) = ByteBlock::load(&text, from).brackets();
                    open | close
                })
                .map(move |at| from + at))
                .collect();
            let expected: Vec<usize> =
                (0..text.len()).filter(|at| b"[]{}".contains(&text[*at])).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
