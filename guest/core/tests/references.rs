//! References in the arguments of calls are replaced by values of stored answers.

#![allow(clippy::indexing_slicing, reason = "serde_json gives null for what is missing")]

mod client;

use anyhow::{Context as _, Result, bail, ensure};
use client::cursor;
use context_guard_test_kit::guard::{NOW_MS, NativeGuard, SIGNING_KEY, TestGuard, Verdict};
use serde_json::{Value, json};

const POLICY: &str = r#"{"tokenBudgetThreshold": 1000}"#;

/// Returns a call of `tool` with verbatim arguments.
fn call(tool: &str, arguments: &str) -> Vec<u8> {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
    .into_bytes()
}

/// Stores the answer `result` to a call of `tool`, and returns its cursor.
fn store(guard: &NativeGuard, tool: &str, arguments: &str, result: &str) -> Result<String> {
    let Verdict::Forward(_, ticket) = guard.request(&call(tool, arguments))? else {
        bail!("the call was answered")
    };
    let message = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    let (shaped, _) = guard.response(&ticket, message.as_bytes())?;
    let shaped: Value = serde_json::from_slice(&shaped.context("the answer passed unchanged")?)?;
    cursor(&shaped).context("no cursor")
}

/// Returns the arguments with which the upstream gets a call, verbatim.
fn sent(guard: &NativeGuard, arguments: &str) -> Result<String> {
    let request = call("write", arguments);
    match guard.request(&request)? {
        Verdict::Forward(changed, _) => {
            let message = String::from_utf8(changed.unwrap_or(request))?;
            let arguments = message.split_once("\"arguments\":").context("no arguments")?.1;
            Ok(arguments.strip_suffix("}}").context("no end")?.to_owned())
        }
        Verdict::Answer(answer, _) => {
            let answer: Value = serde_json::from_slice(&answer)?;
            ensure!(answer["result"]["isError"] == true, "{answer}");
            bail!("{}", answer["result"]["content"][0]["text"].as_str().unwrap_or_default())
        }
    }
}

fn refusal(guard: &NativeGuard, arguments: &str) -> Result<String> {
    match sent(guard, arguments) {
        Ok(sent) => bail!("the call was sent: {}", sent.chars().take(200).collect::<String>()),
        Err(reason) => Ok(reason.to_string()),
    }
}

/// A list of records, whose strings and numbers have unusual spellings.
fn records() -> String {
    let rows: Vec<String> = (0..300)
        .map(|id| format!(r#"{{"id":{id}.0, "body":"caf\u00e9 \/ {id}\n\"quoted\"","tags":[ ]}}"#))
        .collect();
    format!("[{}]", rows.join(", "))
}

fn structured() -> String {
    format!(r#"{{"content":[],"structuredContent":{{"items":{}}}}}"#, records())
}

fn text(content: &str) -> String {
    json!({"content": [{"type": "text", "text": content}]}).to_string()
}

#[test]
fn values_arrive_verbatim() -> Result<()> {
    let guard = NativeGuard::with_policy(POLICY)?;
    let cursor = store(&guard, "list", "{}", &structured())?;
    let arguments = format!(
        r##"{{"name": "x", "body":{{"$ref":"{cursor}#/items/3/body"}}, "all":[{{ "$ref" : "{cursor}#/items/7"}}]}}"##
    );
    ensure!(
        sent(&guard, &arguments)?
            == r#"{"name": "x", "body":"caf\u00e9 \/ 3\n\"quoted\"", "all":[{"id":7.0, "body":"caf\u00e9 \/ 7\n\"quoted\"","tags":[ ]}]}"#
    );
    let whole = sent(&guard, &format!(r#"{{"a":{{"$ref":"{cursor}"}}}}"#))?;
    ensure!(whole == format!(r#"{{"a":{{"items":{}}}}}"#, records()));
    Ok(())
}

#[test]
fn texts_are_strings_and_their_json_is_json() -> Result<()> {
    let guard = NativeGuard::with_policy(POLICY)?;
    let document = records();
    let cursor = store(&guard, "read", "{}", &text(&document))?;
    let whole = sent(&guard, &format!(r#"{{"a":{{"$ref":"{cursor}"}}}}"#))?;
    ensure!(whole == json!({"a": document}).to_string());
    let json = sent(&guard, &format!(r##"{{"a":{{"$ref":"{cursor}#"}}}}"##))?;
    ensure!(json == format!(r#"{{"a":{document}}}"#));
    for path in ["/items/2/id", "/2/id", "$[2].id", "$.items[2].id"] {
        let id = sent(&guard, &format!(r##"{{"a":{{"$ref":"{cursor}#{path}"}}}}"##))?;
        ensure!(id == r#"{"a":2.0}"#, "{path}: {id}");
    }
    let plain = "line \u{1F600}\u{7}\"quoted\"\r\n".repeat(2_000);
    let cursor = store(&guard, "log", "{}", &text(&plain))?;
    let whole = sent(&guard, &format!(r#"{{"a":{{"$ref":"{cursor}"}}}}"#))?;
    let whole: Value = serde_json::from_str(&whole)?;
    ensure!(whole["a"] == plain.as_str());
    let reason = refusal(&guard, &format!(r##"{{"a":{{"$ref":"{cursor}#/x"}}}}"##))?;
    ensure!(reason.contains("is a text, not JSON"), "{reason}");
    Ok(())
}

#[test]
fn later_pages_and_queries_refer_to_the_answer() -> Result<()> {
    let guard = NativeGuard::with_policy(POLICY)?;
    let selection = store(&guard, "list", r#"{"_guard":{"where":"id>100"}}"#, &structured())?;
    let body = sent(&guard, &format!(r##"{{"a":{{"$ref":"{selection}#/items/0/id"}}}}"##))?;
    ensure!(body == r#"{"a":0.0}"#, "{body}");
    Ok(())
}

#[test]
fn other_references_pass() -> Result<()> {
    let guard = NativeGuard::with_policy(POLICY)?;
    let cursor = store(&guard, "list", "{}", &structured())?;
    for arguments in [
        r##"{"schema": {"properties":{"a":{"$ref":"#/$defs/a"},"b":{"$ref":"https://x.org/s.json#/b"}}}}"##.to_owned(),
        r#"{"schema":{"$ref":"Pet"},"other":{"$ref":"CreateUserRequestWithDetails"}}"#.to_owned(),
        format!(r#"{{"schema":{{"$ref":"{cursor}","title":"x"}}}}"#),
        format!(r#"{{"$ref":"{cursor}"}}"#),
        format!(r#"{{"text":"{{\"$ref\":\"{cursor}\"}}"}}"#),
    ] {
        ensure!(sent(&guard, &arguments)? == arguments, "{arguments}");
    }
    // The host's own tools read cursors themselves.
    let run = call("context_guard_run", &format!(r#"{{"input":{{"$ref":"{cursor}"}}}}"#));
    ensure!(matches!(guard.request(&run)?, Verdict::Forward(None, _)));
    let off = NativeGuard::with_policy(r#"{"references": false}"#)?;
    let arguments = format!(r#"{{"a":{{"$ref":"{cursor}"}}}}"#);
    ensure!(sent(&off, &arguments)? == arguments);
    Ok(())
}

#[test]
fn foreign_and_expired_cursors_are_refused() -> Result<()> {
    let mut guard = NativeGuard::with_policy(POLICY)?;
    let cursor = store(&guard, "list", "{}", &structured())?;
    let arguments = format!(r##"{{"a":{{"$ref":"{cursor}#/items/0"}}}}"##);
    let tail = cursor.get(4..).context("a short cursor")?;
    let forged = arguments.replacen(&cursor, &format!("AAAA{tail}"), 1);
    let reason = refusal(&guard, &forged)?;
    ensure!(reason.contains("was not sent") && reason.contains("cursor_invalid"), "{reason}");
    guard.advance_ms(30 * 24 * 3_600_000);
    let reason = refusal(&guard, &arguments)?;
    ensure!(reason.contains(&format!("{cursor}#/items/0: cursor_expired")), "{reason}");
    let guard = NativeGuard::with_policy(POLICY)?;
    let cursor = store(&guard, "list", "{}", &structured())?;
    let guard = guard.with_principal("mallory");
    let reason = refusal(&guard, &format!(r#"{{"a":{{"$ref":"{cursor}"}}}}"#))?;
    ensure!(reason.contains("cursor_invalid"), "{reason}");
    // The store lost the answer.
    let empty = NativeGuard::new(POLICY, "tester", NOW_MS, &[SIGNING_KEY])?;
    let reason = refusal(&empty, &format!(r#"{{"a":{{"$ref":"{cursor}"}}}}"#))?;
    ensure!(reason.contains("cursor_expired") && reason.contains("no longer kept"), "{reason}");
    Ok(())
}

#[test]
fn other_upstreams_need_permission() -> Result<()> {
    let policy = r#"{"tokenBudgetThreshold": 1000, "endpoints": [
        {"match": "notes::write", "referencesFrom": ["files::*"]},
        {"match": "wiki::write", "referencesFrom": ["files::read_*"]}]}"#;
    let guard = NativeGuard::with_policy(policy)?.with_upstream("files");
    let cursor = store(&guard, "list", "{}", &structured())?;
    let arguments = format!(r##"{{"a":{{"$ref":"{cursor}#/items/0/id"}}}}"##);
    ensure!(sent(&guard, &arguments)? == r#"{"a":0.0}"#);
    let guard = guard.with_upstream("notes");
    ensure!(sent(&guard, &arguments)? == r#"{"a":0.0}"#);
    for upstream in ["wiki", "mail"] {
        let guard = NativeGuard::with_policy(policy)?.with_upstream("files");
        let cursor = store(&guard, "list", "{}", &structured())?;
        let guard = guard.with_upstream(upstream);
        let reason = refusal(&guard, &format!(r##"{{"a":{{"$ref":"{cursor}#/items/0"}}}}"##))?;
        ensure!(reason.contains("referencesFrom: [\"files::list\"]"), "{reason}");
    }
    Ok(())
}

#[test]
fn size_is_limited_for_a_call() -> Result<()> {
    let guard =
        NativeGuard::with_policy(r#"{"tokenBudgetThreshold": 1000, "maxReferenceBytes": 5000}"#)?;
    let cursor = store(&guard, "list", "{}", &structured())?;
    let reason = refusal(&guard, &format!(r#"{{"a":{{"$ref":"{cursor}"}}}}"#))?;
    ensure!(reason.contains("at most 5000 are accepted in a call (maxReferenceBytes"), "{reason}");
    let record = format!(r##"{{"$ref":"{cursor}#/items/0"}}"##);
    sent(&guard, &format!(r#"{{"a":{record}}}"#))?;
    let many = vec![record.as_str(); 99].join(",");
    let reason = refusal(&guard, &format!(r#"{{"a":[{many}]}}"#))?;
    ensure!(reason.contains("at most 5000"), "{reason}");
    let many = vec![record.as_str(); 101].join(",");
    let reason = refusal(&guard, &format!(r#"{{"a":[{many}]}}"#))?;
    ensure!(reason.contains("101 references"), "{reason}");
    Ok(())
}

#[test]
fn truncation_marks_name_references() -> Result<()> {
    let guard = NativeGuard::with_policy(POLICY)?;
    let marked = r#"{"a":"a long text ... [12 more words]"}"#;
    ensure!(refusal(&guard, marked)?.contains(r##"{"$ref": "<nextCursor of its answer>#/path"##));
    let off = NativeGuard::with_policy(r#"{"references": false}"#)?;
    ensure!(!refusal(&off, marked)?.contains("$ref"));
    Ok(())
}
