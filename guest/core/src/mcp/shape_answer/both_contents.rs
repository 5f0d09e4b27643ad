//! Answers with structured content. If the text has the same data, chooses the content that keeps
//! the data.

use super::Shaper;
use crate::json::Span;
use crate::json::locate_lists::DocumentInfo;
use crate::json::text::Form;
use crate::mcp::block::locate_json_lists;
use crate::mcp::write_answer::{ContentPlan, ShapedMessage};
use crate::policy::VisibleContent;
use crate::shape::payload::Payload;
use crate::shape::plan::ShapedPayload;
use crate::shape::{Coverage, Excerpt, ExcerptBody, transform};
use crate::snapshot::Placement;
use crate::tokens::OriginalCost;

/// The divisor of the budget for content that the client does not show: it gets an eighth.
const HIDDEN_SHARE: u64 = 8;
/// The minimum tokens for content that the client does not show, so that its notice fits.
const MIN_HIDDEN_TOKENS: u64 = 150;

impl<'a> Shaper<'_, 'a> {
    pub(super) fn shape_structured(&self, survey: &DocumentInfo) -> Option<ShapedMessage<'a>> {
        let shaped = self.shape_structured_payload(survey, self.token_limit)?;
        let content = self.writer.blocks();
        Some(self.writer.finish(ContentPlan {
            content,
            unshaped_tokens: 0,
            payloads: vec![shaped],
        }))
    }

    /// Shapes structured content for a result whose text has other data, or none.
    fn shape_structured_payload(
        &self,
        survey: &DocumentInfo,
        token_limit: u64,
    ) -> Option<ShapedPayload<'a>> {
        let relative = survey.clone().relative_to(survey.root.start);
        let cost = self.writer.cost.structured;
        let payload = self.structured_payload(survey, &relative);
        self.shape_payload(&payload, cost, Some(Placement::Whole), false, token_limit)
    }

    /// Returns the structured content of the answer. `relative` has the list positions of `survey`,
    /// relative to the start of the structured content.
    fn structured_payload<'r>(
        &self,
        survey: &DocumentInfo,
        relative: &'r DocumentInfo,
    ) -> Payload<'a, 'r> {
        let bytes = self.writer.bytes(&survey.root);
        Payload { bytes, form: Form::Raw, survey: Some(relative), ends: None, blocks: false }
    }

    /// Shapes an answer whose text and structured content have the same data, as one payload. If
    /// `is_list`, the text has only the longest list of the structured content.
    pub(super) fn shape_duplicate(
        &self,
        survey: &DocumentInfo,
        texts: &[usize],
        is_list: bool,
    ) -> Option<ShapedMessage<'a>> {
        let relative = survey.clone().relative_to(survey.root.start);
        let mut cost = self.writer.cost.structured;
        // The text may have white space that the structured content does not have.
        cost.cost = cost.cost.max(self.text_cost());
        let payload = self.structured_payload(survey, &relative);
        self.shape_once(&payload, cost, Placement::Whole, texts, is_list)
    }

    /// Shapes a payload that text and structured content both have. The result has the payload
    /// once, or twice if both fit. If `is_part`, the text lacks some of the payload.
    fn shape_once(
        &self,
        payload: &Payload<'a, '_>,
        cost: OriginalCost,
        placement: Placement,
        texts: &[usize],
        is_part: bool,
    ) -> Option<ShapedMessage<'a>> {
        let context = self.writer.context;
        let limit = self.token_limit;
        let visible = context.visible_content();
        // The text may have white space that the payload does not have.
        let of_text: u64 = texts.iter().map(|at| context.cost_for_client(0, self.text(*at))).sum();
        let shown_cost = match visible {
            VisibleContent::Structured => cost.cost,
            VisibleContent::Text | VisibleContent::Both => cost.cost.max(of_text),
        };
        let must_choose = visible == VisibleContent::Both && self.is_over;
        let fits_alone = must_choose && !is_part && shown_cost <= limit;
        let planned = OriginalCost { cost: shown_cost, ..cost };
        let beside = fits_alone.then(|| self.beside_text(payload, planned, &placement)).flatten();
        let least = if must_choose && beside.is_none() { limit + 1 } else { 0 };
        let planned = OriginalCost { cost: shown_cost.max(least), ..cost };
        let shaped = self.shape_payload(payload, planned, Some(placement), true, limit);
        if let Some(shaped) = shaped {
            let content = self.writer.content_with(&shaped.rendered, texts);
            let payloads = vec![shaped];
            return Some(self.writer.finish(ContentPlan { content, unshaped_tokens: 0, payloads }));
        }
        let unshaped = self.writer.cost.text().tokens;
        let unshaped_tokens = unshaped.saturating_sub(self.writer.link_tokens);
        let (content, payloads) = (self.writer.blocks(), vec![beside?]);
        Some(self.writer.finish(ContentPlan { content, unshaped_tokens, payloads }))
    }

    /// Returns the structured content for a text that fits alone and remains unchanged: metadata
    /// that leads to the stored payload. `None` if text and metadata together do not fit.
    fn beside_text(
        &self,
        payload: &Payload<'a, '_>,
        cost: OriginalCost,
        placement: &Placement,
    ) -> Option<ShapedPayload<'a>> {
        let context = self.writer.context;
        let (_, whole, entries) =
            transform::store_original(context, payload, cost, Some(placement.clone()));
        let coverage = Coverage::Lossless { what: "in the text of this result".to_owned() };
        let body = ExcerptBody::Text(Vec::new(), Form::Raw);
        let excerpt = Excerpt::new(coverage, Some(whole), body).complete();
        let pricer = context.pricer(self.token_limit, true, Some(placement));
        let rendered = pricer.beside_text(&excerpt, cost.cost)?;
        Some(ShapedPayload { excerpt, rendered, entries, whole: None })
    }

    /// Shapes an answer whose text equals the string at the span `string` in its structured
    /// content.
    pub(super) fn shape_wrapped_text(
        &self,
        survey: &DocumentInfo,
        string: &Span,
        texts: &[usize],
    ) -> Option<ShapedMessage<'a>> {
        let bytes = self.writer.bytes(string);
        let inner = locate_json_lists(bytes);
        let placement = Placement::Text(
            self.writer.bytes(&(survey.root.start..string.start)).to_vec(),
            self.writer.bytes(&(string.end..survey.root.end)).to_vec(),
        );
        let payload = Payload {
            bytes,
            form: Form::Escaped,
            survey: inner.as_ref(),
            ends: None,
            blocks: false,
        };
        let cost = texts.first().map_or(OriginalCost::default(), |at| self.writer.cost.block(*at));
        self.shape_once(&payload, cost, placement, texts, false)
    }

    /// Shapes an answer whose text and structured content differ, as two payloads that share the
    /// budget. Content that the client does not show gets a small part of the budget.
    pub(super) fn shape_separately(
        &self,
        survey: &DocumentInfo,
        texts: &[usize],
    ) -> Option<ShapedMessage<'a>> {
        let (text, structured) = (self.text_cost(), self.writer.cost.structured.cost);
        let limit = self.token_limit;
        let half = limit / 2;
        let hidden = (limit / HIDDEN_SHARE).max(MIN_HIDDEN_TOKENS).min(half);
        let (most_text, most_structured) = match self.writer.context.visible_content() {
            VisibleContent::Text => (limit - hidden, hidden),
            VisibleContent::Structured => (hidden, limit - hidden),
            VisibleContent::Both => (half, half),
        };
        let (for_text, for_structured) = match (text <= most_text, structured <= most_structured) {
            (true, _) => (most_text, limit - text),
            (_, true) => (limit - structured, most_structured),
            _ => (most_text, most_structured),
        };
        let structured_shaped = self.shape_structured_payload(survey, for_structured);
        let shaped = if self.as_list {
            self.shape_blocks(for_text)
        } else {
            self.shape_texts(texts, for_text)
        };
        let mut plan = match shaped {
            Some(plan) => plan,
            None => ContentPlan {
                payloads: Vec::new(),
                content: self.writer.blocks(),
                unshaped_tokens: text,
            },
        };
        match structured_shaped {
            Some(shaped) => plan.payloads.push(shaped),
            None => plan.unshaped_tokens += structured,
        }
        (!plan.payloads.is_empty()).then(|| self.writer.finish(plan))
    }
}
