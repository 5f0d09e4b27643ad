//! What is cut: a document or a text of an answer, and what is known of it.

use crate::json::survey::Survey;
use crate::json::text::Form;
use crate::text::ends::Ends;
use crate::text::lines::Lined;

/// A payload: a document or text, and where it stands.
pub struct Payload<'a, 's> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// How they stand.
    pub form: Form,
    /// What it holds, where it is JSON.
    pub survey: Option<&'s Survey>,
    /// Where its lines end, where that is known.
    pub ends: Option<&'s Ends>,
    /// Whether its items are content blocks.
    pub blocks: bool,
}

impl Payload<'_, '_> {
    /// Its lines. O(n), where it is not known where they end.
    #[must_use]
    pub fn lined(&self) -> Lined<'_> {
        match self.ends {
            Some(ends) => Lined::known(self.bytes, self.form, ends),
            None => Lined::of(self.bytes, self.form),
        }
    }
}
