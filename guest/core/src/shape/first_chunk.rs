//! The first chunk of a text, which grows to fill the token limit. Later chunks follow it.

use super::chunk::{self, ChunkLimits};
use super::context::ShapeContext;
use super::highlight::Highlights;
use super::payload::Payload;
use super::pricing::ExcerptPricer;
use super::range::{TextTask, line_number, slice};
use super::strategy::{Content, Task, reduce};
use super::{Coverage, Excerpt};
use crate::json::text::visible;
use crate::snapshot::Cursor;
use crate::snapshot::index::{ChunkMark, TextIndex};
use crate::text::lines::IndexedText;

/// The maximum number of times that the first chunk of a text is enlarged to fill the token limit.
const MAX_GROWTHS: usize = 3;
/// The divisor of the token limit for unused tokens: if more than this share is unused, the first
/// chunk is enlarged.
const MIN_GROWTH: u64 = 25;
/// The number of chunks that an excerpt reports while it is unknown. Its cost is one token, like
/// that of all smaller numbers.
const UNKNOWN_TOTAL: u64 = 999;

/// The first chunk of a text that is divided into chunks.
pub(super) struct FirstChunk<'t> {
    pub context: &'t ShapeContext<'t>,
    pub payload: &'t Payload<'t, 't>,
    pub text: &'t IndexedText<'t>,
    /// The size of the chunks.
    pub size: ChunkLimits,
    /// The important lines of the whole text. `None` if no lines are quoted.
    pub highlights: Option<&'t Highlights<'t>>,
    pub pricer: &'t ExcerptPricer<'t>,
    pub base: &'t Cursor,
}

impl TextTask<'_> {
    /// Sets the number of chunks to a placeholder, which is replaced when the number is known.
    pub(super) fn with_unknown_total(self) -> Self {
        Self { total_chunks: UNKNOWN_TOTAL, ..self }
    }
}

impl FirstChunk<'_> {
    /// Enlarges the first chunk of `index`, which `excerpt` shows, if tokens remain. Returns all
    /// chunks of the text, and the excerpt. O(n).
    pub(super) fn grow(&self, mut index: TextIndex, mut excerpt: Excerpt) -> (TextIndex, Excerpt) {
        let each = self.pricer.token_limit();
        let is_filled = self.highlights.is_some_and(|highlights| {
            highlights.is_long_markup(&self.context.limits.estimator, each * 17 / 20)
        });
        for _ in 0..if is_filled { 0 } else { MAX_GROWTHS } {
            let grown = self.longer(&index, &excerpt).map(|longer| {
                let task = self.task(&longer).with_unknown_total();
                (self.reduce(task), longer)
            });
            let is_better = |(grown, _): &(Excerpt, TextIndex)| {
                self.pricer.fits(grown) && (self.keeps_quotes(&excerpt, grown) || !grown.more)
            };
            let Some(better) = grown.filter(is_better) else { break };
            (excerpt, index) = better;
        }
        self.with_later_chunks(index, excerpt)
    }

    fn task<'i>(&'i self, index: &'i TextIndex) -> TextTask<'i> {
        TextTask::first(self.context, self.payload, index, self.highlights)
    }

    fn reduce(&self, task: TextTask<'_>) -> Excerpt {
        let content = Content::Text(task);
        reduce(&Task { pricer: self.pricer, base: self.base, content, whole: None })
    }

    /// Returns true if the longer excerpt still quotes enough important lines of the rest: all
    /// quotes of markup, and four fifths of the quotes of a log or table. Quotes of other texts may
    /// go.
    fn keeps_quotes(&self, shorter: &Excerpt, longer: &Excerpt) -> bool {
        self.highlights.is_none_or(|highlights| {
            let length = |excerpt: &Excerpt| excerpt.highlights.as_ref().map_or(0, String::len);
            match highlights.is_markup() {
                true => longer.highlights == shorter.highlights,
                false => !highlights.are_sampled() || length(longer) * 5 >= length(shorter) * 4,
            }
        })
    }

    /// Returns the chunks of the text with a longer first chunk, if `excerpt` leaves part of the
    /// token limit unused. `None` if the limit is used, if the excerpt is not a chunk, or if policy
    /// set the size of chunks. O(first chunk).
    fn longer(&self, index: &TextIndex, excerpt: &Excerpt) -> Option<TextIndex> {
        let [first, second] = *index.chunks.as_slice() else { return None };
        let is_chunk = matches!(excerpt.coverage, Coverage::Chunk { .. });
        let pricer = self.pricer;
        let remaining = pricer.remaining(excerpt);
        let is_exact = !is_chunk || self.context.limits.has_exact_chunks;
        if is_exact || remaining * MIN_GROWTH < pricer.token_limit() {
            return None;
        }
        let (estimator, form) = (&self.context.limits.estimator, self.payload.form);
        let bytes = self.payload.bytes;
        let head = slice(bytes, 0, second.offset);
        // The planner adds up the costs of lines, which are more than their cost together.
        let lines = chunk::lines_cost(head, form, estimator);
        let together = estimator.cost(&visible(head, form)).max(1);
        // The quotes that follow a longer chunk may cost more.
        let more = (remaining * 9 / 10).saturating_mul(lines.max(together)) / together;
        let size = ChunkLimits { first: lines.saturating_add(more), ..self.size };
        let longer = chunk::second_chunk(self.text, bytes, estimator, size);
        let longer = longer.filter(|longer| longer.offset > second.offset)?;
        Some(TextIndex { lines: index.lines, chunks: vec![first, longer] })
    }

    /// Adds the chunks after the first to `index`, from the end of `excerpt` on. O(n).
    fn with_later_chunks(&self, mut index: TextIndex, excerpt: Excerpt) -> (TextIndex, Excerpt) {
        let [_, planned] = *index.chunks.as_slice() else { return (index, excerpt) };
        let is_chunk = matches!(excerpt.coverage, Coverage::Chunk { .. });
        let shown = excerpt.next.as_ref().filter(|_| is_chunk).map(|next| next.offset);
        let second = shown.filter(|offset| *offset != planned.offset).map_or(planned, |offset| {
            let line = line_number(self.payload.bytes, self.payload.form, &index, offset);
            ChunkMark { offset, line }
        });
        index.chunks.pop();
        let estimator = &self.context.limits.estimator;
        index.chunks.extend(chunk::plan_later_chunks(self.text, estimator, self.size, second));
        let chunks = index.chunks.len() as u64;
        let mut known = excerpt;
        if let Coverage::Chunk { total, .. } = &mut known.coverage {
            *total = chunks;
            // A number of more tokens than the placeholder may not fit.
            if !self.pricer.fits(&known) {
                known = self.reduce(self.task(&index));
            }
        }
        (index, known)
    }
}
