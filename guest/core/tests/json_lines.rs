//! JSON Lines are lists of records, unless they are the entries of a log.
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

fn meta(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["dev.context-guard/result"]
}

fn event(at: usize) -> Value {
    let kind = ["PushEvent", "ForkEvent", "WatchEvent"][at % 3];
    json!({
        "id": 34_502_641_000_usize + at,
        "type": kind,
        "actor": {"login": format!("user{at}"), "avatar": format!("https://example.com/u/{at}")},
        "payload": {"message": "Merge the latest release. ".repeat(at % 7 + 3), "size": at % 5},
    })
}

fn lines(records: impl Iterator<Item = Value>) -> String {
    records.map(|record| format!("{record}\n")).collect()
}

#[test]
fn records_are_a_list_with_statistics() {
    let guard = guard();
    let events = lines((0..300).map(event));
    let answer = first(&guard, &json!({}), &events).unwrap();
    assert_eq!(
        (&meta(&answer)["kind"], &meta(&answer)["meta"]["totalCount"]),
        (&json!("page"), &json!(300))
    );
    let shown = payload(&answer).unwrap_or_else(|_| {
        serde_json::from_str(text(&answer).split("\n\n[context-guard]").next().unwrap()).unwrap()
    });
    assert!(shown["items"].as_array().unwrap().len() > 50, "{}", text(&answer));
    assert!(answer.to_string().contains("PushEvent 100"), "{answer}");
}

#[test]
fn pages_are_the_lines_in_order() {
    let guard = guard();
    let events = lines((0..300).map(event));
    let mut answer = first(&guard, &json!({"fields": "all"}), &events).unwrap();
    let mut walked = Vec::new();
    loop {
        walked.extend(payload(&answer).unwrap()["items"].as_array().unwrap().clone());
        if meta(&answer)["nextCursor"].is_null() {
            break;
        }
        answer = read(&guard, &json!({ "cursor": cursor(&answer) })).unwrap();
    }
    assert_eq!(walked, (0..300).map(event).collect::<Vec<_>>());
}

#[test]
fn queries_address_records_and_lines() {
    let guard = guard();
    let events = lines((0..300).map(event));
    let answer = first(&guard, &json!({}), &events).unwrap();
    let ask = |arguments: Value| {
        let mut arguments = arguments;
        arguments["cursor"] = cursor(&answer).into();
        text(&read(&guard, &arguments).unwrap()).to_owned()
    };
    assert!(ask(json!({"where": "actor.login = user299"})).contains("34502641299"));
    assert!(ask(json!({"aggregate": "count by type"})).contains("100"));
    let line = ask(json!({"startLine": 300, "endLine": 300}));
    assert_eq!(serde_json::from_str::<Value>(line.lines().next().unwrap()).unwrap(), event(299));
}

#[test]
fn lines_that_are_no_records_are_reported() {
    let guard = guard();
    let broken = format!("# events\n{}{},\n", lines((0..300).map(event)), event(300));
    let answer = first(&guard, &json!({}), &broken).unwrap();
    let ask = |arguments: Value| {
        let mut arguments = arguments;
        arguments["cursor"] = cursor(&answer).into();
        read(&guard, &arguments).unwrap()
    };
    let note = "without the 2 lines that are no JSON objects";
    for arguments in [
        json!({"aggregate": "count"}),
        json!({"aggregate": "max(id)"}),
        json!({"where": "id >= 34502641299"}),
        json!({"where": "payload.size = 1", "fields": "id"}),
        json!({"fields": "id"}),
        json!({"jq": "length"}),
        json!({"grep": "user299"}),
    ] {
        let answer = ask(arguments.clone()).to_string();
        assert_eq!(answer.matches(note).count(), 2, "{arguments}: {answer}");
    }
    assert!(text(&ask(json!({"grep": "34502641300"}))).contains("34502641300"));
    let whole = first(&guard, &json!({}), &lines((0..300).map(event))).unwrap();
    let answer = read(&guard, &json!({"cursor": cursor(&whole), "aggregate": "count"})).unwrap();
    assert!(!answer.to_string().contains("no JSON"), "{answer}");
}

#[test]
fn what_fits_is_unchanged() {
    let few = lines((0..250).map(|at| json!({ "id": at })));
    let answer = first(&guard(), &json!({}), &few).unwrap();
    assert_eq!(text(&answer), few);
}

#[test]
fn log_entries_are_lines() {
    let entry = |at: usize| {
        let level = if at == 700 { "error" } else { "info" };
        json!({"time": format!("2026-01-02T10:{:02}:{:02}Z", at / 60 % 60, at % 60), "level": level,
               "msg": format!("request {at} was served by worker {}", at % 9)})
    };
    let answer = first(&guard(), &json!({}), &lines((0..900).map(entry))).unwrap();
    assert_eq!(meta(&answer)["kind"], "chunk");
    assert!(answer.to_string().contains("request 700"), "{answer}");
}
