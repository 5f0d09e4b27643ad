//! The fields from which a selection chooses.

use super::{cost, is_leaf};
use crate::fields::priority::FieldPriority;
use crate::shape::condense::schema::{FieldId, Schema};

/// Returns true if a field is in a list inside a record, so that its cost depends on the maximum
/// length of such lists.
fn is_within_list(schema: &Schema, at: FieldId) -> bool {
    let parent = |at: FieldId| schema.fields.get(at).and_then(|field| field.parent);
    std::iter::successors(parent(at), |at| parent(*at))
        .filter_map(|at| schema.fields.get(at))
        .any(|field| field.in_record && field.elements.iter().any(|elements| *elements > 0))
}

/// A field with plain values (no objects or lists), which selection keeps or removes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectableField {
    /// The priority of the field. Fields that policy selects count as [`FieldPriority::Identity`],
    /// so that they are kept first.
    pub(in crate::shape::condense) priority: FieldPriority,
    /// The section of the field. See [`Field::section`].
    pub(super) section: u8,
    /// The number of keys on the path from the record. A list inside a record counts as one.
    level: u32,
    /// The average cost of one value of the field, shortened to 48 characters, in 1/[`COST_SCALE`]
    /// token.
    pub(in crate::shape::condense) cost: u64,
    /// The field in its schema.
    pub field: FieldId,
    /// True if the cost of the field depends on the maximum length of lists inside records.
    pub(super) varies: bool,
}

impl SelectableField {
    /// Returns all selectable fields in the order of selection. If `wanted` is given, returns only
    /// the fields for which it is true, which policy selects.
    #[must_use]
    pub fn all(schema: &Schema, wanted: Option<&[bool]>) -> Vec<Self> {
        let allowed = |at: FieldId| wanted.is_none_or(|wanted| wanted.get(at) == Some(&true));
        let fields = schema.fields.iter().enumerate();
        let varies =
            fields.clone().any(|(at, field)| field.is_record() && is_within_list(schema, at));
        let mut leaves: Vec<Self> = fields
            .filter(|(at, field)| allowed(*at) && field.count > 0 && is_leaf(field))
            .map(|(at, field)| Self {
                priority: if wanted.is_some() { FieldPriority::Identity } else { field.priority },
                section: field.section,
                level: schema.level_in_record(at) + u32::from(field.nested),
                cost: cost(field, 1) / field.count,
                field: at,
                varies: varies || is_within_list(schema, at),
            })
            .collect();
        leaves.sort_unstable();
        leaves
    }
}
