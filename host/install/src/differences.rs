//! Compares two versions of a document.

use crate::document::Document;
use crate::edit::slice;
use crate::tree::{Node, Value};

/// Returns true if the documents have the same values, with the same text, at all paths that are
/// not at or below one of `skipped`. A table that only holds skipped values may be missing.
///
/// Takes time in proportion to the number of values times the number of skipped paths.
pub(crate) fn has_same_rest(a: &Document, b: &Document, skipped: &[Vec<String>]) -> bool {
    let leaves = |document: &Document| {
        let mut leaves = Vec::new();
        add_leaves(&document.root, &document.text, &mut Vec::new(), skipped, &mut leaves);
        leaves.sort();
        leaves
    };
    leaves(a) == leaves(b)
}

/// Adds the path and the text of each value below `node` to `leaves`, except for those below
/// `skipped`.
fn add_leaves(
    node: &Node,
    text: &str,
    path: &mut Vec<String>,
    skipped: &[Vec<String>],
    leaves: &mut Vec<(Vec<String>, String)>,
) {
    if skipped.contains(path) {
        return;
    }
    match &node.value {
        Value::Table(members) if !members.is_empty() => {
            for member in members {
                path.push(member.name.clone());
                add_leaves(&member.node, text, path, skipped, leaves);
                path.pop();
            }
        }
        // An edit may fill or empty a table that holds a skipped value.
        Value::Table(_) | Value::Null if skipped.iter().any(|other| other.starts_with(path)) => {}
        Value::Table(_) => leaves.push((path.clone(), String::new())),
        _ => leaves.push((path.clone(), slice(text, node.span.clone()).to_owned())),
    }
}

/// Returns true if the values are equal. Their layout, and the order of members, may differ.
pub(crate) fn are_equal(a: &Node, b: &Node) -> bool {
    match (&a.value, &b.value) {
        (Value::Text(a), Value::Text(b)) | (Value::Word(a), Value::Word(b)) => a == b,
        (Value::Null, Value::Null) | (Value::Other, Value::Other) => true,
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_equal(a, b))
        }
        (Value::Table(members), Value::Table(others)) => {
            members.len() == others.len()
                && members.iter().all(|member| {
                    let other = b.get(&member.name);
                    let own = a.get(&member.name);
                    own.zip(other).is_some_and(|(own, other)| are_equal(own, other))
                })
        }
        _ => false,
    }
}
