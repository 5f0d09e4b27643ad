//! The names of the fields in a condition.

use super::literal::operand_named_by;
use super::{Check, Test};
use crate::query::field::FieldName;

impl Test {
    /// Calls `visit` with the name of each field on the left side of a comparison, and of each list
    /// whose elements are tested.
    pub(super) fn each_field(&self, visit: &mut impl FnMut(&FieldName)) {
        match self {
            Test::All(tests) | Test::Any(tests) => {
                tests.iter().for_each(|test| test.each_field(visit));
            }
            Test::Not(test) => test.each_field(visit),
            Test::Element(list, _) => visit(&list.name),
            Test::Leaf(leaf) => leaf.operand.each_name(visit),
        }
    }

    /// Calls `visit` with the name of each field that the test may read.
    pub(super) fn each_name(&self, visit: &mut impl FnMut(&FieldName)) {
        match self {
            Test::All(tests) | Test::Any(tests) => {
                tests.iter().for_each(|test| test.each_name(visit));
            }
            Test::Not(test) => test.each_name(visit),
            Test::Element(list, test) => {
                visit(&list.name);
                // `row[?…]` filters the records only if they have no list `rows`.
                list.name.plural().iter().for_each(&mut *visit);
                test.each_name(visit);
            }
            Test::Leaf(leaf) => {
                leaf.operand.each_name(visit);
                leaf.first.iter().for_each(&mut *visit);
                match &leaf.check {
                    Check::Field(_, other) => other.each_name(visit),
                    Check::Compare(_, literal) => {
                        if let Some(other) = operand_named_by(literal) {
                            other.each_name(visit);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
