//! Scanning of numbers, `true`, `false` and `null`.

use super::{Scan, Scanner, Span};

impl Scanner<'_> {
    /// Skips a number, `true`, `false` or `null` at the current position, and returns its span.
    ///
    /// # Errors
    /// Fails if there is no such value at the current position.
    #[inline]
    pub fn scalar(&mut self) -> Scan<Span> {
        let start = self.at;
        if self.past_scalar() { Ok(start..self.at) } else { self.error() }
    }

    /// Skips a number, `true`, `false` or `null`. Returns false if there is none at the current
    /// position.
    #[inline(never)]
    fn past_scalar(&mut self) -> bool {
        let start = self.at;
        while let Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E' | b'N' | b'I') =
            self.bytes.get(self.at)
        {
            self.at += 1;
        }
        let scalar = self.bytes.get(start..self.at).unwrap_or_default();
        if matches!(scalar, b"true" | b"false" | b"null")
            || is_number(scalar)
            || is_non_finite(scalar)
        {
            return true;
        }
        self.at = start;
        false
    }
}

/// Returns true if `text` is a number that JSON lacks, but that JavaScript has and that Python
/// writes and reads in JSON by default. The scanner accepts such numbers.
fn is_non_finite(text: &[u8]) -> bool {
    matches!(text, b"NaN" | b"Infinity" | b"-Infinity")
}

/// Returns true if `text` is a JSON number (RFC 8259, section 6).
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

#[cfg(test)]
mod tests {
    use crate::scan::is_json;
    use crate::text::Form;

    #[test]
    fn non_finite_numbers_are_numbers() {
        for json in ["NaN", "-Infinity", "[1,Infinity , NaN]", r#"{"a":-Infinity}"#] {
            assert!(is_json(json.as_bytes(), Form::Raw), "{json}");
        }
        for other in ["nan", "-NaN", "+Infinity", "Inf", "NaN1", "[Infinity1]", "N", "I", "None"] {
            assert!(!is_json(other.as_bytes(), Form::Raw), "{other}");
        }
    }
}
