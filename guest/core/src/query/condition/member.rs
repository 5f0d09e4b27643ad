//! Tests for a part of a text that look for an element if the field is a list:
//! `tags.includes('a')`, `'a' in tags`.

use super::{Check, Leaf, Operator, Test};
use crate::json::outline::NodeId;
use crate::query::literal::Literal;
use crate::query::records::RecordSet;
use crate::query::value::quote;

/// The element that a test for a part of a text looks for if the field is a list.
#[derive(Clone, Debug)]
pub(super) enum SoughtElement {
    Element(Literal),
    /// An element in some languages, and a part of one in others: `tags CONTAINS 'a'`.
    Unclear(Literal),
}

/// Makes a test for a part of a text look for the element `member` if the field is a list.
pub(super) fn with_member(mut test: Test, member: Option<SoughtElement>) -> Test {
    if let Test::Leaf(leaf) = &mut test {
        leaf.member = member;
    }
    test
}

impl Leaf {
    /// Makes a test for a part of a text compare the elements of a list, if the field is one.
    ///
    /// # Errors
    /// Returns a message for the caller if the text is only a part of a value, and the test may be
    /// about whole elements: languages differ, or the field is a list in some records only.
    pub(super) fn bind_member(
        &mut self,
        records: &RecordSet<'_>,
        all: &[NodeId],
    ) -> Result<(), String> {
        let Some(member) = self.member.take() else { return Ok(()) };
        let operand = &self.operand;
        let is_unclear = matches!(member, SoughtElement::Unclear(_));
        let is_list = |id: &NodeId| {
            let depth = operand.field.list_depth(&records.outline, *id);
            // `labels.name CONTAINS 'a'` is about each name.
            depth.is_some_and(|depth| !is_unclear || depth == operand.field.steps().len())
        };
        let (lists, texts): (Vec<NodeId>, Vec<NodeId>) = all.iter().copied().partition(is_list);
        if lists.is_empty() {
            return Ok(());
        }
        let (element, unclear) = match &member {
            SoughtElement::Element(element) => (element, texts),
            SoughtElement::Unclear(element) => (element, lists),
        };
        let mut is_part = false;
        for id in unclear {
            operand.visit(&records.outline, id, &mut |value| {
                is_part |=
                    element.equals(&value) != Some(true) && self.check.test(&value) == Some(true);
            });
        }
        if is_part {
            let (field, text) = (&operand.name.verbatim, quote(&element.text));
            return Err(format!(
                "where: {field} is a list, and {text} is an element of it or a part of a text: write {field} = {text} for a whole element or text, or {field} ~ {text} for a part"
            ));
        }
        if let SoughtElement::Element(element) = member {
            self.check = Check::Compare(Operator::Equal, element);
        }
        Ok(())
    }
}
