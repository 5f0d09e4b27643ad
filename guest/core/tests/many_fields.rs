//! Documents with many different fields are answered in a time that grows with their size.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "serde_json gives null for what is missing, and a panic is a failure"
)]

mod client;

use client::{cursor, first, read, text};
use context_guard_test_kit::guard::NativeGuard;
use serde_json::{Map, Value, json};

/// Returns objects in objects, `width` in each and `depth` deep, in which no key occurs twice.
fn tree(width: usize, depth: usize, key: &str) -> Value {
    if depth == 0 {
        return json!(key.len());
    }
    let member = |at: usize| {
        let key = format!("{key}{}", char::from(b'a' + u8::try_from(at).unwrap()));
        let value = tree(width, depth - 1, &key);
        (key, value)
    };
    Value::from((0..width).map(member).collect::<Map<_, _>>())
}

/// Returns `count` resources, each with ten attributes of its own.
fn resources(count: usize) -> Value {
    let resource = |at: usize| {
        let attribute = |field: usize| (format!("attribute_{at}_{field}"), json!(at + field));
        let attributes = Value::from((0..10).map(attribute).collect::<Map<_, _>>());
        (format!("resource_{at}"), json!({"id": at, "attributes": attributes}))
    };
    json!({"resources": (0..count).map(resource).collect::<Map<_, _>>()})
}

/// Returns the first answer to a call whose upstream sends `document`. Checks that its cursor leads
/// to the whole document, byte for byte.
fn answer(document: &str) -> Value {
    let guard = NativeGuard::with_policy("{}").unwrap();
    let first = first(&guard, &json!({}), document).unwrap();
    let meta = &first["result"]["_meta"]["dev.context-guard/result"];
    assert!(meta["budgetUsed"].as_f64().unwrap() <= 1.0, "{meta}");
    let (mut next, mut whole) = (cursor(&first), String::new());
    while let Some(cursor_of_part) = next {
        let part = read(&guard, &json!({"cursor": cursor_of_part})).unwrap();
        whole.push_str(text(&part));
        next = cursor(&part);
    }
    assert!(whole == document, "{} of {} bytes", whole.len(), document.len());
    first
}

#[test]
fn thousands_of_fields_are_summarized() {
    // 11,110 fields.
    let first = answer(&tree(10, 4, "").to_string());
    let meta = &first["result"]["_meta"]["dev.context-guard/result"];
    assert_eq!(meta["kind"], "preview", "{meta}");
    assert_eq!(meta["totalFields"], 10_000, "{meta}");
    // 20,000 attributes.
    let first = answer(&resources(2_000).to_string());
    let meta = &first["result"]["_meta"]["dev.context-guard/result"];
    assert_eq!(meta["kind"], "preview", "{meta}");
}

#[test]
fn more_fields_than_can_be_selected_are_described() {
    // 271,452 fields.
    let first = answer(&tree(12, 5, "").to_string());
    let meta = &first["result"]["_meta"]["dev.context-guard/result"];
    assert_eq!(meta["kind"], "description", "{meta}");
}
