//! Equality of documents, ignoring white space and escapes.

mod escaped;
mod ignoring_whitespace;

use self::escaped::is_escaped;
use self::ignoring_whitespace::equal_ignoring_whitespace;
use super::scan::{Scan, Scanner};
use super::text::{self, Form};
use crate::blocks;

/// An iterator over the significant bytes of a document: strings are decoded, and white space
/// outside of strings is skipped.
struct TokenStream<'a> {
    text: std::borrow::Cow<'a, [u8]>,
    at: usize,
    in_string: bool,
    /// The bytes of a decoded escape that the iterator has not returned yet.
    pending: [u8; 4],
    left: u8,
}

/// The item of [`TokenStream`] for a quote that delimits a string. It is greater than any byte, so
/// that it differs from an escaped quote.
const QUOTE: u16 = 0x100;

impl Iterator for TokenStream<'_> {
    type Item = u16;

    #[inline]
    fn next(&mut self) -> Option<u16> {
        if self.left > 0 {
            self.left -= 1;
            let [first, rest @ ..] = self.pending;
            self.pending = [rest[0], rest[1], rest[2], 0];
            return Some(first.into());
        }
        loop {
            let byte = *self.text.get(self.at)?;
            if byte == b'"' {
                self.at += 1;
                self.in_string = !self.in_string;
                return Some(QUOTE);
            }
            if self.in_string && byte == b'\\' {
                return self.escape();
            }
            self.at += 1;
            if self.in_string || !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(byte.into());
            }
        }
    }
}

impl TokenStream<'_> {
    fn new(bytes: &[u8], form: Form) -> TokenStream<'_> {
        TokenStream {
            text: text::visible(bytes, form),
            at: 0,
            in_string: false,
            pending: [0; 4],
            left: 0,
        }
    }

    fn escape(&mut self) -> Option<u16> {
        let rest = self.text.get(self.at..)?;
        let length = match rest.get(1) {
            Some(b'u')
                if rest.get(6..8) == Some(b"\\u")
                    && text::hex(rest, 2).is_some_and(|high| (0xD800..0xDC00).contains(&high)) =>
            {
                12
            }
            Some(b'u') => 6,
            _ => 2,
        };
        let decoded = text::visible(rest.get(..length).unwrap_or(rest), Form::Escaped);
        let mut bytes = decoded.iter();
        let first = bytes.next().copied()?;
        self.left = 0;
        for (slot, byte) in self.pending.iter_mut().zip(bytes) {
            *slot = *byte;
            self.left += 1;
        }
        self.at += length;
        Some(first.into())
    }
}

/// Returns true if two JSON documents have equal values, with members in the same order. Numbers
/// must have the same spelling. O(n).
#[must_use]
pub fn json(left: &[u8], left_form: Form, right: &[u8], right_form: Form) -> bool {
    // Usually one program has serialized the same value twice, so that the texts differ in white
    // space at most.
    let alike = |left, right| is_escaped(left, right) || equal_ignoring_whitespace(left, right);
    let alike = match (left_form, right_form) {
        (Form::Escaped, Form::Raw) => alike(left, right),
        (Form::Raw, Form::Escaped) => alike(right, left),
        _ => blocks::equal_bytes(left, right),
    };
    if alike {
        return true;
    }
    let scanners = (Scanner::new(left, left_form), Scanner::new(right, right_form));
    side_by_side(scanners).unwrap_or_else(|_| {
        TokenStream::new(left, left_form).eq(TokenStream::new(right, right_form))
    })
}

/// Returns true if two documents are equal, compared token by token. Strings with the same escapes
/// are compared without decoding.
fn side_by_side((mut left, mut right): (Scanner<'_>, Scanner<'_>)) -> Scan<bool> {
    loop {
        match (left.next_byte(), right.next_byte()) {
            (b'"', b'"') => {
                let (one, other) = (left.string()?, right.string()?);
                let (one, other) = (left.inner(&one), right.inner(&other));
                if one != other
                    && text::visible(&one, Form::Escaped) != text::visible(&other, Form::Escaped)
                {
                    return Ok(false);
                }
            }
            (0, 0) => return left.end().and_then(|()| right.end()).map(|()| true),
            (one, other) if one == other => {
                left.step();
                right.step();
            }
            _ => return Ok(false),
        }
    }
}

/// Returns true if two texts are equal after each is decoded from its form. O(n).
#[must_use]
pub fn text(left: &[u8], left_form: Form, right: &[u8], right_form: Form) -> bool {
    (left_form == right_form && blocks::equal_bytes(left, right))
        || text::visible(left, left_form) == text::visible(right, right_form)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            any::<i32>().prop_map(Into::into),
            "( |a|\\n|\\\\|\"|/|é){0,4}".prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::vec((" ?[ab\"]{0,2}", inner), 0..4)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn serialized(value: &serde_json::Value, pretty: bool) -> String {
        if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }
            .unwrap()
    }

    proptest! {
        #[test]
        fn documents_are_equal_if_their_values_are(
            one in value(), other in value(), pretty: bool, other_pretty: bool
        ) {
            for (one, other) in [(&one, &one), (&one, &other)] {
                let left = serialized(one, pretty);
                let mut right = Vec::new();
                text::escape(&mut right, serialized(other, other_pretty).as_bytes());
                let is_equal = json(left.as_bytes(), Form::Raw, &right, Form::Escaped);
                prop_assert_eq!(is_equal, one == other);
                prop_assert_eq!(equal_ignoring_whitespace(&right, left.as_bytes()), one == other);
            }
        }
    }

    #[test]
    fn escapes_and_white_space_are_ignored() {
        let escaped = br#"{\n  \"a\": \"caf\u00e9 x\"\n}"#;
        assert!(json(br#"{"a":"caf\u00e9 x"}"#, Form::Raw, escaped, Form::Escaped));
        assert!(json(r#"{"a":"🦀"}"#.as_bytes(), Form::Raw, br#"{"a":"\ud83e\udd80"}"#, Form::Raw));
        assert!(!json(br#"{"a":"caf\u00e9x"}"#, Form::Raw, escaped, Form::Escaped));
        assert!(!json(br#"{"a":"1"}"#, Form::Raw, br#"{"a":1}"#, Form::Raw));
        assert!(!json(br#"["\""]"#, Form::Raw, br#"[""]"#, Form::Raw));
    }
}
