//! Natural spellings of questions: each is answered right, or refused with a correction that works.
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

#[test]
fn no_spelling_is_silently_wrong() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/queries/spellings.json");
    let table: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let policy = r#"{"tokenBudgetThreshold": 100000, "hardCap": 200000, "maxPageSize": 200}"#;
    let guard = NativeGuard::with_policy(policy).unwrap();
    let answer = first(&guard, &json!({"limit": 1}), &table["document"].to_string()).unwrap();
    let cursor = cursor(&answer).unwrap();
    let rows = table["rows"].as_array().unwrap();
    let (mut wrong, mut answered) = (Vec::new(), 0);
    for row in rows {
        let (text, is_error) = ask(&guard, &cursor, &row["arguments"]);
        let is_refused = row["refused"] == true;
        if is_error != is_refused {
            wrong.push(format!(
                "{}: {}",
                row["arguments"],
                text.chars().take(300).collect::<String>()
            ));
        } else if !is_error {
            answered += 1;
            if !is_right(row, &text) {
                wrong.push(format!("{row}: {}", text.chars().take(200).collect::<String>()));
            }
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
