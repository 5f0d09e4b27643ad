//! Records name the stored answers that cursors lead to. A host can then attribute the cost of
//! follow-up reads to the call whose answer they continue.

#![allow(clippy::indexing_slicing, reason = "serde_json gives null for what is missing")]

mod client;

use anyhow::{Context as _, Result, bail, ensure};
use client::cursor;
use context_guard_core::Record;
use context_guard_test_kit::guard::{NativeGuard, TestGuard, Verdict};
use serde_json::{Value, json};

fn request(tool: &str, arguments: &Value) -> Vec<u8> {
    let params = json!({"name": tool, "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    call.to_string().into_bytes()
}

/// Returns the answer to a call of `tool`, which the upstream answers with 400 records, and the
/// record of the answer.
fn call(guard: &NativeGuard, tool: &str, arguments: &Value) -> Result<(Value, Record)> {
    let Verdict::Forward(_, ticket) = guard.request(&request(tool, arguments))? else {
        bail!("the call was answered")
    };
    let rows: Vec<Value> = (0..400).map(|id| json!({"id": id, "name": format!("n{id}")})).collect();
    let text = serde_json::to_string(&rows)?;
    let result = json!({"content": [{"type": "text", "text": text}]});
    let message = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    let (shaped, record) = guard.response(&ticket, message.as_bytes())?;
    Ok((serde_json::from_slice(&shaped.context("the answer passed unchanged")?)?, record))
}

fn read(guard: &NativeGuard, arguments: &Value) -> Result<(Value, Record)> {
    match guard.request(&request("context_guard_read", arguments))? {
        Verdict::Answer(answer, record) => Ok((serde_json::from_slice(&answer)?, record)),
        Verdict::Forward(..) => bail!("the read was forwarded"),
    }
}

#[test]
fn reads_continue_the_answer_of_their_cursor() -> Result<()> {
    let guard = NativeGuard::with_policy(r#"{"tokenBudgetThreshold": 1000}"#)?;
    let (answer, first) = call(&guard, "list", &json!({}))?;
    ensure!(first.origin.snapshots.len() == 1 && first.origin.continues.is_none(), "{first:?}");
    let (page, second) = read(&guard, &json!({"cursor": cursor(&answer)}))?;
    ensure!(second.origin.continues.as_ref() == first.origin.snapshots.first(), "{second:?}");
    let (_, third) = read(&guard, &json!({"cursor": cursor(&page)}))?;
    ensure!(third.origin.continues == second.origin.continues, "{third:?}");
    Ok(())
}

#[test]
fn reads_of_a_selection_continue_the_original() -> Result<()> {
    let guard = NativeGuard::with_policy(r#"{"tokenBudgetThreshold": 1000}"#)?;
    let (answer, first) = call(&guard, "list", &json!({"_guard": {"where": "id>9"}}))?;
    let (_, read) = read(&guard, &json!({"cursor": cursor(&answer)}))?;
    let continues = read.origin.continues.context("the read continues nothing")?;
    ensure!(first.origin.snapshots.contains(&continues), "{first:?} {continues}");
    Ok(())
}

#[test]
fn refused_cursors_are_named() -> Result<()> {
    let mut guard = NativeGuard::with_policy(r#"{"tokenBudgetThreshold": 1000}"#)?;
    let (answer, _) = call(&guard, "list", &json!({}))?;
    let (_, record) = read(&guard, &json!({"cursor": "nonsense"}))?;
    ensure!(record.origin.cursor_error == Some("cursor_invalid"), "{record:?}");
    guard.advance_ms(30 * 24 * 3_600_000);
    let (_, record) = read(&guard, &json!({"cursor": cursor(&answer)}))?;
    ensure!(record.origin.cursor_error == Some("cursor_expired"), "{record:?}");
    Ok(())
}

#[test]
fn replayed_reads_continue_their_call() -> Result<()> {
    let policy = r#"{"tokenBudgetThreshold": 1000, "cursorMode": "replay", "endpoints": [{"match": "*", "readOnly": true}]}"#;
    let guard = NativeGuard::with_policy(policy)?;
    let (answer, first) = call(&guard, "list", &json!({}))?;
    ensure!(guard.stored().is_empty(), "replay stores no answer");
    let (_, record) = call(&guard, "context_guard_read", &json!({"cursor": cursor(&answer)}))?;
    ensure!(record.origin.continues.as_ref() == first.origin.snapshots.first(), "{record:?}");
    Ok(())
}
