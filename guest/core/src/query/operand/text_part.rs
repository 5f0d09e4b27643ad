//! The parts of a text that is joined from fields.

use super::Operand;
use crate::json::outline::{NodeId, Outline};
use crate::query::records::RecordSet;
use crate::query::value::Value;

/// A part of a joined text. With both members, it is the field if a record has it.
#[derive(Clone, Debug)]
pub(in crate::query) struct TextPart {
    pub(super) text: Option<String>,
    pub(super) field: Option<Box<Operand>>,
}

impl TextPart {
    pub(super) fn of_text(text: String) -> Self {
        Self { text: Some(text), field: None }
    }

    /// Finds the path of the field in the records.
    ///
    /// # Errors
    /// Returns a message for the caller if no record has a field.
    fn bind(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        let Some(field) = &mut self.field else { return Ok(()) };
        match (field.bind(records, all), &self.text) {
            (Err(_), Some(_)) => self.field = None,
            (Err(reason), None) => return Err(reason),
            (Ok(()), _) => self.text = None,
        }
        Ok(())
    }
}

/// Finds the paths of the fields in the records.
///
/// # Errors
/// Returns a message for the caller if no record has a field, or if no part is a field.
pub(super) fn bind(
    parts: &mut [TextPart],
    records: &RecordSet<'_>,
    all: &[NodeId],
) -> Result<(), String> {
    parts.iter_mut().try_for_each(|part| part.bind(records, all))?;
    match parts.iter().any(|part| part.field.is_some()) {
        true => Ok(()),
        false => Err("no part of the joined text is a field of the records".to_owned()),
    }
}

/// Returns the text of all parts. `None` if a field has no value, or several.
pub(super) fn joined(parts: &[TextPart], outline: &Outline<'_>, id: NodeId) -> Option<String> {
    let mut joined = String::new();
    for part in parts {
        let Some(field) = &part.field else {
            joined.push_str(part.text.as_deref().unwrap_or_default());
            continue;
        };
        let (mut text, mut count) = (None, 0);
        field.visit(outline, id, &mut |value: Value<'_>| {
            text = value.text().map(str::to_owned);
            count += 1;
        });
        joined.push_str(&text.filter(|_| count == 1)?);
    }
    Some(joined)
}
