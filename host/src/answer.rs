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

/// Real tokens of a text by o200k. The tokenizer is far too large for the guard itself; here it is the judge.
#[must_use]
pub fn o200k(text: &str) -> u64 {
    tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len() as u64
}
