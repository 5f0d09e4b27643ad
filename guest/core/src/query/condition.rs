//! Conditions on records, such as `status=confirmed` and `price.total>=100, city~lis`.

use std::cmp::Ordering;

use super::expression::split_parts;
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;

/// A condition on a record: comparisons that must all be true.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition(Vec<Comparison>);

#[derive(Clone, Debug, PartialEq)]
struct Comparison {
    keys: Vec<String>,
    operator: Operator,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    AtLeast,
    AtMost,
    More,
    Less,
    Contains,
}

/// The comparison operators with the text that denotes them. Longer texts come first, because the
/// first match wins.
const OPERATORS: [(&str, Operator); 8] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("!=", Operator::Unequal),
    ("==", Operator::Equal),
    ("=", Operator::Equal),
    (">", Operator::More),
    ("<", Operator::Less),
    ("~", Operator::Contains),
];

impl Condition {
    /// Parses a condition: comparisons, separated by commas.
    ///
    /// # Errors
    /// Returns a message for the caller that shows the syntax, or the limit that is exceeded.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = split_parts("where", text)?;
        let comparisons = parts.into_iter().map(parse_comparison).collect::<Option<Vec<_>>>();
        comparisons.map(Self).ok_or_else(|| {
            format!("where {text:?} cannot be read: write tests such as \"status=confirmed, price.total>=100, city~lis\" (=, !=, <, <=, >, >=, ~ for contains)")
        })
    }

    /// Returns true if every comparison is true for the record `id`. Numbers are compared by value,
    /// all else as text. A comparison with a list is true if it is true for an element.
    #[must_use]
    pub fn holds(&self, outline: &Outline<'_>, id: NodeId) -> bool {
        self.0.iter().all(|test| {
            let values = values_at(outline, id, &test.keys);
            match test.operator {
                // `!=` must hold for every element, or a list would meet both `=` and `!=`.
                Operator::Unequal => values.iter().all(|value| test.compare(value)),
                _ => values.iter().any(|value| test.compare(value)),
            }
        })
    }
}

fn parse_comparison(text: &str) -> Option<Comparison> {
    let at = text.find(['=', '!', '<', '>', '~'])?;
    let (field, rest) = text.split_at_checked(at)?;
    let (sign, operator) = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign))?;
    let value = rest.get(sign.len()..)?.trim().trim_matches(['"', '\'']);
    let keys = split_path(field);
    (!keys.is_empty()).then(|| Comparison { keys, operator: *operator, value: value.to_owned() })
}

/// Returns the keys of a dotted path, such as `price.total` or `items[].id`.
#[must_use]
pub fn split_path(path: &str) -> Vec<String> {
    path.trim()
        .split('.')
        .map(|key| key.trim().trim_end_matches("[]").to_owned())
        .filter(|key| !key.is_empty())
        .collect()
}

/// Returns the scalar values of the record `id` at the path `keys`, as text. The path applies to
/// each element of a list, so there may be several values.
#[must_use]
pub fn values_at(outline: &Outline<'_>, id: NodeId, keys: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    collect(outline, id, keys, &mut found);
    found
}

fn collect(outline: &Outline<'_>, id: NodeId, keys: &[String], found: &mut Vec<String>) {
    let Some(node) = outline.node(id) else { return };
    match (node.kind, keys.split_first()) {
        (Kind::Array, _) => {
            outline.children(id).for_each(|(child, _)| collect(outline, child, keys, found))
        }
        (Kind::Object, Some((key, rest))) => {
            if let Some((child, _)) = outline.member(id, key) {
                collect(outline, child, rest, found);
            }
        }
        (Kind::String, None) => found.push(outline.decoded(&node.span)),
        (Kind::Scalar, None) => {
            found.push(String::from_utf8_lossy(&outline.raw(node)).into_owned())
        }
        _ => {}
    }
}

/// Compares two values of records. Numbers are compared by value and come before text; `NaN` comes
/// after `Infinity`. It is a total order, so that mixed values can be sorted.
#[must_use]
pub fn compare_values(left: &str, right: &str) -> Ordering {
    match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(left), Ok(right)) => left.total_cmp(&right),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => left.cmp(right),
    }
}

impl Comparison {
    fn compare(&self, value: &str) -> bool {
        let order = match (value.parse::<f64>(), self.value.parse::<f64>()) {
            // Of two values with `NaN`, the same ones are equal, and no other comparison is true.
            (Ok(left), Ok(right)) if value != self.value => left.partial_cmp(&right),
            _ => Some(value.cmp(self.value.as_str())),
        };
        match self.operator {
            Operator::Equal => order.is_some_and(Ordering::is_eq),
            Operator::Unequal => order.is_none_or(Ordering::is_ne),
            Operator::AtLeast => order.is_some_and(Ordering::is_ge),
            Operator::AtMost => order.is_some_and(Ordering::is_le),
            Operator::More => order.is_some_and(Ordering::is_gt),
            Operator::Less => order.is_some_and(Ordering::is_lt),
            Operator::Contains => value.to_lowercase().contains(&self.value.to_lowercase()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::text::Form;

    #[test]
    fn comparisons_handle_numbers_and_text() {
        let json =
            br#"{"status":"confirmed","price":{"total":99.5},"tags":["sea","dog"],"open":true,"score":NaN}"#;
        let outline = Outline::parse(json, Form::Raw, &(0..json.len())).unwrap();
        for (text, expected) in [
            ("status=confirmed", true),
            ("status!=confirmed", false),
            ("price.total<100", true),
            ("price.total>=99.50, open=true", true),
            ("tags=dog", true),
            ("tags~SE", true),
            ("score=NaN", true),
            ("score!=5", true),
            ("score<5", false),
            ("missing=1", false),
            ("missing!=1", true),
        ] {
            assert_eq!(Condition::parse(text).unwrap().holds(&outline, 0), expected, "{text}");
        }
    }

    #[test]
    fn mixed_values_have_a_total_order() {
        let mut values = ["1a", "10", "9", "Infinity", "a", "-1", "NaN", "2", "-Infinity"];
        values.sort_by(|left, right| compare_values(left, right));
        let sorted = ["-Infinity", "-1", "2", "9", "10", "Infinity", "NaN", "1a", "a"];
        assert_eq!(values, sorted);
    }

    #[test]
    fn invalid_conditions_show_the_syntax() {
        for text in ["status", "=x", "a ? b"] {
            assert!(Condition::parse(text).unwrap_err().contains("status=confirmed"), "{text}");
        }
    }
}
