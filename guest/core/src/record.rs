//! Records of decisions: the core's part of telemetry.

use crate::query::response_mode::ResponseMode;
use crate::tokens::OriginalCost;

/// The loss that an answer suffered, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Loss {
    /// The original bytes.
    #[default]
    None,
    /// Other bytes, same information.
    Lossless,
    /// A part of the answer; a cursor leads to the rest.
    Partial,
    /// Fewer fields or shorter values; a cursor leads to the original.
    Condensed,
    /// A description only; a cursor leads to the original.
    Described,
}

/// The record of one decision. Token counts are those of the estimator that policy names.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// `upstream::name`, or the method.
    pub endpoint: String,
    /// `full`, `page`, `chunk`, `part`, `preview`, `selection`, `compact`, `description`, `catalog`
    /// or `error`.
    pub mode: String,
    /// The loss of the answer.
    pub loss: Loss,
    /// Tokens of the answer as sent.
    pub estimated_tokens: u64,
    /// Bytes of the message as sent.
    pub response_bytes: u64,
    /// Tokens of the upstream's answer.
    pub original_tokens: u64,
    /// `original_tokens` was extrapolated from samples.
    pub original_tokens_sampled: bool,
    /// Bytes of the upstream's message.
    pub original_bytes: u64,
    /// The token threshold that applied.
    pub budget: u64,
    /// Number of items shown, if the answer is a list.
    pub item_count: Option<u64>,
    /// The `response_mode` of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_mode: Option<ResponseMode>,
    /// The tool changes nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

impl Record {
    /// Creates the record of a message that was sent unchanged.
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
        }
    }

    /// Creates the record of a refusal.
    #[must_use]
    pub fn error(endpoint: &str, original: OriginalCost, bytes: usize, budget: u64) -> Self {
        Self { mode: "error".to_owned(), ..Self::unchanged(endpoint, original, bytes, budget) }
    }

    /// Returns true if a page of a list was served.
    #[must_use]
    pub fn pagination_used(&self) -> bool {
        matches!(self.mode.as_str(), "page" | "part")
    }

    /// Returns true if the answer omits fields or values.
    #[must_use]
    pub fn summarization_used(&self) -> bool {
        self.loss >= Loss::Condensed
    }

    /// Returns true if a chunk of a text was served.
    #[must_use]
    pub fn chunking_used(&self) -> bool {
        self.mode == "chunk"
    }
}
