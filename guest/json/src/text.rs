//! Text in two forms: raw, and escaped as the content of a JSON string.

use std::borrow::Cow;

use wide::u8x16;

use super::Span;
use crate::blocks::{self, PART};

/// The form in which a buffer contains a text or a JSON document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Form {
    /// The buffer contains the text verbatim.
    Raw,
    /// The buffer contains the text escaped as the content of a JSON string, without the quotes.
    Escaped,
}

impl Form {
    /// Returns the number of bytes of a quote in a document of this form: 1 for `"`, or 2 for `\"`
    /// if escaped.
    #[inline]
    pub(super) fn quote(self) -> usize {
        match self {
            Form::Raw => 1,
            Form::Escaped => 2,
        }
    }
}

/// A character or escape sequence of text that is the content of a JSON string.
enum Unit {
    /// An unescaped byte, or part of a UTF-8 sequence.
    Plain,
    /// An escape sequence that encodes this character.
    Escape(char),
    /// A `\u` that encodes no character: a lone surrogate, or one with missing digits.
    Broken,
}

/// Returns the unit at the offset `at` of escaped text, and its length in bytes. `None` at the end.
fn unit(bytes: &[u8], at: usize) -> Option<(Unit, usize)> {
    let byte = *bytes.get(at)?;
    if byte != b'\\' {
        return Some((Unit::Plain, 1));
    }
    let simple = match bytes.get(at + 1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return Some(unicode(bytes, at)),
        Some(other @ (b'"' | b'\\' | b'/')) => char::from(*other),
        _ => return Some((Unit::Broken, 1)),
    };
    Some((Unit::Escape(simple), 2))
}

fn unicode(bytes: &[u8], at: usize) -> (Unit, usize) {
    let Some(high) = hex(bytes, at + 2) else { return (Unit::Broken, 2) };
    if let Some(character) = char::from_u32(high) {
        return (Unit::Escape(character), 6);
    }
    let low = (0xD800..0xDC00).contains(&high).then(|| bytes.get(at + 6..at + 8)).flatten();
    match low.filter(|escape| escape == b"\\u").and_then(|_| hex(bytes, at + 8)) {
        Some(low @ 0xDC00..0xE000) => {
            let scalar = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
            (char::from_u32(scalar).map_or(Unit::Broken, Unit::Escape), 12)
        }
        _ => (Unit::Broken, 6),
    }
}

/// Returns the number that the four hexadecimal digits at `at` encode. `None` if there are no four
/// digits.
pub(super) fn hex(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..at + 4)?
        .iter()
        .try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

/// Decodes `bytes` from their form to text. Borrowed if nothing is escaped. A lone surrogate and an
/// incomplete `\u` decode to U+FFFD.
#[inline]
#[must_use]
pub fn visible(bytes: &[u8], form: Form) -> Cow<'_, [u8]> {
    if form == Form::Raw {
        return Cow::Borrowed(bytes);
    }
    let first = blocks::find(bytes, 0, b'\\', b'\\');
    if first == bytes.len() { Cow::Borrowed(bytes) } else { Cow::Owned(decoded(bytes)) }
}

/// Returns true if the string at `span` has at most 16 bytes and no escape. Also returns false if
/// the buffer ends less than 16 bytes after the string's start, because the check is one vector
/// comparison.
#[inline]
pub(super) fn is_plain(bytes: &[u8], span: &Span) -> bool {
    let part = bytes.get(span.start..).and_then(|rest| rest.first_chunk::<PART>());
    part.is_some_and(|part| {
        let slash = blocks::first_position(part, b'\\', b'\\');
        span.len() <= PART && slash.is_none_or(|slash| slash >= span.len())
    })
}

/// Decodes the content of a JSON string to the text that it represents. `form` is the form of the
/// document that contains the string.
#[must_use]
pub(super) fn string(bytes: &[u8], form: Form) -> Cow<'_, [u8]> {
    match visible(bytes, form) {
        Cow::Borrowed(inner) => visible(inner, Form::Escaped),
        Cow::Owned(inner) => Cow::Owned(visible(&inner, Form::Escaped).into_owned()),
    }
}

/// Decodes escaped text into a new vector.
#[inline(never)]
fn decoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    decode(&mut out, bytes);
    out
}

/// Decodes escaped text into `out`.
fn decode(out: &mut Vec<u8>, bytes: &[u8]) {
    const SLASH: u8 = b'\\';
    out.reserve(bytes.len());
    let mut rest = bytes;
    loop {
        let plain = blocks::copy_until(out, rest, |part| part.simd_eq(u8x16::splat(SLASH)));
        rest = rest.get(plain..).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        // Nearly all escapes are two bytes, such as `\n`.
        let simple = simple(rest.get(1));
        let length = if simple != 0 {
            out.push(simple);
            2
        } else {
            escape_of(out, rest)
        };
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// Decodes the escape of more than two bytes at the start of `bytes`, and appends its character to
/// `out`. Returns the length of the escape.
#[inline(never)]
fn escape_of(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let Some((unit, length)) = unit(bytes, 0) else { return bytes.len() };
    let character = match unit {
        Unit::Escape(character) => character,
        Unit::Plain | Unit::Broken => char::REPLACEMENT_CHARACTER,
    };
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    length
}

/// Returns the byte that the escape of a backslash and `letter` encodes, or 0 if that is not an
/// escape of two bytes.
#[inline]
pub(super) fn simple(letter: Option<&u8>) -> u8 {
    letter.and_then(|letter| SIMPLE.get(usize::from(*letter))).copied().unwrap_or(0)
}

static SIMPLE: [u8; 256] = {
    let mut bytes = [0; 256];
    let pairs = [
        (b'"', b'"'),
        (b'\\', b'\\'),
        (b'/', b'/'),
        (b'n', b'\n'),
        (b't', b'\t'),
        (b'r', b'\r'),
        (b'b', 8),
        (b'f', 12),
    ];
    let mut at = 0;
    #[allow(clippy::indexing_slicing, reason = "evaluated at compile time, bounded by the loop")]
    while at < pairs.len() {
        bytes[pairs[at].0 as usize] = pairs[at].1;
        at += 1;
    }
    bytes
};

/// Decodes the longest prefix of a text that has at most `source` bytes in the buffer, and splits
/// no character or escape.
#[must_use]
pub fn prefix(bytes: &[u8], source: usize, form: Form) -> Cow<'_, [u8]> {
    visible(bytes.get(..boundary(bytes, source, form)).unwrap_or(bytes), form)
}

/// Returns the largest offset up to `at` that splits no character and no escape. O(1).
#[must_use]
pub fn boundary(bytes: &[u8], at: usize, form: Form) -> usize {
    let mut at = at.min(bytes.len());
    while bytes.get(at).is_some_and(|byte| (0x80..0xC0).contains(byte)) {
        at -= 1;
    }
    if form == Form::Raw {
        return at;
    }
    // An escape has at most 12 bytes (a surrogate pair): begin before one that may contain `at`.
    let mut from = at.saturating_sub(12);
    while from > 0 && bytes.get(from - 1) == Some(&b'\\') {
        from -= 1;
    }
    while let Some((_, length)) = unit(bytes, from) {
        if from + length > at {
            break;
        }
        from += length;
    }
    // The loop may begin inside `\uXXXX`. Its digits read as plain characters, so that the loop
    // still ends at a boundary.
    from
}

/// Decodes about `length` bytes of a text, from the offset `at` on, without splitting a character
/// or an escape. Returns the decoded text and its number of bytes in the buffer.
#[must_use]
pub fn sample(bytes: &[u8], at: usize, length: usize, form: Form) -> (Cow<'_, [u8]>, usize) {
    let (from, to) = (boundary(bytes, at, form), boundary(bytes, at + length, form));
    let part = bytes.get(from..to).unwrap_or_default();
    (visible(part, form), part.len())
}

/// Appends `bytes` to `out`, converted from the form `from` to the form `to`.
pub fn convert(out: &mut Vec<u8>, bytes: &[u8], from: Form, to: Form) {
    match (from, to) {
        (Form::Raw, Form::Escaped) => escape(out, bytes),
        (Form::Escaped, Form::Raw) => decode(out, bytes),
        _ => out.extend_from_slice(bytes),
    }
}

/// Appends UTF-8 text to `out`, escaped as the content of a JSON string.
pub fn escape(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len());
    let mut rest = text;
    loop {
        let plain = blocks::copy_until(out, rest, is_special);
        let Some(special) = rest.get(plain) else { break };
        let (escape, length) = escape_bytes(*special);
        out.extend_from_slice(escape.get(..length).unwrap_or_default());
        rest = rest.get(plain + 1..).unwrap_or_default();
    }
}

/// Returns a mask of the bytes that a JSON string must escape (RFC 8259, section 7).
#[inline]
fn is_special(part: u8x16) -> u8x16 {
    let control = blocks::in_range(part, 0, 0x1F);
    control | part.simd_eq(u8x16::splat(b'"')) | part.simd_eq(u8x16::splat(b'\\'))
}

/// Returns the JSON escape of the byte `special`, at the start of a fixed array, and the length of
/// the escape.
#[inline]
fn escape_bytes(special: u8) -> ([u8; 6], usize) {
    let short = |letter: u8| ([b'\\', letter, 0, 0, 0, 0], 2);
    match special {
        b'"' | b'\\' => short(special),
        b'\n' => short(b'n'),
        b'\r' => short(b'r'),
        b'\t' => short(b't'),
        other => {
            let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
            ([b'\\', b'u', b'0', b'0', digit(other >> 4), digit(other & 15)], 6)
        }
    }
}

/// Returns `text` as a JSON string with quotes.
#[must_use]
pub fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    out.push(b'"');
    escape(&mut out, text.as_bytes());
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn escaped(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        escape(&mut out, text.as_bytes());
        out
    }

    #[test]
    fn escaping_agrees_with_serde_json() {
        for text in ["", "plain", "a\"b\\c/d", "\u{1}\u{1f}\n\r\t", "日本 \u{1F980}", "\u{7f}"] {
            assert_eq!(quoted(text), serde_json::to_vec(text).unwrap(), "{text:?}");
            assert_eq!(visible(&escaped(text), Form::Escaped), text.as_bytes());
        }
    }

    #[test]
    fn foreign_escapes_decode() {
        assert_eq!(
            visible(br"\u00e9\ud83e\udd80\/\b", Form::Escaped),
            "é\u{1F980}/\u{8}".as_bytes()
        );
        assert_eq!(visible(br"x\ud800y", Form::Escaped), "x\u{FFFD}y".as_bytes());
        assert_eq!(visible(br"cut\", Form::Escaped), "cut\u{FFFD}".as_bytes());
    }

    #[test]
    fn boundary_splits_no_character_or_escape() {
        let text = "é\\ud83e\\udd80\\\\\\\\n\\nX\\u00e9日";
        for at in 0..=text.len() + 3 {
            let cut = boundary(text.as_bytes(), at, Form::Escaped);
            let head = text.get(..cut).unwrap_or_else(|| panic!("cut inside a character at {at}"));
            assert!(
                !String::from_utf8_lossy(&visible(head.as_bytes(), Form::Escaped))
                    .contains('\u{FFFD}'),
                "{at}: {head}"
            );
            assert!(cut <= at);
        }
    }

    proptest! {
        #[test]
        fn escaped_text_round_trips(text in "([a-z]{0,20}|[\"\\\\\n\t\u{1}-\u{1f}é日\u{1F980}]){0,12}") {
            prop_assert_eq!(&serde_json::from_slice::<String>(&quoted(&text)).unwrap(), &text);
            let escaped = escaped(&text);
            prop_assert_eq!(&*visible(&escaped, Form::Escaped), text.as_bytes());
        }

        #[test]
        fn escapes_decode_as_in_serde_json(
            parts in prop::collection::vec(
                "[a-z]{0,18}|\\\\[\"\\\\/nrtbf]|\\\\u00[4-9a-f][0-9a-f]|\\\\ud83e\\\\udd80",
                0..12,
            )
        ) {
            let text = parts.concat();
            let expected: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            prop_assert_eq!(&*visible(text.as_bytes(), Form::Escaped), expected.as_bytes());
        }
    }
}
