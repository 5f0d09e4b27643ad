//! Binary data in texts: detects and describes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The number of leading bytes of a text that are examined to detect binary data.
pub const SAMPLE_BYTES: usize = 4_096;
/// The minimum number of characters of a text that is detected as base64.
const MIN_BASE64_CHARS: usize = 200;
/// The minimum number of characters of a text with few digits that is detected as base64. A text
/// that begins as a well-known format may be shorter.
const MIN_PERIODIC_CHARS: usize = 1_024;
/// The minimum length, in characters, of the lines into which encoders break base64.
const MIN_LINE_CHARS: usize = 48;

/// The leading bytes of well-known binary formats, with the names of the formats.
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

/// Returns a description of base64, with or without line breaks, or of a data URI with base64. Only
/// the first [`SAMPLE_BYTES`] of the data are examined. `None` for other text, for data of fewer
/// than 200 characters, and for data that may be words or hexadecimal digits.
#[must_use]
pub fn describe_base64(text: &[u8]) -> Option<String> {
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
    // Most texts are prose, and have a space soon.
    let is_prose = head.iter().take(MIN_LINE_CHARS).any(|byte| *byte == b' ');
    if is_prose || head.len() < MIN_BASE64_CHARS {
        return None;
    }
    let letters: Vec<u8> =
        head.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let alphabet = letters.iter().all(|byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_')
    });
    if !alphabet || letters.len() < MIN_BASE64_CHARS || !has_equal_lines(head) {
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
    // Words, hexadecimal digits and sequences use the same alphabet, but base64 mixes cases and
    // digits. That of repeated bytes may have no digits.
    let share = |is: fn(&u8) -> bool| letters.iter().filter(|byte| is(byte)).count() * 20;
    let cases = share(u8::is_ascii_lowercase).min(share(u8::is_ascii_uppercase)) > letters.len();
    let mixed =
        cases && (share(u8::is_ascii_digit) > letters.len() || letters.len() >= MIN_PERIODIC_CHARS);
    if !mixed && kind.is_none() && mime.is_none() {
        return None;
    }
    let kind = mime.or(kind).map_or_else(String::new, |kind| format!(" of {kind}"));
    Some(format!("base64{kind}, about {} bytes decoded", data.len() / 4 * 3))
}

/// Returns true if a text has no white space, or breaks lines as encoders do: all lines but the
/// last have the same length.
fn has_equal_lines(text: &[u8]) -> bool {
    let mut lines = text.trim_ascii_end().split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let width = lines.next().map_or(0, <[u8]>::len);
    let mut others = lines.peekable();
    let mut equal = others.peek().is_none() || width >= MIN_LINE_CHARS;
    while let Some(line) = others.next() {
        equal &= line.len() == width || (others.peek().is_none() && line.len() < width);
    }
    equal && !text.iter().any(|byte| matches!(byte, b' ' | b'\t'))
}

/// Describes a text if more than a tenth of its first [`SAMPLE_BYTES`] is control characters or
/// invalid UTF-8. Tabs, line breaks and escape characters do not count. `None` for other texts.
#[must_use]
pub fn describe_control(text: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(text.get(..SAMPLE_BYTES.min(text.len()))?).into_owned();
    let odd = |character: &char| {
        (character.is_control() && !matches!(character, '\n' | '\r' | '\t' | '\u{1b}'))
            || *character == '\u{FFFD}'
    };
    let count = head.chars().count();
    (head.chars().filter(odd).count() * 10 > count && count > 0).then(|| "binary data".to_owned())
}
