//! Telemetry records, one for each answer.

use crate::query::response_mode::ResponseMode;
use crate::tokens::OriginalCost;

/// The information that an answer lost by shaping, from least to most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// No loss: the answer is unchanged.
    #[default]
    None,
    /// The answer differs from the upstream's in its bytes, but not in its information.
    Lossless,
    /// The answer is a part of the upstream's. A cursor leads to the rest.
    Partial,
    /// The answer has fewer fields or shorter values than the upstream's. A cursor leads to the
    /// original.
    Condensed,
    /// The answer only describes the upstream's. A cursor leads to the original.
    Described,
}

/// The telemetry record of one answer. Token counts are from the estimator that policy names.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The tool or resource as `upstream::name`, or the method of another request.
    pub endpoint: String,
    /// The kind of answer: `full`, `page`, `chunk`, `part`, `preview`, `selection`, `compact`,
    /// `description`, `catalog` or `error`.
    pub mode: String,
    /// The information that the answer lost by shaping.
    pub loss: Loss,
    /// The estimated tokens of the answer as sent to the client.
    pub estimated_tokens: u64,
    /// The size of the message as sent to the client, in bytes.
    pub response_bytes: u64,
    /// The estimated tokens of the upstream's answer.
    pub original_tokens: u64,
    /// True if `original_tokens` was extrapolated from samples.
    pub original_tokens_sampled: bool,
    /// The size of the upstream's message in bytes.
    pub original_bytes: u64,
    /// The token budget that applied to the answer.
    pub budget: u64,
    /// The number of items in the excerpt, if the answer is a page of a list.
    pub item_count: Option<u64>,
    /// The `response_mode` argument of the call, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_mode: Option<ResponseMode>,
    /// True if the called tool is read-only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// The relation of the answer to stored answers.
    #[serde(skip)]
    pub origin: Box<Origin>,
}

/// The relation of an answer to the stored answers (snapshots) that its cursors point to. A host
/// can use it to attribute the cost of follow-up reads to the original call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The names of the snapshots that hold the upstream's answer. Empty if it was sent unchanged.
    pub snapshots: Vec<String>,
    /// The name of the snapshot of the earlier answer that this answer continues. `None` for the
    /// first answer to a call.
    pub continues: Option<String>,
    /// The code of the error for a cursor that could not be served, such as `cursor_expired`.
    /// `None` if no cursor failed.
    pub cursor_error: Option<&'static str>,
}

impl Record {
    /// Creates the record of a message that is sent unchanged. `bytes` is the size of the message.
    #[must_use]
    pub fn unchanged(endpoint: &str, original: OriginalCost, bytes: usize, budget: u64) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            mode: "full".to_owned(),
            loss: Loss::None,
            estimated_tokens: original.tokens,
            response_bytes: bytes as u64,
            original_tokens: original.tokens,
            original_tokens_sampled: original.sampled,
            original_bytes: bytes as u64,
            budget,
            item_count: None,
            response_mode: None,
            read_only: false,
            origin: Box::default(),
        }
    }

    /// Creates the record of an error message that the guard wrote itself. `bytes` is the size of
    /// the message.
    #[must_use]
    pub fn error(endpoint: &str, original: OriginalCost, bytes: usize, budget: u64) -> Self {
        Self { mode: "error".to_owned(), ..Self::unchanged(endpoint, original, bytes, budget) }
    }

    /// Returns true if the answer is a page of a list, or a part of an item.
    #[must_use]
    pub fn pagination_used(&self) -> bool {
        matches!(self.mode.as_str(), "page" | "part")
    }

    /// Returns true if the answer omits fields or shortens values.
    #[must_use]
    pub fn summarization_used(&self) -> bool {
        self.loss >= Loss::Condensed
    }

    /// Returns true if the answer is a chunk of a text.
    #[must_use]
    pub fn chunking_used(&self) -> bool {
        self.mode == "chunk"
    }
}
