//! Conditions as answers show them.

use super::{Check, Leaf, Operator, Test};

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let join = |f: &mut std::fmt::Formatter<'_>, tests: &[Test], word: &str, is_any: bool| {
            for (at, test) in tests.iter().enumerate() {
                let between = if at > 0 { word } else { "" };
                let has_parentheses = match test {
                    Test::Any(tests) => !is_any && tests.len() > 1,
                    Test::All(tests) => is_any && tests.len() > 1,
                    _ => false,
                };
                if has_parentheses {
                    write!(f, "{between}({test})")?;
                } else {
                    write!(f, "{between}{test}")?;
                }
            }
            Ok(())
        };
        match self {
            Test::All(tests) => join(f, tests, " AND ", false),
            Test::Any(tests) => join(f, tests, " OR ", true),
            Test::Not(test) => match test.as_ref() {
                Test::Leaf(leaf) => leaf.write(f, true),
                Test::Element(..) => write!(f, "NOT {test}"),
                test => write!(f, "NOT ({test})"),
            },
            Test::Leaf(leaf) => leaf.write(f, false),
            Test::Element(list, test) => write!(f, "any({list}; {test})"),
        }
    }
}

impl Leaf {
    fn write(&self, f: &mut std::fmt::Formatter<'_>, is_negated: bool) -> std::fmt::Result {
        let operand = &self.operand;
        let not = if is_negated { "NOT " } else { "" };
        match &self.check {
            Check::Compare(Operator::Equal, to) => {
                write!(f, "{operand} {} {to}", if is_negated { "!=" } else { "=" })
            }
            Check::Field(Operator::Equal, to) => {
                write!(f, "{operand} {} {to}", if is_negated { "!=" } else { "=" })
            }
            Check::Compare(operator, to) => write!(f, "{not}{operand} {} {to}", operator.sign()),
            Check::Field(operator, to) => write!(f, "{not}{operand} {} {to}", operator.sign()),
            Check::Between(from, to) => write!(f, "{operand} {not}BETWEEN {from} AND {to}"),
            Check::In(list) => {
                let list: Vec<String> = list.iter().take(8).map(ToString::to_string).collect();
                write!(f, "{operand} {not}IN ({})", list.join(", "))
            }
            Check::Matches(pattern) => write!(f, "{operand} {not}{pattern}"),
            Check::IsNull => write!(f, "{operand} IS {not}NULL"),
            Check::IsNumber => write!(f, "{operand} IS {not}NUMBER"),
            Check::HasValue(has_value) => {
                let not = if *has_value == is_negated { "" } else { "NOT " };
                write!(f, "{operand} IS {not}EMPTY")
            }
        }
    }
}
