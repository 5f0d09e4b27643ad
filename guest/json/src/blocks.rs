//! Byte search with SIMD: blocks of 64 bytes, and position sets with one bit per byte.
//!
//! The guests are built with `simd128`, and `wide` maps to it. To interrupt a call at its deadline,
//! the host adds a check to each loop iteration of the component. Loops therefore process many
//! bytes per iteration.

use wide::u8x16;

/// The number of bytes in a [`ByteBlock`].
pub const BLOCK_BYTES: usize = 64;

/// The number of bytes in a SIMD vector, a quarter of a [`ByteBlock`].
pub const PART: usize = 16;

/// A block of 64 bytes of a text. Positions beyond the end of the text contain 0.
#[derive(Clone, Copy)]
pub struct ByteBlock(u8x16, u8x16, u8x16, u8x16);

impl ByteBlock {
    /// Loads the block of `bytes` that begins at the offset `at`.
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

    /// Returns a bit set of the block's positions at which `test` sets the highest bit of the lane.
    /// Bit 0 is the first byte.
    #[inline]
    fn places(self, test: impl Fn(u8x16) -> u8x16) -> u64 {
        let set = |part: u8x16| u64::from(test(part).to_bitmask());
        set(self.0) | set(self.1) << 16 | set(self.2) << 32 | set(self.3) << 48
    }

    /// Returns a bit set of the positions of `byte` in the block. Bit 0 is the first byte.
    #[inline]
    pub fn positions_of(self, byte: u8) -> u64 {
        let byte = u8x16::splat(byte);
        self.places(|part| part.simd_eq(byte))
    }

    /// Returns a bit set of the positions of bytes in `first..=last`. Bit 0 is the first byte.
    #[inline]
    pub fn positions_in(self, first: u8, last: u8) -> u64 {
        self.places(|part| in_range(part, first, last))
    }

    /// Returns a bit set of the positions of non-ASCII bytes. Bit 0 is the first byte.
    #[inline]
    pub fn non_ascii(self) -> u64 {
        self.places(|part| part)
    }

    /// Returns true if the block contains the byte `one` or the byte `other`.
    #[inline]
    pub fn has_any(self, one: u8, other: u8) -> bool {
        let (one, other) = (u8x16::splat(one), u8x16::splat(other));
        let found = |part: u8x16| part.simd_eq(one) | part.simd_eq(other);
        (found(self.0) | found(self.1) | found(self.2) | found(self.3)).to_bitmask() != 0
    }

    /// Returns two bit sets of positions: those of `[` and `{`, and those of `]` and `}`. The two
    /// characters of a pair differ in one bit only.
    #[inline]
    pub fn brackets(self) -> (u64, u64) {
        let (fold, open, close) = (u8x16::splat(0x20), u8x16::splat(b'{'), u8x16::splat(b'}'));
        let folded = Self(self.0 | fold, self.1 | fold, self.2 | fold, self.3 | fold);
        (folded.places(|part| part.simd_eq(open)), folded.places(|part| part.simd_eq(close)))
    }
}

/// Three blocks of bytes, tested position by position, for searches of three-byte words.
pub trait BlockTriple {
    /// Returns a bit set of the positions at which `test` sets the highest bit of the lane. `test`
    /// gets the bytes of all three blocks at the same positions.
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

/// Returns a block with a copy of `rest`, which has fewer than 64 bytes, padded with zeros.
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

/// Loads fewer than 16 bytes into a vector, padded with zeros. Uses no loop, because the WASM
/// component checks its deadline in each iteration.
#[inline]
fn part(bytes: &[u8]) -> u8x16 {
    match bytes.split_first_chunk() {
        Some((first, rest)) => halves(u64::from_le_bytes(*first), half(rest)),
        None => halves(half(bytes), 0),
    }
}

/// Returns a vector of 16 bytes: the little-endian bytes of `first`, then those of `second`.
#[inline]
fn halves(first: u64, second: u64) -> u8x16 {
    let [a, b, c, d, e, f, g, h] = first.to_le_bytes();
    let [i, j, k, l, m, n, o, p] = second.to_le_bytes();
    u8x16::new([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p])
}

/// Loads fewer than eight bytes as a little-endian number, padded with zeros.
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

/// Loads the first 16 bytes of `bytes`, or fewer at its end, into a vector padded with zeros. Also
/// returns the number of bytes loaded.
#[inline]
fn next(bytes: &[u8]) -> (u8x16, usize) {
    match bytes.first_chunk() {
        Some(whole) => (u8x16::new(*whole), PART),
        None => (part(bytes), bytes.len()),
    }
}

/// Returns a vector whose lanes are all ones if the byte of `part` is in `first..=last`, else
/// zeros.
#[inline]
pub fn in_range(part: u8x16, first: u8, last: u8) -> u8x16 {
    let above = part - u8x16::splat(first);
    above.min(u8x16::splat(last - first)).simd_eq(above)
}

/// Returns the first position in `part` of the byte `one` or `other`, or `None` if `part` contains
/// neither.
#[inline]
pub fn first_position(part: &[u8; PART], one: u8, other: u8) -> Option<usize> {
    let part = u8x16::new(*part);
    let found = part.simd_eq(u8x16::splat(one)) | part.simd_eq(u8x16::splat(other));
    Some(found.to_bitmask().trailing_zeros() as usize).filter(|place| *place < PART)
}

/// Returns the distance from `at` to the first byte that is `one` or `other`, or to the end of
/// `bytes`. O(n), 16 bytes per step, because most strings are too short for blocks of 64.
#[inline]
pub fn find(bytes: &[u8], at: usize, one: u8, other: u8) -> usize {
    let (one, other) = (u8x16::splat(one), u8x16::splat(other));
    find_where(bytes, at, |part| part.simd_eq(one) | part.simd_eq(other))
}

/// Returns the distance from `at` to the first byte for which `test` sets the highest bit of the
/// lane, or to the end of `bytes`.
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

/// Appends to `to` the bytes of `from` before the first one for which `test` sets the highest bit
/// of the lane. Returns the number of appended bytes.
#[inline]
pub fn copy_until(to: &mut Vec<u8>, from: &[u8], test: impl Fn(u8x16) -> u8x16) -> usize {
    let length = find_where(from, 0, test);
    to.extend_from_slice(from.get(..length).unwrap_or_default());
    length
}

/// The number of bytes that [`ascii_prefix_length`] tests per iteration.
const STRETCH: usize = 256;

/// Returns the length of the ASCII prefix of `bytes`, rounded down to a multiple of 256. O(n), 256
/// bytes per step.
pub fn ascii_prefix_length(bytes: &[u8]) -> usize {
    let ascii = |stretch: &&[u8; STRETCH]| {
        let parts = stretch.as_chunks::<PART>().0;
        let all = parts.iter().fold(u8x16::ZERO, |all, part| all | u8x16::new(*part));
        all.to_bitmask() == 0
    };
    bytes.as_chunks::<STRETCH>().0.iter().take_while(ascii).count() * STRETCH
}

/// Returns true if all bytes are ASCII. O(n), 256 bytes per step.
pub fn is_ascii(bytes: &[u8]) -> bool {
    (ascii_prefix_length(bytes)..bytes.len())
        .step_by(BLOCK_BYTES)
        .all(|at| ByteBlock::load(bytes, at).non_ascii() == 0)
}

/// Returns true if both slices are equal. Intended for names and other short slices: `==` calls
/// `memcmp`, which compiled to WASM compares byte by byte.
#[inline]
pub fn equal_bytes(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    // The first eight and the last eight bytes cover up to 16 bytes; they may overlap.
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

/// Returns true if two slices of equal length are equal up to the last multiple of 16 bytes. O(n),
/// 16 bytes per step.
#[inline(never)]
fn long_same(left: &[u8], right: &[u8]) -> bool {
    let mut pairs = left.as_chunks::<PART>().0.iter().zip(right.as_chunks::<PART>().0);
    pairs.all(|(one, two)| u8x16::new(*one).simd_eq(u8x16::new(*two)).to_bitmask() == 0xFFFF)
}

/// Returns the length of the longest common prefix of `left[from..]` and `right[other..]` that does
/// not contain the byte `stop`. O(n), 16 bytes per step.
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

/// Iterates over the positions of the bits that are 1 in `set`, in ascending order.
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

/// Pairs the bits of `set` in ascending order. Returns the bits from the first of each pair up to,
/// but not including, the second. If `set` has the quotes of JSON, the result is a mask of the
/// string contents.
#[inline]
pub fn inside_mask(set: u64) -> u64 {
    let mut mask = set;
    for shift in [1, 2, 4, 8, 16, 32] {
        mask ^= mask << shift;
    }
    mask
}

/// The backslashes among the last two bytes of the previous block. Bit 1 is the last byte.
#[derive(Clone, Copy, Default)]
pub struct BackslashCarry(u64);

impl BackslashCarry {
    /// Returns a bit set of the positions directly after a backslash, of this block or the previous
    /// one. `slashes` has the positions of backslashes in this block.
    #[inline(always)]
    pub fn before(self, slashes: u64) -> u64 {
        slashes << 1 | self.0 >> 1
    }

    /// Returns two bit sets: the positions one byte after a backslash, and the positions two bytes
    /// after one. The backslashes are those of this block, `slashes`, and of the previous one. Then
    /// advances to the next block.
    #[inline(always)]
    pub fn next(&mut self, slashes: u64) -> (u64, u64) {
        let two = (self.before(slashes), slashes << 2 | self.0);
        self.0 = slashes >> 62;
        two
    }
}

/// Returns the number of consecutive backslashes directly before the offset `at`. Stops at the
/// offset `from`. O(backslashes).
pub fn count_backslashes_before(bytes: &[u8], from: usize, at: usize) -> usize {
    let before = bytes.get(from..at).unwrap_or_default();
    before.iter().rev().take_while(|byte| **byte == b'\\').count()
}

/// Finds the bytes that are escaped by a backslash before them, block by block.
#[derive(Clone, Copy, Default)]
pub struct EscapeState {
    /// 1 if the first byte of the next block is escaped, else 0.
    carry: u64,
}

impl EscapeState {
    /// Returns a bit set of the escaped bytes in the next block. `slashes` are the positions of its
    /// backslashes.
    #[inline]
    pub fn next(&mut self, slashes: u64) -> u64 {
        const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
        if slashes == 0 {
            return std::mem::take(&mut self.carry);
        }
        // In a run of backslashes every second one is escaped, and so is the byte after a run of
        // odd length. The subtraction carries through each run, which marks them without a loop.
        // The method is that of simdjson (Langdale and Lemire, 2019, section 3.1.1).
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
        fn blocks_are_padded_with_zeros(
            text in prop::collection::vec(1u8.., 0..150), at in 0usize..160
        ) {
            let block = ByteBlock::load(&text, at);
            for byte in 0..=255u8 {
                let expected = (0..BLOCK_BYTES)
                    .filter(|place| text.get(at + place).copied().unwrap_or(0) == byte);
                prop_assert!(bit_positions(block.positions_of(byte)).eq(expected));
            }
        }

        #[test]
        fn ascii_is_detected(
            text in prop::collection::vec(0u8..=129, 0..150), before in 0usize..600
        ) {
            prop_assert_eq!(is_ascii(&text), text.is_ascii());
            let text = [vec![b'a'; before], text].concat();
            let beyond = text.iter().position(|byte| !byte.is_ascii()).unwrap_or(text.len());
            prop_assert_eq!(ascii_prefix_length(&text), beyond / STRETCH * STRETCH);
        }

        #[test]
        fn first_of_two_bytes_is_found(text in text(), at in 0usize..220) {
            let rest = text.get(at..).unwrap_or_default();
            let expected = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            prop_assert_eq!(find(&text, at, b'"', b'\\'), expected.unwrap_or(rest.len()));
        }

        #[test]
        fn escapes_match_a_byte_loop(text in text()) {
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
                let block_here = ByteBlock::load(&text, number * BLOCK_BYTES);
                let escaped = escapes.next(block_here.positions_of(b'\\'));
                for at in 0..block.len() {
                    prop_assert_eq!(escaped >> at & 1 == 1, walked[number * BLOCK_BYTES + at]);
                }
            }
        }

        #[test]
        fn common_prefix_and_equality_match_a_byte_loop(
            text in text(), from in 0usize..220, change in 0usize..220
        ) {
            let mut other = text.clone();
            if let Some(byte) = other.get_mut(change) {
                *byte ^= 1;
            }
            let one = text.get(from..).unwrap_or_default();
            let two = other.get(from..).unwrap_or_default();
            let is_common = |(one, two): &(&u8, &u8)| one == two && **one != b'"';
            let expected = one.iter().zip(two).take_while(is_common).count();
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
