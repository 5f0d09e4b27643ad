//! Passing numbers and the like, and the grammar of numbers.

use super::{Scan, Scanner, Span};
use crate::blocks;

impl Scanner<'_> {
    /// Passes a number, `true`, `false` or `null`, which begins right here.
    ///
    /// # Errors
    /// Where none does.
    #[inline]
    pub fn scalar(&mut self) -> Scan<Span> {
        let start = self.at;
        if self.past_scalar() { Ok(start..self.at) } else { self.error() }
    }

    /// Passes a number, `true`, `false` or `null`; false where none of them stands here.
    #[inline(never)]
    fn past_scalar(&mut self) -> bool {
        let start = self.at;
        // Most are a few digits.
        let digits =
            blocks::find_where(self.bytes, start, |part| !blocks::in_range(part, b'0', b'9'));
        let follows = self.bytes.get(start + digits);
        let ends = matches!(follows, None | Some(b',' | b'}' | b']' | b' ' | b'\n' | b'\\'));
        if ends && (digits == 1 || digits > 1 && self.bytes.get(start) != Some(&b'0')) {
            self.at += digits;
            return true;
        }
        while let Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E') =
            self.bytes.get(self.at)
        {
            self.at += 1;
        }
        let scalar = self.bytes.get(start..self.at).unwrap_or_default();
        if matches!(scalar, b"true" | b"false" | b"null") || is_number(scalar) {
            return true;
        }
        self.at = start;
        false
    }
}

/// Whether a text is a JSON number.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.first() == Some(&b'0')) {
        return false;
    }
    rest = rest.get(whole..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix(b".") {
        let length = digits(fraction);
        if length == 0 {
            return false;
        }
        rest = fraction.get(length..).unwrap_or_default();
    }
    if let Some((b'e' | b'E', exponent)) = rest.split_first() {
        let exponent =
            exponent.strip_prefix(b"+").or(exponent.strip_prefix(b"-")).unwrap_or(exponent);
        return !exponent.is_empty() && digits(exponent) == exponent.len();
    }
    rest.is_empty()
}
