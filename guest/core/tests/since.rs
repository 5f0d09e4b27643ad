//! Answers that are compared with an earlier answer of the same call.

#![allow(clippy::indexing_slicing, reason = "serde_json gives null for what is missing")]

mod client;

use anyhow::{Result, ensure};
use client::{cursor, first, payload, read};
use context_guard_core::json::text::Form;
use context_guard_core::tokens::{Estimator, OriginalCost};
use context_guard_test_kit::guard::{NativeGuard, TestGuard as _, Verdict};
use serde_json::{Value, json};

fn document(changes: &[(usize, &str)], count: usize) -> String {
    let note = "a few words that make the list longer than one page";
    let mut items: Vec<Value> =
        (0..count).map(|at| json!({"id": at, "state": "open", "note": note})).collect();
    for (at, state) in changes {
        items[*at]["state"] = json!(state);
    }
    json!({"items": items, "page": 1}).to_string()
}

fn guard(read_only: bool) -> Result<NativeGuard> {
    NativeGuard::with_policy(&json!({"readOnly": read_only}).to_string())
}

fn tag(guard: &NativeGuard, text: &str) -> Result<String> {
    cursor(&first(guard, &json!({}), text)?).ok_or_else(|| anyhow::anyhow!("no cursor"))
}

#[test]
fn equal_answers_are_unchanged() -> Result<()> {
    let guard = guard(true)?;
    let text = document(&[], 400);
    let tag = tag(&guard, &text)?;
    let answer = first(&guard, &json!({"since": tag}), &text)?;
    ensure!(payload(&answer)? == json!({"unchanged": true}), "{answer}");
    let result = answer["result"]["content"].to_string();
    let cost = OriginalCost::estimate(&Estimator::default(), result.as_bytes(), Form::Raw);
    ensure!(cost.tokens <= 120, "{} tokens: {result}", cost.tokens);
    // The answer has the tag for the next call, and leads to the whole.
    let next = cursor(&answer).ok_or_else(|| anyhow::anyhow!("no cursor"))?;
    let again = first(&guard, &json!({"since": next}), &text)?;
    ensure!(payload(&again)? == json!({"unchanged": true}), "{again}");
    let page = read(&guard, &json!({"cursor": next, "aggregate": "count"}))?;
    ensure!(payload(&page)?["count"] == 400, "{page}");
    // Without the argument, the whole answer is shown.
    ensure!(payload(&first(&guard, &json!({}), &text)?)?["items"].is_array());
    Ok(())
}

#[test]
fn changes_are_listed() -> Result<()> {
    let guard = guard(true)?;
    let before = document(&[], 400);
    let tag = tag(&guard, &before)?;
    let after =
        document(&[(7, "closed"), (390, "held")], 401).replacen("\"id\":3,", "\"id\":-3,", 1);
    let found = payload(&first(&guard, &json!({"since": tag}), &after)?)?;
    let ids = |name: &str| -> Vec<Value> {
        let records = found[name].as_array().into_iter().flatten();
        records.map(|record| record["id"].clone()).collect()
    };
    ensure!(ids("changed") == [json!(7), json!(390)], "{found}");
    ensure!(ids("added") == [json!(-3), json!(400)], "{found}");
    ensure!(found["removed"] == json!(["3"]) && found["unchanged"] == 397, "{found}");
    Ok(())
}

#[test]
fn small_and_other_answers_are_shown() -> Result<()> {
    let guard = guard(true)?;
    let tag = tag(&guard, &document(&[], 400))?;
    let answer = first(&guard, &json!({"since": tag}), "it failed")?;
    ensure!(client::text(&answer) == "it failed", "{answer}");
    Ok(())
}

#[test]
fn misuse_is_refused() -> Result<()> {
    let text = document(&[], 400);
    let read_only = guard(true)?;
    let tag = tag(&read_only, &text)?;
    let refusal = |guard: &NativeGuard, arguments: &Value| -> Result<String> {
        let answer = first(guard, arguments, &text)?;
        ensure!(answer["result"]["isError"] == true, "{answer}");
        Ok(client::text(&answer).to_owned())
    };
    ensure!(refusal(&guard(false)?, &json!({"since": tag}))?.contains("read-only"));
    ensure!(refusal(&read_only, &json!({"since": "forged"}))?.contains("cursor_invalid"));
    ensure!(refusal(&read_only, &json!({"since": tag, "fields": "id"}))?.contains("combined"));
    let answer = read(&read_only, &json!({"cursor": tag, "since": tag}))?;
    ensure!(client::text(&answer).contains("repeat the call of the tool"), "{answer}");
    Ok(())
}

/// Returns the answer to a call with verbatim arguments, whose upstream answers with `content`.
fn call(guard: &NativeGuard, arguments: &str, content: &Value) -> Result<Value> {
    let request = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"list","arguments":{arguments}}}}}"#
    );
    let message = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": content}}).to_string();
    let answer = match guard.request(request.as_bytes())? {
        Verdict::Forward(_, ticket) => guard.response(&ticket, message.as_bytes())?.0,
        Verdict::Answer(answer, _) => Some(answer),
    };
    Ok(serde_json::from_slice(&answer.unwrap_or_else(|| message.into_bytes()))?)
}

#[test]
fn only_answers_of_one_call_are_compared() -> Result<()> {
    let guard = guard(true)?;
    let content = json!([{"type": "text", "text": document(&[], 400)}]);
    let tag = cursor(&call(&guard, r#"{"repo":"a","n": 1}"#, &content)?);
    let tag = tag.ok_or_else(|| anyhow::anyhow!("no cursor"))?;
    let since = |arguments: &str| {
        let arguments = format!(r#"{{{arguments},"_guard":{{"since":"{tag}"}}}}"#);
        call(&guard, &arguments, &content)
    };
    // The order of arguments has no meaning.
    ensure!(payload(&since(r#""n":1,"repo":"a""#)?)? == json!({"unchanged": true}));
    for other in [r#""repo":"b","n":1"#, r#""repo":"a""#] {
        let answer = since(other)?;
        ensure!(answer["result"]["isError"] == true, "{answer}");
        ensure!(client::text(&answer).contains("a call with other arguments"), "{answer}");
    }
    Ok(())
}

#[test]
fn answers_of_several_blocks_are_shown() -> Result<()> {
    let guard = guard(true)?;
    let block = |at: usize| json!({"type": "text", "text": format!("block {at} ").repeat(900)});
    let content = json!((0..9).map(block).collect::<Vec<_>>());
    let first = call(&guard, r#"{"a":1}"#, &content)?;
    let tag = cursor(&first).ok_or_else(|| anyhow::anyhow!("no cursor: {first}"))?;
    let again = call(&guard, &format!(r#"{{"a":1,"_guard":{{"since":"{tag}"}}}}"#), &content)?;
    ensure!(again["result"]["isError"].is_null(), "{again}");
    Ok(())
}
