//! Whether one text is another, escaped: what a program that sends a value in both halves of an answer sends.

use wide::u8x16;

use crate::blocks::PART;

/// Bytes of a step.
const STEP: usize = PART / 2;
/// What stands for a backslash in [`SPREAD`]: no place, so that nothing is put there, and a backslash but for its highest bit.
const SLASH: u8 = HIGHEST | b'\\';
const HIGHEST: u8 = 0x80;

/// For each set of bytes among eight that are escaped: which of them stands at each place of what they become.
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

/// Bytes of a turn: the component has its deadline checked at every turn of a loop.
const TURN: usize = 2 * PART;
/// Bytes that a turn may look at: twice as many, and those after the last step.
const WINDOW: usize = 2 * TURN + PART;

/// Whether `escaped` is `raw` with a backslash before each quote and backslash, and nothing else. O(n), 32 bytes a turn.
pub(super) fn is_escaped(escaped: &[u8], raw: &[u8]) -> bool {
    let (mut escaped, mut raw) = (escaped, raw);
    while let (Some((turn, rest)), Some(window)) =
        (raw.split_first_chunk::<TURN>(), escaped.first_chunk::<WINDOW>())
    {
        let Some(length) = turn_of(window, turn) else { return false };
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

/// How long these bytes are, escaped; none where `window` does not begin with them.
#[inline(always)]
fn turn_of(window: &[u8; WINDOW], turn: &[u8; TURN]) -> Option<usize> {
    let [first, second] = turn.as_chunks::<PART>().0 else { return None };
    let (first, second) = (u8x16::new(*first), u8x16::new(*second));
    let (one, two) = (escaped_of(first), escaped_of(second));
    // In the middle of a long string.
    if one | two == 0 {
        let same = first.simd_eq(at(window, 0)) & second.simd_eq(at(window, PART));
        return (same.to_bitmask() == 0xFFFF).then_some(TURN);
    }
    let (middle, one) = part_of(window, 0, first, one);
    let (end, two) = part_of(window, middle, second, two);
    (one & two).then_some(end)
}

/// Which bytes are escaped.
#[inline(always)]
fn escaped_of(bytes: u8x16) -> usize {
    let (quote, slash) = (u8x16::splat(b'"'), u8x16::splat(b'\\'));
    (bytes.simd_eq(quote) | bytes.simd_eq(slash)).to_bitmask() as usize
}

/// The bytes at a place of a window. Never beyond it: that they cannot be is known to the compiler this way.
#[inline(always)]
fn at(window: &[u8; WINDOW], place: usize) -> u8x16 {
    let here = window.get(place & (2 * TURN - 1)..).and_then(<[u8]>::first_chunk);
    u8x16::new(here.copied().unwrap_or_default())
}

/// Where 16 bytes that begin at `start`, these of them escaped, end, and whether they stand there.
#[inline(always)]
fn part_of(window: &[u8; WINDOW], start: usize, bytes: u8x16, escaped: usize) -> (usize, bool) {
    let (low, high) = (escaped & 0xFF, escaped >> STEP);
    let (middle, one) = step_of(at(window, start), bytes, spread(low), low);
    // Of the other eight: what stands for a backslash has this bit already.
    let places = spread(high) | u8x16::splat(STEP as u8);
    let (end, two) = step_of(at(window, start + middle), bytes, places, high);
    (start + middle + end, one & two)
}

#[inline(always)]
fn spread(set: usize) -> u8x16 {
    u8x16::new(SPREAD.get(set).copied().unwrap_or_default())
}

/// How long eight of these bytes are, those in `set` escaped, spread over these places; and whether they stand here.
#[inline(always)]
fn step_of(here: u8x16, bytes: u8x16, places: u8x16, set: usize) -> (usize, bool) {
    let expected = bytes.shuffle(places) | places.saturating_sub(u8x16::splat(HIGHEST));
    let same = expected.simd_eq(here).to_bitmask().trailing_ones() as usize;
    let length = STEP + set.count_ones() as usize;
    (length, same >= length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::escape;

    proptest! {
        #[test]
        fn what_is_escaped_is_told(text in "[a\"\\\\é ]{0,200}", change in 0usize..240, to in "[a\"\\\\]") {
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
