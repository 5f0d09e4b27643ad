//! Conditions that ignore the case of texts.

use super::{Check, Condition, Operator, Test};

impl Condition {
    /// Makes comparisons of texts ignore case: equalities, and regular expressions. The operators
    /// for parts of texts always do.
    #[must_use]
    pub fn in_any_case(mut self) -> Self {
        self.test.ignore_case();
        self.ignores_case = true;
        self
    }
}

impl Test {
    fn ignore_case(&mut self) {
        match self {
            Test::All(tests) | Test::Any(tests) => tests.iter_mut().for_each(Test::ignore_case),
            Test::Not(test) | Test::Element(_, test) => test.ignore_case(),
            Test::Leaf(leaf) => match &mut leaf.check {
                Check::Compare(Operator::Equal, literal) => {
                    // A word may be the name of another field.
                    literal.ignores_case = true;
                    leaf.ignores_case = true;
                }
                Check::In(list) => {
                    list.iter_mut().for_each(|literal| literal.ignores_case = true);
                }
                Check::Matches(pattern) => pattern.ignore_case(),
                Check::Field(Operator::Equal, _) => leaf.ignores_case = true,
                _ => {}
            },
        }
    }
}
