//! Comparison of an escaped text with a raw one, for upstream responses with the same JSON as text
//! content and as structured content.

use wide::u8x16;

use crate::blocks::PART;

/// The number of raw bytes per shuffle. Escaping at most doubles them, which fills a vector of 16
/// bytes.
const STEP: usize = PART / 2;
/// The entry of [`SPREAD`] for an inserted backslash. Its highest bit makes the shuffle return 0.
/// Its other bits are the backslash.
const SLASH: u8 = HIGHEST | b'\\';
const HIGHEST: u8 = 0x80;

/// For each set of escaped bytes among eight raw bytes, the shuffle indices that insert a backslash
/// before each. The table index has one bit per raw byte, 1 if escaped.
static SPREAD: [[u8; PART]; 256] = {
    let mut table = [[0; PART]; 256];
    let mut set = 0;
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time, bounded by the loops")]
    while set < table.len() {
        let (mut from, mut to) = (0, 0);
        while from < STEP {
            if set >> from & 1 == 1 {
                table[set][to] = SLASH;
                to += 1;
            }
            table[set][to] = from as u8;
            (from, to) = (from + 1, to + 1);
        }
        set += 1;
    }
    table
};

/// The number of raw bytes that [`is_escaped`] compares per iteration. Long iterations are faster,
/// because the WASM component checks its deadline in each.
const TURN: usize = 2 * PART;
/// The number of escaped bytes that one iteration may read: two for each raw byte, and one vector.
const WINDOW: usize = 2 * TURN + PART;

/// Returns true if `escaped` is `raw` with a backslash before each quote and backslash, and no
/// other escape. O(n), 32 bytes per iteration.
pub(super) fn is_escaped(escaped: &[u8], raw: &[u8]) -> bool {
    let (mut escaped, mut raw) = (escaped, raw);
    while let (Some((turn, rest)), Some(window)) =
        (raw.split_first_chunk::<TURN>(), escaped.first_chunk::<WINDOW>())
    {
        let Some(length) = escaped_length(window, turn) else { return false };
        (escaped, raw) = (escaped.get(length..).unwrap_or_default(), rest);
    }
    for byte in raw {
        if matches!(byte, b'"' | b'\\') {
            let Some(rest) = escaped.strip_prefix(b"\\") else { return false };
            escaped = rest;
        }
        match escaped.split_first() {
            Some((same, rest)) if same == byte => escaped = rest,
            _ => return false,
        }
    }
    escaped.is_empty()
}

/// Returns the length of the escaped form of the raw bytes `turn`. `None` if the escaped bytes
/// `window` do not begin with that form.
#[inline(always)]
fn escaped_length(window: &[u8; WINDOW], turn: &[u8; TURN]) -> Option<usize> {
    let [first, second] = turn.as_chunks::<PART>().0 else { return None };
    let (first, second) = (u8x16::new(*first), u8x16::new(*second));
    let (one, two) = (positions_to_escape(first), positions_to_escape(second));
    // Inside a long string nothing is escaped.
    if one | two == 0 {
        let same = first.simd_eq(load(window, 0)) & second.simd_eq(load(window, PART));
        return (same.to_bitmask() == 0xFFFF).then_some(TURN);
    }
    let (middle, one) = compare_vector(window, 0, first, one);
    let (end, two) = compare_vector(window, middle, second, two);
    (one & two).then_some(end)
}

/// Returns a bit set of the positions of quotes and backslashes, which JSON strings must escape.
#[inline(always)]
fn positions_to_escape(bytes: u8x16) -> usize {
    let (quote, slash) = (u8x16::splat(b'"'), u8x16::splat(b'\\'));
    (bytes.simd_eq(quote) | bytes.simd_eq(slash)).to_bitmask() as usize
}

/// Loads the 16 bytes of `window` at `offset`. Masks the offset, so that the compiler can prove
/// that the 16 bytes are in bounds.
#[inline(always)]
fn load(window: &[u8; WINDOW], offset: usize) -> u8x16 {
    let bytes = window.get(offset & (2 * TURN - 1)..).and_then(<[u8]>::first_chunk);
    u8x16::new(bytes.copied().unwrap_or_default())
}

/// Compares `window`, from `start` on, with the escaped form of 16 raw bytes. `escaped` is the bit
/// set of the bytes to escape. Returns the end of the escaped form in `window`, and true if it
/// matches.
#[inline(always)]
fn compare_vector(
    window: &[u8; WINDOW],
    start: usize,
    bytes: u8x16,
    escaped: usize,
) -> (usize, bool) {
    let (low, high) = (escaped & 0xFF, escaped >> STEP);
    let (middle, one) = compare_half(load(window, start), bytes, spread(low), low);
    // Indices of the upper eight bytes. The marker of a backslash has this bit already.
    let indices = spread(high) | u8x16::splat(STEP as u8);
    let (end, two) = compare_half(load(window, start + middle), bytes, indices, high);
    (start + middle + end, one & two)
}

/// Returns the shuffle indices for eight raw bytes. `to_escape` has one bit for each, 1 if escaped.
#[inline(always)]
fn spread(to_escape: usize) -> u8x16 {
    u8x16::new(SPREAD.get(to_escape).copied().unwrap_or_default())
}

/// Compares `actual` with the escaped form of the eight raw bytes of `bytes` that `indices` select.
/// `indices` come from [`SPREAD`]; `to_escape` has one bit for each of the eight, 1 if escaped.
/// Returns the length of the escaped form in bytes, and true if `actual` begins with that form.
#[inline(always)]
fn compare_half(actual: u8x16, bytes: u8x16, indices: u8x16, to_escape: usize) -> (usize, bool) {
    let expected = bytes.shuffle(indices) | indices.saturating_sub(u8x16::splat(HIGHEST));
    let same = expected.simd_eq(actual).to_bitmask().trailing_ones() as usize;
    let length = STEP + to_escape.count_ones() as usize;
    (length, same >= length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::escape;

    proptest! {
        #[test]
        fn escaped_text_is_recognized(
            text in "[a\"\\\\é ]{0,200}", change in 0usize..240, to in "[a\"\\\\]"
        ) {
            let mut escaped = Vec::new();
            escape(&mut escaped, text.as_bytes());
            prop_assert!(is_escaped(&escaped, text.as_bytes()));
            let mut other = text.clone();
            if let Some((at, old)) = text.char_indices().nth(change) {
                other.replace_range(at..at + old.len_utf8(), &to);
            } else {
                other.push_str(&to);
            }
            prop_assert_eq!(is_escaped(&escaped, other.as_bytes()), other == text);
        }
    }
}
