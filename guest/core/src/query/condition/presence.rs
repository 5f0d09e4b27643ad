//! Tests for the presence of a field, which languages read differently for null and for empty
//! elements of XML: `exists(note)`, `has(note)`.

use super::build::negate;
use super::{Check, Leaf, Operator, Test};
use crate::json::outline::NodeId;
use crate::json::scan::Kind;
use crate::query::operand::Operand;
use crate::query::records::RecordSet;

/// Creates a test for the presence of a field with a value.
pub(super) fn presence(operand: Operand) -> Test {
    let mut test = Test::leaf(operand, Check::IsNull);
    if let Test::Leaf(leaf) = &mut test {
        leaf.is_presence = true;
    }
    negate(test)
}

impl Leaf {
    /// Returns true if the right side of the comparison is an empty text.
    pub(super) fn is_empty_text(&self) -> bool {
        matches!(&self.check, Check::Compare(Operator::Equal, literal) if literal.text.is_empty())
    }

    /// Returns true if the right side of the comparison stands for an absent value: an empty text,
    /// or a word such as `missing`.
    pub(super) fn is_absent_text(&self) -> bool {
        self.is_empty_text()
            || matches!(&self.check, Check::Compare(Operator::Equal, literal)
                if literal.names_absence())
    }

    /// Returns a note if a test for presence leaves out records in which the field is null or an
    /// empty element, and others lack it.
    pub(super) fn presence_note(&self, records: &RecordSet<'_>, all: &[NodeId]) -> Option<String> {
        if !self.is_presence || self.operand.function.is_some() || self.operand.is_computed() {
            return None;
        }
        let field = &self.operand.field;
        let (mut nulls, mut absent) = (0u64, 0u64);
        for id in all {
            field.visit_whole(&records.outline, *id, &mut |node| {
                let node = node.and_then(|id| records.outline.node(id));
                let is_null = node.is_some_and(|node| {
                    node.kind == Kind::Scalar && records.outline.raw(node).as_ref() == b"null"
                });
                nulls += u64::from(is_null);
                absent += u64::from(node.is_none());
            });
        }
        if nulls == 0 || absent == 0 {
            return None;
        }
        let list = records.list_keys();
        let list = if list.is_empty() { String::new() } else { format!("$.{}", list.join(".")) };
        Some(format!(
            "{field} is null or empty in {nulls} records, which count as those without it; for records that have it at all, path: {list}[?@.{field}]"
        ))
    }
}
