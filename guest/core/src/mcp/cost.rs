//! The cost of an unshaped answer.

use super::answer::Answer;
use crate::json::Span;
use crate::json::text::Form;
use crate::shape::context::ShapeContext;
use crate::tokens::Original;

/// The cost of the payloads of an unshaped answer.
pub struct AnswerCost {
    blocks: Vec<Original>,
    /// The structured content.
    pub(super) structured: Original,
}

impl AnswerCost {
    /// Prices the texts and the structured content of an answer.
    #[must_use]
    pub fn new(context: &ShapeContext<'_>, message: &[u8], answer: &Answer) -> Self {
        let enough = context.surely_over();
        let price = |span: &Span, form| {
            let bytes = message.get(span.clone()).unwrap_or_default();
            Original::price_beside(&context.limits.estimator, bytes, form, enough)
        };
        Self {
            blocks: answer
                .blocks
                .iter()
                .map(|block| {
                    block
                        .text
                        .as_ref()
                        .map_or(Original::default(), |text| price(text, Form::Escaped))
                })
                .collect(),
            structured: answer
                .structured
                .as_ref()
                .map_or(Original::default(), |survey| price(&survey.root, Form::Raw)),
        }
    }

    /// Returns the cost of all payloads.
    #[must_use]
    pub fn total(&self) -> Original {
        self.text().plus(self.structured)
    }

    /// Returns the cost of the text blocks.
    pub(super) fn text(&self) -> Original {
        self.blocks.iter().copied().fold(Original::default(), Original::plus)
    }

    /// Returns the cost of one block.
    pub(super) fn block(&self, at: usize) -> Original {
        self.blocks.get(at).copied().unwrap_or_default()
    }
}
