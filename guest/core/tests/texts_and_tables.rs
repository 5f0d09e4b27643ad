//! Queries on texts: tables as records, lines of a value, and arguments that do not apply.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests: a panic is a failure"
)]

mod client;

use client::{cursor, first, read, text};
use context_guard_test_kit::guard::NativeGuard;
use serde_json::{Value, json};

/// Returns a guard, and a cursor to an answer with this text.
fn stored(document: &str) -> (NativeGuard, String) {
    let guard = NativeGuard::with_policy(r#"{"tokenBudgetThreshold": 500}"#).unwrap();
    let cursor = cursor(&first(&guard, &json!({}), document).unwrap()).unwrap();
    (guard, cursor)
}

fn ask(stored: &(NativeGuard, String), arguments: &Value) -> String {
    let mut arguments = arguments.clone();
    arguments["cursor"] = stored.1.as_str().into();
    text(&read(&stored.0, &arguments).unwrap()).to_owned()
}

#[test]
fn tables_answer_queries() {
    let row = |at: usize| format!("{at},item {at},{},{}\n", at % 7, at as f64 / 4.0);
    let csv = "id,name,group,price\n".to_owned() + &(0..400).map(row).collect::<String>();
    let markdown: String = csv
        .lines()
        .enumerate()
        .map(|(at, line)| {
            let rule = if at == 0 { "|--|--|--|--|\n" } else { "" };
            format!("| {} |\n{rule}", line.replace(',', " | "))
        })
        .collect();
    for document in [csv.clone(), csv.replace(',', "\t"), format!("# Report\n\n{markdown}\nEnd\n")]
    {
        let stored = stored(&document);
        let ask = |arguments: Value| ask(&stored, &arguments);
        assert_eq!(
            ask(json!({"where": "group=3 AND price>90", "fields": "id"})),
            r#"[{"id":367},{"id":374},{"id":381},{"id":388},{"id":395}]"#
        );
        assert_eq!(ask(json!({"aggregate": "sum(id)"})), r#"{"records":400,"sum(id)":79800}"#);
        assert_eq!(ask(json!({"jq": "map(select(.price > 90)) | length"})), "39");
        assert_eq!(ask(json!({"path": "$[7].name"})), "item 7");
        assert!(ask(json!({"where": "grup=3"})).contains("did you mean group?"));
        // Lines remain lines for grep.
        assert!(ask(json!({"grep": "item 39\\b"})).starts_with(if document.starts_with('#') {
            "44:"
        } else {
            "41:"
        }));
    }
}

#[test]
fn lines_answer_programs() {
    let log: String = (0..500)
        .map(|at| format!("line {at} {}\n", if at % 9 == 0 { "ERROR" } else { "ok" }))
        .collect();
    let stored = stored(&log);
    let ask = |arguments: Value| ask(&stored, &arguments);
    assert_eq!(ask(json!({"jq": "map(select(test(\"ERROR\"))) | length"})), "56");
    assert_eq!(
        ask(json!({"grep": "error", "aggregate": "count"})),
        r#"{"lines":500,"matching lines":56,"matches":56,"complete":true}"#
    );
    assert!(ask(json!({"where": "level=ERROR"})).contains("this answer is a text"));
    assert!(ask(json!({"limit": 5})).contains("use startLine and endLine"));
    assert_eq!(ask(json!({"grep": "ERROR", "limit": 1})), "1:line 0 ERROR\n");
    assert_eq!(ask(json!({"grep": "ERROR", "startLine": 2, "endLine": 12})), "10:line 9 ERROR\n");
}

#[test]
fn texts_at_a_path_have_lines() {
    let text: String = (1..=400).map(|at| format!("line {at}\n")).collect();
    let stored = stored(&json!({"id": 1, "stdout": text}).to_string());
    let ask = |arguments: Value| ask(&stored, &arguments);
    let range = json!({"path": "/stdout", "startLine": 3, "endLine": 4});
    assert_eq!(ask(range), "line 3\nline 4\n");
    assert!(ask(json!({"path": "/stdout", "startLine": 900})).contains("after the last line, 400"));
    assert!(ask(json!({"path": "/stdout", "limit": 3})).contains("use startLine and endLine"));
    assert_eq!(ask(json!({"path": "/stdout", "grep": "^line 77$"})), "77:line 77\n");
}

#[test]
fn members_of_an_object_are_records() {
    let version = |at: usize| {
        (
            format!("1.0.{at}"),
            json!({"size": at, "stable": at.is_multiple_of(2), "notes": "x".repeat(40)}),
        )
    };
    let versions: serde_json::Map<String, Value> = (0..120).map(version).collect();
    let stored = stored(&json!({"name": "p", "versions": versions}).to_string());
    let ask = |arguments: Value| ask(&stored, &arguments);
    let count = json!({"path": "/versions", "aggregate": "count"});
    assert_eq!(ask(count), r#"{"records":120,"count":120}"#);
    let totals = json!({"path": "/versions", "where": "stable=true", "aggregate": "max(size)"});
    assert_eq!(ask(totals), r#"{"records":60,"max(size)":118}"#);
    assert_eq!(ask(json!({"jq": ".versions | length"})), "120");
    let chosen = json!({"aggregate": "count", "where": "size>3 AND key ^= '1.0.1'"});
    assert_eq!(ask(chosen), r#"{"records":30,"count":30}"#);
}
