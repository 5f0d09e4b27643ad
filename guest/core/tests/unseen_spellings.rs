//! Spellings of other query languages on extracts of real documents: each is answered right, or
//! refused with a correction that the refusal names and that works. Independent programs computed
//! the expected answers. The half of each row was drawn by a hash before anything ran.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

mod client;
mod judge;

use client::{cursor, first};
use context_guard_test_kit::guard::NativeGuard;
use judge::{ask, is_right};
use serde_json::{Value, json};

/// The smallest share of spellings that must be answered without a correction, in percent.
const MIN_ANSWERED_PERCENT: usize = 80;
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/queries");

/// Returns a guard that stores a document, and the cursor to it. Answers to queries are complete.
fn stored(name: &str) -> (NativeGuard, String) {
    let document = std::fs::read_to_string(format!("{FOLDER}/documents/{name}")).unwrap();
    let mut guard = NativeGuard::with_policy(r#"{"tokenBudgetThreshold": 500}"#).unwrap();
    let cursor = cursor(&first(&guard, &json!({}), &document).unwrap()).unwrap();
    let policy = r#"{"tokenBudgetThreshold": 100000, "hardCap": 200000, "maxPageSize": 200}"#;
    guard.change_policy(policy).unwrap();
    (guard, cursor)
}

/// Returns true if a refusal names each argument of the correction, or the part of it in `hint`.
fn names_correction(row: &Value, refusal: &str) -> bool {
    let is_named = |text: &str| refusal.contains(text);
    row["hint"].as_str().map_or_else(
        || {
            row["correction"]
                .as_object()
                .unwrap()
                .values()
                .all(|text| is_named(text.as_str().unwrap()))
        },
        is_named,
    )
}

#[test]
fn no_unseen_spelling_is_silently_wrong() {
    let table = std::fs::read(format!("{FOLDER}/unseen.json")).unwrap();
    let table: Value = serde_json::from_slice(&table).unwrap();
    let rows = table["rows"].as_array().unwrap();
    let (mut wrong, mut answered) = (Vec::new(), 0);
    for row in rows {
        let (guard, cursor) = stored(row["document"].as_str().unwrap());
        let (text, is_error) = ask(&guard, &cursor, &row["arguments"]);
        let shown = || text.chars().take(300).collect::<String>();
        if is_error != (row["refused"] == true) {
            wrong.push(format!("{}: {}", row["arguments"], shown()));
        } else if !is_error {
            answered += 1;
            if !is_right(row, &text) {
                wrong.push(format!("{row}: {}", shown()));
            }
        } else if !names_correction(row, &text) {
            wrong.push(format!("{} is not in {text}", row["correction"]));
        } else {
            let (text, is_error) = ask(&guard, &cursor, &row["correction"]);
            if is_error || !is_right(row, &text) {
                wrong.push(format!("correction {}: {text}", row["correction"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    assert!(answered * 100 >= rows.len() * MIN_ANSWERED_PERCENT, "{answered} of {}", rows.len());
}
