//! A client of the native guard whose upstream answers with one text.

use anyhow::{Context as _, Result};
use context_guard_test_kit::guard::{NativeGuard, TestGuard, Verdict};
use serde_json::{Value, json};

fn call(tool: &str, arguments: &Value) -> Vec<u8> {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        .to_string()
        .into_bytes()
}

/// Returns the answer to a call with guard arguments, if the upstream answers with this text.
#[allow(dead_code, reason = "not every test file has a text")]
pub(crate) fn first(guard: &NativeGuard, arguments: &Value, text: &str) -> Result<Value> {
    let content = json!({"content": [{"type": "text", "text": text}]});
    let message = json!({"jsonrpc": "2.0", "id": 1, "result": content}).to_string().into_bytes();
    let answer = match guard.request(&call("list", &json!({ "_guard": arguments })))? {
        Verdict::Forward(_, ticket) => guard.response(&ticket, &message)?.0.unwrap_or(message),
        Verdict::Answer(answer, _) => answer,
    };
    Ok(serde_json::from_slice(&answer)?)
}

/// Returns the answer of the read tool.
#[allow(dead_code, reason = "not every test file reads on")]
pub(crate) fn read(guard: &NativeGuard, arguments: &Value) -> Result<Value> {
    match guard.request(&call("context_guard_read", arguments))? {
        Verdict::Answer(answer, _) => Ok(serde_json::from_slice(&answer)?),
        Verdict::Forward(..) => anyhow::bail!("the call of the read tool was forwarded"),
    }
}

/// Returns the text content of an answer, without the result notice.
#[allow(dead_code, reason = "not every test file reads the text")]
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

/// Returns the JSON in the text content of an answer.
#[allow(dead_code, reason = "not every test file has JSON alone")]
pub(crate) fn payload(answer: &Value) -> Result<Value> {
    serde_json::from_str(text(answer)).context("the text of the answer is not JSON")
}

/// Returns the cursor that an answer offers, to the rest or to the whole.
#[allow(dead_code, reason = "not every test file reads on")]
pub(crate) fn cursor(answer: &Value) -> Option<String> {
    let meta = answer["result"]["_meta"].as_object()?.values().next()?;
    let cursor = meta.get("nextCursor").or_else(|| meta.get("cursor"))?;
    cursor.as_str().map(str::to_owned)
}
