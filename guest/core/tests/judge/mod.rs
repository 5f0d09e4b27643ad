//! Judges answers to spellings of questions.
#![allow(dead_code, reason = "not every test file has every expectation")]

use context_guard_test_kit::guard::NativeGuard;
use serde_json::{Value, json};

use super::client::read;

/// The members of a row that are no expectation.
const OTHER_MEMBERS: [&str; 7] =
    ["arguments", "refused", "correction", "hint", "document", "half", "says"];

/// Calls the read tool with `cursor` and `arguments`. Returns the text of its answer, and true if
/// it is an error.
pub(crate) fn ask(guard: &NativeGuard, cursor: &str, arguments: &Value) -> (String, bool) {
    let mut arguments = arguments.clone();
    arguments["cursor"] = cursor.into();
    let answer = read(guard, &arguments).unwrap();
    let is_error = answer["result"]["isError"] == true;
    (answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned(), is_error)
}

/// Returns the records in an answer: the longest list of objects, or else the longest list.
fn records(answer: &Value) -> Vec<Value> {
    fn longest(value: &Value) -> Option<&Vec<Value>> {
        let lists = value.as_object()?.values();
        let lists = lists.filter_map(|value| value.as_array().or_else(|| longest(value)));
        lists.max_by_key(|list| (list.first().is_some_and(Value::is_object), list.len()))
    }
    let list = answer.as_array().or_else(|| answer["items"].as_array());
    list.or_else(|| longest(answer)).cloned().unwrap_or_else(|| panic!("no list in {answer}"))
}

/// Returns the member of a record at a path of names.
fn member<'v>(record: &'v Value, path: &str) -> &'v Value {
    record.get(path).unwrap_or_else(|| path.split('.').fold(record, |value, name| &value[name]))
}

fn close(left: &Value, right: &Value) -> bool {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    match (number(left), number(right)) {
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
pub(crate) fn is_right(row: &Value, text: &str) -> bool {
    if let Some(expected) = row["text"].as_str() {
        return text == expected;
    }
    if let Some(expected) = row["contains"].as_array() {
        return expected.iter().all(|part| text.contains(part.as_str().unwrap()));
    }
    if let Some(expected) = row["lines"].as_u64() {
        let is_match = |line: &&str| {
            line.split_once(':').is_some_and(|(number, _)| number.parse::<u64>().is_ok())
        };
        return text.lines().filter(is_match).count() as u64 == expected;
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
        .find(|(name, _)| !OTHER_MEMBERS.contains(&name.as_str()))
        .unwrap();
    match kind.as_str() {
        "count" | "items" => records(&answer).len() as u64 == expected.as_u64().unwrap(),
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
        "ordered" => {
            let cells = |row: Vec<Value>| if row.len() > 2 { sorted_row(row) } else { row };
            let sorted = || rows(expected).into_iter().map(cells).collect::<Vec<_>>();
            expected.is_null() || all_close(&groups(&answer, text), &sorted())
        }
        "numbers" => {
            let is_total = |(name, value): &(&String, &Value)| {
                !["records", "notes"].contains(&name.as_str()) && !value.is_object()
            };
            let found: Vec<&Value> = answer
                .as_object()
                .unwrap()
                .iter()
                .filter(is_total)
                .map(|(_, value)| value)
                .collect();
            let expected = expected.as_array().unwrap();
            // The members of an object have no order here.
            found.len() == expected.len()
                && expected.iter().all(|value| found.iter().any(|found| close(found, value)))
        }
        "picked" => expected.as_object().unwrap().iter().all(|(field, expected)| {
            let found: Vec<Value> =
                records(&answer).iter().map(|record| member(record, field).clone()).collect();
            json!(found) == *expected
        }),
        "json" => close(&answer, expected) || answer["items"] == *expected,
        "best" => {
            let best =
                answer.as_object().unwrap().values().find(|value| value.is_object()).unwrap();
            expected.as_object().unwrap().iter().all(|(name, value)| best["record"][name] == *value)
        }
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
