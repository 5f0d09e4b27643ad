//! Whether one text is another, escaped: what a program that sends a value in both halves of an answer sends.

use wide::u8x16;

use crate::blocks::halves;

/// Bytes of a step.
const STEP: usize = 8;
/// What stands for a backslash in [`SPREAD`]: the first place after the eight bytes, where one is put.
const SLASH: u8 = STEP as u8;

/// For each set of bytes among eight that are escaped: which of them stands at each place of what they become.
static SPREAD: [[u8; 2 * STEP]; 256] = {
    let mut table = [[0; 2 * STEP]; 256];
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

/// Steps of a turn: the component has its deadline checked at every turn of a loop.
const TURN: usize = 4;

/// Whether `escaped` is `raw` with a backslash before each quote and backslash, and nothing else. O(n), 32 bytes a turn.
pub(super) fn is_escaped(escaped: &[u8], raw: &[u8]) -> bool {
    let (mut escaped, mut raw) = (escaped, raw);
    while let Some((turn, rest)) = raw.split_first_chunk::<{ TURN * STEP }>() {
        let [one, two, three, four] = match turn.as_chunks::<STEP>().0 {
            [one, two, three, four] => [one, two, three, four],
            _ => return false,
        };
        let after = after(escaped, one)
            .and_then(|escaped| after(escaped, two))
            .and_then(|escaped| after(escaped, three))
            .and_then(|escaped| after(escaped, four));
        let Some(after) = after else { break };
        (escaped, raw) = (after, rest);
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

/// What follows these eight bytes, escaped; none where `escaped` does not begin with them, or may be too short to.
#[inline(always)]
fn after<'e>(escaped: &'e [u8], eight: &[u8; STEP]) -> Option<&'e [u8]> {
    let (quote, slash) = (u8x16::splat(b'"'), u8x16::splat(b'\\'));
    let sixteen = escaped.first_chunk::<{ 2 * STEP }>()?;
    let bytes = halves(u64::from_le_bytes(*eight), u64::from_ne_bytes([b'\\'; STEP]));
    let set = (bytes.simd_eq(quote) | bytes.simd_eq(slash)).to_bitmask() & 0xFF;
    let expected = bytes.shuffle(u8x16::new(*SPREAD.get(set as usize)?));
    let length = STEP + set.count_ones() as usize;
    let same = expected.simd_eq(u8x16::new(*sixteen)).to_bitmask().trailing_ones() as usize;
    if same < length { None } else { escaped.get(length..) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::text::escape;

    proptest! {
        #[test]
        fn what_is_escaped_is_told(text in "[a\"\\\\é ]{0,60}", change in 0usize..80, to in "[a\"\\\\]") {
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
