//! An answer as a model reads it, and what it really costs.

use serde_json::Value;

/// The texts of an answer's blocks, of whatever kind.
#[must_use]
pub fn texts(answer: &Value) -> Vec<String> {
    let blocks = answer.pointer("/result/content").or(answer.pointer("/result/contents"));
    let text = |block: &Value| {
        Some(block.get("text").or(block.pointer("/resource/text"))?.as_str()?.to_owned())
    };
    blocks.and_then(Value::as_array).into_iter().flatten().filter_map(text).collect()
}

/// The text that a model reads of a message: every text block, and structured content. Empty where the message is no answer.
#[must_use]
pub fn visible(message: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(message).unwrap_or_default();
    let mut texts = texts(&answer);
    texts.extend(answer.pointer("/result/structuredContent").map(Value::to_string));
    texts.join("\n")
}

/// The texts of an answer that hold its content, without the contract.
#[must_use]
pub fn content(message: &[u8]) -> Vec<String> {
    let answer: Value = serde_json::from_slice(message).unwrap_or_default();
    texts(&answer).into_iter().filter(|text| !text.starts_with("[context-guard]")).collect()
}

/// The contract as a model reads it.
#[must_use]
pub fn notice(message: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(message).ok()?;
    texts(&answer).into_iter().find(|text| text.starts_with("[context-guard]"))
}

/// What `_meta` says of a shaped answer.
#[must_use]
pub fn contract(message: &[u8]) -> Option<Value> {
    let answer: Value = serde_json::from_slice(message).ok()?;
    answer.pointer("/result/_meta/dev.context-guard~1result").cloned()
}

/// The cursor to what follows.
#[must_use]
pub fn next_cursor(message: &[u8]) -> Option<String> {
    Some(contract(message)?.get("nextCursor")?.as_str()?.to_owned())
}

/// The cursor to the whole, where nothing follows.
#[must_use]
pub fn whole_cursor(message: &[u8]) -> Option<String> {
    Some(contract(message)?.get("cursor")?.as_str()?.to_owned())
}
