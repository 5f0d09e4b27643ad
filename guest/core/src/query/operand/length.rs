//! Lengths of lists and texts: `tags.length`, `len(name)`, `rules.Count`.

use super::{FieldFunction, Operand};
use crate::json::outline::NodeId;
use crate::json::scan::Kind;
use crate::query::field::{FieldName, FieldPath};
use crate::query::records::RecordSet;

/// The names of the length of a list or text, as a member of it.
const MEMBERS: [&str; 3] = ["length", "Length", "len"];
/// The names of the length of a list only, as a member of it. The size of a file is no length of
/// its name.
const LIST_MEMBERS: [&str; 3] = ["count", "Count", "size"];

/// The numbers of values of a field by kind.
#[derive(Default)]
struct FieldKinds {
    lists: u64,
    objects: u64,
    texts: u64,
    /// The number of values of other kinds, without null.
    others: u64,
    /// True if an element of a list is an object.
    has_objects: bool,
    /// True if an element of a list is a text, or an element of XML with one.
    has_texts: bool,
    /// True if an element of a list has another kind.
    has_others: bool,
}

impl FieldKinds {
    fn read(field: &FieldPath, records: &RecordSet<'_>, all: &[NodeId]) -> Self {
        let mut kinds = Self::default();
        for id in all {
            field.visit_whole(&records.outline, *id, &mut |node| {
                let Some((id, node)) = node.and_then(|id| Some((id, records.outline.node(id)?)))
                else {
                    return;
                };
                match node.kind {
                    Kind::Array => {
                        kinds.lists += 1;
                        kinds.read_elements(records, id);
                    }
                    Kind::Object => kinds.objects += 1,
                    Kind::String => kinds.texts += 1,
                    Kind::Scalar if records.outline.raw(node).as_ref() == b"null" => {}
                    Kind::Scalar => kinds.others += 1,
                }
            });
        }
        kinds
    }

    fn read_elements(&mut self, records: &RecordSet<'_>, list: NodeId) {
        for (id, _) in records.outline.children(list) {
            match records.outline.node(id).map(|node| node.kind) {
                Some(Kind::Object) => {
                    self.has_objects = true;
                    self.has_texts |= records.outline.member(id, "#text").is_some();
                }
                Some(Kind::String) => self.has_texts = true,
                _ => self.has_others = true,
            }
        }
    }

    /// Returns true if values beside lists are of the kind of their elements. Converters and APIs
    /// write a list of one element as the element.
    fn has_single(&self) -> bool {
        (self.objects > 0 && self.has_objects)
            || (self.texts > 0 && self.has_texts)
            || (self.others > 0 && self.has_others)
    }
}

impl Operand {
    /// Finds the path of the field, whose name may end in the length of a list or text.
    ///
    /// # Errors
    /// Returns a message for the caller if no record has the field, or if its values have no
    /// length.
    pub(super) fn bind_field(
        &mut self,
        records: &RecordSet<'_>,
        all: &[NodeId],
    ) -> Result<(), String> {
        if let Some(field) = self.name.find(records, all) {
            self.field = field;
        } else if let Some((owner, field)) = self.list_of_length(records, all) {
            (self.name, self.field) = (owner, field);
            self.function = Some(FieldFunction::Length);
        } else if let Some((name, field)) = self.name.find_alike(records, all) {
            // The description of the query shows the full name.
            (self.name, self.field) = (name, field);
        } else {
            self.field = self.name.resolve(records, all)?;
        }
        if let Some(FieldFunction::List(function)) = self.function {
            return self.check_list(function, records, all);
        }
        if !self.is_length() {
            return Ok(());
        }
        let kinds = FieldKinds::read(&self.field, records, all);
        if self.function == Some(FieldFunction::Count) && kinds.lists == 0 {
            return Err(format!(
                "count({0}) counts the elements of a list, and no record has one at {0}: write length({0})",
                self.field
            ));
        }
        let is_count = kinds.has_single();
        self.function = Some(if is_count { FieldFunction::Count } else { FieldFunction::Length });
        Ok(())
    }

    /// Returns true if the operand is a length.
    pub(in crate::query) fn is_length(&self) -> bool {
        matches!(self.function, Some(FieldFunction::Length | FieldFunction::Count))
    }

    /// Returns true if the operand is of a whole list, not of one of its elements.
    pub(in crate::query) fn is_of_list(&self) -> bool {
        self.is_length() || matches!(self.function, Some(FieldFunction::List(_)))
    }

    /// Returns a note if values that are no lists count as one element.
    pub(in crate::query) fn length_note(&self) -> Option<String> {
        (self.function == Some(FieldFunction::Count)).then(|| {
            format!(
                "{} is a list in some records, and counts as one element in the others",
                self.field
            )
        })
    }

    /// Returns the list or text whose length the name denotes, with its path. `None` if the last
    /// word is none of a length, or if some values are of another kind: an object may have a member
    /// of that name elsewhere.
    fn list_of_length(
        &self,
        records: &RecordSet<'_>,
        all: &[NodeId],
    ) -> Option<(FieldName, FieldPath)> {
        let (owner, word) = self.name.clone().split_last().filter(|_| self.function.is_none())?;
        let is_of_list = LIST_MEMBERS.contains(&word.as_str());
        if !is_of_list && !MEMBERS.contains(&word.as_str()) {
            return None;
        }
        let field = owner.find(records, all)?;
        let kinds = FieldKinds::read(&field, records, all);
        let is_known = kinds.objects + kinds.others == 0 && (kinds.lists == 0 || kinds.texts == 0);
        let has_length = kinds.lists > 0 || (!is_of_list && kinds.texts > 0);
        (is_known && has_length).then_some((owner, field))
    }
}
