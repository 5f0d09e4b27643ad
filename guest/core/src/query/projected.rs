//! Projections of a document or of its records to selected fields.

use super::names::join_names;
use crate::fields::{Mask, Projection};
use crate::json::locate_lists::{DocumentInfo, List};
use crate::json::scan::{Kind, Scanner};
use crate::json::text::Form;

/// The maximum number of missing fields that a note names.
const MAX_NAMED_FIELDS: usize = 8;

/// A callback that returns true if the projected records suffice, so that the projection stops. Its
/// argument is the JSON list so far, without the closing bracket.
pub type IsEnough<'e> = &'e mut dyn FnMut(&[u8]) -> bool;

/// Selected fields of a document, or of each of its records.
pub struct Projected {
    /// Unescaped JSON: a list with the fields of each record, or the fields of the document.
    pub bytes: Vec<u8>,
    /// True if the fields are those of the document, false if they are those of its records.
    pub of_document: bool,
    /// True if the paths of the fields start at the document, but select fields of records.
    pub within: bool,
    /// True if the projection stopped before the last record, because the [`IsEnough`] callback
    /// returned true.
    pub is_partial: bool,
    /// The selected fields that occur nowhere. Empty if the projection stopped early.
    pub missing: Vec<String>,
}

impl Projected {
    /// Returns an error if a missing field is an existing one with an alias, as in `price as cost`.
    ///
    /// # Errors
    /// Returns a message for the caller that names the field.
    pub(super) fn check_names(&self) -> Result<(), String> {
        let renamed = self.missing.iter().find_map(|name| {
            let (field, other) = name.split_once(" as ").or_else(|| name.split_once(" AS "))?;
            Some((field.trim(), other.trim()))
        });
        renamed.map_or(Ok(()), |(field, other)| {
            Err(format!(
                "fields gives no other names: write {field}, or jq: map({{{other}: .{field}}})"
            ))
        })
    }

    /// Returns a note about selected fields that occur nowhere. Empty if there are none.
    pub(super) fn note(&self) -> String {
        match self.missing.as_slice() {
            [] => String::new(),
            missing => format!("; no field {}", join_names(missing, MAX_NAMED_FIELDS)),
        }
    }
}

/// A document from which fields are selected, with the positions of its records.
pub(super) struct ProjectionSource<'a> {
    /// The bytes of the payload that contains the document.
    pub bytes: &'a [u8],
    /// The form of the payload: raw, or escaped as in a JSON string.
    pub form: Form,
    /// Offset in `bytes` of the document, or of the value in it that a path selected.
    pub root: usize,
    /// Offsets in `bytes` of the records. `None` if the document has no list of records.
    pub records: Option<&'a [usize]>,
    /// Keys from the document to the list of records. `None` if the list is the document itself.
    pub keys: Option<&'a [String]>,
    /// True if a condition selected the records. Fields are then not taken from the document
    /// itself.
    pub are_chosen: bool,
}

impl ProjectionSource<'_> {
    /// Copies the fields in `mask` from the document if it has all of them. Otherwise copies them
    /// from each record, until `is_enough` returns true. `names` returns the document's member
    /// names. Returns `None` if no field is found or the JSON is invalid. O(document).
    pub(super) fn project(
        &self,
        mask: &Mask,
        names: impl FnOnce() -> Vec<String>,
        is_enough: IsEnough<'_>,
    ) -> Option<Projected> {
        let Some(records) = self.records else { return self.document(mask) };
        let Some(keys) = self.keys else { return self.each(records, mask, is_enough) };
        // On a list under `bookings`, the paths `bookings.id` and `id` mean the same. Beside a path
        // in another member, they are those of the document.
        let has_others = || {
            let is_other = |name: &str| keys.first().is_none_or(|key| key != name);
            let inside = |name: &str| mask.member(name).is_some_and(|member| !member.is_end());
            mask.names().any(|name| is_other(name) && inside(name))
        };
        if let Some(inner) = mask.descend(keys).filter(|inner| !inner.holds(&[])) {
            if has_others()
                && let Some(document) = self.document(mask)
            {
                return Some(document);
            }
            let each = self.each(records, inner, is_enough)?;
            return Some(Projected { within: true, ..each });
        }
        if self.are_chosen {
            return self.each(records, mask, is_enough);
        }
        let names = names();
        // The records may be inside a member that each of them has too, such as `data`.
        if mask.names().all(|name| names.iter().any(|known| known == name))
            && let Some(document) = self.document(mask)
        {
            return Some(document);
        }
        self.each(records, mask, is_enough).or_else(|| self.document(mask))
    }

    fn document(&self, mask: &Mask) -> Option<Projected> {
        let mut projection = Projection::new(mask, self.form);
        let copied = projection.copy(self.bytes, self.root).ok()?;
        let missing = projection.missing();
        let bytes = projection.out;
        copied.then_some(Projected {
            bytes,
            of_document: true,
            within: false,
            is_partial: false,
            missing,
        })
    }

    fn each(&self, records: &[usize], mask: &Mask, is_enough: IsEnough<'_>) -> Option<Projected> {
        let mut projection = Projection::new(mask, self.form);
        let (mut any, mut left) = (records.is_empty(), records.len());
        projection.out.push(b'[');
        for start in records {
            if left < records.len() {
                projection.out.push(b',');
            }
            let copied = projection.copy(self.bytes, *start).ok()?;
            any |= copied;
            if !copied {
                projection.out.extend_from_slice(b"{}");
            }
            left -= 1;
            if any && is_enough(&projection.out) {
                break;
            }
        }
        projection.out.push(b']');
        let is_partial = left > 0;
        let missing = if is_partial { Vec::new() } else { projection.missing() };
        let bytes = projection.out;
        any.then_some(Projected { bytes, of_document: false, within: false, is_partial, missing })
    }
}

/// Copies the fields in `mask` from the document described by `survey`, or from each of its
/// records. `list` is the list of records, if there is one. Returns `None` if the decision needs an
/// outline of the document.
pub(super) fn project(
    bytes: &[u8],
    form: Form,
    survey: &DocumentInfo,
    list: Option<&List>,
    mask: &Mask,
    is_enough: IsEnough<'_>,
) -> Option<Projected> {
    let starts: Option<Vec<usize>> =
        list.map(|list| list.items.iter().map(|item| item.start).collect());
    let source = ProjectionSource {
        bytes,
        form,
        root: survey.root.start,
        records: starts.as_deref(),
        keys: list.map(|list| list.path.as_slice()).filter(|path| !path.is_empty()),
        are_chosen: false,
    };
    let names = || member_names(bytes, form, survey, list).unwrap_or_default();
    source.project(mask, names, is_enough)
}

/// Returns the member names of the document described by `survey`. Skips the value of `list`, which
/// is validated already. Returns `None` if the JSON is invalid.
fn member_names(
    bytes: &[u8],
    form: Form,
    survey: &DocumentInfo,
    list: Option<&List>,
) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut scanner = Scanner::starting_at(bytes, form, survey.root.start);
    scanner
        .object(|scanner, key| {
            names.push(scanner.decode(&key));
            let kind = scanner.kind()?;
            match list.filter(|list| list.span.start == scanner.position()) {
                Some(list) if kind == Kind::Array => scanner.advance_to(list.span.end),
                _ => {
                    scanner.skip_unchecked()?;
                }
            }
            Ok(())
        })
        .ok()?;
    Some(names)
}
