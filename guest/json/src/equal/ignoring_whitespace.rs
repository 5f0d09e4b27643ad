//! Comparison of escaped JSON with raw JSON, ignoring white space, for upstream responses with
//! pretty-printed text content.

use wide::u8x16;

use crate::blocks::{common_prefix_length, find_where};

/// Returns true if the JSON in `escaped`, once decoded, differs from `raw` only in white space
/// between values. Returns false if equal strings have different escapes. O(n), 16 bytes per step
/// in strings and white space.
pub(super) fn equal_ignoring_whitespace(escaped: &[u8], raw: &[u8]) -> bool {
    let (mut left, mut right) = (escaped, raw);
    loop {
        (left, right) = (past_escaped_space(left), past_space(right));
        match (left, right) {
            ([], []) => return true,
            ([b'\\', b'"', inside @ ..], [b'"', other @ ..]) => {
                let Some(after) = string(inside, other) else { return false };
                (left, right) = after;
            }
            ([byte, rest @ ..], [same, other @ ..]) if byte == same && *byte != b'\\' => {
                (left, right) = (rest, other);
            }
            _ => return false,
        }
    }
}

/// Skips two equal strings. Both slices begin after the opening quote. Returns the slices after the
/// closing quotes, or `None` if the strings differ.
#[inline]
fn string<'l, 'r>(escaped: &'l [u8], raw: &'r [u8]) -> Option<(&'l [u8], &'r [u8])> {
    let (mut left, mut right) = (escaped, raw);
    // True if the next byte follows an unescaped backslash of the raw JSON.
    let mut after_slash = false;
    loop {
        let same = common_prefix_length(left, 0, right, 0, b'\\');
        after_slash &= same == 0;
        let [b'\\', decoded @ (b'"' | b'\\' | b'/'), rest @ ..] = left.get(same..)? else {
            return None;
        };
        let (next, other) = right.get(same..)?.split_first()?;
        if next != decoded {
            return None;
        }
        (left, right) = (rest, other);
        match decoded {
            b'"' if !after_slash => return Some((left, right)),
            _ => after_slash = *decoded == b'\\' && !after_slash,
        }
    }
}

#[inline]
fn past_escaped_space(mut text: &[u8]) -> &[u8] {
    loop {
        text = match text {
            [b' ', ..] => past_blanks(text),
            [b'\\', b'n' | b't' | b'r', rest @ ..] => rest,
            _ => return text,
        }
    }
}

#[inline]
fn past_space(mut text: &[u8]) -> &[u8] {
    loop {
        text = match text {
            [b' ', ..] => past_blanks(text),
            [b'\n' | b'\t' | b'\r', rest @ ..] => rest,
            _ => return text,
        }
    }
}

#[inline]
fn past_blanks(text: &[u8]) -> &[u8] {
    let blank = u8x16::splat(b' ');
    let length = find_where(text, 0, |part| !part.simd_eq(blank));
    text.get(length..).unwrap_or_default()
}
