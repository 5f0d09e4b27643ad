//! Request ids, compared by value.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

/// Maximum length of the id of a request as JSON text, in bytes. Longer ids are refused, because
/// hosts store ids until their requests are answered.
pub const MAX_ID_BYTES: usize = 1_024;
/// Largest absolute exponent of a numeric id that is normalized. Ids with larger exponents are
/// compared verbatim.
const MAX_EXPONENT: i64 = 1_000_000;
/// Maximum number of trailing zeros in the canonical form of a number. A number with more trailing
/// zeros has an exponent instead.
const MAX_WRITTEN_ZEROS: i64 = 30;

/// The id of a JSON-RPC request, in a canonical form that equal values share.
///
/// Clients and servers may write one id in several ways: `1` and `1.0`, `"a/b"` and `"a\/b"`.
/// Numbers are compared as exact decimals and never through floating point, so that large integers
/// that differ in their last digit remain different ids.
///
/// ```
/// use context_guard_protocol::RequestId;
///
/// assert_eq!(RequestId::parse("1.0"), RequestId::parse("1"));
/// assert_ne!(RequestId::parse("18446744073709551617"), RequestId::parse("18446744073709551616"));
/// assert_ne!(RequestId::parse("\"1\""), RequestId::parse("1"));
/// assert_eq!(RequestId::parse("null"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// Parses an id from its JSON text. Returns `None` for `null`, which identifies no request, and
    /// for an empty text.
    #[must_use]
    pub fn parse(raw: &str) -> Option<Self> {
        let raw = raw.trim_ascii();
        match raw.as_bytes().first()? {
            b'n' => None,
            b'-' | b'0'..=b'9' => Some(Self(canonical_number(raw).unwrap_or_else(|| raw.into()))),
            b'"' => Some(Self(match serde_json::from_str::<Cow<'_, str>>(raw) {
                Ok(text) => Value::from(text).to_string(),
                // A lone surrogate is no text that Rust can hold, but the id is still usable.
                Err(_) => raw.to_owned(),
            })),
            // JSON-RPC allows strings and numbers only. The upstream refuses anything else.
            _ => Some(Self(raw.to_owned())),
        }
    }

    /// Returns the canonical JSON text of the id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id that a careless server may confuse with this one: the text of a number, or
    /// the number in a text. `None` if there is no such id.
    ///
    /// ```
    /// use context_guard_protocol::RequestId;
    ///
    /// let id = |raw| RequestId::parse(raw).unwrap();
    /// assert_eq!(id("5").other_form(), Some(id("\"5\"")));
    /// assert_eq!(id("\"5.0\"").other_form(), Some(id("5")));
    /// assert_eq!(id("\"a\"").other_form(), None);
    /// ```
    #[must_use]
    pub fn other_form(&self) -> Option<Self> {
        if self.0.starts_with('"') {
            let text: String = serde_json::from_str(&self.0).ok()?;
            let number: &RawValue = serde_json::from_str(&text).ok()?;
            let is_number = number.get().starts_with(|c: char| c == '-' || c.is_ascii_digit());
            return is_number.then(|| Self::parse(number.get())).flatten();
        }
        let is_number = self.0.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        is_number.then(|| Self(format!("\"{}\"", self.0)))
    }

    /// Returns the value of a non-negative integer id that fits 64 bits. `None` for any other id.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }
}

/// Returns true if two raw ids have the same value.
#[must_use]
pub fn is_same_id(left: &str, right: &str) -> bool {
    left == right || RequestId::parse(left).is_some_and(|id| Some(id) == RequestId::parse(right))
}

/// Returns the canonical form of a JSON number: its significant digits, with trailing zeros or an
/// exponent. `None` if its exponent exceeds `MAX_EXPONENT`.
fn canonical_number(raw: &str) -> Option<String> {
    let (sign, number) = raw.strip_prefix('-').map_or(("", raw), |number| ("-", number));
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent = exponent.parse::<i64>().ok().filter(|it| it.abs() <= MAX_EXPONENT)?;
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [integer, fraction].concat();
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        // Negative zero equals zero.
        return Some("0".to_owned());
    }
    let zeros = i64::try_from(digits.len() - significant.len()).ok()?;
    let exponent = exponent - i64::try_from(fraction.len()).ok()? + zeros;
    Some(match exponent {
        0..=MAX_WRITTEN_ZEROS => {
            format!("{sign}{significant}{}", "0".repeat(usize::try_from(exponent).ok()?))
        }
        _ => format!("{sign}{significant}e{exponent}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_compared_by_value() {
        let same = [
            ("1", "1.0"),
            ("10", "1e1"),
            ("100", "1.00E+2"),
            ("0", "-0.0"),
            ("0.5", "5e-1"),
            ("-7", " -7 "),
            (r#""a/b""#, r#""a\/b""#),
            (r#""ab""#, r#""a\u0062""#),
            ("123456789012345678901234567890", "12345678901234567890123456789e1"),
        ];
        for (left, right) in same {
            assert!(is_same_id(left, right), "{left} {right}");
        }
        let different = [
            ("1", "\"1\""),
            ("1", "-1"),
            ("1", "10"),
            ("9007199254740993", "9007199254740992"),
            ("18446744073709551616", "18446744073709551617"),
            ("0.1", "0.10000000000000000001"),
            ("1e1000000000000", "1e1000000000001"),
            ("null", "null "),
        ];
        for (left, right) in different {
            assert!(!is_same_id(left, right), "{left} {right}");
        }
        assert_eq!(RequestId::parse("1.0").unwrap().as_u64(), Some(1));
        assert_eq!(RequestId::parse("\"1\"").unwrap().as_u64(), None);
    }
}
