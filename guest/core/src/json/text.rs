//! Text in its two forms: raw, and escaped as the inside of a JSON string.

use std::borrow::Cow;

/// How bytes stand in their buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Form {
    /// As they are.
    Raw,
    /// As the inside of a JSON string, without its quotes.
    Escaped,
}

/// One character of escaped text.
enum Unit {
    /// A byte that stands for itself, or part of a UTF-8 sequence.
    Plain(u8),
    /// An escape sequence.
    Escape(char),
    /// `\u` without a character: a lone surrogate, or no digits.
    Broken,
}

/// The unit at `at`, and its length in source bytes; none at the end.
fn unit(bytes: &[u8], at: usize) -> Option<(Unit, usize)> {
    let byte = *bytes.get(at)?;
    if byte != b'\\' {
        return Some((Unit::Plain(byte), 1));
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

/// The value of four hex digits at `at`.
pub(super) fn hex(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..at + 4)?
        .iter()
        .try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

/// The first backslash. Most of what is looked at is short, or has one soon: a search would cost more than it finds.
#[inline]
fn slash(bytes: &[u8]) -> Option<usize> {
    const SHORT: usize = 16;
    let head = bytes.get(..SHORT).unwrap_or(bytes);
    match head.iter().position(|byte| *byte == b'\\') {
        Some(at) => Some(at),
        None => memchr::memchr(b'\\', bytes.get(SHORT..)?).map(|at| SHORT + at),
    }
}

/// The text as a reader sees it: raw bytes as they are, escaped ones decoded. A lone surrogate reads as U+FFFD.
#[must_use]
pub fn visible(bytes: &[u8], form: Form) -> Cow<'_, [u8]> {
    if form == Form::Raw {
        return Cow::Borrowed(bytes);
    }
    let Some(first) = slash(bytes) else { return Cow::Borrowed(bytes) };
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = first;
    out.extend_from_slice(bytes.get(..first).unwrap_or_default());
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let plain = slash(rest).unwrap_or(rest.len());
        out.extend_from_slice(rest.get(..plain).unwrap_or_default());
        at += plain;
        // Nearly all escapes are of these.
        if let Some(byte @ (b'"' | b'\\')) = bytes.get(at + 1) {
            out.push(*byte);
            at += 2;
        } else if let Some((unit, length)) = unit(bytes, at) {
            match unit {
                Unit::Plain(byte) => out.push(byte),
                Unit::Escape(character) => push(&mut out, character),
                Unit::Broken => push(&mut out, char::REPLACEMENT_CHARACTER),
            }
            at += length;
        }
    }
    Cow::Owned(out)
}

/// The first characters of a text as a reader sees them: the text of at most `source` bytes.
#[must_use]
pub fn prefix(bytes: &[u8], source: usize, form: Form) -> Cow<'_, [u8]> {
    visible(bytes.get(..boundary(bytes, source, form)).unwrap_or(bytes), form)
}

fn push(out: &mut Vec<u8>, character: char) {
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// The last place at or before `at` where no character, and no escape, is cut: O(1).
#[must_use]
pub fn boundary(bytes: &[u8], at: usize, form: Form) -> usize {
    let mut at = at.min(bytes.len());
    while bytes.get(at).is_some_and(|byte| (0x80..0xC0).contains(byte)) {
        at -= 1;
    }
    if form == Form::Raw {
        return at;
    }
    // An escape is at most 12 bytes: walk from a place before it that is certainly outside of one.
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
    // The walk may have begun inside `\uXXXX`, whose digits read as plain characters, so that it ends where one does.
    from
}

/// What a reader sees of some `length` bytes from about `at` on, no character or escape cut; and how many bytes that are.
#[must_use]
pub fn sample(bytes: &[u8], at: usize, length: usize, form: Form) -> (Cow<'_, [u8]>, usize) {
    let (from, to) = (boundary(bytes, at, form), boundary(bytes, at + length, form));
    let part = bytes.get(from..to).unwrap_or_default();
    (visible(part, form), part.len())
}

/// Appends `bytes` in `from` form so that they stand in `to` form.
pub fn convert(out: &mut Vec<u8>, bytes: &[u8], from: Form, to: Form) {
    match (from, to) {
        (Form::Raw, Form::Escaped) => escape(out, bytes),
        (Form::Escaped, Form::Raw) => out.extend_from_slice(&visible(bytes, from)),
        _ => out.extend_from_slice(bytes),
    }
}

/// Appends UTF-8 text escaped as the inside of a JSON string.
pub fn escape(out: &mut Vec<u8>, text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text;
    while let Some(stop) = rest.iter().position(|byte| matches!(byte, ..0x20 | b'"' | b'\\')) {
        let (plain, after) = rest.split_at_checked(stop).unwrap_or((rest, &[]));
        out.extend_from_slice(plain);
        let Some((special, after)) = after.split_first() else { break };
        match special {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => {
                let digit = |value: u8| HEX.get(usize::from(value)).copied().unwrap_or(b'0');
                out.extend_from_slice(&[
                    b'\\',
                    b'u',
                    b'0',
                    b'0',
                    digit(other >> 4),
                    digit(other & 15),
                ]);
            }
        }
        rest = after;
    }
    out.extend_from_slice(rest);
}

/// `text` as a JSON string, quotes included.
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
    fn a_boundary_never_cuts_a_character_or_an_escape() {
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
}
