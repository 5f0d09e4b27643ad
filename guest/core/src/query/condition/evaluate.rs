//! Evaluation of conditions with the three truth values of SQL.

use std::cmp::Ordering;

use super::{Check, Leaf, Operator, Test};
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;
use crate::query::field::FieldPath;
use crate::query::literal::Literal;
use crate::query::operand::Operand;
use crate::query::scale::Scale;
use crate::query::value::{Number, Value};

/// The values that a condition compares, by node.
pub(in crate::query) trait Source {
    /// Calls `visit` with each value that the operand has in the node `id`.
    fn visit(&self, operand: &Operand, id: NodeId, visit: &mut dyn FnMut(Value<'_>));

    /// Calls `visit` with each element of the list `list` in the node `id`, or with the value of
    /// `list` itself if it is an object. Returns false if `list` is absent.
    fn elements(&self, list: &FieldPath, id: NodeId, visit: &mut dyn FnMut(NodeId)) -> bool;
}

impl Source for Outline<'_> {
    fn visit(&self, operand: &Operand, id: NodeId, visit: &mut dyn FnMut(Value<'_>)) {
        operand.visit(self, id, visit);
    }

    fn elements(&self, list: &FieldPath, id: NodeId, visit: &mut dyn FnMut(NodeId)) -> bool {
        list.elements(self, id, &mut |id| visit(id))
    }
}

impl Test {
    /// Evaluates the test for the node `id`. `None` if the result is unknown: a value is null or of
    /// another type.
    pub(super) fn evaluate(&self, source: &dyn Source, id: NodeId) -> Option<bool> {
        match self {
            Test::All(tests) => {
                let mut result = Some(true);
                for test in tests {
                    match test.evaluate(source, id) {
                        Some(true) => {}
                        Some(false) => return Some(false),
                        None => result = None,
                    }
                }
                result
            }
            Test::Any(tests) => {
                let mut result = Some(false);
                for test in tests {
                    match test.evaluate(source, id) {
                        Some(false) => {}
                        Some(true) => return Some(true),
                        None => result = None,
                    }
                }
                result
            }
            Test::Not(test) => match test.as_ref() {
                Test::Leaf(leaf) if matches!(leaf.check, Check::IsNull) => {
                    Some(leaf.has_value(source, id))
                }
                test => test.evaluate(source, id).map(|result| !result),
            },
            Test::Leaf(leaf) => leaf.evaluate(source, id),
            Test::Element(list, test) => {
                let mut result = Some(false);
                let found = source.elements(&list.field, id, &mut |element| {
                    if result != Some(true) {
                        match test.evaluate(source, element) {
                            Some(false) => {}
                            other => result = other,
                        }
                    }
                });
                if found { result } else { None }
            }
        }
    }

    /// Increments, in each comparison that is unknown for the record `id`, the number of unknown
    /// records.
    pub(super) fn count_unknown(&self, source: &dyn Source, id: NodeId) {
        match self {
            Test::All(tests) | Test::Any(tests) => {
                tests.iter().for_each(|test| test.count_unknown(source, id));
            }
            Test::Not(test) => test.count_unknown(source, id),
            Test::Leaf(leaf) => {
                if leaf.evaluate(source, id).is_none() {
                    leaf.unknown.set(leaf.unknown.get() + 1);
                }
            }
            Test::Element(list, test) => {
                // Each record counts once, however many of its elements cannot be compared.
                let mut is_counted = false;
                let found = source.elements(&list.field, id, &mut |element| {
                    if !is_counted && test.evaluate(source, element).is_none() {
                        is_counted = true;
                        test.count_unknown(source, element);
                    }
                });
                if !found {
                    test.each_leaf(&mut |leaf| leaf.unknown.set(leaf.unknown.get() + 1));
                }
            }
        }
    }
}

impl Leaf {
    /// Evaluates the comparison for the node `id`, and counts it if it is true. `None` if the
    /// result is unknown.
    fn evaluate(&self, source: &dyn Source, id: NodeId) -> Option<bool> {
        let mut result = self.compared(source, id);
        if self.is_known || self.is_two_valued {
            result = Some(result == Some(true));
        }
        if result == Some(true) {
            self.matched.set(self.matched.get() + 1);
        }
        result
    }

    /// Returns true if the operand has a value in the node `id`: of several elements of a list, one
    /// of them. Counts the record as one that is null if it has none.
    fn has_value(&self, source: &dyn Source, id: NodeId) -> bool {
        let mut found = false;
        source.visit(&self.operand, id, &mut |value| found |= value != Value::Null);
        let operand = &self.operand;
        let is_field = operand.function.is_none() && !operand.is_computed();
        found = found || (is_field && source.elements(&operand.field, id, &mut |_| {}));
        if !found {
            self.matched.set(self.matched.get() + 1);
        }
        found
    }

    /// Returns the result of the comparison for the node `id`: true if it is true for one of the
    /// operand's values. `None` without a comparable value.
    pub(super) fn compared(&self, source: &dyn Source, id: NodeId) -> Option<bool> {
        let mut result = Some(false);
        let mut add = |next: Option<bool>| {
            if result != Some(true) && next != Some(false) {
                result = next;
            }
        };
        if let Check::Field(operator, other) = &self.check {
            let mut others = Vec::new();
            source.visit(other, id, &mut |value| others.push(value.into_owned()));
            source.visit(&self.operand, id, &mut |left| {
                others.iter().for_each(|right| {
                    let is_same = self.ignores_case
                        && left.text().zip(right.text()).is_some_and(|(left, right)| {
                            left.to_lowercase() == right.to_lowercase()
                        });
                    add(match is_same {
                        true => Some(true),
                        false => compare_fields(*operator, self.scale.as_ref(), &left, right),
                    });
                });
            });
        } else {
            source.visit(&self.operand, id, &mut |value| add(self.check.test(&value)));
        }
        // A list with an element that is null is no null.
        let operand = &self.operand;
        let is_null = matches!(self.check, Check::IsNull)
            && result == Some(true)
            && operand.function.is_none()
            && !operand.is_computed();
        if is_null && source.elements(&operand.field, id, &mut |_| {}) {
            result = Some(false);
        }
        result
    }
}

impl Check {
    /// Returns the literals of an equality that are numbers.
    pub(super) fn numbers(&mut self) -> Vec<&mut Literal> {
        let literals = match self {
            Self::Compare(_, literal) => std::slice::from_mut(literal),
            Self::In(list) => list.as_mut_slice(),
            _ => &mut [],
        };
        literals.iter_mut().filter(|literal| literal.number().is_some()).collect()
    }

    /// Tests one value. `None` if it is null or of another type.
    pub(super) fn test(&self, value: &Value<'_>) -> Option<bool> {
        match self {
            Check::IsNull => Some(*value == Value::Null),
            Check::IsNumber if *value == Value::Null => None,
            Check::IsNumber => Some(value.number().is_some()),
            Check::HasValue(has_value) => {
                let is_empty = *value == Value::Null || value.text() == Some("");
                Some(is_empty != *has_value)
            }
            Check::Compare(Operator::Equal, literal) => literal.equals(value),
            Check::Compare(operator, literal) => {
                literal.order(value).map(|order| operator.accepts(order))
            }
            Check::Between(from, to) => {
                let (low, high) = (from.order(value)?, to.order(value)?);
                Some(low != Ordering::Less && high != Ordering::Greater)
            }
            Check::In(list) => {
                let mut result = Some(false);
                for literal in list {
                    match literal.equals(value) {
                        Some(false) => {}
                        Some(true) => return Some(true),
                        None => result = None,
                    }
                }
                result
            }
            Check::Matches(pattern) => value.text().map(|text| pattern.is_match(text)),
            Check::Field(..) => None,
        }
    }
}

fn compare_fields(
    operator: Operator,
    scale: Option<&Scale>,
    left: &Value<'_>,
    right: &Value<'_>,
) -> Option<bool> {
    let own = || Scale::of_literal(left.text().unwrap_or_default(), left.number().is_some());
    let scale = scale.cloned().unwrap_or_else(own);
    let order = match (left, right) {
        (Value::Null | Value::Object, _) | (_, Value::Null | Value::Object) => return None,
        (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) if left == right => Some(Ordering::Equal),
        // Equal texts are equal, as beside a literal: `007` differs from `7`.
        (Value::Text(left), Value::Text(right))
            if operator == Operator::Equal && !matches!(scale, Scale::Time { .. }) =>
        {
            Number::parse_plain(left.trim())
                .zip(Number::parse_plain(right.trim()))
                .map_or(Some(Ordering::Less), |(left, right)| left.compare(right))
        }
        _ => match (scale.position(left), scale.position(right)) {
            (Some(left), Some(right)) => left.compare(&right),
            _ if operator == Operator::Equal => return Some(false),
            _ => return None,
        },
    };
    order.map(|order| operator.accepts(order))
}

/// Returns true if a node is a list or an object.
pub(super) fn is_container(outline: &Outline<'_>, id: NodeId) -> bool {
    outline.node(id).is_some_and(|node| matches!(node.kind, Kind::Object | Kind::Array))
}
