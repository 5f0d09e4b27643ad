//! Tests for the presence of a field, which languages read differently for null and for empty
//! elements of XML: `exists(note)`, `has(note)`.

use super::build::negate;
use super::{Check, Leaf, Operator, Test};
use crate::json::outline::NodeId;
use crate::json::scan::Kind;
use crate::query::operand::Operand;
use crate::query::records::RecordSet;
use crate::query::value::quote;

/// Creates a test for the presence of a field with a value.
pub(super) fn presence(operand: Operand) -> Test {
    let mut test = Test::leaf(operand, Check::IsNull);
    if let Test::Leaf(leaf) = &mut test {
        leaf.is_presence = true;
    }
    negate(test)
}

/// Remembers the word of a test such as `is missing`, which may be a value as well.
pub(super) fn worded(mut test: Test, word: &'static str) -> Test {
    match &mut test {
        Test::Leaf(leaf) => leaf.word = Some(word),
        Test::Not(inner) => {
            let own = std::mem::replace(inner.as_mut(), Test::All(Vec::new()));
            **inner = worded(own, word);
        }
        Test::All(tests) | Test::Any(tests) => {
            if let Some(first) = tests.first_mut() {
                let own = std::mem::replace(first, Test::All(Vec::new()));
                *first = worded(own, word);
            }
        }
        Test::Element(..) => {}
    }
    test
}

impl Leaf {
    /// Returns true if the right side of the comparison is an empty text.
    pub(super) fn is_empty_text(&self) -> bool {
        matches!(&self.check, Check::Compare(Operator::Equal, literal) if literal.text.is_empty())
    }

    /// Checks that no record has the word of a test such as `is missing` as its value.
    ///
    /// # Errors
    /// Returns a message for the caller if one has.
    pub(super) fn check_word(&self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        let Some(word) = self.word else { return Ok(()) };
        let mut same = None;
        for id in all {
            self.operand.visit(&records.outline, *id, &mut |value| {
                let text = value.text().filter(|text| text.eq_ignore_ascii_case(word));
                same = same.take().or_else(|| text.map(str::to_owned));
            });
        }
        let Some(same) = same else { return Ok(()) };
        let (field, value) = (&self.operand, quote(&same));
        Err(format!(
            "where: {field} has the value {value}, so that \"is {word}\" is unclear: write {field} = {value}, or {field} IS NULL"
        ))
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
