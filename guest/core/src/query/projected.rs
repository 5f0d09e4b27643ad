//! Chosen fields of a document: of its records, or of itself.

use super::IsEnough;
use crate::json::scan::{Kind, Scanner};
use crate::json::survey::{List, Survey};
use crate::json::text::Form;
use crate::shape::project::{Mask, Projection};

/// Chosen fields.
pub struct Projected {
    /// JSON that is not escaped: those of the records as a list, or of the document.
    pub bytes: Vec<u8>,
    /// Whether they are those of the document.
    pub of_document: bool,
    /// Whether they are named from the document on, though they are of records.
    pub within: bool,
    /// Whether they are of the first records alone, which were enough.
    pub part: bool,
}

/// What fields are chosen of.
pub(super) struct Source<'a> {
    /// The document.
    pub bytes: &'a [u8],
    /// How it stands.
    pub form: Form,
    /// Where it begins, or the value that a path led to.
    pub root: usize,
    /// Where its records begin, if it has a list of them.
    pub records: Option<&'a [usize]>,
    /// The keys that lead to the list, where it stands inside the document.
    pub keys: Option<&'a [String]>,
}

impl Source<'_> {
    /// The fields: where the document has all of them its own, else those of each record, as far as they are not `enough`. None where neither has any, or is broken.
    /// `names`: of the members of the document. O(document).
    pub(super) fn project(
        &self,
        mask: &Mask,
        names: impl FnOnce() -> Vec<String>,
        is_enough: IsEnough<'_>,
    ) -> Option<Projected> {
        let Some(records) = self.records else { return self.document(mask) };
        let Some(keys) = self.keys else { return self.each(records, mask, is_enough) };
        // `bookings.id` and `id` are the same on a list of bookings.
        if let Some(inner) = mask.at(keys).filter(|inner| !inner.holds(&[])) {
            let each = self.each(records, inner, is_enough)?;
            return Some(Projected { within: true, ..each });
        }
        let names = names();
        if mask.names().all(|name| names.iter().any(|known| known == name)) {
            return self.document(mask);
        }
        self.each(records, mask, is_enough).or_else(|| self.document(mask))
    }

    fn document(&self, mask: &Mask) -> Option<Projected> {
        let mut projection = Projection::of(mask, self.form);
        let copied = projection.copy(self.bytes, self.root).ok()?;
        let bytes = projection.out;
        copied.then_some(Projected { bytes, of_document: true, within: false, part: false })
    }

    fn each(&self, records: &[usize], mask: &Mask, is_enough: IsEnough<'_>) -> Option<Projected> {
        let mut projection = Projection::of(mask, self.form);
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
        let bytes = projection.out;
        any.then_some(Projected { bytes, of_document: false, within: false, part: left > 0 })
    }
}

/// Chosen fields of a document that was surveyed, and of the list whose items are its records, if it has one. None where that needs a closer look.
pub(super) fn project(
    bytes: &[u8],
    form: Form,
    survey: &Survey,
    list: Option<&List>,
    mask: &Mask,
    is_enough: IsEnough<'_>,
) -> Option<Projected> {
    let starts: Option<Vec<usize>> =
        list.map(|list| list.items.iter().map(|item| item.start).collect());
    let source = Source {
        bytes,
        form,
        root: survey.root.start,
        records: starts.as_deref(),
        keys: list.map(|list| list.path.as_slice()).filter(|path| !path.is_empty()),
    };
    let names = || names(bytes, form, survey, list).unwrap_or_default();
    source.project(mask, names, is_enough)
}

/// The names of the members of a document, whose list is not read again. None where it is broken.
fn names(bytes: &[u8], form: Form, survey: &Survey, list: Option<&List>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut scanner = Scanner::starting_at(bytes, form, survey.root.start);
    scanner
        .object(|scanner, key| {
            names.push(scanner.decode(&key));
            let kind = scanner.kind()?;
            match list.filter(|list| list.span.start == scanner.position()) {
                Some(list) if kind == Kind::Array => scanner.jump(list.span.end),
                _ => {
                    scanner.pass()?;
                }
            }
            Ok(())
        })
        .ok()?;
    Some(names)
}
