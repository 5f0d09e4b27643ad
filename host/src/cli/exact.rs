//! Real token counts. The tokenizer is far too large for the guard itself; here it is the judge.

/// Tokens of a text by o200k.
pub(crate) fn o200k(text: &str) -> u64 {
    tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len() as u64
}
