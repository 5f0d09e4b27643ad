//! Pricing: the cost of an excerpt, as rendered for the client, against the token budget.
//!
//! The pricer renders an excerpt to price it, and keeps the last rendering. Excerpts are priced
//! with a placeholder for the cursor, so that equal calls show equal excerpts.

use std::cell::RefCell;

use super::Excerpt;
use super::content_block::block_text;
use super::render::{RenderContext, Rendered};
use crate::json::scan::Scanner;
use crate::json::text::{Form, visible};
use crate::tokens::{Estimator, Measure};

/// Maximum number of attempts to shrink an excerpt until it fits the token limit.
const MAX_SHRINK_ATTEMPTS: usize = 8;

/// A pricer that computes the cost of excerpts as rendered under one [`RenderContext`].
pub struct ExcerptPricer<'a> {
    /// The token estimator.
    pub estimator: Estimator,
    /// The settings of the call that determine how excerpts are rendered.
    pub context: RenderContext<'a>,
    /// The excerpt that was priced last, with its rendering, for reuse.
    last: RefCell<Option<PricedExcerpt>>,
}

/// An excerpt with its rendering and its cost.
struct PricedExcerpt {
    excerpt: Excerpt,
    rendered: Rendered,
    /// The tokens and cost of the text content, which includes content blocks.
    text: Measure,
    cost: u64,
}

impl<'a> ExcerptPricer<'a> {
    /// Creates a pricer for excerpts that are rendered as `context` determines.
    #[must_use]
    pub fn new(estimator: Estimator, context: RenderContext<'a>) -> Self {
        Self { estimator, context, last: RefCell::default() }
    }

    /// Returns the maximum cost of a rendered excerpt, in tokens.
    #[must_use]
    pub fn token_limit(&self) -> u64 {
        self.context.token_limit
    }

    /// Returns the cost, in tokens, of the rendered excerpt. O(excerpt). The excerpt priced last is
    /// compared, but not rendered again.
    #[must_use]
    pub fn cost(&self, excerpt: &Excerpt) -> u64 {
        self.priced(excerpt, |priced| priced.cost)
    }

    /// Returns true if the rendered excerpt costs at most the token limit.
    #[must_use]
    pub fn fits(&self, excerpt: &Excerpt) -> bool {
        self.cost(excerpt) <= self.token_limit()
    }

    /// Returns the number of tokens by which the rendered excerpt is below the token limit.
    #[must_use]
    pub fn remaining(&self, excerpt: &Excerpt) -> u64 {
        self.token_limit().saturating_sub(self.cost(excerpt))
    }

    /// Returns the excerpt as it is written into the result, with the signed cursor. Its token
    /// count is that of the excerpt with a placeholder. If a copy fits the token limit, structured
    /// content has a copy of the excerpt in text content. O(excerpt).
    #[must_use]
    pub fn render(&self, excerpt: &Excerpt) -> Rendered {
        let copied = (self.context.may_copy()
            && self.priced(excerpt, |priced| priced.text.cost) * 2 <= self.token_limit())
        .then(|| self.price(excerpt, None, true))
        .filter(|copied| copied.cost <= self.token_limit());
        let is_copied = copied.is_some();
        let signed = |priced: &PricedExcerpt| match &excerpt.next {
            None => priced.rendered.clone(),
            Some(next) => {
                let signed = self.context.sign(next);
                let rendered = self.context.render(excerpt, Some(signed), None, is_copied);
                Rendered { tokens: priced.rendered.tokens, ..rendered }
            }
        };
        match copied {
            Some(copied) => signed(&copied),
            None => self.priced(excerpt, signed),
        }
    }

    /// Returns the result metadata for structured content, with the signed cursor, if the text has
    /// the whole payload. `None` if text and metadata together exceed the token limit. `text_cost`
    /// is the cost of the text. Tokens and cost are those with a placeholder for the cursor.
    #[must_use]
    pub fn beside_text(&self, excerpt: &Excerpt, text_cost: u64) -> Option<Rendered> {
        let placeholder = excerpt.next.as_ref().map(|next| self.context.placeholder(next));
        let planned = self.context.beside_text(excerpt, placeholder);
        let structured = planned.structured.as_deref().unwrap_or_default();
        let Measure { tokens, cost } = self.estimator.measure(structured);
        let (bytes, lines) = (structured.len() as u64, line_breaks(structured) + 1);
        let cost = self.context.shown.cost(cost, bytes, lines, self.context.answer_limit);
        if text_cost + cost > self.token_limit() {
            return None;
        }
        let signed = excerpt.next.as_ref().map(|next| self.context.sign(next));
        Some(Rendered { tokens, ..self.context.beside_text(excerpt, signed) })
    }

    /// Returns the excerpt with the longest prefix of a text that fits the token limit, at least
    /// one character. `make` creates an excerpt from a number of bytes. `trim` converts a number of
    /// tokens to bytes.
    pub(super) fn longest_prefix(
        &self,
        make: impl Fn(usize) -> Excerpt,
        trim: impl Fn(u64) -> usize,
    ) -> Excerpt {
        let mut tokens = self.remaining(&make(0));
        loop {
            let excerpt = make(trim(tokens.max(1)));
            let cost = self.cost(&excerpt);
            if cost <= self.token_limit() || tokens <= 1 {
                return excerpt;
            }
            let less = tokens.saturating_sub(cost - self.token_limit());
            // The cost of a text that a client limits in bytes is far from its tokens.
            let share = tokens.saturating_mul(self.token_limit()) / cost;
            let next = if less < tokens / 2 { share } else { less };
            tokens = next.clamp(1, tokens - 1);
        }
    }

    /// Returns the first excerpt that costs at most `limit`. `None` if all attempts fail, or if
    /// `make` returns `None`. `make` creates an excerpt for a number of content tokens. That is
    /// first `tokens`, then less by the excess of the previous attempt. The reduction doubles if it
    /// had no effect.
    pub(super) fn shrink(
        &self,
        limit: u64,
        mut tokens: u64,
        mut make: impl FnMut(u64) -> Option<Excerpt>,
    ) -> Option<Excerpt> {
        let mut step = 0;
        for attempt in 0..MAX_SHRINK_ATTEMPTS {
            let excerpt = make(tokens)?;
            let cost = self.cost(&excerpt);
            if cost <= limit {
                return Some(excerpt);
            }
            // Excerpts that fill any number of tokens may differ in the cost of their notice, so
            // that small steps never end.
            let least = if attempt > 1 { step * 2 } else { 1 };
            step = (cost - limit).max(least);
            tokens = tokens.saturating_sub(step);
            if tokens == 0 {
                break;
            }
        }
        None
    }

    fn priced<T>(&self, excerpt: &Excerpt, read: impl FnOnce(&PricedExcerpt) -> T) -> T {
        let mut last = self.last.borrow_mut();
        match last.take().filter(|last| last.excerpt.has_same_content(excerpt)) {
            Some(same) if same.excerpt == *excerpt => read(last.insert(same)),
            same => read(last.insert(self.price(excerpt, same, false))),
        }
    }

    /// Renders and prices an excerpt. `same` is an earlier excerpt with the same content and
    /// cursor. Its text is reused, and only notice and structured content are rendered again.
    /// `is_copied` is true if both contents have the excerpt.
    fn price(
        &self,
        excerpt: &Excerpt,
        same: Option<PricedExcerpt>,
        is_copied: bool,
    ) -> PricedExcerpt {
        let (known, text) = match same {
            Some(same) => (Some(same.rendered), Some(same.text)),
            None => (None, None),
        };
        let cursor = match &known {
            Some(known) => known.cursor.clone(),
            None => excerpt.next.as_ref().map(|next| self.context.placeholder(next)),
        };
        let mut rendered = self.context.render(excerpt, cursor, known, is_copied);
        let text = text.unwrap_or_else(|| self.measure_text(&rendered));
        let structured = rendered.structured.as_deref();
        let [heading, notice] = [&rendered.heading, &rendered.notice].map(|text| {
            Some(text.as_bytes()).filter(|text| self.context.pays_for_text() && !text.is_empty())
        });
        let others = [structured.filter(|_| self.context.pays_for_structured()), heading, notice];
        let others = others.into_iter().flatten().map(|text| self.estimator.measure(text));
        let Measure { tokens, mut cost } = others.fold(text, Measure::plus);
        if !self.context.shown.is_empty() {
            let (bytes, lines) = self.visible_size(&rendered);
            cost = self.context.shown.cost(cost, bytes, lines, self.context.answer_limit);
        }
        rendered.tokens = tokens;
        PricedExcerpt { excerpt: excerpt.clone(), rendered, text, cost }
    }

    /// Returns the size, in bytes and lines, of the part of a rendered excerpt that the client
    /// shows.
    fn visible_size(&self, rendered: &Rendered) -> (u64, u64) {
        let text = visible(rendered.text.as_deref().unwrap_or_default(), Form::Escaped);
        let blocks = rendered.blocks.as_deref().unwrap_or_default();
        let structured = rendered.structured.as_deref().unwrap_or_default();
        let notes = [rendered.heading.as_bytes(), rendered.notice.as_bytes()];
        let texts = [text.as_ref(), blocks, notes[0], notes[1]];
        let shown = texts.into_iter().filter(|_| self.context.pays_for_text());
        let shown = shown.chain(Some(structured).filter(|_| self.context.pays_for_structured()));
        // Each part also ends a line.
        shown.fold((0, 0), |(bytes, lines), part| {
            (bytes + part.len() as u64, lines + line_breaks(part) + u64::from(!part.is_empty()))
        })
    }

    fn measure_text(&self, rendered: &Rendered) -> Measure {
        let text = rendered.text.as_ref().map_or(Measure::default(), |text| {
            self.estimator.measure(&visible(text, Form::Escaped))
        });
        let bytes = rendered.blocks.as_deref().unwrap_or_default();
        let mut blocks = Scanner::new(bytes, Form::Raw);
        let mut sum = text;
        while let Ok(Some(block)) = blocks.next_element() {
            let block = bytes.get(block).unwrap_or_default();
            let text = block_text(block, self.context.shown.shows_data);
            sum = sum.plus(self.estimator.measure(&text));
        }
        sum
    }
}

/// Returns the number of line breaks in a text, including escaped ones. Also counts an `n` after an
/// escaped backslash. O(n).
pub(super) fn line_breaks(text: &[u8]) -> u64 {
    let escaped = memchr::memmem::find_iter(text, b"\\n").count();
    (memchr::memchr_iter(b'\n', text).count() + escaped) as u64
}
