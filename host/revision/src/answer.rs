//! Reads the parts of an answer that a model receives. An answer is a JSON-RPC response to the
//! client.

use serde_json::Value;

/// Returns the texts of all content blocks of an answer: a tool result or a read resource.
#[must_use]
pub fn texts(answer: &Value) -> Vec<String> {
    let blocks = answer.pointer("/result/content").or(answer.pointer("/result/contents"));
    let text = |block: &Value| {
        Some(block.get("text").or(block.pointer("/resource/text"))?.as_str()?.to_owned())
    };
    blocks.and_then(Value::as_array).into_iter().flatten().filter_map(text).collect()
}

/// Returns the text that a model receives: every text block and the structured content. Empty if
/// the message is not an answer.
#[must_use]
pub fn visible(message: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(message).unwrap_or_default();
    let mut texts = texts(&answer);
    texts.extend(answer.pointer("/result/structuredContent").map(Value::to_string));
    texts.join("\n")
}

/// Returns the content texts of an answer, without the guard's result notice, or any other text
/// that begins with `[context-guard]`.
#[must_use]
pub fn content(message: &[u8]) -> Vec<String> {
    let answer: Value = serde_json::from_slice(message).unwrap_or_default();
    texts(&answer).into_iter().filter(|text| !text.starts_with("[context-guard]")).collect()
}

/// Returns the result notice of a shaped answer, the text `[context-guard] …` that describes the
/// omitted parts. `None` if the answer has none.
#[must_use]
pub fn notice(message: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(message).ok()?;
    texts(&answer).into_iter().find(|text| text.starts_with("[context-guard]"))
}

/// Returns the result metadata of a shaped answer from `_meta`. `None` if the answer has none.
#[must_use]
pub fn contract(message: &[u8]) -> Option<Value> {
    let answer: Value = serde_json::from_slice(message).ok()?;
    answer.pointer("/result/_meta/dev.context-guard~1result").cloned()
}

/// Returns the cursor of the next page or chunk of a shaped answer. `None` if there is none.
#[must_use]
pub fn next_cursor(message: &[u8]) -> Option<String> {
    Some(contract(message)?.get("nextCursor")?.as_str()?.to_owned())
}

/// Returns the reason why the guard could not apply the query of a call to its answer, such as an
/// unknown field. `None` if the query was applied.
#[must_use]
pub fn query_error(message: &[u8]) -> Option<String> {
    let contract = contract(message)?;
    Some(contract.get("what")?.as_str()?.strip_prefix("nothing, because ")?.to_owned())
}

/// Returns the cursor that reads a whole answer without a next page or chunk, such as a condensed
/// answer. `None` if the answer has no such cursor.
#[must_use]
pub fn whole_cursor(message: &[u8]) -> Option<String> {
    Some(contract(message)?.get("cursor")?.as_str()?.to_owned())
}
