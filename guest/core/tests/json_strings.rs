//! JSON inside a JSON string is paged and queried like plain JSON.

#![allow(clippy::indexing_slicing, reason = "serde_json gives null for what is missing")]

mod client;

use anyhow::{Context as _, Result, ensure};
use client::{cursor, first, read, text};
use context_guard_test_kit::guard::NativeGuard;
use serde_json::{Value, json};

const COUNT: usize = 600;

fn records() -> Vec<Value> {
    let record = |id| json!({"id": id, "name": format!("Guest \"{id}\"\n\\"), "note": "é 😀"});
    (0..COUNT).map(record).collect()
}

/// Returns the forms in which servers encode the records twice.
fn forms() -> Vec<String> {
    let bare = Value::from(records());
    let (line, pretty) = (bare.to_string(), format!("{bare:#}"));
    let object = json!({"rows": records(), "page": 1}).to_string();
    vec![
        Value::from(line.as_str()).to_string(),
        Value::from(pretty.as_str()).to_string(),
        Value::from(object.as_str()).to_string(),
        json!({"result": line}).to_string(),
        format!("{:#}", json!({"ok": true, "data": {"body": pretty}, "next": null})),
        format!("Found 600 records:\n{}", json!({"result": object})),
    ]
}

fn items(answer: &Value) -> Result<Vec<Value>> {
    let text = text(answer);
    let json = text.strip_prefix("Found 600 records:\n").unwrap_or(text);
    let page: Value = serde_json::from_str(json).with_context(|| text.to_owned())?;
    // A query of a bare list has a bare list as its result.
    let places = ["", "/items", "/rows", "/result", "/data/body", "/result/rows"];
    let found = places.iter().filter_map(|place| page.pointer(place)?.as_array());
    Ok(found.flatten().cloned().collect())
}

#[test]
fn records_in_a_string_are_paged() -> Result<()> {
    for document in forms() {
        let guard = NativeGuard::with_policy("")?;
        let answer = first(&guard, &json!({"fields": "all"}), &document)?;
        ensure!(answer.to_string().contains("Of the JSON in a string: "), "{answer}");
        let (mut found, mut next) = (items(&answer)?, cursor(&answer));
        while let Some(cursor) = next {
            let answer = read(&guard, &json!({"cursor": cursor, "fields": "all"}))?;
            found.extend(items(&answer)?);
            let meta = &answer["result"]["_meta"]["dev.context-guard/result"];
            next = meta["nextCursor"].as_str().map(str::to_owned);
        }
        ensure!(found == records(), "{} records of {document:.90}", found.len());
    }
    Ok(())
}

#[test]
fn records_in_a_string_are_queried() -> Result<()> {
    for document in forms() {
        let guard = NativeGuard::with_policy("")?;
        let cursor = cursor(&first(&guard, &json!({}), &document)?).context("no cursor")?;
        let counted = read(&guard, &json!({"cursor": cursor, "aggregate": "count"}))?;
        ensure!(text(&counted).contains(r#""count":600"#), "{counted}");
        let found = read(&guard, &json!({"cursor": cursor, "where": "id>=590"}))?;
        ensure!(items(&found)?.len() == 10, "{found}");
    }
    Ok(())
}

#[test]
fn small_and_unescaped_documents_are_sent_whole() -> Result<()> {
    let guard = NativeGuard::with_policy(r#"{"tokenBudgetThreshold": 1500}"#)?;
    let document = |count| json!({"text": "\"a\\b\"\n\"".repeat(count)}).to_string();
    let wrapped = |count| Value::from(document(count)).to_string();
    let small = first(&guard, &json!({}), &wrapped(20))?;
    ensure!(text(&small) == wrapped(20), "{small}");
    // Its escapes exceed the budget, and the document does not.
    let large = first(&guard, &json!({}), &wrapped(150))?;
    ensure!(text(&large) == document(150), "{large}");
    ensure!(large.to_string().contains("The whole answer, with the JSON in a string"), "{large}");
    Ok(())
}
