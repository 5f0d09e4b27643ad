//! Stretches of a text: the chunk or the lines that were asked for, as much of them as fits.

use super::chunk::{self, ChunkLimits};
use super::highlight::Highlights;
use super::notice::Coverage;
use super::payload::Payload;
use super::plan::ShapeContext;
use super::render::RenderContext;
use super::{Body, Excerpt};
use crate::json::text::{Form, visible};
use crate::snapshot::Cursor;
use crate::snapshot::index::{ChunkMark, TextIndex};
use crate::text::lines::{Lined, Lines};

/// Tokens kept back for the contract of a chunk, in each half.
const NOTICE_TOKENS: u64 = 190;

/// Allowances, for each half, from which there is room for what stands out.
const MIN_HIGHLIGHT_TOKENS: u64 = 350;

/// Whether what stands out in the rest of a text is to be told beside its first chunk, and there is room for it.
pub(super) fn tells_rest(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    over: bool,
    allowance: u64,
) -> bool {
    let limits = context.limits;
    let wanted = limits.highlights
        && !context.options.whole
        && !context.options.ranged()
        && context.options.pages <= 1;
    let most = usize::try_from(limits.chunk_size).unwrap_or(usize::MAX);
    let long = || Lines::new(payload.bytes, payload.form).nth(most).is_some();
    wanted && allowance >= MIN_HIGHLIGHT_TOKENS && (over || long())
}

/// Where the chunks of a text begin. The first leaves room for what stands out in the others.
pub(super) fn text_index(
    context: &ShapeContext<'_>,
    text: &Lined<'_>,
    allowance: u64,
    highlights: Option<&Highlights<'_>>,
) -> TextIndex {
    let single = context.limits.budget(1).allowance().min(allowance);
    let tokens = single.saturating_sub(NOTICE_TOKENS).max(single / 4).max(8);
    let lines = context.limits.chunk_size;
    let from = usize::try_from(lines).unwrap_or(usize::MAX);
    let wanted = highlights.map_or(0, |highlights| {
        // Where the text is one of few long lines, they are what is cut.
        let from = from.min(highlights.lines() / 2);
        highlights.wanted_tokens(from, &context.limits.estimator, single)
    });
    let least = if wanted == 0 { 0 } else { least_first(context, text, tokens) };
    let first = tokens.saturating_sub(wanted).max(least).max(8);
    chunk::plan_chunks(text, &context.limits.estimator, ChunkLimits { lines, tokens, first })
}

/// Tokens that the first chunk keeps, whatever stands out elsewhere: all of its lines where three quarters of the room hold them, else a fifth of the room.
fn least_first(context: &ShapeContext<'_>, text: &Lined<'_>, tokens: u64) -> u64 {
    let lines = usize::try_from(context.limits.chunk_size).unwrap_or(usize::MAX);
    let last = lines.min(text.len()).checked_sub(1);
    let end = last.and_then(|last| text.ends().get(last)).copied().unwrap_or(0);
    let most = tokens * 3 / 4;
    // A token is at most 16 bytes, and an escape at most six.
    if end as u64 > most.saturating_mul(96) {
        return tokens / 5;
    }
    let head = text.bytes().get(..end).unwrap_or_default();
    let cost = context.limits.estimator.cost(&visible(head, text.form())) + lines as u64 / 8 + 8;
    if cost <= most { cost } else { tokens / 5 }
}

pub(super) fn first_chunk(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    text: &TextIndex,
    base: &Cursor,
    renderer: &RenderContext<'_>,
    highlights: Option<&Highlights<'_>>,
) -> Excerpt {
    let options = context.options;
    let total = payload.bytes.len() as u64;
    let range = options.ranged();
    let (from, end) = if range {
        let from = line_offset(payload.bytes, payload.form, text, options.start_line.max(1));
        let end = if options.end_line == 0 {
            total
        } else {
            line_offset(payload.bytes, payload.form, text, options.end_line.saturating_add(1))
        };
        (from, end.max(from))
    } else {
        let end = text
            .chunks
            .get(usize::try_from(options.pages.max(1)).unwrap_or(usize::MAX))
            .map_or(total, |mark| mark.offset);
        (0, end)
    };
    let bytes = slice(payload.bytes, from, end);
    let line = line_number(payload.bytes, payload.form, text, from);
    let place = TextPosition { from, line, total, range_end: range.then_some(end) };
    let chunk = chunk_of(text, bytes, payload.form, place, base, renderer);
    match highlights.filter(|_| chunk.more) {
        Some(highlights) => with_highlights(chunk, highlights, renderer),
        None => chunk,
    }
}

/// The chunk, with as much of what stands out elsewhere as there is room for.
fn with_highlights(
    chunk: Excerpt,
    highlights: &Highlights<'_>,
    renderer: &RenderContext<'_>,
) -> Excerpt {
    let from = match &chunk.coverage {
        Coverage::Chunk { end_line, .. } => usize::try_from(*end_line).unwrap_or(usize::MAX),
        _ => return chunk,
    };
    let mut room =
        renderer.allowance.saturating_sub(renderer.render(&chunk).cost) / renderer.copies();
    let trouble = highlights.after(from);
    for _ in 0..6 {
        // Where a single line is cut there are no others: its end is what is told.
        let text = if from < highlights.lines() {
            highlights.excerpt(from, &trouble, &renderer.estimator, room)
        } else {
            highlights.tail(&renderer.estimator, room)
        };
        let Some(text) = text else { break };
        let excerpt = Excerpt { highlights: Some(text.text), ..chunk.clone() };
        let cost = renderer.render(&excerpt).cost;
        if cost <= renderer.allowance {
            return excerpt;
        }
        room = room.saturating_sub((cost - renderer.allowance).div_ceil(renderer.copies()).max(1));
    }
    chunk
}

fn slice(bytes: &[u8], from: u64, to: u64) -> &[u8] {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(index(from)..index(to)).unwrap_or_default()
}

/// The byte at which `line` begins; the end where there are fewer lines.
fn line_offset(bytes: &[u8], form: Form, text: &TextIndex, line: u64) -> u64 {
    let mark = text.before_line(line);
    mark.offset + skip_lines(slice(bytes, mark.offset, u64::MAX), form, mark.line, line)
}

fn line_number(bytes: &[u8], form: Form, text: &TextIndex, offset: u64) -> u64 {
    let mark =
        text.chunks.get(text.chunk_at(offset)).copied().unwrap_or(ChunkMark { offset: 0, line: 1 });
    mark.line + ended_lines(slice(bytes, mark.offset, offset), form)
}

/// Bytes from the place where line `from` stands to the beginning of line `to`.
#[must_use]
pub fn skip_lines(bytes: &[u8], form: Form, from: u64, to: u64) -> u64 {
    let count = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    if count == 0 {
        return 0;
    }
    Lines::new(bytes, form).take(count).last().map_or(0, |line| line.end as u64)
}

/// Lines that end in `bytes`.
#[must_use]
pub fn ended_lines(bytes: &[u8], form: Form) -> u64 {
    let lines = Lines::new(bytes, form).count() as u64;
    let open = !bytes.is_empty() && !ends_line(bytes, form);
    lines - u64::from(open && lines > 0)
}

fn ends_line(bytes: &[u8], form: Form) -> bool {
    match form {
        Form::Raw => bytes.ends_with(b"\n"),
        Form::Escaped => {
            bytes.ends_with(b"n")
                && Lines::new(bytes, form).last().is_some_and(|line| {
                    visible(bytes.get(line).unwrap_or_default(), form).ends_with(b"\n")
                })
        }
    }
}

/// Where the bytes of a chunk stand.
#[derive(Clone, Copy, Debug)]
pub struct TextPosition {
    /// Their offset.
    pub from: u64,
    /// The line there.
    pub line: u64,
    /// Bytes of the text.
    pub total: u64,
    /// Where the range ends that was asked for, if one was.
    pub range_end: Option<u64>,
}

/// Makes a chunk of `bytes`, or of as much of them as fits.
#[must_use]
pub fn chunk_of(
    text: &TextIndex,
    bytes: &[u8],
    form: Form,
    place: TextPosition,
    base: &Cursor,
    renderer: &RenderContext<'_>,
) -> Excerpt {
    let make = |length: usize| {
        let content = bytes.get(..length).unwrap_or(bytes);
        let to = place.from + length as u64;
        let end = place.range_end.unwrap_or(place.total);
        let ended = ended_lines(content, form);
        let last = if content.is_empty() || ends_line(content, form) {
            (place.line + ended).saturating_sub(1)
        } else {
            place.line + ended
        };
        let cursor_end = place.range_end.filter(|end| *end < place.total).unwrap_or(0);
        let coverage = Coverage::Chunk {
            index: text.chunk_at(place.from) as u64,
            total: text.chunks.len() as u64,
            start_line: place.line,
            end_line: last.max(place.line),
            lines: text.lines,
            bytes: visible(content, form).len() as u64,
            range: place.range_end.is_some(),
        };
        let next = (to < end).then(|| Cursor { offset: to, end: cursor_end, ..base.clone() });
        Excerpt::new(coverage, next, Body::Text(content.to_vec(), form))
    };
    // A token is at most 16 bytes, and an escape at most six: a longer range is not even tried whole.
    if (bytes.len() as u64) < renderer.allowance.saturating_mul(96) {
        let whole = make(bytes.len());
        if renderer.render(&whole).cost <= renderer.allowance {
            return whole;
        }
    }
    let mut room =
        renderer.allowance.saturating_sub(renderer.render(&make(0)).cost) / renderer.copies();
    loop {
        let excerpt = make(chunk::trim(bytes, form, &renderer.estimator, room.max(1)));
        let cost = renderer.render(&excerpt).cost;
        if cost <= renderer.allowance || room <= 1 {
            return excerpt;
        }
        room -= (cost - renderer.allowance).div_ceil(renderer.copies()).min(room - 1).max(1);
    }
}
