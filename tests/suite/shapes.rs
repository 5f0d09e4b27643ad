//! Answers of unusual shapes: each is within its budget, contains the key facts, and is recovered
//! whole.

use context_guard_test_support::answer::Answer;
use context_guard_test_support::guards::NativeGuard;
use context_guard_test_support::walk::{pages, shape};
use context_guard_test_support::{Context, Result, ensure};
use serde_json::{Value, json};

const WORDS: &str = "The house stands by the sea and has a garden with old trees. Guests arrive after three and leave before eleven. ";

/// Shapes a text within 1,000 tokens. The answer must contain all `key_facts`, have this loss
/// class, and lead to the text.
fn check(name: &str, text: &str, loss: &str, needles: &[&str]) -> Result<Answer> {
    let policy = json!({"tokenBudgetThreshold": 1_000, "summaryThreshold": 1_000});
    let host = NativeGuard::with_policy(&policy.to_string())?;
    let message =
        json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}});
    let shaped = shape(&host, "t", &json!({}), message.to_string().as_bytes())?
        .with_context(|| format!("{name} was not shaped"))?;
    let shaped = Answer::read(&shaped)?;
    let seen = shaped.all_texts().join("\n");
    ensure!(shaped.metadata()["loss"] == loss, "{name}: {}", shaped.metadata());
    ensure!(shaped.tokens() <= 1_000, "{name}: {} tokens", shaped.tokens());
    for needle in needles {
        ensure!(seen.contains(needle), "{name}: {needle} is not in\n{seen}");
    }
    let pieces = pages(&host, shaped.clone())?;
    let kinds: Vec<&Value> = pieces.iter().map(|piece| &piece.metadata()["kind"]).collect();
    if kinds.iter().all(|kind| **kind == "chunk") {
        let whole: String = pieces.iter().flat_map(Answer::texts).collect();
        ensure!(whole == text, "{name}: the chunks are not the text");
    } else {
        let items = context_guard_test_support::walk::items(&pieces)?;
        let mut lists = Vec::new();
        collect(&serde_json::from_str(text)?, &mut lists);
        ensure!(
            lists.contains(&items),
            "{name}: {} items are not the list, {kinds:?}",
            items.len()
        );
    }
    Ok(shaped)
}

fn collect(value: &Value, lists: &mut Vec<Vec<Value>>) {
    match value {
        Value::Array(items) => {
            lists.push(items.clone());
            items.iter().for_each(|item| collect(item, lists));
        }
        Value::Object(members) => {
            // Items are numbered through all lists of a document.
            let together: Vec<Value> =
                members.values().filter_map(Value::as_array).flatten().cloned().collect();
            lists.push(together);
            members.values().for_each(|value| collect(value, lists));
        }
        _ => {}
    }
}

fn records(count: usize) -> Vec<Value> {
    (0..count)
        .map(|id| {
            json!({
                "id": id,
                "name": format!("House {id}"),
                "status": "open",
                "description": WORDS.repeat(3),
                "tags": ["sea", "garden", "dogs", "wifi"],
                "api_url": format!("https://api.example.org/{id}/x"),
            })
        })
        .collect()
}

#[test]
fn every_record_keeps_its_name() -> Result<()> {
    let shaped = check(
        "list",
        &Value::from(records(25)).to_string(),
        "condensed",
        &[r#""id":24,"name":"House 24""#, "NOT shown"],
    )?;
    let items = shaped.json()?["items"].as_array().cloned().context("no items")?;
    ensure!(
        items.len() == 25 && items.iter().all(|item| item.get("api_url").is_none()),
        "{items:?}"
    );
    // All records have the same fields.
    let keys =
        |item: &Value| item.as_object().map(|members| members.keys().cloned().collect::<Vec<_>>());
    ensure!(items.iter().all(|item| keys(item) == keys(&items[0])));
    Ok(())
}

#[test]
fn irregular_records_are_shown() -> Result<()> {
    let mut list = records(20);
    list.insert(3, json!("a plain string"));
    list.insert(7, json!({"kind": "advert", "text": "buy this"}));
    list.insert(9, json!(null));
    list.insert(11, json!([1, 2, 3]));
    let shaped = check(
        "odd records",
        &Value::from(list).to_string(),
        "condensed",
        &["a plain string", "advert"],
    )?;
    ensure!(shaped.json()?["items"].as_array().map(Vec::len) == Some(24));
    Ok(())
}

#[test]
fn items_are_numbered_across_lists() -> Result<()> {
    let document = json!({"open": records(14), "closed": records(12)});
    check(
        "two lists",
        &document.to_string(),
        "condensed",
        &["open 14 of 14", "closed 12 of 12", "House 13"],
    )
    .map(drop)
}

#[test]
fn nested_lists_are_truncated_with_a_mark() -> Result<()> {
    let nested: Vec<Value> = (0..12)
        .map(|id| {
            let line = |line: u32| json!({"sku": format!("S-{line}"), "quantity": line});
            let lines: Vec<Value> = (0..30).map(line).collect();
            json!({"id": id, "name": format!("order {id}"), "lines": lines})
        })
        .collect();
    check("nested lists", &Value::from(nested).to_string(), "condensed", &["order 11"]).map(drop)
}

#[test]
fn wide_and_deep_objects_are_summarized() -> Result<()> {
    let wide: serde_json::Map<String, Value> =
        (0..600).map(|at| (format!("setting_{at}"), json!(at * 3))).collect();
    check(
        "wide",
        &Value::Object(wide).to_string(),
        "condensed",
        &["setting_0", "setting_99", "more fields", "list items NOT shown"],
    )?;
    let mut deep = json!("the bottom of it all ".repeat(90));
    for level in (0..120).rev() {
        deep = json!({"level": level, "child": deep});
    }
    check("deep", &deep.to_string(), "condensed", &[r#""level":0"#, "SUMMARY"])?;
    Ok(())
}

#[test]
fn huge_value_keeps_head_and_tail() -> Result<()> {
    let text = format!("{}And this is how it ended.", WORDS.repeat(80));
    check(
        "scalar",
        &serde_json::to_string(&text)?,
        "partial",
        &["The house stands", "this is how it ended"],
    )?;
    check("one line", &text, "partial", &["The house stands", "this is how it ended"])?;
    let literal = format!(
        "[{}]",
        (0..400).map(|at| format!("{{'id': {at}, 'ok': True}}")).collect::<Vec<_>>().join(", ")
    );
    check(
        "python literal",
        &literal,
        "partial",
        &["{'id': 0, 'ok': True}", "{'id': 399, 'ok': True}]"],
    )?;
    Ok(())
}

#[test]
fn rows_and_tables_are_described() -> Result<()> {
    let ndjson: String = (0..400)
        .map(|at| {
            let level = if at == 333 { "error" } else { "info" };
            json!({"id": at, "level": level, "msg": format!("request {at}")}).to_string() + "\n"
        })
        .collect();
    check(
        "ndjson",
        &ndjson,
        "partial",
        &[r#"{"id":0,"#, "request 333", "1 errors", "request 399"],
    )?;
    let csv: String = std::iter::once("id,name,total\n".to_owned())
        .chain((0..500).map(|at| format!("{at},guest {at},{}\n", at * 3)))
        .collect();
    check(
        "csv",
        &csv,
        "partial",
        &["id,name,total", "500 rows", "499,guest 499,1497", "a sample between"],
    )?;
    let table: String = "| id | name |\n|---|---|\n".to_owned()
        + &(0..400).map(|at| format!("| {at} | guest {at} |\n")).collect::<String>();
    check("markdown table", &table, "partial", &["| id | name |", "| 399 | guest 399 |"])?;
    Ok(())
}

#[test]
fn documents_have_an_outline() -> Result<()> {
    let markdown: String = (0..60).map(|at| format!("# Part {at}\n\n{WORDS}\n\n")).collect();
    check("markdown", &markdown, "partial", &["# Part 0", "# Part 59"])?;
    let code: String = (0..60).map(|at| format!("pub fn item_{at}(value: u32) -> u32 {{\n    let sum = value + {at};\n    sum * 2\n}}\n\n")).collect();
    check("source", &code, "partial", &["pub fn item_0", "items:", "pub fn item_20"])?;
    let diff: String = (0..50).map(|at| format!("diff --git a/f{at}.rs b/f{at}.rs\n--- a/f{at}.rs\n+++ b/f{at}.rs\n@@ -1,2 +1,2 @@\n-old {at}\n+new {at}\n")).collect();
    check("diff", &diff, "partial", &["files and hunks:", "f20.rs (+1 -1)"])?;
    let page: String = "<!DOCTYPE html>\n<html><body>\n".to_owned()
        + &(0..60).map(|at| format!("<h2>Section {at}</h2>\n<p>{WORDS}</p>\n")).collect::<String>()
        + "</body></html>\n";
    check("html", &page, "partial", &["<h2>Section 0</h2>", "## Section 20 (line"])?;
    Ok(())
}

#[test]
fn log_errors_come_first() -> Result<()> {
    let log: String = (0..2_000)
        .map(|at| match at % 400 {
            250 => format!("2026-01-02 10:00:00 ERROR payment {at} failed\njava.lang.Error: refused\n\tat a.b(C.java:1)\n"),
            300 => "2026-01-02 10:00:00 WARN the disk is nearly full\n".to_owned(),
            _ => format!("2026-01-02 10:00:00 INFO booking {at} confirmed and paid in full by card\n"),
        })
        .collect();
    let needles = [
        "payment 250 failed",
        "payment 650 failed",
        "payment 1850 failed",
        "at a.b(C.java:1)",
        "nearly full (x5",
        "booking 1999",
    ];
    check("log", &log, "partial", &needles).map(drop)
}

#[test]
fn pretty_list_is_paged() -> Result<()> {
    let rows: Vec<Value> = (0..400).map(|id| json!({ "id": id })).collect();
    let text = serde_json::to_string_pretty(&rows)?;
    let host = NativeGuard::with_policy(r#"{"tokenBudgetThreshold": 1100}"#)?;
    let message =
        json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}});
    for (guard, counts) in [(json!({}), 51..200), (json!({"limit": 20}), 20..21)] {
        let shaped =
            shape(&host, "t", &guard, message.to_string().as_bytes())?.context("not shaped")?;
        let page = Answer::read(&shaped)?.json()?;
        let count = page["items"].as_array().context("no items")?.len();
        ensure!(counts.contains(&count), "{page}");
    }
    Ok(())
}
