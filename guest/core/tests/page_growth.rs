//! Pages without an exact size grow to fill the budget.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "serde_json gives null for what is missing, and a panic is a failure"
)]

mod client;

use client::{cursor, first, payload, read};
use context_guard_test_kit::guard::NativeGuard;
use serde_json::{Value, json};

fn guard(policy: &Value) -> NativeGuard {
    NativeGuard::with_policy(&policy.to_string()).unwrap()
}

/// Returns the number of items on each page of a document, which is `{"items":[…]}`. Checks that
/// the pages add up to it, and fit the budget.
fn pages(guard: &NativeGuard, arguments: &Value, document: &Value) -> Vec<usize> {
    let mut answer = first(guard, arguments, &document.to_string()).unwrap();
    let (mut counts, mut all) = (Vec::new(), Vec::new());
    loop {
        let page = payload(&answer).unwrap();
        let items = page["items"].as_array().unwrap();
        counts.push(items.len());
        all.extend(items.clone());
        let meta = &answer["result"]["_meta"]["dev.context-guard/result"];
        if !meta.is_null() {
            assert!(meta["budgetUsed"].as_f64().unwrap() <= 1.0, "{meta}");
            assert_eq!(page["meta"]["totalCount"], document["items"].as_array().unwrap().len());
        }
        if meta["nextCursor"].is_null() {
            break;
        }
        answer = read(guard, &json!({ "cursor": cursor(&answer) })).unwrap();
    }
    assert_eq!(Value::from(all), document["items"]);
    counts
}

fn records(count: usize) -> Value {
    let record = |at| json!({"id": at, "name": format!("room {at}")});
    json!({ "items": (0..count).map(record).collect::<Vec<_>>() })
}

#[test]
fn scalars_fill_the_budget() {
    let numbers = json!({ "items": (0..20_000).collect::<Vec<_>>() });
    let guard = guard(&json!({}));
    let counts = pages(&guard, &json!({}), &numbers);
    let full = counts.split_last().unwrap().1;
    assert!(full.iter().all(|count| *count > 500), "{counts:?}");
    let answer = first(&guard, &json!({}), &numbers.to_string()).unwrap();
    let used = answer["result"]["_meta"]["dev.context-guard/result"]["budgetUsed"].as_f64();
    assert!(used > Some(0.7), "{used:?}");
    // What fits passes unchanged.
    let few = json!({ "items": (0..600).collect::<Vec<_>>() });
    assert_eq!(pages(&guard, &json!({}), &few), [600]);
}

#[test]
fn records_grow_to_the_largest_page() {
    let counts = pages(&guard(&json!({"tokenBudgetThreshold": 9_000})), &json!({}), &records(900));
    assert_eq!(counts, [200, 200, 200, 200, 100]);
    let small = json!({"tokenBudgetThreshold": 9_000, "maxPageSize": 80});
    assert_eq!(pages(&guard(&small), &json!({}), &records(300)), [80, 80, 80, 60]);
    // What fits passes unchanged.
    assert_eq!(pages(&guard(&json!({})), &json!({}), &records(120)), [120]);
}

#[test]
fn requested_and_configured_sizes_are_exact() {
    let open = guard(&json!({}));
    assert_eq!(pages(&open, &json!({"limit": 60}), &records(130)), [60, 60, 10]);
    let exact = guard(&json!({"defaultPageSize": 50}));
    assert_eq!(pages(&exact, &json!({}), &records(130)), [50, 50, 30]);
    let of_tool = json!({"endpoints": [{"match": "list", "defaultPageSize": 40}]});
    assert_eq!(pages(&guard(&of_tool), &json!({}), &records(100)), [40, 40, 20]);
}
