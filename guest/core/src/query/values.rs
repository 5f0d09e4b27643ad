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
    match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(left), Ok(right)) => left.total_cmp(&right),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => left.cmp(right),
    }
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
    }
}
