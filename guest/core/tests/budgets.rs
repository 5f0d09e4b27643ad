//! A larger budget never shows less.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "serde_json gives null for what is missing, and a panic is a failure"
)]

mod client;

use std::collections::BTreeSet;

use client::first;
use context_guard_core::tokens::Estimator;
use context_guard_test_kit::guard::NativeGuard;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Field names of each priority, with the kind of their values.
const FIELDS: [(&str, usize); 16] = [
    ("name", 1),
    ("title", 2),
    ("status", 0),
    ("type", 0),
    ("created_at", 3),
    ("total", 4),
    ("url", 5),
    ("score", 4),
    ("price", 6),
    ("email", 1),
    ("color", 0),
    ("nights", 4),
    ("floor", 4),
    ("description", 7),
    ("content", 7),
    ("node_id", 1),
];

fn value(kind: usize, at: usize, words: usize) -> Value {
    match kind {
        0 => ["open", "done", "held"][at % 3].into(),
        1 => format!("Guest {at}").into(),
        2 => format!("Stay {at} {}", "by the sea ".repeat(words % 9)).into(),
        3 => format!("2026-01-{:02}T10:00:00Z", at % 28 + 1).into(),
        4 => (at * 7 % 1_000).into(),
        5 => format!("https://example.com/stays/{at}").into(),
        6 => json!({"total": at % 90, "currency": "EUR", "tax": at % 9}),
        _ => format!("The house {at} stands by the sea. ").repeat(words).into(),
    }
}

/// Returns the number of items that an answer shows, and three counts of their fields: those that
/// identify items, those with a state, and other key fields.
fn shown(budget: u64, document: &str, records: &[Value]) -> (u64, [usize; 3]) {
    let policy = json!({"tokenBudgetThreshold": budget, "hardCap": 40_000}).to_string();
    let guard = NativeGuard::with_policy(&policy).unwrap();
    let answer = first(&guard, &json!({}), document).unwrap();
    let meta = &answer["result"]["_meta"]["dev.context-guard/result"];
    // What fits is divided into pages only because it is longer than one.
    let allowance = Estimator::default().allowance(budget);
    if meta["originalTokens"].as_u64().unwrap_or_default() <= allowance {
        return (records.len() as u64, [usize::MAX; 3]);
    }
    let items = meta["shown"].as_u64().unwrap();
    let Some(fields) = meta["projectedFields"].as_array() else { return (items, [usize::MAX; 3]) };
    let count = |names: &[&str]| {
        let is_named = |field: &&Value| {
            field
                .as_str()
                .is_some_and(|path| names.contains(&path.rsplit('.').next().unwrap_or(path)))
        };
        fields.iter().filter(is_named).count()
    };
    let keys = ["created_at", "total", "url", "score", "email"];
    (items, [count(&["id", "name", "title"]), count(&["status", "type"]), count(&keys)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn larger_budget_shows_no_fewer_items_or_key_fields(
        fields in prop::sample::subsequence(FIELDS.to_vec(), 2..=FIELDS.len()),
        words in 1usize..12,
        count in 60usize..400,
        // From 600 tokens on, statistics take the place of some items.
        budgets in prop::collection::vec(640u64..14_000, 6),
        bare: bool,
    ) {
        let record = |at: usize| {
            let mut record = Map::new();
            record.insert("id".to_owned(), format!("BK-{at:04}").into());
            let members = fields.iter();
            let members =
                members.map(|(name, kind)| ((*name).to_owned(), value(*kind, at, words)));
            record.extend(members);
            Value::Object(record)
        };
        let records: Vec<Value> = (0..count).map(record).collect();
        let document = match bare {
            true => Value::from(records.clone()),
            false => json!({"bookings": records, "page": 1}),
        };
        let document = document.to_string();
        let mut budgets = budgets;
        budgets.sort_unstable();
        let all: Vec<(u64, [usize; 3])> =
            budgets.iter().map(|budget| shown(*budget, &document, &records)).collect();
        for pair in all.windows(2) {
            let [(less, few), (more, many)] = pair else { continue };
            // Items come first, then the fields that identify them.
            prop_assert!((more, many[0]) >= (less, few[0]), "{:?} at {:?}", all, budgets);
            // One long key field may take the place of a shorter one.
            let (few_keys, many_keys) =
                (few[1].saturating_add(few[2]), many[1].saturating_add(many[2]));
            let is_more = (more, many[0]) > (less, few[0]);
            prop_assert!(is_more || many_keys.saturating_add(1) >= few_keys, "{:?} at {:?}", all, budgets);
        }
    }
}

/// Returns 500 bookings as a tool of a travel service lists them.
fn bookings() -> String {
    let booking = |at: usize| {
        json!({
            "id": format!("BK-{at:04}"), "title": format!("Stay by the sea {at}"), "type": "stay",
            "status": value(0, at, 0),
            "created_at": format!("2026-01-{:02}T10:00:00Z", at % 28 + 1),
            "url": format!("https://example.com/stays/{at}"), "score": at % 50,
            "guest": {"name": format!("Guest {at}"), "email": format!("g{at}@example.com")},
            "price": {"total": 100 + at, "currency": "EUR"},
            "content": "The house stands by the sea and has a garden. ".repeat(9),
        })
    };
    json!({"bookings": (0..500).map(booking).collect::<Vec<_>>(), "page": 1}).to_string()
}

#[test]
fn budget_is_spent_on_fields_of_the_shown_items() {
    let guard = NativeGuard::with_policy("").unwrap();
    let answer = first(&guard, &json!({}), &bookings()).unwrap();
    let meta = &answer["result"]["_meta"]["dev.context-guard/result"];
    assert_eq!(meta["shown"], 50);
    assert!(meta["budgetUsed"].as_f64() > Some(0.75), "{meta}");
    assert_eq!(meta["constantFields"]["type"], "stay");
    let shown = client::payload(&answer).unwrap()["bookings"][7].clone();
    for key in ["id", "title", "status", "url"] {
        assert!(!shown[key].is_null(), "{key} is missing in {shown}");
    }
    assert_eq!(shown["price"]["total"], 107);
}

#[test]
fn larger_budget_is_used() {
    let document = bookings();
    let tokens = |budget: u64| {
        let policy = json!({ "tokenBudgetThreshold": budget }).to_string();
        let guard = NativeGuard::with_policy(&policy).unwrap();
        let answer = first(&guard, &json!({}), &document).unwrap();
        answer["result"]["_meta"]["dev.context-guard/result"]["estimatedTokens"].as_u64()
    };
    let all: Vec<_> = [1_000, 1_500, 2_000, 2_500, 3_000, 4_000].into_iter().map(tokens).collect();
    assert!(all.is_sorted(), "{all:?}");
}

#[test]
fn text_within_the_budget_passes() {
    let text: String =
        (0..320).map(|line| format!("line {line}: the house by the sea\n")).collect();
    let is_whole = |policy: &str| {
        let guard = NativeGuard::with_policy(policy).unwrap();
        client::text(&first(&guard, &json!({}), &text).unwrap()) == text
    };
    assert!(is_whole(""));
    assert!(!is_whole(r#"{"tokenBudgetThreshold": 2000}"#));
    assert!(!is_whole(r#"{"chunkSize": 100}"#));
    assert!(!is_whole(r#"{"chunkThreshold": 1500}"#));
}

#[test]
fn equal_calls_have_equal_answers() {
    let log: String = (0..900)
        .map(|line| format!("10:00:00 INFO booking {line} of the house by the sea\n"))
        .collect();
    for (name, document) in [("list", bookings()), ("log", log)] {
        for budget in (300..4_000).step_by(170) {
            let policy = json!({ "tokenBudgetThreshold": budget }).to_string();
            let answers: BTreeSet<String> = (0..12_u64)
                .map(|caller| {
                    // Another key and time make another cursor.
                    let key = format!("the key of caller {caller}");
                    let now_ms = 1_795_000_000_000 + caller * 86_400_000;
                    let guard =
                        NativeGuard::new(&policy, "alice", now_ms, &[key.as_bytes()]).unwrap();
                    let answer = first(&guard, &json!({}), &document).unwrap();
                    let cursor = client::cursor(&answer).unwrap();
                    answer.to_string().replace(&cursor, "CURSOR")
                })
                .collect();
            assert_eq!(answers.len(), 1, "{name}, {budget}: {answers:#?}");
        }
    }
}
