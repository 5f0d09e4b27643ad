//! Edits of a JSON buffer. All other bytes remain verbatim.

use super::Span;
use super::scan::{Scan, ScanError, Scanner};
use super::text::Form;

/// A list of replacements of byte ranges in one JSON buffer.
#[derive(Default)]
pub struct Edits {
    edits: Vec<(Span, Vec<u8>)>,
}

impl Edits {
    /// Adds a replacement of the range `span` by `bytes`. Spans must not overlap. An empty span
    /// inserts.
    pub fn replace(&mut self, span: Span, bytes: impl Into<Vec<u8>>) {
        self.edits.push((span, bytes.into()));
    }

    /// Returns true if there are no replacements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Returns a copy of the buffer `bytes` with all replacements made.
    #[must_use]
    pub fn apply(mut self, bytes: &[u8]) -> Vec<u8> {
        self.edits.sort_by_key(|(span, _)| (span.start, span.end));
        let mut out = Vec::with_capacity(bytes.len() / 2);
        let mut at = 0;
        for (span, replacement) in &self.edits {
            out.extend_from_slice(bytes.get(at..span.start).unwrap_or_default());
            out.extend_from_slice(replacement);
            at = span.end;
        }
        out.extend_from_slice(bytes.get(at..).unwrap_or_default());
        out
    }
}

/// Returns the range to delete so that the object at `object` loses the member `name`: key, value
/// and one comma. Of several members of this name, only the first is in the range. Returns `None`
/// if the object has no such member.
///
/// # Errors
/// Fails if no valid object begins at `object`.
pub fn member(bytes: &[u8], object: &Span, name: &str) -> Scan<Option<Span>> {
    let mut scanner = Scanner::starting_at(bytes, Form::Raw, object.start);
    let (mut found, mut previous): (Option<Span>, Option<usize>) = (None, None);
    scanner.object(|scanner, key| {
        let value = scanner.skip_value()?;
        match &mut found {
            None if scanner.is_key(&key, name) => {
                found = Some(previous.unwrap_or(key.start - 1)..value.end)
            }
            // The first member is deleted with the comma after it, since none precedes it.
            Some(found) if previous.is_none() => {
                found.end = key.start - 1;
                previous = Some(value.end);
            }
            _ => previous = Some(value.end),
        }
        Ok(())
    })?;
    Ok(found)
}

/// Returns the span and the bytes for [`Edits::replace`] that append a member to the object at
/// `object`. `member` is a key and a value as raw JSON. O(white space before the closing brace).
///
/// # Errors
/// Fails if `object` does not end with a brace.
pub fn append_member(bytes: &[u8], object: &Span, member: &[u8]) -> Scan<(Span, Vec<u8>)> {
    let whole = bytes.get(object.clone()).unwrap_or_default();
    let open = whole.strip_suffix(b"}").ok_or(ScanError::Syntax(object.end))?.trim_ascii_end();
    let at = object.start + open.len();
    let empty = open.len() == 1;
    Ok((at..at, if empty { member.to_vec() } else { [b",", member].concat() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_deleted_with_a_comma() {
        let cut = |object: &str, name| {
            let mut edits = Edits::default();
            edits.replace(
                member(object.as_bytes(), &(0..object.len()), name).unwrap().unwrap(),
                b"",
            );
            String::from_utf8(edits.apply(object.as_bytes())).unwrap()
        };
        assert_eq!(cut(r#"{"a":1, "b":2,"c":3}"#, "a"), r#"{"b":2,"c":3}"#);
        assert_eq!(cut(r#"{"a":1, "b":2,"c":3}"#, "b"), r#"{"a":1,"c":3}"#);
        assert_eq!(cut(r#"{"a":1, "b":2,"c":3}"#, "c"), r#"{"a":1, "b":2}"#);
        assert_eq!(cut(r#"{ "a":1 }"#, "a"), "{  }");
    }

    #[test]
    fn members_are_appended_last() {
        for (object, longer) in [("{}", r#"{"x":1}"#), (r#"{"a":{} }"#, r#"{"a":{},"x":1 }"#)] {
            let (span, bytes) =
                append_member(object.as_bytes(), &(0..object.len()), br#""x":1"#).unwrap();
            let mut edits = Edits::default();
            edits.replace(span, bytes);
            assert_eq!(edits.apply(object.as_bytes()), longer.as_bytes());
        }
    }
}
