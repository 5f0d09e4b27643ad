//! Writes shaped answers: new content, structured content, `_meta` and `ttlMs`. All other bytes of
//! the upstream's message remain verbatim.

use serde_json::{Map, Value};

use super::answer::Answer;
use super::cost::AnswerCost;
use super::{META_RESULT, reply};
use crate::json::Span;
use crate::json::edit::{Edits, append_member};
use crate::json::scan::Kind;
use crate::record::Loss;
use crate::shape::content_block::{BlockKind, plain_block, text_block};
use crate::shape::context::ShapeContext;
use crate::shape::plan::ShapedPayload;
use crate::shape::render::{Rendered, with_contract};
use crate::snapshot::stored::Entry;
use crate::tokens::{OriginalCost, TokenBudget};

/// A shaped answer, ready for the client.
pub struct ShapedMessage<'a> {
    /// The JSON-RPC response for the client.
    pub message: Vec<u8>,
    /// Entries to store before the message is sent.
    pub entries: Vec<Entry<'a>>,
    /// The kind of the excerpt sent, for telemetry: see [`crate::Record::mode`].
    pub mode: &'static str,
    /// The greatest loss among the payloads of the answer.
    pub loss: Loss,
    /// The number of items in the excerpt, if the first shaped payload is a list.
    pub items: Option<u64>,
    /// The estimated tokens of the shaped answer.
    pub tokens: u64,
}

/// The shaped payloads of an answer, and the content blocks to send.
pub(super) struct ContentPlan<'a> {
    pub(super) payloads: Vec<ShapedPayload<'a>>,
    /// The content blocks to send, as JSON.
    pub(super) content: Vec<Vec<u8>>,
    /// The estimated tokens of the payloads that are sent unchanged.
    pub(super) unshaped_tokens: u64,
}

/// Replaces the payloads in an upstream's answer by their excerpts.
pub(super) struct AnswerWriter<'s, 'a> {
    pub(super) context: &'s ShapeContext<'s>,
    pub(super) message: &'a [u8],
    pub(super) answer: &'s Answer,
    pub(super) cost: &'s AnswerCost,
    /// The tokens of links that are sent unchanged beside the payloads.
    pub(super) link_tokens: u64,
}

impl<'a> AnswerWriter<'_, 'a> {
    pub(super) fn bytes(&self, span: &Span) -> &'a [u8] {
        self.message.get(span.clone()).unwrap_or_default()
    }

    /// Returns the content blocks of the upstream's answer verbatim.
    pub(super) fn blocks(&self) -> Vec<Vec<u8>> {
        self.answer.blocks.iter().map(|block| self.bytes(&block.span).to_vec()).collect()
    }

    /// Returns the upstream's content blocks with the rendered text in the first block of `texts`,
    /// and without the other blocks of `texts`. `texts` are block indices in ascending order.
    pub(super) fn content_with(&self, rendered: &Rendered, texts: &[usize]) -> Vec<Vec<u8>> {
        let mut content = Vec::new();
        for (at, block) in self.answer.blocks.iter().enumerate() {
            match texts.binary_search(&at) {
                Err(_) => content.push(self.bytes(&block.span).to_vec()),
                Ok(0) => {
                    if let (BlockKind::Data, Some(new)) = (block.kind, &rendered.text) {
                        content.push(self.text_content(new));
                    } else if let (Some(text), Some(new)) = (&block.text, &rendered.text) {
                        let mut edits = Edits::default();
                        edits.replace(
                            text.start - block.span.start..text.end - block.span.start,
                            new.as_slice(),
                        );
                        content.push(edits.apply(self.bytes(&block.span)));
                    }
                }
                Ok(_) => {}
            }
        }
        content
    }

    pub(super) fn text_content(&self, escaped: &[u8]) -> Vec<u8> {
        if self.answer.resource {
            reply::content(self.context.name, escaped)
        } else {
            text_block(escaped)
        }
    }

    /// Returns the message for the client, with new content, structured content, `ttlMs` and result
    /// metadata.
    pub(super) fn finish(&self, mut plan: ContentPlan<'a>) -> ShapedMessage<'a> {
        let mut edits = Edits::default();
        let tokens = self.link_tokens
            + plan.unshaped_tokens
            + plan.payloads.iter().map(|payload| payload.rendered.tokens).sum::<u64>();
        let heading = plan.payloads.first().map(|payload| payload.rendered.heading.as_str());
        if let Some(heading) =
            heading.filter(|heading| !heading.is_empty() && !self.answer.resource)
        {
            plan.content.insert(0, plain_block(heading));
        }
        for payload in plan.payloads.iter().filter(|payload| !payload.rendered.notice.is_empty()) {
            plan.content.push(if self.answer.resource {
                reply::notice_content(&payload.rendered)
            } else {
                plain_block(&payload.rendered.notice)
            });
        }
        let content = [b"[".as_slice(), &plan.content.join(&b','), b"]"].concat();
        let mut members: Vec<Vec<u8>> = Vec::new();
        match &self.answer.content {
            Some(span) => edits.replace(span.clone(), content),
            None => members.push([b"\"content\":".as_slice(), &content].concat()),
        }
        if let Some(survey) = &self.answer.structured {
            let new = plan
                .payloads
                .iter()
                .find_map(|payload| payload.rendered.structured.clone())
                .or_else(|| {
                    // Some clients show nothing but structured content, so it carries the metadata
                    // even if it is complete.
                    let payload = plan.payloads.first().filter(|_| survey.kind == Kind::Object)?;
                    let metadata = payload.excerpt.coverage.structured(
                        payload.rendered.cursor.as_deref(),
                        payload.excerpt.more,
                        self.context.read_tool,
                        false,
                    );
                    Some(with_contract(
                        self.bytes(&survey.root),
                        Value::Object(metadata).to_string().as_bytes(),
                    ))
                });
            if let Some(new) = new {
                edits.replace(survey.root.clone(), new);
            }
        }
        // Cursors in the answer expire, so no cache may keep it.
        if let Some(ttl) = &self.answer.ttl {
            edits.replace(ttl.clone(), b"0".as_slice());
        }
        self.meta(&plan, tokens, &mut edits, &mut members);
        let result = self.answer.result.as_ref().filter(|_| !members.is_empty());
        if let Some(Ok((span, bytes))) =
            result.map(|result| append_member(self.message, result, &members.join(&b',')))
        {
            edits.replace(span, bytes);
        }
        let first = plan.payloads.first().map(|payload| &payload.excerpt.coverage);
        ShapedMessage {
            mode: first.map_or("full", |coverage| coverage.kind()),
            loss: plan
                .payloads
                .iter()
                .map(|payload| payload.excerpt.coverage.loss())
                .max()
                .unwrap_or_default(),
            items: first.and_then(|coverage| coverage.items()),
            message: edits.apply(self.message),
            entries: plan.payloads.into_iter().flat_map(|payload| payload.entries).collect(),
            tokens,
        }
    }

    /// Writes the result metadata into the `_meta` object of the result. If there is none, adds a
    /// `_meta` member to `members`.
    fn meta(
        &self,
        plan: &ContentPlan<'_>,
        tokens: u64,
        edits: &mut Edits,
        members: &mut Vec<Vec<u8>>,
    ) {
        let Some(payload) = plan.payloads.first() else { return };
        let mut coverage = payload.excerpt.coverage.json(
            payload.rendered.cursor.as_deref(),
            payload.excerpt.more,
            self.context.read_tool,
        );
        if let Some(whole) = &payload.whole {
            coverage.insert("original".to_owned(), self.context.sign(whole).into());
        }
        let threshold = self
            .context
            .limits
            .budget_for(self.context.options.pages, self.context.budget)
            .threshold;
        let meta = result_metadata(
            coverage,
            tokens,
            threshold,
            self.cost.total(),
            self.message.len() as u64,
        );
        let appended = self.answer.meta.as_ref().and_then(|object| {
            let member = format!("\"{META_RESULT}\":{}", Value::Object(meta.clone()));
            append_member(self.message, object, member.as_bytes()).ok()
        });
        match appended {
            Some((span, bytes)) => edits.replace(span, bytes),
            None => members.push(reply::result_meta(&meta)),
        }
    }
}

/// Returns the result metadata: the excerpt's coverage, tokens and budget (`threshold`), and the
/// size of the upstream's answer.
#[must_use]
pub fn result_metadata(
    mut coverage: Map<String, Value>,
    tokens: u64,
    threshold: u64,
    original: OriginalCost,
    original_bytes: u64,
) -> Map<String, Value> {
    if let Ok(Value::Object(budget)) = serde_json::to_value(TokenBudget::new(tokens, threshold)) {
        coverage.extend(budget);
    }
    coverage.insert("originalTokens".to_owned(), original.tokens.into());
    coverage.insert("originalBytes".to_owned(), original_bytes.into());
    if original.sampled {
        coverage.insert("originalTokensSampled".to_owned(), true.into());
    }
    coverage
}
