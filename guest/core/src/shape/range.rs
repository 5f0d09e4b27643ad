//! Ranges of a text: selects the lines that a result shows, and divides the text into chunks.

use super::chunk::{self, ChunkLimits};
use super::context::ShapeContext;
use super::highlight::Highlights;
use super::payload::Payload;
use crate::json::text::{Form, visible};
use crate::snapshot::index::{ChunkMark, TextIndex};
use crate::text::lines::{IndexedText, LineSpans};

/// Tokens reserved for the result notice after a chunk, per copy of the chunk in the result.
const NOTICE_TOKENS: u64 = 120;

/// Minimum token limit of a chunk, per copy in the result, for quotes of important lines from other
/// chunks.
const MIN_HIGHLIGHT_TOKENS: u64 = 350;

/// A request for a part of a text, with the bytes of that part.
pub(super) struct TextTask<'t> {
    /// The positions of the chunks in the whole text.
    pub index: &'t TextIndex,
    /// The bytes of the requested part. The excerpt shows as many of them as fit.
    pub bytes: &'t [u8],
    /// The form of the bytes: raw, or escaped as in a JSON string.
    pub form: Form,
    /// The position of `bytes` in the whole text.
    pub position: TextPosition,
    /// The important lines of the whole text, for quotes from outside the shown part. `None` if no
    /// lines are quoted.
    pub highlights: Option<&'t Highlights<'t>>,
    /// The number of chunks in the whole text.
    pub total_chunks: u64,
}

/// The position in a text of the part to show, and the end of the requested range.
#[derive(Clone, Copy, Debug)]
pub struct TextPosition {
    /// The byte offset in the text at which the part begins.
    pub from: u64,
    /// The number of the line at `from`, counted from 1.
    pub line: u64,
    /// The number of bytes in the whole text.
    pub total: u64,
    /// The byte offset at which the requested range of lines ends. `None` if no range is requested.
    pub range_end: Option<u64>,
}

impl<'t> TextTask<'t> {
    /// Creates the task for a call without a cursor: the requested range of lines, or else the
    /// first chunks.
    pub(super) fn first(
        context: &ShapeContext<'_>,
        payload: &Payload<'t, '_>,
        index: &'t TextIndex,
        highlights: Option<&'t Highlights<'t>>,
    ) -> Self {
        let (options, form) = (context.options, payload.form);
        let total = payload.bytes.len() as u64;
        let (from, end) = if options.ranged() {
            let from = line_offset(payload.bytes, form, index, options.start_line.max(1));
            let end = match options.end_line {
                0 => total,
                line => line_offset(payload.bytes, form, index, line.saturating_add(1)),
            };
            (from, end.max(from))
        } else {
            let chunks = usize::try_from(options.pages.max(1)).unwrap_or(usize::MAX);
            (0, index.chunks.get(chunks).map_or(total, |mark| mark.offset))
        };
        let line = line_number(payload.bytes, form, index, from);
        let range_end = options.ranged().then_some(end);
        let position = TextPosition { from, line, total, range_end };
        let bytes = slice(payload.bytes, from, end);
        let total_chunks = index.chunks.len() as u64;
        Self { index, bytes, form, position, highlights, total_chunks }
    }
}

/// Returns true if important lines of later chunks are quoted after the first chunk.
/// `is_over_limit` is true if the whole text does not fit. `token_limit` applies to each copy of
/// the chunk in the result.
pub(super) fn has_highlights(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    is_over_limit: bool,
    token_limit: u64,
) -> bool {
    let (limits, options) = (context.limits, context.options);
    let wanted = limits.highlights && !options.whole && !options.ranged() && options.pages <= 1;
    let chunk_lines = usize::try_from(limits.chunk_size).unwrap_or(usize::MAX);
    let is_long = || LineSpans::new(payload.bytes, payload.form).nth(chunk_lines).is_some();
    wanted && token_limit >= MIN_HIGHLIGHT_TOKENS && (is_over_limit || is_long())
}

/// Divides a text into chunks and returns their positions. `token_limit` applies to each copy of a
/// chunk in the result.
pub(super) fn text_index(
    context: &ShapeContext<'_>,
    text: &IndexedText<'_>,
    token_limit: u64,
) -> TextIndex {
    let size = chunk_limits(context, text, token_limit, None);
    chunk::plan_chunks(text, &context.limits.estimator, size)
}

/// Returns the size of the chunks of a text. If `highlights` are given, the first chunk is smaller,
/// so that important lines of later chunks can be quoted. `token_limit` applies to each copy of a
/// chunk in the result.
pub(super) fn chunk_limits(
    context: &ShapeContext<'_>,
    text: &IndexedText<'_>,
    token_limit: u64,
    highlights: Option<&Highlights<'_>>,
) -> ChunkLimits {
    let each = context.limits.budget(1).allowance().min(token_limit);
    // The lines of a chunk may cost a little more together than one by one. A chunk that does not
    // fit would end at any line.
    let tokens = (each.saturating_sub(NOTICE_TOKENS) * 31 / 32).max(each / 4).max(8);
    let lines = chunk_lines(context);
    let chunk_lines = usize::try_from(context.limits.chunk_size).unwrap_or(usize::MAX);
    let wanted = highlights.map_or(0, |highlights| {
        // In a text of few long lines, the limit cuts a chunk before it has all its lines.
        let from = chunk_lines.min(highlights.lines() / 2);
        highlights.wanted_tokens(from, &context.limits.estimator, each)
    });
    let least = match highlights {
        _ if wanted == 0 => 0,
        // The first lines of markup say little.
        Some(highlights) if highlights.is_markup() => tokens / 10,
        _ => least_first(context, text, tokens),
    };
    ChunkLimits { lines, tokens, first: tokens.saturating_sub(wanted).max(least).max(8) }
}

/// Returns the maximum number of lines in a chunk: unlimited unless policy sets it, so that chunks
/// fill the budget.
fn chunk_lines(context: &ShapeContext<'_>) -> u64 {
    if context.limits.has_exact_chunks { context.limits.chunk_size } else { u64::MAX }
}

/// Returns the minimum number of tokens for the first chunk, out of `tokens`. The minimum is the
/// cost of the first `chunk_size` lines if that is at most three quarters of `tokens`, else a
/// fifth. The rest is for highlights.
fn least_first(context: &ShapeContext<'_>, text: &IndexedText<'_>, tokens: u64) -> u64 {
    let lines = usize::try_from(context.limits.chunk_size).unwrap_or(usize::MAX);
    let last = lines.min(text.len()).checked_sub(1);
    let end = last.and_then(|last| text.ends().get(last)).copied().unwrap_or(0);
    let most = tokens * 3 / 4;
    // Most tokens have at most 16 bytes, and an escape has at most six: more bytes need not be
    // priced.
    if end as u64 > most.saturating_mul(96) {
        return tokens / 5;
    }
    let head = text.bytes().get(..end).unwrap_or_default();
    let cost = context.limits.estimator.cost(&visible(head, text.form())) + lines as u64 / 8 + 8;
    if cost <= most { cost } else { tokens / 5 }
}

/// Returns an error if a text of `lines` lines does not have the line `start_line`.
///
/// # Errors
/// Returns a message for the caller with the number of lines.
pub fn check_start(start_line: u64, lines: u64) -> Result<(), String> {
    if start_line <= lines {
        return Ok(());
    }
    Err(format!("startLine {start_line} is beyond the end: the text has {lines} lines"))
}

pub(super) fn slice(bytes: &[u8], from: u64, to: u64) -> &[u8] {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    bytes.get(index(from)..index(to)).unwrap_or_default()
}

/// Returns the byte offset at which line `line`, counted from 1, begins. Returns the length of the
/// text if it has fewer lines.
fn line_offset(bytes: &[u8], form: Form, index: &TextIndex, line: u64) -> u64 {
    let mark = index.before_line(line);
    mark.offset + skip_lines(slice(bytes, mark.offset, u64::MAX), form, mark.line, line)
}

/// Returns the number of the line that contains the byte `offset`, counted from 1.
pub(super) fn line_number(bytes: &[u8], form: Form, index: &TextIndex, offset: u64) -> u64 {
    let mark = index.chunks.get(index.chunk_at(offset)).copied();
    let mark = mark.unwrap_or(ChunkMark { offset: 0, line: 1 });
    mark.line + count_line_ends(slice(bytes, mark.offset, offset), form)
}

/// Returns the byte offset in `bytes` at which line `to` begins, or their length if they end
/// before. `bytes` begin in line `from`.
#[must_use]
pub fn skip_lines(bytes: &[u8], form: Form, from: u64, to: u64) -> u64 {
    let count = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    if count == 0 {
        return 0;
    }
    LineSpans::new(bytes, form).take(count).last().map_or(0, |line| line.end as u64)
}

/// Returns the number of line ends in `bytes`, which are raw or escaped according to `form`.
#[must_use]
pub fn count_line_ends(bytes: &[u8], form: Form) -> u64 {
    let lines = LineSpans::new(bytes, form).count() as u64;
    let is_open = !bytes.is_empty() && !ends_line(bytes, form);
    lines - u64::from(is_open && lines > 0)
}

/// Returns true if `bytes` end with a line feed, which is raw or escaped according to `form`.
pub(super) fn ends_line(bytes: &[u8], form: Form) -> bool {
    match form {
        Form::Raw => bytes.ends_with(b"\n"),
        // An `n` may also follow an escaped backslash, so the whole line decides.
        Form::Escaped => {
            bytes.ends_with(b"n")
                && LineSpans::new(bytes, form).last().is_some_and(|line| {
                    visible(bytes.get(line).unwrap_or_default(), form).ends_with(b"\n")
                })
        }
    }
}
