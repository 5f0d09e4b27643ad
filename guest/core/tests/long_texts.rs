//! A long text inside JSON is shown like a text: its beginning, errors, outline and end, and all of
//! it behind the cursor.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "serde_json gives null for what is missing, and a panic is a failure"
)]

mod client;

use client::{cursor, first, payload, read, text};
use context_guard_test_kit::guard::NativeGuard;
use serde_json::{Value, json};

fn guard() -> NativeGuard {
    NativeGuard::with_policy("{}").unwrap()
}

/// Returns a log of 6,000 lines with one error, two warnings and a result at the end.
fn log() -> String {
    let line = |at: usize| match at {
        3_100 => "10:11:12 ERROR payment gateway timed out for order 8812".to_owned(),
        4_000 | 4_500 => format!("10:11:12 WARN slow query took {at} ms"),
        5_999 => "10:39:59 INFO 41 of 42 jobs finished".to_owned(),
        _ => format!("10:{:02}:{:02} INFO request {at} handled", at / 60 % 60, at % 60),
    };
    (0..6_000).map(|at| line(at) + "\n").collect()
}

/// Returns the first answer to `document`. Checks that it uses its budget, and that the path which
/// it suggests leads to `whole`.
fn answer(document: &Value, path: &str, whole: &str) -> Value {
    let guard = guard();
    let answer = first(&guard, &json!({}), &document.to_string()).unwrap();
    let meta = &answer["result"]["_meta"]["dev.context-guard/result"];
    let used = meta["budgetUsed"].as_f64().unwrap();
    assert!((0.7..=1.0).contains(&used), "{meta}");
    let parameters = &meta["detailsAvailable"]["parameters"];
    assert_eq!(parameters["path"], path, "{meta}");
    let (mut part, mut text_parts) = (read(&guard, parameters).unwrap(), String::new());
    loop {
        text_parts.push_str(text(&part));
        let Some(cursor) = cursor(&part) else { break };
        part = read(&guard, &json!({ "cursor": cursor })).unwrap();
    }
    assert!(text_parts == whole, "{} of {} bytes", text_parts.len(), whole.len());
    payload(&answer).unwrap()["summary"].clone()
}

#[test]
fn log_in_an_object_shows_errors_and_end() {
    let document = json!({"command": "kubectl logs api-7", "stdout": log(), "exitCode": 1});
    let summary = answer(&document, "/stdout", &log());
    assert_eq!((&summary["exitCode"], &summary["command"]), (&json!(1), &document["command"]));
    let shown = summary["stdout"].as_str().unwrap();
    for part in [
        "10:00:00 INFO request 0 handled\n",
        " more lines]\n",
        "1 errors, 2 warnings:\n",
        "3101: 10:11:12 ERROR payment gateway timed out for order 8812\n",
        "WARN slow query took 4000 ms",
        "6000: 10:39:59 INFO 41 of 42 jobs finished",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn text_in_a_list_is_not_cut_into_items() {
    let document = json!({"content": [{"type": "text", "text": log()}], "isError": false});
    let summary = answer(&document, "/content/0/text", &log());
    let shown = summary["content"][0]["text"].as_str().unwrap();
    assert!(shown.contains("ERROR payment gateway timed out"), "{shown}");
}

#[test]
fn page_shows_its_outline() {
    let page: String = (1..600)
        .map(|at| format!("# Part {at}\n\nSome words about part {at}, and a few more.\n\n"))
        .collect();
    let document = json!({"title": "Handbook", "body": {"format": "markdown", "value": page}});
    let summary = answer(&document, "/body/value", &page);
    assert_eq!(summary["title"], "Handbook");
    let shown = summary["body"]["value"].as_str().unwrap();
    assert!(shown.contains("sections:\n") && shown.contains("words about part 599"), "{shown}");
}

#[test]
fn source_code_has_no_errors() {
    let code: String = (0..1_500)
        .map(|at| format!("fn error_{at}() -> Error {{\n    warn!(\"failed\");\n}}\n"))
        .collect();
    let files = json!([{"path": "a.rs", "content": code}, {"path": "b.rs", "content": "short"}]);
    let summary = answer(&files, "/0/content", &code);
    assert_eq!(summary[1]["content"], "short");
    let shown = summary[0]["content"].as_str().unwrap();
    assert!(!shown.contains(" errors, "), "{shown}");
}

#[test]
fn line_without_breaks_shows_its_end() {
    let page: String = (0..8_000).map(|at| format!("word {at} is here. ")).collect();
    let document = json!({"ok": true, "html": page});
    let summary = answer(&document, "/html", &page);
    let shown = summary["html"].as_str().unwrap();
    assert!(shown.contains("word 400 is here.") && shown.contains("word 7999 is here."), "{shown}");
}

#[test]
fn many_short_lines_are_a_text() {
    let numbers: String = (1..6_000).map(|number| format!("{number}\n")).collect();
    let document = json!({"stdout": numbers, "stderr": "", "exitCode": 0});
    let shown = answer(&document, "/stdout", &numbers);
    assert!(shown["stdout"].as_str().unwrap().starts_with("1\n2\n3\n4\n"), "{shown}");
}
