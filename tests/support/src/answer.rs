//! Answers as a client receives them, and their cost in tokens.

use serde_json::Value;

/// A parsed answer.
#[derive(Clone, Debug)]
pub struct Answer(pub Value);

impl Answer {
    /// Parses a message.
    ///
    /// # Errors
    /// The message is not JSON.
    pub fn read(message: &[u8]) -> anyhow::Result<Self> {
        Ok(Self(serde_json::from_slice(message)?))
    }

    /// Returns the member `result` of the response; null if it is an error.
    #[must_use]
    pub fn result(&self) -> &Value {
        &self.0["result"]
    }

    fn blocks(&self) -> Vec<Value> {
        let result = self.result();
        result
            .get("content")
            .or(result.get("contents"))
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    }

    /// Returns all texts, the result notice among them.
    #[must_use]
    pub fn all_texts(&self) -> Vec<String> {
        let text = |block: &Value| {
            Some(block.get("text").or(block.pointer("/resource/text"))?.as_str()?.to_owned())
        };
        self.blocks().iter().filter_map(text).collect()
    }

    /// Returns the texts without the result notice.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        self.all_texts().into_iter().filter(|text| !text.starts_with("[context-guard]")).collect()
    }

    /// Returns the result notice.
    #[must_use]
    pub fn notice(&self) -> Option<String> {
        self.all_texts().into_iter().find(|text| text.starts_with("[context-guard]"))
    }

    /// Parses the first text as JSON.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn json(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(self.texts().first().map_or("", String::as_str))?)
    }

    /// Returns the result metadata, `_meta["dev.context-guard/result"]`.
    #[must_use]
    pub fn metadata(&self) -> &Value {
        &self.result()["_meta"]["dev.context-guard/result"]
    }

    /// Returns the cursor to the next part.
    #[must_use]
    pub fn next_cursor(&self) -> Option<String> {
        Some(self.metadata().get("nextCursor")?.as_str()?.to_owned())
    }

    /// Returns the cursor to the next part, or else the cursor to the whole.
    #[must_use]
    pub fn cursor(&self) -> Option<String> {
        let contract = self.metadata();
        Some(contract.get("nextCursor").or(contract.get("cursor"))?.as_str()?.to_owned())
    }

    /// Returns true if this is a verbatim part of the original: with the following parts it adds up
    /// to the original.
    #[must_use]
    pub fn is_verbatim_part(&self) -> bool {
        self.metadata()["loss"] == "partial" && self.metadata()["kind"] != "selection"
    }

    /// Returns the cursors in texts, structured content and metadata.
    #[must_use]
    pub fn cursors(&self) -> Vec<String> {
        let notices =
            self.all_texts().into_iter().filter(|text| text.starts_with("[context-guard]"));
        let in_notices = notices.filter_map(|text| {
            Some(text.split_once("{\"cursor\":\"")?.1.split('"').next()?.to_owned())
        });
        let mut cursors: Vec<String> = in_notices.chain(self.cursor()).collect();
        let structured = &self.result()["structuredContent"]["context_guard"];
        cursors.extend(
            ["nextCursor", "cursor"]
                .iter()
                .filter_map(|name| Some(structured[*name].as_str()?.to_owned())),
        );
        cursors.sort();
        cursors.dedup();
        cursors
    }

    /// Returns true if the tool reports an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.result()["isError"] == true
    }

    /// Returns the tokens of all texts and of the structured content, counted by the o200k
    /// tokenizer: the cost for a client that shows everything to the model.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens_by(o200k)
    }

    /// Returns the same cost by another tokenizer.
    #[must_use]
    pub fn tokens_by(&self, count: impl Fn(&str) -> u64) -> u64 {
        let structured = self.result().get("structuredContent").map(Value::to_string);
        self.all_texts().iter().chain(structured.as_ref()).map(|text| count(text)).sum()
    }
}

/// Counts the o200k tokens of a text.
#[must_use]
pub fn o200k(text: &str) -> u64 {
    tiktoken_rs::o200k_base_singleton().encode_ordinary(text).len() as u64
}

/// Counts the cl100k tokens of a text.
#[must_use]
pub fn cl100k(text: &str) -> u64 {
    tiktoken_rs::cl100k_base_singleton().encode_ordinary(text).len() as u64
}
