//! What the guard did with a message: the core's part of a TelemetryRecord (FR-029).

use crate::query::response_mode::ResponseMode;
use crate::tokens::Original;

/// What an answer lost on its way, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// The original bytes.
    #[default]
    None,
    /// Other bytes, same information.
    Lossless,
    /// A part of it; the rest is behind a cursor.
    Partial,
    /// Fewer fields, shorter values; the whole is behind a cursor.
    Condensed,
    /// A description; the whole is behind a cursor.
    Described,
}

/// What was done. Counts are those of the estimator that policy names.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// `upstream::name`, or the method.
    pub endpoint: String,
    /// `full`, `page`, `chunk`, `part`, `preview`, `selection`, `compact`, `description`, `catalog` or `error`.
    pub mode: String,
    /// What was lost.
    pub loss: Loss,
    /// Tokens of the answer as sent.
    pub estimated_tokens: u64,
    /// Bytes of the message as sent.
    pub response_bytes: u64,
    /// Tokens of the answer as it came.
    pub original_tokens: u64,
    /// Whether they were extrapolated.
    pub original_tokens_sampled: bool,
    /// Bytes of the message as it came.
    pub original_bytes: u64,
    /// The token threshold that applied.
    pub budget: u64,
    /// Items shown, where it is a list.
    pub item_count: Option<u64>,
    /// The `response_mode` that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_mode: Option<ResponseMode>,
    /// The tool is known to change nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

impl Record {
    /// The record of a message that was sent as it came.
    #[must_use]
    pub fn unchanged(endpoint: &str, original: Original, bytes: usize, budget: u64) -> Self {
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
        }
    }

    /// Whether a page of a list was served.
    #[must_use]
    pub fn pagination_used(&self) -> bool {
        matches!(self.mode.as_str(), "page" | "part")
    }

    /// Whether a summary was served: fewer fields, shorter values, a description.
    #[must_use]
    pub fn summarization_used(&self) -> bool {
        self.loss >= Loss::Condensed
    }

    /// Whether a chunk of a text was served.
    #[must_use]
    pub fn chunking_used(&self) -> bool {
        self.mode == "chunk"
    }
}
