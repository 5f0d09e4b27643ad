//! Whether one text is another, escaped: what a program that sends a value in both halves of an answer sends.

use wide::u8x16;

use crate::blocks::halves;

/// Bytes of a step.
const STEP: usize = 8;
/// Where a backslash stands in [`SPREAD`].
const SLASH: u8 = 0x80;

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

/// Whether `escaped` is `raw` with a backslash before each quote and backslash, and nothing else. O(n), 8 bytes a step.
pub(super) fn is_escaped(escaped: &[u8], raw: &[u8]) -> bool {
    let (quote, slash) = (u8x16::splat(b'"'), u8x16::splat(b'\\'));
    let (mut escaped, mut raw) = (escaped, raw);
    while let (Some((eight, rest)), Some(sixteen)) =
        (raw.split_first_chunk::<STEP>(), escaped.first_chunk::<{ 2 * STEP }>())
    {
        let bytes = halves(u64::from_le_bytes(*eight), 0);
        let set = (bytes.simd_eq(quote) | bytes.simd_eq(slash)).to_bitmask();
        let Some(spread) = SPREAD.get(set as usize) else { return false };
        let spread = u8x16::new(*spread);
        let slashes = spread.simd_eq(u8x16::splat(SLASH)) & slash;
        let expected = bytes.shuffle_zeroing(spread) | slashes;
        let length = STEP + set.count_ones() as usize;
        let same = expected.simd_eq(u8x16::new(*sixteen)).to_bitmask().trailing_ones() as usize;
        if same < length {
            return false;
        }
        raw = rest;
        escaped = escaped.get(length..).unwrap_or_default();
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
