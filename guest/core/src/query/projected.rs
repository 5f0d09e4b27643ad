//! Chosen fields of a document: of its records, or of itself.

use super::records::list;
use crate::json::scan::{Kind, Scanner};
use crate::json::survey::{List, Survey};
use crate::json::text::Form;
use crate::policy::Limits;
use crate::shape::project::{Mask, Projection};

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
    /// The fields, and whether they are those of the document: where it has all of them they are, else those of each record. None where neither has any, or is broken.
    /// `names`: of the members of the document. O(document).
    pub(super) fn project(
        &self,
        mask: &Mask,
        names: impl FnOnce() -> Vec<String>,
    ) -> Option<(Vec<u8>, bool)> {
        let Some(records) = self.records else { return self.document(mask) };
        let Some(keys) = self.keys else { return self.each(records, mask) };
        // `bookings.id` and `id` are the same on a list of bookings.
        let inner = keys.iter().try_fold(mask, |mask, key| mask.member(key));
        if let Some(inner) = inner.filter(|inner| !inner.holds(&[])) {
            return self.each(records, inner);
        }
        let names = names();
        if mask.names().all(|name| names.iter().any(|known| known == name)) {
            return self.document(mask);
        }
        self.each(records, mask).or_else(|| self.document(mask))
    }

    fn document(&self, mask: &Mask) -> Option<(Vec<u8>, bool)> {
        let mut projection = Projection::of(mask, self.form);
        let copied = projection.copy(self.bytes, self.root).ok()?;
        copied.then_some((projection.out, true))
    }

    fn each(&self, records: &[usize], mask: &Mask) -> Option<(Vec<u8>, bool)> {
        let mut projection = Projection::of(mask, self.form);
        let mut any = false;
        for start in records {
            projection.out.push(if projection.out.is_empty() { b'[' } else { b',' });
            let copied = projection.copy(self.bytes, *start).ok()?;
            any |= copied;
            if !copied {
                projection.out.extend_from_slice(b"{}");
            }
        }
        if records.is_empty() {
            projection.out.push(b'[');
        }
        projection.out.push(b']');
        (any || records.is_empty()).then_some((projection.out, false))
    }
}

/// Chosen fields of a document that was surveyed, and of how many records they are; none of them: of the document. None where that needs a closer look.
pub(super) fn project(
    bytes: &[u8],
    form: Form,
    survey: &Survey,
    limits: &Limits,
    mask: &Mask,
) -> Option<(Vec<u8>, Option<usize>)> {
    let list = list(survey, limits);
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
    let (projected, of_document) = source.project(mask, names)?;
    Some((projected, list.filter(|_| !of_document).map(|list| list.items.len())))
}

/// The names of the members of a document, whose list is not read again. None where it is broken.
fn names(bytes: &[u8], form: Form, survey: &Survey, list: Option<&List>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut scanner = Scanner::starting_at(bytes, form, survey.root.start);
    scanner
        .object(|scanner, key| {
            names.push(scanner.decode(&key));
            match list.filter(|list| list.span.start == scanner.position()) {
                Some(list) if scanner.kind()? == Kind::Array => scanner.jump(list.span.end),
                _ => {
                    scanner.pass()?;
                }
            }
            Ok(())
        })
        .ok()?;
    Some(names)
}
