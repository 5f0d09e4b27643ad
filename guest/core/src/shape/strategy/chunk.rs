//! Shows a chunk of a text.

use super::{Content, Strategy, Task};
use crate::json::text::visible;
use crate::shape::chunk::trim;
use crate::shape::condense::statistics::statistics_limit;
use crate::shape::highlight::Highlights;
use crate::shape::pricing::ExcerptPricer;
use crate::shape::range::{TextTask, count_line_ends, ends_line};
use crate::shape::table_statistics::table_statistics;
use crate::shape::{Coverage, Excerpt, ExcerptBody};
use crate::snapshot::Cursor;

/// The strategy that shows as many lines of a text as fit, and quotes important later lines.
pub(super) struct Chunk;

impl Strategy for Chunk {
    fn reduce(&self, task: &Task<'_>) -> Option<Excerpt> {
        let Content::Text(text) = &task.content else { return None };
        let chunk = chunk(text, task.base, task.pricer);
        Some(match text.highlights.filter(|_| chunk.more) {
            Some(highlights) => with_highlights(chunk, highlights, task.pricer),
            None => chunk,
        })
    }
}

fn chunk(text: &TextTask<'_>, base: &Cursor, pricer: &ExcerptPricer<'_>) -> Excerpt {
    let TextTask { index, bytes, form, position, total_chunks, .. } = *text;
    let make = |length: usize| {
        let content = bytes.get(..length).unwrap_or(bytes);
        let to = position.from + length as u64;
        let end = position.range_end.unwrap_or(position.total);
        let ended = count_line_ends(content, form);
        // The line after the last line end is not shown, unless the chunk ends inside it.
        let last = if content.is_empty() || ends_line(content, form) {
            (position.line + ended).saturating_sub(1)
        } else {
            position.line + ended
        };
        // In a cursor, 0 means the end of the text.
        let cursor_end = position.range_end.filter(|end| *end < position.total).unwrap_or(0);
        let coverage = Coverage::Chunk {
            index: index.chunk_at(position.from) as u64,
            total: total_chunks,
            start_line: position.line,
            end_line: last.max(position.line),
            lines: index.lines,
            bytes: visible(content, form).len() as u64,
            range: position.range_end.is_some(),
        };
        let next = (to < end).then(|| Cursor { offset: to, end: cursor_end, ..base.clone() });
        Excerpt::new(coverage, next, ExcerptBody::Text(content.to_vec(), form))
    };
    // Most tokens have at most 16 bytes, and an escape has at most six: a longer text hardly ever
    // fits.
    if (bytes.len() as u64) < pricer.token_limit().saturating_mul(96) {
        let whole = make(bytes.len());
        if pricer.fits(&whole) {
            return whole;
        }
    }
    pricer.longest_prefix(make, |tokens| trim(bytes, form, &pricer.estimator, tokens))
}

/// Adds quotes of important lines after a chunk to the chunk's excerpt, as many as fit the token
/// limit.
fn with_highlights(
    chunk: Excerpt,
    highlights: &Highlights<'_>,
    pricer: &ExcerptPricer<'_>,
) -> Excerpt {
    let Coverage::Chunk { start_line, end_line, .. } = &chunk.coverage else { return chunk };
    let statistics = (*start_line == 1).then(|| statistics(highlights, pricer)).flatten();
    let from = usize::try_from(*end_line).unwrap_or(usize::MAX);
    let errors = highlights.errors_after(from);
    let tokens = pricer.remaining(&chunk);
    let highlighted = pricer.shrink(pricer.token_limit(), tokens, |tokens| {
        let known =
            statistics.as_ref().map_or(0, |text| pricer.estimator.cost(text.as_bytes()) + 1);
        let tokens = tokens.saturating_sub(known);
        // A text of one long line has no other lines: the end of that line is shown.
        let text = if from < highlights.lines() || highlights.is_markup() {
            highlights.excerpt(from, &errors, &pricer.estimator, tokens)
        } else {
            highlights.tail(&pricer.estimator, tokens)
        };
        let texts: Vec<String> = statistics.clone().into_iter().chain(text).collect();
        let highlights = (!texts.is_empty()).then(|| texts.join("\n"));
        Some(Excerpt { highlights: Some(highlights?), ..chunk.clone() })
    });
    highlighted.unwrap_or(chunk)
}

/// Returns the statistics of a table, within their share of the token limit. `None` for small
/// limits, and for texts that are not tables.
fn statistics(highlights: &Highlights<'_>, pricer: &ExcerptPricer<'_>) -> Option<String> {
    let limit = statistics_limit(pricer.token_limit())?;
    table_statistics(highlights, &pricer.estimator, limit)
}
