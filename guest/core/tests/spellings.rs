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

/// Asks a question of a document. Returns the text of the answer, the answer, and true if it is an
/// error.
fn ask_of(guard: &NativeGuard, document: &Value, arguments: &Value) -> (String, String, bool) {
    let document = document.as_str().map_or_else(|| document.to_string(), str::to_owned);
    let answer = first(guard, arguments, &document).unwrap();
    // A call of a tool that a query does not fit is answered without a result.
    let is_error = answer["result"]["isError"] == true
        || answer.get("error").is_some()
        || answer.to_string().contains("nothing, because ");
    (client::text(&answer).to_owned(), answer.to_string(), is_error)
}

#[test]
fn no_spelling_on_a_small_document_is_silently_wrong() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/queries/small.json");
    let table: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let policy = r#"{"tokenBudgetThreshold": 100000, "hardCap": 200000, "maxPageSize": 200}"#;
    let guard = NativeGuard::with_policy(policy).unwrap();
    let documents = &table["documents"];
    let rows = table["rows"].as_array().unwrap();
    let mut wrong = Vec::new();
    for row in rows {
        let document = row["document"].as_str().map_or(&row["document"], |name| &documents[name]);
        let (text, answer, is_error) = ask_of(&guard, document, &row["arguments"]);
        let says = row["says"].as_str().unwrap_or_default();
        if is_error != (row["refused"] == true) || !answer.contains(says) {
            wrong.push(format!("{row}: {}", answer.chars().take(600).collect::<String>()));
        } else if is_error && row["correction"].is_object() {
            let correction = &row["correction"];
            let names = |text: &Value| {
                let text = text.to_string();
                answer.contains(text.trim_matches('"'))
                    || answer.contains(text.replace('"', "\\\"").trim_matches(['"', '\\']))
            };
            let is_named = row["hint"].as_str().map_or_else(
                || correction.as_object().unwrap().values().all(names),
                |hint| answer.contains(hint),
            );
            let (text, again, is_error) = ask_of(&guard, document, correction);
            if is_error || !is_named || !is_right(row, &text) {
                wrong.push(format!("correction of {row}: {answer} {again}"));
            }
        } else if !is_error && !is_right(row, &text) {
            wrong.push(format!("{row}: {}", answer.chars().take(600).collect::<String>()));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
