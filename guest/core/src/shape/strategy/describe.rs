//! Describes data that has no readable short form.

use super::{Strategy, Task};
use crate::json::text::{Form, prefix, visible};
use crate::shape::binary::{SAMPLE_BYTES, describe_base64, describe_control};
use crate::shape::payload::Payload;
use crate::shape::{Coverage, Excerpt, ExcerptBody};
use crate::snapshot::Cursor;

/// The maximum number of characters of binary data that its description quotes.
const MAX_PREVIEW_CHARS: usize = 48;

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

/// Returns an excerpt that describes a text of binary data. `whole` becomes its cursor to the data.
/// `None` if the text is readable.
fn describe(text: &[u8], whole: &Cursor) -> Option<Excerpt> {
    let what = describe_base64(text).or_else(|| describe_control(text))?;
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

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

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
        let lines = "YWJjZGVmYWJjZGVmYWJjZGVmYWJjZGVmYWJjZGVmYWJjZGVmYWJjZGVmYWJjZGVm\r\n";
        let empty = STANDARD.encode([b"\x89PNG".as_slice(), &[0; 900]].concat());
        for periodic in [STANDARD.encode(b"abc".repeat(900)), lines.repeat(40), empty] {
            assert!(described(&periodic).unwrap().starts_with("base64"), "{periodic}");
        }
        assert_eq!(described(&"GATTACA".repeat(400)), None);
        assert_eq!(described(&"ReadFile2\nWriteFileAt3\n".repeat(90)), None);
        assert_eq!(described(&"deadbeef00".repeat(400)), None);
        assert_eq!(described(&"The quick brown fox jumps over 13 lazy dogs. ".repeat(30)), None);
    }
}
