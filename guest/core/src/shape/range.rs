//! Stretches of a text: the chunk or the lines that were asked for, as much of them as fits.

use super::chunk::{self, Size};
use super::highlight::Highlights;
use super::notice::Facts;
use super::payload::Payload;
use super::plan::Setting;
use super::render::Frame;
use super::{Body, Shown};
use crate::json::text::{Form, visible};
use crate::snapshot::Cursor;
use crate::snapshot::index::{ChunkMark, TextIndex};
use crate::text::lines::{Lined, Lines};

/// Tokens kept back for the contract of a chunk, in each half.
const CONTRACT: u64 = 190;

/// Allowances, for each half, from which there is room for what stands out.
const ROOM_FOR_HIGHLIGHTS: u64 = 350;

/// Whether what stands out in the rest of a text is to be told beside its first chunk, and there is room for it.
pub(super) fn tells_rest(
    setting: &Setting<'_>,
    payload: &Payload<'_, '_>,
    over: bool,
    allowance: u64,
) -> bool {
    let limits = setting.limits;
    let wanted = limits.highlights
        && !setting.wish.whole
        && !setting.wish.ranged()
        && setting.wish.pages <= 1;
    let most = usize::try_from(limits.chunk_size).unwrap_or(usize::MAX);
    let long = || Lines::new(payload.bytes, payload.form).nth(most).is_some();
    wanted && allowance >= ROOM_FOR_HIGHLIGHTS && (over || long())
}

/// Where the chunks of a text begin. The first leaves room for what stands out in the others.
pub(super) fn text_index(
    setting: &Setting<'_>,
    text: &Lined<'_>,
    allowance: u64,
    highlights: Option<&Highlights<'_>>,
) -> TextIndex {
    let single = setting.limits.budget(1).allowance().min(allowance);
    let tokens = single.saturating_sub(CONTRACT).max(single / 4).max(8);
    let lines = setting.limits.chunk_size;
    let from = usize::try_from(lines).unwrap_or(usize::MAX);
    let wish = highlights.map_or(0, |highlights| {
        // Where the text is one of few long lines, they are what is cut.
        let from = from.min(highlights.lines() / 2);
        highlights.wish(from, &setting.limits.estimator, single)
    });
    let least = if wish == 0 { 0 } else { least_first(setting, text, tokens) };
    let first = tokens.saturating_sub(wish).max(least).max(8);
    chunk::plan(text, &setting.limits.estimator, Size { lines, tokens, first })
}

/// Tokens that the first chunk keeps, whatever stands out elsewhere: all of its lines where three quarters of the room hold them, else a fifth of the room.
fn least_first(setting: &Setting<'_>, text: &Lined<'_>, tokens: u64) -> u64 {
    let lines = usize::try_from(setting.limits.chunk_size).unwrap_or(usize::MAX);
    let last = lines.min(text.len()).checked_sub(1);
    let end = last.and_then(|last| text.ends().get(last)).copied().unwrap_or(0);
    let most = tokens * 3 / 4;
    // A token is at most 16 bytes, and an escape at most six.
    if end as u64 > most.saturating_mul(96) {
        return tokens / 5;
    }
    let head = text.bytes().get(..end).unwrap_or_default();
    let cost = setting.limits.estimator.cost(&visible(head, text.form())) + lines as u64 / 8 + 8;
    if cost <= most { cost } else { tokens / 5 }
}

pub(super) fn first_chunk(
    setting: &Setting<'_>,
    payload: &Payload<'_, '_>,
    text: &TextIndex,
    base: &Cursor,
    frame: &Frame<'_>,
    highlights: Option<&Highlights<'_>>,
) -> Shown {
    let wish = setting.wish;
    let total = payload.bytes.len() as u64;
    let range = wish.ranged();
    let (from, end) = if range {
        let from = line_offset(payload.bytes, payload.form, text, wish.start_line.max(1));
        let end = if wish.end_line == 0 {
            total
        } else {
            line_offset(payload.bytes, payload.form, text, wish.end_line.saturating_add(1))
        };
        (from, end.max(from))
    } else {
        let end = text
            .chunks
            .get(usize::try_from(wish.pages.max(1)).unwrap_or(usize::MAX))
            .map_or(total, |mark| mark.offset);
        (0, end)
    };
    let bytes = slice(payload.bytes, from, end);
    let line = line_number(payload.bytes, payload.form, text, from);
    let place = Place { from, line, total, range_end: range.then_some(end) };
    let chunk = chunk_of(text, bytes, payload.form, place, base, frame);
    match highlights.filter(|_| chunk.more) {
        Some(highlights) => with_highlights(chunk, highlights, frame),
        None => chunk,
    }
}

/// The chunk, with as much of what stands out elsewhere as there is room for.
fn with_highlights(chunk: Shown, highlights: &Highlights<'_>, frame: &Frame<'_>) -> Shown {
    let from = match &chunk.facts {
        Facts::Chunk { end_line, .. } => usize::try_from(*end_line).unwrap_or(usize::MAX),
        _ => return chunk,
    };
    let mut room = frame.allowance.saturating_sub(frame.halves(&chunk).cost) / frame.copies();
    let trouble = highlights.after(from);
    for _ in 0..6 {
        // Where a single line is cut there are no others: its end is what is told.
        let excerpt = if from < highlights.lines() {
            highlights.excerpt(from, &trouble, &frame.estimator, room)
        } else {
            highlights.tail(&frame.estimator, room)
        };
        let Some(excerpt) = excerpt else { break };
        let shown = Shown { highlights: Some(excerpt.text), ..chunk.clone() };
        let cost = frame.halves(&shown).cost;
        if cost <= frame.allowance {
            return shown;
        }
        room = room.saturating_sub((cost - frame.allowance).div_ceil(frame.copies()).max(1));
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
pub struct Place {
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
    place: Place,
    base: &Cursor,
    frame: &Frame<'_>,
) -> Shown {
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
        let facts = Facts::Chunk {
            index: text.chunk_at(place.from) as u64,
            total: text.chunks.len() as u64,
            start_line: place.line,
            end_line: last.max(place.line),
            lines: text.lines,
            bytes: visible(content, form).len() as u64,
            range: place.range_end.is_some(),
        };
        let next = (to < end).then(|| Cursor { offset: to, end: cursor_end, ..base.clone() });
        Shown::new(facts, next, Body::Text(content.to_vec(), form))
    };
    // A token is at most 16 bytes, and an escape at most six: a longer range is not even tried whole.
    if (bytes.len() as u64) < frame.allowance.saturating_mul(96) {
        let whole = make(bytes.len());
        if frame.halves(&whole).cost <= frame.allowance {
            return whole;
        }
    }
    let mut room = frame.allowance.saturating_sub(frame.halves(&make(0)).cost) / frame.copies();
    loop {
        let shown = make(chunk::trim(bytes, form, &frame.estimator, room.max(1)));
        let cost = frame.halves(&shown).cost;
        if cost <= frame.allowance || room <= 1 {
            return shown;
        }
        room -= (cost - frame.allowance).div_ceil(frame.copies()).min(room - 1).max(1);
    }
}
