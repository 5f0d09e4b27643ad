//! A payload: a document or a text of an answer, and what is known of it.

use crate::json::scan::Kind;
use crate::json::survey::Survey;
use crate::json::text::Form;
use crate::text::ends::Ends;
use crate::text::lines::Lined;

/// A document or text that may be reduced.
pub struct Payload<'a, 's> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The form of the bytes: raw, or escaped as in a JSON string.
    pub form: Form,
    /// The structure of the document, if the bytes are JSON.
    pub survey: Option<&'s Survey>,
    /// The ends of the lines, if they are known.
    pub ends: Option<&'s Ends>,
    /// True if the items are content blocks.
    pub blocks: bool,
}

impl Payload<'_, '_> {
    /// Returns the lines. O(n) if their ends are not known.
    #[must_use]
    pub fn lined(&self) -> Lined<'_> {
        match self.ends {
            Some(ends) => Lined::known(self.bytes, self.form, ends),
            None => Lined::of(self.bytes, self.form),
        }
    }

    /// Returns true if this is a text: no JSON, or a JSON scalar.
    #[must_use]
    pub fn is_text(&self) -> bool {
        self.survey.is_none_or(|survey| survey.kind == Kind::Scalar)
    }
}
