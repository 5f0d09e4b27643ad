//! Comparisons with the two truth values of JavaScript, in which a comparison without a value is
//! false, and its negation true: `e => !(e.price > 5)`.

use super::{Check, Operator, Test};

impl Test {
    /// Makes negated comparisons with `<`, `<=`, `>`, `>=` false, not unknown, without a value.
    /// `is_negated` is true inside an odd number of negations.
    pub(super) fn use_two_values(&mut self, is_negated: bool) {
        match self {
            Test::All(tests) | Test::Any(tests) => {
                tests.iter_mut().for_each(|test| test.use_two_values(is_negated));
            }
            Test::Not(test) => test.use_two_values(!is_negated),
            Test::Element(_, test) => test.use_two_values(is_negated),
            Test::Leaf(leaf) => {
                // `a != 5` is such a negation, too, and leaves out records without a value.
                let is_ordered = match &leaf.check {
                    Check::Compare(operator, _) | Check::Field(operator, _) => {
                        *operator != Operator::Equal
                    }
                    Check::Between(..) => true,
                    _ => false,
                };
                leaf.is_two_valued = is_negated && is_ordered;
            }
        }
    }

    /// Returns true if a comparison is false, not unknown, without a value.
    pub(super) fn has_two_values(&self) -> bool {
        let mut found = false;
        self.each_leaf(&mut |leaf| found |= leaf.is_two_valued);
        found
    }
}
