//! A description of data that has no readable short form.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Strategy, Task};
use crate::json::text::{Form, prefix, visible};
use crate::shape::payload::Payload;
use crate::shape::{Coverage, Excerpt, ExcerptBody};
use crate::snapshot::Cursor;

/// The number of first bytes of a text that are examined to detect binary data.
const SAMPLE_BYTES: usize = 4_096;
/// The maximum number of characters of binary data that its description quotes.
const MAX_PREVIEW_CHARS: usize = 48;

/// The first bytes of well-known binary formats, with the names of the formats.
const MAGIC_NUMBERS: [(&[u8], &str); 10] = [
    (b"\x89PNG", "a PNG image"),
    (b"\xFF\xD8\xFF", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "a RIFF file (WebP, WAV)"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or office document"),
    (b"\x1F\x8B", "gzip data"),
    (b"\x7FELF", "an ELF program"),
    (b"\0asm", "WebAssembly"),
    (b"OggS", "Ogg audio"),
];

/// The strategy that replaces binary data, sent as text, by a description.
pub(super) struct Describe;

impl Strategy for Describe {
    fn reduce(&self, task: &Task<'_>) -> Option<Excerpt> {
        let whole =
            task.whole.as_ref().filter(|whole| whole.is_over_limit && !whole.is_document)?;
        let options = whole.context.options;
        if task.list().is_some() || !whole.payload.is_text() || options.whole || options.ranged() {
            return None;
        }
        let Payload { bytes, form, .. } = *whole.payload;
        // An escape has at most six bytes, so this prefix has all the bytes that are sampled.
        describe(&prefix(bytes, 6 * SAMPLE_BYTES, form), task.base)?;
        describe(&visible(bytes, form), task.base)
    }
}

/// Returns an excerpt that describes a text of binary data. Its cursor is `whole`, which leads to
/// the data. `None` if the text is readable.
fn describe(text: &[u8], whole: &Cursor) -> Option<Excerpt> {
    let what = base64(text).or_else(|| control(text))?;
    let head: String = String::from_utf8_lossy(text)
        .chars()
        .filter(|character| !character.is_control())
        .take(MAX_PREVIEW_CHARS)
        .collect();
    let body = format!("[{what}, {} bytes, not shown; it begins {head}]", text.len());
    let coverage = Coverage::Described { what, bytes: text.len() as u64 };
    let body = ExcerptBody::Text(body.into_bytes(), Form::Raw);
    Some(Excerpt::new(coverage, Some(whole.clone()), body).complete())
}

/// Returns a description of base64, with or without line breaks, or of a data URI. `None` for other
/// text.
fn base64(text: &[u8]) -> Option<String> {
    let (mime, data) = match text.strip_prefix(b"data:") {
        Some(rest) => {
            let comma = rest
                .get(..SAMPLE_BYTES.min(rest.len()))?
                .windows(8)
                .position(|window| window == b";base64,")?;
            (Some(String::from_utf8_lossy(rest.get(..comma)?).into_owned()), rest.get(comma + 8..)?)
        }
        None => (None, text),
    };
    let head = data.get(..SAMPLE_BYTES.min(data.len()))?;
    let letters: Vec<u8> =
        head.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let alphabet = letters.iter().all(|byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
    });
    let spaces = head.contains(&b' ');
    // Words and hexadecimal digits use the same alphabet, but base64 mixes cases and digits.
    let mixed =
        [u8::is_ascii_lowercase as fn(&u8) -> bool, u8::is_ascii_uppercase, u8::is_ascii_digit]
            .iter()
            .all(|kind| letters.iter().filter(|byte| kind(byte)).count() * 20 > letters.len());
    if spaces || !alphabet || !mixed || letters.len() < 200 {
        return None;
    }
    let quarter = letters.len() / 4 * 4;
    let decoded = letters
        .get(..quarter.min(64))
        .and_then(|head| STANDARD.decode(head).ok())
        .unwrap_or_default();
    let kind = MAGIC_NUMBERS
        .iter()
        .find(|(magic, _)| decoded.starts_with(magic))
        .map(|(_, kind)| (*kind).to_owned());
    let kind = mime.or(kind).map_or_else(String::new, |kind| format!(" of {kind}"));
    Some(format!("base64{kind}, about {} bytes decoded", data.len() / 4 * 3))
}

/// Returns a description of a text of which more than a tenth is control characters or invalid
/// UTF-8. `None` for other text.
fn control(text: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(text.get(..SAMPLE_BYTES.min(text.len()))?).into_owned();
    let odd = |character: &char| {
        (character.is_control() && !matches!(character, '\n' | '\r' | '\t' | '\u{1b}'))
            || *character == '\u{FFFD}'
    };
    let count = head.chars().count();
    (head.chars().filter(odd).count() * 10 > count && count > 0).then(|| "binary data".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str) -> Option<String> {
        describe(text.as_bytes(), &Cursor::new("snapshot", 0, 0)).map(|excerpt| {
            match excerpt.coverage {
                Coverage::Described { what, .. } => what,
                other => format!("{other:?}"),
            }
        })
    }

    #[test]
    fn binary_data_is_described() {
        let bytes: Vec<u8> =
            b"\x89PNG".iter().copied().chain((0..600u32).map(|at| (at * 97 % 251) as u8)).collect();
        let encoded = STANDARD.encode(&bytes);
        assert_eq!(described(&encoded).unwrap(), "base64 of a PNG image, about 606 bytes decoded");
        assert!(
            described(&format!("data:image/webp;base64,{encoded}"))
                .unwrap()
                .starts_with("base64 of image/webp")
        );
        assert_eq!(described(&"\u{1}\u{2}a".repeat(400)).unwrap(), "binary data");
        assert_eq!(described(&"deadbeef00".repeat(400)), None);
        assert_eq!(described(&"The quick brown fox jumps over 13 lazy dogs. ".repeat(30)), None);
    }
}
