//! Pairs such as `key=value` in the lines of logs.

use std::ops::Range;

use super::log_member::Members;
use super::log_time::run;

/// The maximum number of bytes of a URL that are searched for its signs.
const MAX_URL_BYTES: usize = 256;

/// Returns the key before the sign `=` at the offset `sign`. Empty without one, and for a parameter
/// of a URL.
pub(super) fn key_before(line: &[u8], sign: usize) -> &[u8] {
    let before = line.get(..sign).unwrap_or_default();
    let length = before.iter().rev().take_while(|byte| is_key_letter(byte)).count();
    let key = before.get(sign - length..).unwrap_or_default();
    if is_in_url(line, sign - length) { &[] } else { key }
}

/// Returns true if the byte offset `at` is inside of a URL, a path or the parameters of a query:
/// `/logs?page=1&level=error`. O(1).
pub(super) fn is_in_url(line: &[u8], at: usize) -> bool {
    let before = line.get(..at).unwrap_or_default().iter().rev().take(MAX_URL_BYTES);
    let is_letter =
        |byte: &&u8| byte.is_ascii_alphanumeric() || b"-._~:/?#@!$&'*+=%".contains(byte);
    before.take_while(is_letter).any(|byte| b"/?&=".contains(byte))
}

/// Returns the range of the value after the sign `=` at the offset `sign`, with its quotes.
pub(super) fn value_range(line: &[u8], sign: usize) -> Range<usize> {
    let start = sign + 1;
    let length = match line.get(start) {
        Some(b'"') => Members::new(line).string_end(start) - start,
        _ => run(line, start, |byte| !matches!(byte, b' ' | b'\t')),
    };
    start..(start + length).min(line.len())
}

/// Iterates over the keys and values of the pairs of a line. O(line).
pub(super) fn pairs(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    memchr::memchr_iter(b'=', line).filter_map(move |sign| {
        let key = key_before(line, sign);
        let value = line.get(value_range(line, sign))?;
        (!key.is_empty()).then_some((key, value))
    })
}

/// Returns the value of the first pair of a line with the key `name`. `None` without one. O(line).
pub(super) fn pair_value<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let mut places = memchr::memmem::find_iter(line, name).map(|at| at + name.len());
    let sign = places.find(|at| line.get(*at) == Some(&b'=') && key_before(line, *at) == name)?;
    line.get(value_range(line, sign))
}

fn is_key_letter(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.@".contains(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_pairs_are_found() {
        let line = br#"id=fw apri=7 pri=3 msg="a pri=5" n=1"#;
        assert_eq!(pair_value(line, b"pri"), Some(&b"3"[..]));
        assert_eq!(pair_value(line, b"msg"), Some(&br#""a pri=5""#[..]));
        assert_eq!(pair_value(line, b"m"), None);
        assert_eq!(pairs(line).next(), Some((&b"id"[..], &b"fw"[..])));
        assert_eq!(pair_value(b"GET /a?x=1&pri=3 pri=5", b"pri"), Some(&b"5"[..]));
    }
}
