//! A payload: a JSON document or a text in an answer, with its located lists and lines.

use crate::json::locate_lists::DocumentInfo;
use crate::json::scan::Kind;
use crate::json::text::Form;
use crate::text::line_index::LineIndex;
use crate::text::lines::IndexedText;

/// A JSON document or text that may be reduced: a part of an upstream's answer, or the result of a
/// transformation of it.
pub struct Payload<'a, 's> {
    /// The bytes of the document or text.
    pub bytes: &'a [u8],
    /// The form of the bytes: raw, or escaped as in a JSON string.
    pub form: Form,
    /// The positions of lists and texts in the document. `None` if the bytes are not JSON.
    pub survey: Option<&'s DocumentInfo>,
    /// The line index of `bytes`. `None` if no earlier step created one.
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

    /// Returns true if the payload is to be read as text: it is not JSON, or is a JSON scalar.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.survey.is_none_or(|survey| survey.kind == Kind::Scalar)
    }
}
