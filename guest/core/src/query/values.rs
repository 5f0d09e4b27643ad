//! Values of records at dotted paths, as text, and their total order.

use std::cmp::Ordering;

use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;

/// Returns the keys of a dotted path, such as `price.total` or `items[].id`.
#[must_use]
pub fn split_path(path: &str) -> Vec<String> {
    path.trim()
        .split('.')
        .map(|key| key.trim().trim_end_matches("[]").to_owned())
        .filter(|key| !key.is_empty())
        .collect()
}

/// Returns the scalar values of the record `id` at the path `keys`, as text. The path continues in
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

/// Compares two values of records in a total order, so that mixed values can be sorted. Numbers are
/// compared by value and come before text; `NaN` comes after `Infinity`.
#[must_use]
pub fn compare_values(left: &str, right: &str) -> Ordering {
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left.total_cmp(&right),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => left.cmp(right),
    }
}

/// Returns the value of a number in the spelling of JSON, or of `NaN`, `Infinity` or `-Infinity`.
fn number(text: &str) -> Option<f64> {
    // Rust also parses names such as `inf`, `nan` and `infinity`.
    let has_digits =
        text.strip_prefix('-').unwrap_or(text).starts_with(|c: char| c.is_ascii_digit());
    let is_number = has_digits || matches!(text, "NaN" | "Infinity" | "-Infinity");
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixed_values_have_a_total_order() {
        let mut values = ["1a", "10", "9", "Infinity", "a", "-1", "NaN", "2", "-Infinity"];
        values.sort_by(|left, right| compare_values(left, right));
        let sorted = ["-Infinity", "-1", "2", "9", "10", "Infinity", "NaN", "1a", "a"];
        assert_eq!(values, sorted);
        let mut names = ["zoe", "infinity", "5", "nan", "adam", "+1", "inf"];
        names.sort_by(|left, right| compare_values(left, right));
        assert_eq!(names, ["5", "+1", "adam", "inf", "infinity", "nan", "zoe"]);
    }
}
