//! Answers that are no valid JSON never pass whole: numbers such as `NaN` are accepted, and all
//! else is stored and shown in parts, as a text.

#![allow(clippy::indexing_slicing, reason = "serde_json gives null for what is missing")]

mod client;

use anyhow::{Context as _, Result, ensure};
use client::{cursor, read};
use context_guard_core::json::scan::is_json;
use context_guard_core::json::text::Form;
use context_guard_test_kit::guard::{NativeGuard, TestGuard, Verdict};
use serde_json::{Value, json};

/// Returns the answer to a call if the upstream answers with this message.
fn answer(guard: &NativeGuard, message: &str) -> Result<String> {
    let params = json!({"name": "list", "arguments": {}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let Verdict::Forward(_, ticket) = guard.request(call.to_string().as_bytes())? else {
        anyhow::bail!("the call was answered")
    };
    let shaped = guard.response(&ticket, message.as_bytes())?.0;
    Ok(String::from_utf8(shaped.context("the answer passed unchanged")?)?)
}

fn records(odd: &str) -> String {
    let record = |id: usize| {
        let value = if id % 50 == 3 { odd.to_owned() } else { format!("{id}.5") };
        format!(r#"{{"id":{id},"name":"Guest {id}","score":{value}}}"#)
    };
    (0..20_000).map(record).collect::<Vec<_>>().join(",")
}

fn message(structured: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[],"structuredContent":{structured}}}}}"#
    )
}

#[test]
fn non_finite_numbers_are_shaped() -> Result<()> {
    for number in ["NaN", "Infinity", "-Infinity"] {
        let guard = NativeGuard::with_policy("")?;
        let whole = message(&format!(r#"{{"rows":[{}]}}"#, records(number)));
        let page = answer(&guard, &whole)?;
        ensure!(page.len() < 40_000, "{} bytes", page.len());
        ensure!(is_json(page.as_bytes(), Form::Raw), "{page:.200}");
        let odd = format!(r#""score":{number}}}"#);
        ensure!(page.contains(&odd), "{number} is not verbatim in {page:.400}");
    }
    Ok(())
}

#[test]
fn unreadable_answers_are_shown_in_parts() -> Result<()> {
    let rows = records("1");
    let broken = [
        message(&format!(r#"{{"rows":[{rows},]}}"#)),
        message(&format!(r#"{{"rows":[{rows}"#)),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{rows}"#),
        message(&format!("{{\"rows\":[{rows}],\"nul\":\0}}")),
        message(&format!("{{'rows':[{rows}]}}")),
        message(&"[".repeat(15_000)),
        message(&format!("{}{}", "[".repeat(15_000), "]".repeat(15_000))),
    ];
    for message in broken {
        let guard = NativeGuard::with_policy("")?;
        let mut part: Value = serde_json::from_str(&answer(&guard, &message)?)?;
        ensure!(part["id"] == 1 && part.to_string().len() < 40_000, "{part}");
        ensure!(part.to_string().contains("The server's answer cannot be read"), "{part}");
        let next = cursor(&part).with_context(|| part.to_string())?;
        part = read(&guard, &json!({"cursor": next}))?;
        ensure!(part["result"]["isError"] != true && part.to_string().len() < 40_000, "{part}");
    }
    Ok(())
}

/// Returns an answer with `rows` records in the text and in the structured content, after a member
/// that is not shown.
fn answer_with_records(rows: usize) -> String {
    let record =
        |id: usize| json!({"id": id, "name": format!("Guest \"{id}\""), "tags": [true, null]});
    let rows: Vec<Value> = (0..rows).map(record).collect();
    let text = serde_json::to_string(&rows).unwrap_or_default();
    let result = json!({
        "_meta": {"trace": {"spans": [1.5, "a\u{e9}b", {}]}},
        "content": [{"type": "text", "text": text}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}],
        "structuredContent": {"rows": rows},
    });
    json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string()
}

#[test]
fn damaged_answers_never_pass_unchanged() -> Result<()> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap_or_default()
    };
    let bytes = b"{}[],:\"\\x0-.e \0\x1f";
    for rows in [3, 90, 700] {
        let guard = NativeGuard::with_policy("")?;
        let whole = answer_with_records(rows);
        for _ in 0..if rows > 500 { 100 } else { 600 } {
            let mut damaged = whole.clone().into_bytes();
            let at = random(damaged.len());
            if let Some(&byte) = bytes.get(random(bytes.len())).filter(|_| damaged[at].is_ascii()) {
                match random(3) {
                    0 => damaged[at] = byte,
                    1 => damaged.insert(at, byte),
                    _ => damaged.truncate(at.max(40)),
                }
            }
            let Ok(damaged) = String::from_utf8(damaged) else { continue };
            let params = json!({"name": "list", "arguments": {}});
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let Verdict::Forward(_, ticket) = guard.request(call.to_string().as_bytes())? else {
                anyhow::bail!("the call was answered")
            };
            let Ok(shaped) = guard.response(&ticket, damaged.as_bytes()) else {
                // Without an id, the host has to say what is wrong.
                ensure!(!damaged.contains("\"id\":1,\"jsonrpc\""), "{damaged:.200}");
                continue;
            };
            let sent = shaped.0.unwrap_or_else(|| damaged.clone().into_bytes());
            let sent: Value = serde_json::from_slice(&sent).with_context(|| {
                format!("{:.300} of {damaged:.300}", String::from_utf8_lossy(&sent))
            })?;
            let mut next = cursor(&sent);
            for _ in 0..4 {
                let Some(at) = next else { break };
                let part = read(&guard, &json!({"cursor": at}))?;
                next = cursor(&part);
            }
        }
    }
    Ok(())
}
