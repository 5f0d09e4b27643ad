//! Natural spellings of questions: each is answered right, or refused with a correction that works.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

mod client;

use client::{cursor, first, read};
use context_guard_test_kit::guard::NativeGuard;
use serde_json::{Value, json};

/// The smallest share of spellings that must be answered without a correction, in percent.
const MIN_ANSWERED_PERCENT: usize = 80;

/// Returns the text of an answer and true if it is an error.
fn ask(guard: &NativeGuard, cursor: &str, arguments: &Value) -> (String, bool) {
    let mut arguments = arguments.clone();
    arguments["cursor"] = cursor.into();
    let answer = read(guard, &arguments).unwrap();
    let is_error = answer["result"]["isError"] == true;
    (answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned(), is_error)
}

/// Returns the records in an answer.
fn records(answer: &Value) -> Vec<Value> {
    let list = answer.as_array().or_else(|| answer["items"].as_array());
    list.cloned().unwrap_or_else(|| panic!("no list in {answer}"))
}

fn close(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => (left - right).abs() <= 1e-6 * left.abs().max(1.0),
        _ => left == right,
    }
}

/// Returns the groups of a result as pairs, or as rows whose values are sorted. Pairs are in the
/// order of the text.
fn groups(answer: &Value, text: &str) -> Vec<Vec<Value>> {
    let members = answer.as_object().unwrap();
    let is_groups = |(name, value): &(&String, &Value)| {
        *name != "notes" && (value.is_object() || value.is_array())
    };
    let (_, groups) = members.iter().find(is_groups).unwrap();
    match groups {
        Value::Object(pairs) => {
            let place = |row: &Vec<Value>| text.find(&format!("{}:", row[0]));
            let pairs = pairs.iter().map(|(key, value)| vec![key.as_str().into(), value.clone()]);
            let mut pairs: Vec<Vec<Value>> = pairs.collect();
            pairs.sort_by_key(place);
            pairs
        }
        rows => {
            let rows = rows.as_array().unwrap().iter();
            rows.map(|row| row.as_object().unwrap().values().cloned().collect())
                .map(sorted_row)
                .collect()
        }
    }
}

fn sorted_row(mut row: Vec<Value>) -> Vec<Value> {
    row.sort_by_key(ToString::to_string);
    row
}

fn all_close(left: &[Vec<Value>], right: &[Vec<Value>]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| close(left, right))
        })
}

fn sorted(mut rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    rows.sort_by_key(|row| Value::from(row.clone()).to_string());
    rows
}

/// Returns true if an answer is the expected one.
fn is_right(row: &Value, text: &str) -> bool {
    if let Some(expected) = row["text"].as_str() {
        return text == expected;
    }
    let answer: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{row}: {text}"));
    let ids =
        |records: Vec<Value>| records.iter().map(|record| record["id"].clone()).collect::<Vec<_>>();
    let rows = |value: &Value| -> Vec<Vec<Value>> {
        value.as_array().unwrap().iter().map(|row| row.as_array().unwrap().clone()).collect()
    };
    let (kind, expected) = row
        .as_object()
        .unwrap()
        .iter()
        .find(|(name, _)| !["arguments", "refused", "correction"].contains(&name.as_str()))
        .unwrap();
    match kind.as_str() {
        "count" => records(&answer).len() as u64 == expected.as_u64().unwrap(),
        "ids" => json!(ids(records(&answer))) == *expected,
        "values" => json!(records(&answer)) == *expected,
        "totals" => {
            let expected = expected.as_object().unwrap();
            expected.iter().all(|(name, value)| close(&answer[name], value))
        }
        "groups" => {
            let expected = expected.as_object().unwrap();
            let pairs =
                expected.iter().map(|(key, value)| vec![key.as_str().into(), value.clone()]);
            all_close(&sorted(groups(&answer, text)), &sorted(pairs.collect()))
        }
        "rows" => {
            let expected = rows(expected).into_iter().map(sorted_row).collect();
            all_close(&sorted(groups(&answer, text)), &sorted(expected))
        }
        "ordered" => expected.is_null() || all_close(&groups(&answer, text), &rows(expected)),
        "record" => {
            let best =
                answer.as_object().unwrap().values().find(|value| value.is_object()).unwrap();
            best["record"]["id"] == *expected
        }
        "matches" => answer["count"] == *expected,
        "shown" => answer["matches"].as_array().unwrap().len() as u64 == expected.as_u64().unwrap(),
        other => panic!("unknown expectation {other}"),
    }
}

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
