//! A payload: a document or a text of an answer, and what is known of it.

use crate::json::locate_lists::DocumentInfo;
use crate::json::scan::Kind;
use crate::json::text::Form;
use crate::text::line_index::LineIndex;
use crate::text::lines::IndexedText;

/// A document or text that may be reduced.
pub struct Payload<'a, 's> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The form of the bytes: raw, or escaped as in a JSON string.
    pub form: Form,
    /// The structure of the document, if the bytes are JSON.
    pub survey: Option<&'s DocumentInfo>,
    /// The ends of the lines, if they are known.
    pub ends: Option<&'s LineIndex>,
    /// True if the items are content blocks.
    pub blocks: bool,
}

impl Payload<'_, '_> {
    /// Returns the lines. O(n) if their ends are not known.
    #[must_use]
    pub fn lined(&self) -> IndexedText<'_> {
        match self.ends {
            Some(ends) => IndexedText::with_index(self.bytes, self.form, ends),
            None => IndexedText::new(self.bytes, self.form),
        }
    }

    /// Returns true if this is a text: no JSON, or a JSON scalar.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.survey.is_none_or(|survey| survey.kind == Kind::Scalar)
    }
}
