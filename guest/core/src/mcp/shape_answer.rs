//! Shaping of answers: chooses the payloads of an answer, and divides the budget among them.

mod both_contents;

use std::borrow::Cow;

use super::answer::Answer;
use super::block::{ContentBlock, locate_json_lists};
use super::cost::AnswerCost;
use super::json_string::{JSON_STRING, UnwrappedText};
use super::relation::Relation;
use super::write_answer::{AnswerWriter, ContentPlan, ShapedMessage};
use crate::json::Span;
use crate::json::locate_lists::{DocumentInfo, List};
use crate::json::scan::Kind;
use crate::json::text::{Form, boundary, visible};
use crate::policy::EndpointSettings;
use crate::query::Query;
use crate::shape::Coverage;
use crate::shape::content_block::{BlockKind, plain_block};
use crate::shape::context::ShapeContext;
use crate::shape::payload::Payload;
use crate::shape::plan::{ShapedPayload, shape_payload};
use crate::shape::transform::{self, Transformed};
use crate::snapshot::stored::Entry;
use crate::snapshot::{Cursor, Placement};
use crate::tokens::OriginalCost;

/// Reduces an upstream's answer until it costs at most `token_limit`. `cost` is the cost of the
/// answer as received. Returns `None` if the answer needs no change.
#[must_use]
pub fn shape<'a>(
    context: &ShapeContext<'_>,
    message: &'a [u8],
    answer: &Answer,
    cost: &AnswerCost,
    token_limit: u64,
) -> Option<ShapedMessage<'a>> {
    let texts: Vec<usize> = answer
        .blocks
        .iter()
        .enumerate()
        .filter(|(_, block)| block.text.is_some())
        .map(|(at, _)| at)
        .collect();
    // A query applies to results, not to errors. The name of a stored error is not that of a result
    // with the same text, so that `since` never takes one for the other. Clients have other limits
    // for errors.
    let (query, arguments) = (Query::default(), !context.arguments);
    let settings = answer.is_error.then(|| {
        let shown = context.limits.shown_errors;
        EndpointSettings { shown, ..context.limits.clone() }
    });
    let of_error = settings.as_ref().map(|limits| {
        let query = &query;
        ShapeContext { limits, query, since: None, arguments, ..*context }
    });
    let context = of_error.as_ref().unwrap_or(context);
    let over = context.cost_for_client(cost.total().cost, message) > token_limit;
    if answer.is_error && !over {
        return None;
    }
    let links: u64 = answer
        .blocks
        .iter()
        .enumerate()
        .filter(|(_, block)| block.kind == BlockKind::Link)
        .map(|(at, _)| cost.block(at).cost)
        .sum();
    let others = answer
        .blocks
        .iter()
        .filter(|block| block.kind != BlockKind::Interface && block.text.is_none());
    let as_list = links > token_limit / 4 || others.count() as u64 > context.page_size();
    let link_tokens = if as_list { 0 } else { links };
    let writer = AnswerWriter { context, message, answer, cost, link_tokens };
    let shaper = Shaper { writer, token_limit: token_limit - link_tokens, is_over: over, as_list };
    match (&answer.structured, texts.as_slice()) {
        (Some(survey), texts) if as_list => shaper.shape_separately(survey, texts),
        (None, _) if as_list => {
            shaper.shape_blocks(token_limit).map(|plan| shaper.writer.finish(plan))
        }
        (Some(survey), []) => shaper.shape_structured(survey),
        (Some(survey), texts) => {
            // Comparing text and structured content costs as much as reading both, so do it only if
            // one of them may have to be shaped.
            if !over
                && context.query.is_empty()
                && context.since.is_none()
                && !context.limits.transforms_answers()
                && !shaper.may_need_cut(survey, texts)
            {
                return None;
            }
            // Most JSON has at least three bytes per token, so this leaves a sixth of the limit for
            // the members around the text.
            let max_wrapping = usize::try_from(token_limit / 2).unwrap_or(usize::MAX);
            let bytes: Vec<&[u8]> = texts.iter().map(|at| shaper.text(*at)).collect();
            let relation = Relation::compare(message, survey, &bytes, max_wrapping);
            match relation {
                Relation::Whole => shaper.shape_duplicate(survey, texts, false),
                Relation::List => shaper.shape_duplicate(survey, texts, true),
                Relation::Text(span) => shaper.shape_wrapped_text(survey, &span, texts),
                Relation::None => shaper.shape_separately(survey, texts),
            }
        }
        (None, []) => None,
        (None, texts) => {
            shaper.shape_texts(texts, token_limit).map(|plan| shaper.writer.finish(plan))
        }
    }
}

struct Shaper<'s, 'a> {
    writer: AnswerWriter<'s, 'a>,
    token_limit: u64,
    /// True if the answer as received costs more than the limit.
    is_over: bool,
    /// True if all content blocks are paged as a list, because there are too many links or blocks
    /// without text.
    as_list: bool,
}

impl<'a> Shaper<'_, 'a> {
    fn block(&self, at: usize) -> Option<&ContentBlock> {
        self.writer.answer.blocks.get(at)
    }

    /// Returns the cost of the texts, and of the links that are not sent unchanged.
    fn text_cost(&self) -> u64 {
        self.writer.cost.text().cost - self.writer.link_tokens
    }

    fn text(&self, at: usize) -> &'a [u8] {
        self.block(at)
            .and_then(|block| block.text.as_ref())
            .map_or(&[], |span| self.writer.bytes(span))
    }

    /// Returns the positions of lists in the text of the block with index `at`. `None` if the text
    /// is not JSON.
    fn survey(&self, at: usize) -> Option<Cow<'_, DocumentInfo>> {
        let known = self.block(at).and_then(|block| block.survey.as_ref());
        known.map(Cow::Borrowed).or_else(|| locate_json_lists(self.text(at)).map(Cow::Owned))
    }

    /// Returns true if an answer within its budget may need shaping because of its number of items,
    /// its length, or a requested range of lines. `texts` are the indices of the text blocks.
    fn may_need_cut(&self, survey: &DocumentInfo, texts: &[usize]) -> bool {
        let (settings, options) = (self.writer.context.limits, self.writer.context.options);
        let size = self.writer.context.page_size();
        let has_long_list =
            |survey: &DocumentInfo| survey.lists.iter().any(|list| list.items.len() as u64 > size);
        let holds_long_list =
            |at: &usize| self.survey(*at).is_some_and(|survey| has_long_list(&survey));
        has_long_list(survey)
            || texts.len() as u64 > size
            || texts.iter().any(|at| self.writer.cost.block(*at).tokens > settings.chunk_threshold)
            || options.ranged()
            || texts.iter().any(holds_long_list)
            || settings.summarizes(self.writer.cost.structured.tokens)
    }

    /// Shapes the first of these that applies: the result of the caller's query on a payload, the
    /// payload as transformed by policy, or the payload itself. The result becomes text content if
    /// `text`, and structured content if `placement` is given. Returns `None` if the payload needs
    /// no change.
    fn shape_payload<'p>(
        &self,
        payload: &Payload<'p, '_>,
        cost: OriginalCost,
        placement: Option<Placement>,
        text: bool,
        token_limit: u64,
    ) -> Option<ShapedPayload<'p>> {
        let context = self.writer.context;
        let compared = Transformed::by_comparison(context, payload, cost, placement.as_ref());
        let transformed = if compared.is_some() {
            compared
        } else if context.query.is_empty() {
            Transformed::by_policy(context, payload)
        } else {
            Some(Transformed::by_query(context, payload, token_limit))
        };
        let Some(mut transformed) = transformed else {
            let mut shaped = shape_payload(context, payload, cost, placement, text, token_limit)?;
            // A caller that has seen a page of ids may request the records by them.
            let page = matches!(shaped.excerpt.coverage, Coverage::Page { .. });
            let noted =
                shaped.excerpt.next.as_ref().filter(|_| page).and_then(|next| self.remember(next));
            shaped.entries.extend(noted);
            return Some(shaped);
        };
        let apart = transformed.is_apart(context.schema_constraint);
        let shown_placement =
            placement.clone().map(|placement| if apart { Placement::Document } else { placement });
        // Store the original only now: an answer that is sent unchanged needs no snapshot.
        let (original, whole, kept) = transform::store_original(context, payload, cost, placement);
        let context = &ShapeContext { original: Some(&original), ..*context };
        let placement = shown_placement.as_ref();
        let mut shaped = match transformed.list_page.take() {
            Some(view) => {
                let pricer = context.pricer(token_limit, text, placement);
                transform::fit_page(&transformed, view, payload, cost, context, &pricer)
            }
            None => {
                transform::fit(context, &transformed, Some(&whole), placement, text, token_limit)
            }
        };
        shaped.entries.extend(kept.into_iter().map(Entry::into_owned));
        shaped.entries.extend(self.remember(&whole));
        shaped.whole = Some(whole);
        Some(shaped)
    }

    /// Returns a store entry that maps this call to the snapshot to which `whole` points. The guard
    /// can then answer the same call with other options from the store.
    fn remember(&self, whole: &Cursor) -> Option<Entry<'static>> {
        let context = self.writer.context;
        let key = context.keys.answer(context.scope, context.arguments).into_iter().next()?;
        Some(Entry { key, value: whole.snapshot.clone().into_bytes().into() })
    }

    /// Shapes the text blocks with the indices `texts`. A single or dominant block is shaped by
    /// itself, and many blocks as a list.
    fn shape_texts(&self, texts: &[usize], token_limit: u64) -> Option<ContentPlan<'a>> {
        let (largest, cost) = texts
            .iter()
            .map(|at| (*at, self.writer.cost.block(*at)))
            .max_by_key(|(at, cost)| (cost.cost, usize::MAX - at))?;
        let context = self.writer.context;
        let tokens = self.text_cost() - cost.cost;
        let others = texts.iter().filter(|at| **at != largest).map(|at| self.text(*at));
        let others = tokens.max(others.map(|text| context.cost_for_client(0, text)).sum());
        let size = self.writer.context.page_size();
        let beside = others <= token_limit / 4 && texts.len() as u64 <= size;
        if texts.len() == 1 || (beside && self.writer.context.query.is_empty()) {
            return self.shape_one_text(largest, cost, others, token_limit);
        }
        self.shape_blocks(token_limit)
    }

    /// Shapes all content blocks as a list. Sends user interfaces that are not on the first page
    /// after it, unchanged.
    fn shape_blocks(&self, token_limit: u64) -> Option<ContentPlan<'a>> {
        let content = self.writer.answer.content.clone()?;
        let shift = |span: &Span| span.start - content.start..span.end - content.start;
        let items = self.writer.answer.blocks.iter().map(|block| shift(&block.span)).collect();
        let root = 0..content.len();
        let list = List { path: Vec::new(), span: root.clone(), items };
        let (kind, lists) = (Kind::Array, vec![list]);
        let survey = DocumentInfo { root, kind, lists, text: None, is_lines: false };
        let payload = Payload {
            bytes: self.writer.bytes(&content),
            form: Form::Raw,
            survey: Some(&survey),
            ends: None,
            blocks: true,
        };
        let shaped =
            self.shape_payload(&payload, self.writer.cost.text(), None, true, token_limit)?;
        let shown =
            shaped.rendered.blocks.clone().or_else(|| {
                shaped.rendered.text.as_ref().map(|text| self.writer.text_content(text))
            });
        let mut content: Vec<Vec<u8>> =
            shown.into_iter().filter(|shown| !shown.is_empty()).collect();
        for block in &self.writer.answer.blocks {
            let bytes = self.writer.bytes(&block.span);
            let is_shown =
                || content.iter().any(|shown| memchr::memmem::find(shown, bytes).is_some());
            if block.kind == BlockKind::Interface && !is_shown() {
                content.push(bytes.to_vec());
            }
        }
        Some(ContentPlan { content, unshaped_tokens: 0, payloads: vec![shaped] })
    }

    fn shape_one_text(
        &self,
        at: usize,
        cost: OriginalCost,
        others: u64,
        token_limit: u64,
    ) -> Option<ContentPlan<'a>> {
        let bytes = self.text(at);
        let inner = if self.writer.answer.is_error { None } else { self.survey(at) };
        // Lines are requested of the text, not of the JSON in it.
        let is_ranged = self.writer.context.options.ranged();
        let inner = inner.as_deref().filter(|inner| !is_ranged || inner.root.start == 0);
        let ends = self.block(at).and_then(|block| block.ends.as_ref());
        let is_plain = !is_ranged && !self.writer.answer.is_error;
        let room = token_limit.saturating_sub(others);
        if let Some(unwrapped) = UnwrappedText::read(bytes, inner).filter(|_| is_plain) {
            let shaped = self.shape_unwrapped(&unwrapped, cost, room)?;
            let content = self.writer.content_with(&shaped.rendered, &[at]);
            return Some(ContentPlan { content, unshaped_tokens: others, payloads: vec![shaped] });
        }
        let payload = Payload { bytes, form: Form::Escaped, survey: inner, ends, blocks: false };
        // Many servers end an error with the remedy, so its end is always shown.
        let tail =
            if self.writer.answer.is_error { error_tail(bytes, room / 4) } else { Vec::new() };
        let context = self.writer.context;
        let tail_cost = context.cost_for_client(context.limits.estimator.price(&tail), &tail);
        let shaped = self.shape_payload(&payload, cost, None, true, room - tail_cost.min(room))?;
        let mut content = self.writer.content_with(&shaped.rendered, &[at]);
        if !tail.is_empty() {
            content.push(plain_block(&String::from_utf8_lossy(&tail)));
        }
        Some(ContentPlan { content, unshaped_tokens: others + tail_cost, payloads: vec![shaped] })
    }
}

impl Shaper<'_, '_> {
    /// Shapes the JSON inside a string of a text, which has the cost `wrapped`. The JSON takes the
    /// place of the upstream's original. Returns `None` if the text needs no change.
    fn shape_unwrapped(
        &self,
        unwrapped: &UnwrappedText,
        wrapped: OriginalCost,
        token_limit: u64,
    ) -> Option<ShapedPayload<'static>> {
        let context = self.writer.context;
        let UnwrappedText { bytes, document_start, survey } = unwrapped;
        let cost = OriginalCost::estimate(&context.limits.estimator, bytes, Form::Raw);
        let (form, survey) = (Form::Raw, Some(survey));
        let payload = Payload { bytes, form, survey, ends: None, blocks: false };
        let pricer = context.pricer(token_limit, true, None);
        if let Some(shaped) = self.shape_payload(&payload, cost, None, true, token_limit) {
            return Some(shaped.into_owned().named(JSON_STRING, &pricer));
        }
        // Without the escapes, the document may fit.
        (wrapped.cost > token_limit).then(|| {
            let transformed = Transformed::without_string(bytes.clone(), *document_start);
            transform::fit(context, &transformed, None, None, true, token_limit)
        })
    }
}

/// Returns the end of an error message that must be cut: about `token_limit` tokens, at most 600
/// bytes.
fn error_tail(bytes: &[u8], token_limit: u64) -> Vec<u8> {
    let length = usize::try_from(token_limit.saturating_mul(2)).unwrap_or(usize::MAX).min(600);
    let from = boundary(bytes, bytes.len().saturating_sub(length), Form::Escaped);
    let mut tail = b"[context-guard] The error ends: ".to_vec();
    tail.extend_from_slice(&visible(bytes.get(from..).unwrap_or_default(), Form::Escaped));
    tail
}
