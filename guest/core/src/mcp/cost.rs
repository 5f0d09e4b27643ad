//! The cost of an upstream's answer before shaping.

use super::answer::Answer;
use crate::json::Span;
use crate::json::text::Form;
use crate::shape::content_block::BlockKind;
use crate::shape::context::ShapeContext;
use crate::tokens::{OriginalCost, PriceLimits};

/// The estimated costs of the text blocks and structured content of an upstream's answer, before
/// shaping.
pub struct AnswerCost {
    blocks: Vec<OriginalCost>,
    /// The estimated cost of the structured content.
    pub(super) structured: OriginalCost,
}

impl AnswerCost {
    /// Estimates the costs of content blocks and structured content of an upstream's answer.
    #[must_use]
    pub fn new(context: &ShapeContext<'_>, message: &[u8], answer: &Answer) -> Self {
        let parts = answer.blocks.len() + usize::from(answer.structured.is_some());
        let limits = PriceLimits {
            over: context.surely_over(),
            under: context.surely_under() / parts.max(1) as u64,
        };
        let price = |span: &Span, form| {
            let bytes = message.get(span.clone()).unwrap_or_default();
            OriginalCost::estimate_near(&context.limits.estimator, bytes, form, limits)
        };
        Self {
            blocks: answer
                .blocks
                .iter()
                .map(|block| match (&block.text, block.kind) {
                    (_, BlockKind::Link) => price(&block.span, Form::Raw),
                    (Some(text), _) => price(text, Form::Escaped),
                    (None, _) => OriginalCost::default(),
                })
                .collect(),
            structured: answer
                .structured
                .as_ref()
                .map_or(OriginalCost::default(), |survey| price(&survey.root, Form::Raw)),
        }
    }

    /// Returns the cost of the content blocks and the structured content together.
    #[must_use]
    pub fn total(&self) -> OriginalCost {
        self.text().plus(self.structured)
    }

    /// Returns the cost of all texts and links, without the structured content.
    pub(super) fn text(&self) -> OriginalCost {
        self.blocks.iter().copied().fold(OriginalCost::default(), OriginalCost::plus)
    }

    /// Returns the cost of the block with index `at`, or zero if it has no text that a model reads.
    pub(super) fn block(&self, at: usize) -> OriginalCost {
        self.blocks.get(at).copied().unwrap_or_default()
    }
}
