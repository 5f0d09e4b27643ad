//! Fields of records that are attributes of XML, whose names have the sign `@` in JSON.

use super::RecordSet;
use crate::fields::Mask;
use crate::query::projected::Projected;

impl RecordSet<'_> {
    /// Returns a projection in which missing fields are attributes of XML: `id` is `@id` then, as
    /// it is in conditions. Returns `projected` if no field is one.
    #[must_use]
    pub(in crate::query) fn project_attributes(
        &self,
        fields: &str,
        projected: Option<Projected>,
        are_chosen: bool,
    ) -> Option<Projected> {
        let is_missing = |name: &str| {
            projected.as_ref().is_none_or(|found| found.missing.iter().any(|other| other == name))
        };
        let missing = projected.as_ref().map_or(usize::MAX, |found| found.missing.len());
        // A second projection costs as much as the first.
        let has_attributes = || memchr::memmem::find(self.outline.bytes(), b"\"@").is_some();
        if missing == 0 || !has_attributes() {
            return projected;
        }
        let mask = Mask::parse(&with_attributes(fields, is_missing)).ok();
        let attributes = mask.and_then(|mask| self.project(&mask, are_chosen));
        let attributes = attributes.filter(|found| found.missing.len() < missing);
        attributes.or(projected)
    }
}

/// Returns the fields with the sign of XML attributes before the last key of those that are
/// missing.
fn with_attributes(fields: &str, is_missing: impl Fn(&str) -> bool) -> String {
    let names = fields.split(',').map(str::trim).map(|name| {
        if !is_missing(name) || name.contains(['@', '(', '[', '/', '*']) {
            return name.to_owned();
        }
        match name.rsplit_once('.') {
            Some((path, key)) => format!("{path}.@{key}"),
            None => format!("@{name}"),
        }
    });
    names.collect::<Vec<_>>().join(",")
}
