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

/// Returns the answer to a call of `tool` whose upstream answers with `result`.
fn answer_to(
    guard: &NativeGuard,
    tool: &str,
    since: Option<&Value>,
    result: &Value,
) -> Result<Value> {
    let arguments = since.map_or(json!({}), |since| json!({"_guard": {"since": since}}));
    let params = json!({"name": tool, "arguments": arguments});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let message = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    let answer = match guard.request(request.to_string().as_bytes())? {
        Verdict::Forward(_, ticket) => guard.response(&ticket, message.as_bytes())?.0,
        Verdict::Answer(answer, _) => Some(answer),
    };
    Ok(serde_json::from_slice(&answer.unwrap_or_else(|| message.into_bytes()))?)
}

fn in_text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

#[test]
fn other_shapes_are_shown_whole() -> Result<()> {
    let guard = guard(true)?;
    let list = document(&[], 400);
    let tag = json!(tag(&guard, &list)?);
    let results = [
        in_text("words"),
        in_text("{\"items\":\"none\"}"),
        in_text("{}"),
        in_text("[]"),
        in_text("7"),
        in_text("null"),
        in_text(""),
        json!({"content": []}),
        json!({"content": [], "structuredContent": {"items": []}}),
        json!({"content": [{"type": "text", "text": "no access"}], "isError": true}),
        json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
    ];
    for result in results {
        let answer = answer_to(&guard, "list", Some(&tag), &result)?;
        let shown = &answer["result"];
        let is_shown = *shown == result
            || shown["content"][0]["text"] == "[]"
            || shown["content"][0]["text"]
                .as_str()
                .is_some_and(|text| text.contains("\"removed\""));
        ensure!(is_shown && !answer.to_string().contains("unchanged\\\":true"), "{answer}");
        ensure!(shown["isError"] == result["isError"], "{answer}");
    }
    Ok(())
}

#[test]
fn errors_are_never_unchanged() -> Result<()> {
    let guard = guard(true)?;
    let content = json!([{"type": "text", "text": document(&[], 400)}]);
    let (good, bad) = (json!({"content": content}), json!({"content": content, "isError": true}));
    for (first, second) in [(&good, &bad), (&bad, &good), (&bad, &bad)] {
        let answer = answer_to(&guard, "list", None, first)?;
        let Some(tag) = cursor(&answer) else { continue };
        let answer = answer_to(&guard, "list", Some(&json!(tag)), second)?;
        let is_refused = client::text(&answer).contains("or of an error");
        let is_same = answer["result"]["isError"] == second["isError"];
        ensure!(is_refused == (first == &bad) && (is_refused || is_same), "{answer}");
        ensure!(!answer.to_string().contains("unchanged\\\":true"), "{answer}");
    }
    Ok(())
}

#[test]
fn documents_without_a_list_are_equal_or_whole() -> Result<()> {
    let guard = guard(true)?;
    let document = |word: &str| {
        let members =
            (0..900).map(|at| (format!("key{at}"), json!(format!("{word} {at} of many"))));
        Value::from(serde_json::Map::from_iter(members)).to_string()
    };
    let text = |word: &str| format!("{word} and more words of a text\n").repeat(1_500);
    for (before, after) in [(document("a"), document("b")), (text("a"), text("b"))] {
        let tag = json!(tag(&guard, &before)?);
        let same = answer_to(&guard, "list", Some(&tag), &in_text(&before))?;
        ensure!(payload(&same)? == json!({"unchanged": true}), "{same}");
        let changed = answer_to(&guard, "list", Some(&tag), &in_text(&after))?;
        let plain = answer_to(&guard, "list", None, &in_text(&after))?;
        ensure!(client::text(&changed) == client::text(&plain), "{changed}");
    }
    Ok(())
}

#[test]
fn wrong_tags_are_refused_or_have_no_effect() -> Result<()> {
    let mut guard = guard(true)?;
    let result = in_text(&document(&[], 400));
    let tag = tag(&guard, &document(&[], 400))?;
    let long = "A".repeat(20_000);
    for wrong in [json!(7), json!(""), json!(null), json!({}), json!("a.b"), json!(long)] {
        let answer = answer_to(&guard, "list", Some(&wrong), &result)?;
        let is_refused = answer["result"]["isError"] == true;
        // Null counts as absent.
        ensure!(is_refused != wrong.is_null(), "{wrong}: {answer}");
        ensure!(answer.to_string().len() < 60_000, "{} bytes", answer.to_string().len());
    }
    let other = answer_to(&guard, "search", Some(&json!(tag)), &result)?;
    ensure!(other["result"]["isError"] == true, "{other}");
    let guard_of_bob = guard.with_principal("bob");
    let stolen = answer_to(&guard_of_bob, "list", Some(&json!(tag)), &result)?;
    ensure!(client::text(&stolen).contains("cursor_invalid"), "{stolen}");
    guard = guard_of_bob.with_principal("tester");
    guard.advance_ms(30 * 24 * 3_600_000);
    let expired = answer_to(&guard, "list", Some(&json!(tag)), &result)?;
    // The whole answer is shown, as to a call without a tag.
    let plain = answer_to(&guard, "list", None, &result)?;
    ensure!(client::text(&expired) == client::text(&plain), "{expired}");
    Ok(())
}
