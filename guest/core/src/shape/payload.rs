//! A payload: a JSON document or a text in an answer, with its located lists and lines.

use crate::json::Span;
use crate::json::locate_lists::DocumentInfo;
use crate::json::scan::Kind;
use crate::json::text::{Form, boundary, visible};
use crate::snapshot::index::Words;
use crate::text::line_index::LineIndex;
use crate::text::lines::IndexedText;
use crate::text::shorten::truncation_mark;

/// A JSON document or text that may be reduced: a part of an upstream's answer, or the result of a
/// transformation of it.
pub struct Payload<'a, 's> {
    /// The bytes of the document or text.
    pub bytes: &'a [u8],
    /// The form of the bytes: raw, or escaped as in a JSON string.
    pub form: Form,
    /// The positions of lists and texts in the document. `None` if the bytes are not JSON.
    pub survey: Option<&'s DocumentInfo>,
    /// The line index of `bytes`, if it was computed already.
    pub ends: Option<&'s LineIndex>,
    /// True if `bytes` are the content blocks of a result, as a JSON array.
    pub blocks: bool,
}

impl Payload<'_, '_> {
    /// Returns the bytes as a text with a line index. O(n) if `ends` is `None`.
    #[must_use]
    pub fn lined(&self) -> IndexedText<'_> {
        match self.ends {
            Some(ends) => IndexedText::with_index(self.bytes, self.form, ends),
            None => IndexedText::new(self.bytes, self.form),
        }
    }

    /// Returns the words before and after the document, each shortened to about `max_bytes`. Empty
    /// if the payload is a document alone, or a text.
    #[must_use]
    pub fn words(&self, max_bytes: usize) -> Words {
        let Some(survey) = self.survey.filter(|survey| survey.kind != Kind::Scalar) else {
            return Words::default();
        };
        let part = |span: Span| {
            let text = visible(self.bytes.get(span).unwrap_or_default(), self.form);
            if text.trim_ascii().is_empty() { Vec::new() } else { beginning(&text, max_bytes) }
        };
        Words { before: part(0..survey.root.start), after: part(survey.root.end..self.bytes.len()) }
    }

    /// Returns true if the payload is read as text: it is not JSON, or is a JSON scalar.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.survey.is_none_or(|survey| survey.kind == Kind::Scalar)
    }
}

/// Returns the first `max_bytes` of a text, approximately. Ends with a truncation mark if the text
/// is longer.
fn beginning(text: &[u8], max_bytes: usize) -> Vec<u8> {
    if text.len() <= max_bytes {
        return text.to_vec();
    }
    let (shown, rest) =
        text.split_at_checked(boundary(text, max_bytes, Form::Raw)).unwrap_or((text, &[]));
    let omitted = String::from_utf8_lossy(rest).chars().count();
    [shown, truncation_mark(omitted, "characters").as_bytes(), b"\n"].concat()
}
