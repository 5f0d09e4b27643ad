//! An answer, cut to fit: which of its parts are payloads, how they share the budget, and how the message is put together again.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::answer::Answer;
use super::block::{ContentBlock, begins_as_json};
use super::cost::AnswerCost;
use super::relation::Relation;
use super::{META_RESULT, reply};
use crate::json::Span;
use crate::json::edit::{Edits, append_member};
use crate::json::scan::Kind;
use crate::json::survey::{List, Survey};
use crate::json::text::{Form, boundary, visible};
use crate::query::Query;
use crate::record::Loss;
use crate::shape::Coverage;
use crate::shape::context::ShapeContext;
use crate::shape::payload::Payload;
use crate::shape::plan::{ShapedPayload, shape_payload};
use crate::shape::render::{Rendered, SchemaConstraint, plain_block, with_contract};
use crate::shape::transform::{self, Transformed};
use crate::snapshot::stored::Entry;
use crate::snapshot::{Cursor, Placement};
use crate::tokens::{Original, TokenBudget};

/// An answer, shaped.
pub struct ShapedMessage<'a> {
    /// The message.
    pub message: Vec<u8>,
    /// What is kept.
    pub entries: Vec<Entry<'a>>,
    /// What was done: see [`crate::Record::mode`].
    pub mode: &'static str,
    /// What was lost: the worst of its parts.
    pub loss: Loss,
    /// Items shown.
    pub items: Option<u64>,
    /// Tokens of what is sent.
    pub tokens: u64,
}

/// Shapes an answer; none where it may stay as it is.
#[must_use]
pub fn shape<'a>(
    context: &ShapeContext<'_>,
    message: &'a [u8],
    answer: &Answer,
    cost: &AnswerCost,
    allowance: u64,
) -> Option<ShapedMessage<'a>> {
    let shaper = Shaper { context, message, answer, cost, allowance };
    let texts: Vec<usize> = answer
        .blocks
        .iter()
        .enumerate()
        .filter(|(_, block)| block.text.is_some())
        .map(|(at, _)| at)
        .collect();
    let over = cost.total().cost > allowance;
    if answer.is_error && !over {
        return None;
    }
    // A query is about what a tool found, not about why it failed.
    let query = Query::default();
    let context =
        &if answer.is_error { ShapeContext { query: &query, ..*context } } else { *context };
    let shaper = Shaper { context, ..shaper };
    match (&answer.structured, texts.as_slice()) {
        (Some(survey), []) => shaper.structured_alone(survey),
        (Some(survey), texts) => {
            // Telling whether both halves say the same costs as much as reading them: only where one of them has to be cut.
            if !over
                && context.query.is_empty()
                && !context.limits.transforms_answers()
                && !shaper.may_need_cut(survey, texts)
            {
                return None;
            }
            // A token is three bytes and more in most JSON; a sixth of the allowance is left for what stands round a text.
            let around = usize::try_from(allowance / 2).unwrap_or(usize::MAX);
            let bytes: Vec<&[u8]> = texts.iter().map(|at| shaper.text(*at)).collect();
            let relation = Relation::compare(message, survey, &bytes, around);
            match relation {
                Relation::Whole => shaper.both(survey, texts),
                Relation::Text(span) => shaper.both_text(survey, &span, texts),
                Relation::None => shaper.apart(survey, texts),
            }
        }
        (None, []) => None,
        (None, texts) => shaper.texts(texts, allowance).map(|plan| shaper.finish(plan)),
    }
}

/// Cuts, and where they go.
struct ContentPlan<'a> {
    cuts: Vec<ShapedPayload<'a>>,
    /// The content array, written anew.
    content: Vec<Vec<u8>>,
    /// Tokens of what was left as it is.
    untouched: u64,
}

struct Shaper<'s, 'a> {
    context: &'s ShapeContext<'s>,
    message: &'a [u8],
    answer: &'s Answer,
    cost: &'s AnswerCost,
    allowance: u64,
}

impl<'a> Shaper<'_, 'a> {
    fn bytes(&self, span: &Span) -> &'a [u8] {
        self.message.get(span.clone()).unwrap_or_default()
    }

    fn block(&self, at: usize) -> Option<&ContentBlock> {
        self.answer.blocks.get(at)
    }

    fn text(&self, at: usize) -> &'a [u8] {
        self.block(at).and_then(|block| block.text.as_ref()).map_or(&[], |span| self.bytes(span))
    }

    /// What the text of a block holds, if that is JSON.
    fn survey(&self, at: usize) -> Option<Cow<'_, Survey>> {
        let known = self.block(at).and_then(|block| block.survey.as_ref());
        known.map(Cow::Borrowed).or_else(|| surveyed(self.text(at)).map(Cow::Owned))
    }

    /// Whether an answer within its budget may have to be cut all the same: for its number of items, its length, or a range asked for.
    fn may_need_cut(&self, survey: &Survey, texts: &[usize]) -> bool {
        let (limits, options) = (self.context.limits, self.context.options);
        let size = self.context.page_size();
        let long = |survey: &Survey| survey.lists.iter().any(|list| list.items.len() as u64 > size);
        let holds_long = |at: &usize| self.survey(*at).is_some_and(|survey| long(&survey));
        long(survey)
            || texts.len() as u64 > size
            || texts.iter().any(|at| self.cost.block(*at).tokens > limits.chunk_threshold)
            || options.ranged()
            || texts.iter().any(holds_long)
            || (limits.summarization && self.cost.structured.tokens > limits.summary_threshold)
    }

    /// Cuts a payload: what a query finds in it, or what policy makes of it, or itself.
    fn cut(
        &self,
        payload: &Payload<'a, '_>,
        cost: Original,
        placement: Option<Placement>,
        text: bool,
        allowance: u64,
    ) -> Option<ShapedPayload<'a>> {
        let context = self.context;
        let transformed = if context.query.is_empty() {
            Transformed::by_policy(context, payload)
        } else {
            let copies = u64::from(text) + u64::from(placement.is_some());
            Some(Transformed::by_query(context, payload, copies, allowance))
        };
        let Some(mut transformed) = transformed else {
            let mut cut = shape_payload(context, payload, cost, placement, text, allowance)?;
            // A caller that has seen ids may ask for the records by them.
            let page = matches!(cut.excerpt.coverage, Coverage::Page { .. });
            let noted = cut.excerpt.next.as_ref().filter(|_| page).and_then(|next| self.note(next));
            cut.entries.extend(noted);
            return Some(cut);
        };
        let apart = transformed.is_requested
            || (!transformed.keeps_types && context.schema_constraint != SchemaConstraint::None);
        let shown_home =
            placement.clone().map(|placement| if apart { Placement::Document } else { placement });
        // Answers that stay as they are would be kept for nothing.
        let (whole, kept) = transform::keep(context, payload, cost, placement);
        let placement = shown_home.as_ref();
        let mut cut = match transformed.list_page.take() {
            Some(view) => {
                let pricer = context.pricer(allowance, text, placement);
                transform::fit_page(&transformed, view, payload, cost, &whole, context, &pricer)
            }
            None => transform::fit(context, &transformed, Some(&whole), placement, text, allowance),
        };
        cut.entries.extend(kept.into_iter().map(Entry::into_owned));
        cut.entries.extend(self.note(&whole));
        cut.whole = Some(whole);
        Some(cut)
    }

    /// Notes which snapshot this call led to, so that the same call with other wishes is answered from it.
    fn note(&self, whole: &Cursor) -> Option<Entry<'static>> {
        let context = self.context;
        let key = context.keys.answer(context.scope, context.arguments).into_iter().next()?;
        Some(Entry { key, value: whole.snapshot.clone().into_bytes().into() })
    }

    fn structured_alone(&self, survey: &Survey) -> Option<ShapedMessage<'a>> {
        let cut = self.cut_structured(survey, false, self.allowance)?;
        let content = self.blocks();
        Some(self.finish(ContentPlan { content, untouched: 0, cuts: vec![cut] }))
    }

    fn cut_structured(
        &self,
        survey: &Survey,
        text: bool,
        allowance: u64,
    ) -> Option<ShapedPayload<'a>> {
        let relative = survey.clone().from(survey.root.start);
        let payload = Payload {
            bytes: self.bytes(&survey.root),
            form: Form::Raw,
            survey: Some(&relative),
            ends: None,
            blocks: false,
        };
        self.cut(&payload, self.cost.structured, Some(Placement::Whole), text, allowance)
    }

    /// Both halves say the same: one payload, written twice.
    fn both(&self, survey: &Survey, texts: &[usize]) -> Option<ShapedMessage<'a>> {
        let cut = self.cut_structured(survey, true, self.allowance)?;
        let content = self.content_with(&cut.rendered, texts);
        Some(self.finish(ContentPlan { content, untouched: 0, cuts: vec![cut] }))
    }

    /// The structured half wraps the text of the other.
    fn both_text(
        &self,
        survey: &Survey,
        string: &Span,
        texts: &[usize],
    ) -> Option<ShapedMessage<'a>> {
        let bytes = self.bytes(string);
        let inner = surveyed(bytes);
        let placement = Placement::Text(
            self.bytes(&(survey.root.start..string.start)).to_vec(),
            self.bytes(&(string.end..survey.root.end)).to_vec(),
        );
        let payload = Payload {
            bytes,
            form: Form::Escaped,
            survey: inner.as_ref(),
            ends: None,
            blocks: false,
        };
        let cost = texts.first().map_or(Original::default(), |at| self.cost.block(*at));
        let cut = self.cut(&payload, cost, Some(placement), true, self.allowance)?;
        let content = self.content_with(&cut.rendered, texts);
        Some(self.finish(ContentPlan { content, untouched: 0, cuts: vec![cut] }))
    }

    /// The halves say different things: each is a payload, and they share the budget.
    fn apart(&self, survey: &Survey, texts: &[usize]) -> Option<ShapedMessage<'a>> {
        let (text, structured) = (self.cost.text().cost, self.cost.structured.cost);
        let half = self.allowance / 2;
        let (for_text, for_structured) = match (text <= half, structured <= half) {
            (true, _) => (half, self.allowance - text),
            (_, true) => (self.allowance - structured, half),
            _ => (half, half),
        };
        let structured_cut = self.cut_structured(survey, false, for_structured);
        let mut plan = match self.texts(texts, for_text) {
            Some(plan) => plan,
            None => ContentPlan { cuts: Vec::new(), content: self.blocks(), untouched: text },
        };
        match structured_cut {
            Some(cut) => plan.cuts.push(cut),
            None => plan.untouched += structured,
        }
        (!plan.cuts.is_empty()).then(|| self.finish(plan))
    }

    /// Text blocks without a structured half: one is cut in its place, many are a list.
    fn texts(&self, texts: &[usize], allowance: u64) -> Option<ContentPlan<'a>> {
        let (largest, cost) = texts
            .iter()
            .map(|at| (*at, self.cost.block(*at)))
            .max_by_key(|(at, cost)| (cost.cost, usize::MAX - at))?;
        let others = self.cost.text().cost - cost.cost;
        let size = self.context.page_size();
        let beside = others <= allowance / 4 && texts.len() as u64 <= size;
        if texts.len() == 1 || (beside && self.context.query.is_empty()) {
            return self.one_text(largest, cost, others, allowance);
        }
        let content = self.answer.content.clone()?;
        let shift = |span: &Span| span.start - content.start..span.end - content.start;
        let items = self.answer.blocks.iter().map(|block| shift(&block.span)).collect();
        let root = 0..content.len();
        let list = List { path: Vec::new(), span: root.clone(), items };
        let survey = Survey { root, kind: Kind::Array, lists: vec![list], text: None };
        let payload = Payload {
            bytes: self.bytes(&content),
            form: Form::Raw,
            survey: Some(&survey),
            ends: None,
            blocks: true,
        };
        let cut = self.cut(&payload, self.cost.text(), None, true, allowance)?;
        let shown = cut
            .rendered
            .blocks
            .clone()
            .or_else(|| cut.rendered.text.as_ref().map(|text| self.text_content(text)));
        Some(ContentPlan {
            content: shown.into_iter().filter(|blocks| !blocks.is_empty()).collect(),
            untouched: 0,
            cuts: vec![cut],
        })
    }

    fn one_text(
        &self,
        at: usize,
        cost: Original,
        others: u64,
        allowance: u64,
    ) -> Option<ContentPlan<'a>> {
        let bytes = self.text(at);
        let inner = if self.answer.is_error { None } else { self.survey(at) };
        let inner = inner.as_deref();
        let ends = self.block(at).and_then(|block| block.ends.as_ref());
        let payload = Payload { bytes, form: Form::Escaped, survey: inner, ends, blocks: false };
        let room = allowance.saturating_sub(others);
        // Servers put what to do next at the end of an error: its tail is kept in sight.
        let tail = if self.answer.is_error { tail(bytes, room / 4) } else { Vec::new() };
        let tail_cost = self.context.limits.estimator.price(&tail);
        let cut = self.cut(&payload, cost, None, true, room - tail_cost.min(room))?;
        let mut content = self.content_with(&cut.rendered, &[at]);
        if !tail.is_empty() {
            content.push(plain_block(&String::from_utf8_lossy(&tail)));
        }
        Some(ContentPlan { content, untouched: others + tail_cost, cuts: vec![cut] })
    }

    /// The blocks as they came.
    fn blocks(&self) -> Vec<Vec<u8>> {
        self.answer.blocks.iter().map(|block| self.bytes(&block.span).to_vec()).collect()
    }

    /// The content array with the text half in the place of the first of `texts`, which are in their order, and without the others.
    fn content_with(&self, rendered: &Rendered, texts: &[usize]) -> Vec<Vec<u8>> {
        let mut content = Vec::new();
        for (at, block) in self.answer.blocks.iter().enumerate() {
            match texts.binary_search(&at) {
                Err(_) => content.push(self.bytes(&block.span).to_vec()),
                Ok(0) => {
                    if let (Some(text), Some(new)) = (&block.text, &rendered.text) {
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

    fn text_content(&self, escaped: &[u8]) -> Vec<u8> {
        if self.answer.resource {
            reply::content(self.context.name, escaped)
        } else {
            crate::shape::render::text_block(escaped)
        }
    }

    /// Puts the message together: content, structured content, `_meta` and `ttlMs` are new, everything else stays as it came.
    fn finish(&self, mut plan: ContentPlan<'a>) -> ShapedMessage<'a> {
        let mut edits = Edits::default();
        let tokens = plan.untouched + plan.cuts.iter().map(|cut| cut.rendered.tokens).sum::<u64>();
        for cut in &plan.cuts {
            plan.content.push(if self.answer.resource {
                reply::notice_content(&cut.rendered)
            } else {
                plain_block(&cut.rendered.notice)
            });
        }
        let content = [b"[".as_slice(), &plan.content.join(&b','), b"]"].concat();
        let mut members: Vec<Vec<u8>> = Vec::new();
        match &self.answer.content {
            Some(span) => edits.replace(span.clone(), content),
            None => members.push([b"\"content\":".as_slice(), &content].concat()),
        }
        if let Some(survey) = &self.answer.structured {
            let new =
                plan.cuts.iter().find_map(|cut| cut.rendered.structured.clone()).or_else(|| {
                    // It was left whole: the contract stands in it all the same, for clients that show nothing else.
                    let cut = plan.cuts.first().filter(|_| survey.kind == Kind::Object)?;
                    let contract = cut.excerpt.coverage.structured(
                        cut.rendered.cursor.as_deref(),
                        cut.excerpt.more,
                        self.context.read_tool,
                        false,
                    );
                    Some(with_contract(
                        self.bytes(&survey.root),
                        Value::Object(contract).to_string().as_bytes(),
                    ))
                });
            if let Some(new) = new {
                edits.replace(survey.root.clone(), new);
            }
        }
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
        let first = plan.cuts.first().map(|cut| &cut.excerpt.coverage);
        ShapedMessage {
            mode: first.map_or("full", |coverage| coverage.kind()),
            loss: plan.cuts.iter().map(|cut| cut.excerpt.coverage.loss()).max().unwrap_or_default(),
            items: first.and_then(|coverage| coverage.items()),
            message: edits.apply(self.message),
            entries: plan.cuts.into_iter().flat_map(|cut| cut.entries).collect(),
            tokens,
        }
    }

    fn meta(
        &self,
        plan: &ContentPlan<'_>,
        tokens: u64,
        edits: &mut Edits,
        members: &mut Vec<Vec<u8>>,
    ) {
        let Some(cut) = plan.cuts.first() else { return };
        let mut coverage = cut.excerpt.coverage.json(
            cut.rendered.cursor.as_deref(),
            cut.excerpt.more,
            self.context.read_tool,
        );
        if let Some(whole) = &cut.whole {
            coverage.insert("original".to_owned(), self.context.sign(whole).into());
        }
        let threshold = self
            .context
            .limits
            .budget_for(self.context.options.pages, self.context.budget)
            .threshold;
        let meta =
            describe(coverage, tokens, threshold, self.cost.total(), self.message.len() as u64);
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

/// What `_meta` says of a shaped result: the facts, the budget, the size of the original.
#[must_use]
pub fn describe(
    mut coverage: Map<String, Value>,
    tokens: u64,
    threshold: u64,
    original: Original,
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

/// What a text holds, if that is JSON.
fn surveyed(escaped: &[u8]) -> Option<Survey> {
    begins_as_json(escaped).then(|| Survey::of(escaped, Form::Escaped)).flatten()
}

/// The end of an error's text, about `allowance` tokens of it.
fn tail(bytes: &[u8], allowance: u64) -> Vec<u8> {
    let length = usize::try_from(allowance.saturating_mul(2)).unwrap_or(usize::MAX).min(600);
    let from = boundary(bytes, bytes.len().saturating_sub(length), Form::Escaped);
    let mut tail = b"[context-guard] The error ends: ".to_vec();
    tail.extend_from_slice(&visible(bytes.get(from..).unwrap_or_default(), Form::Escaped));
    tail
}
