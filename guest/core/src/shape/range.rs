//! Stretches of a text: the chunk or the lines that were asked for, as much of them as fits.

use super::chunk::{self, Size};
use super::notice::Facts;
use super::plan::{Payload, Setting};
use super::render::Frame;
use super::{Body, Shown};
use crate::json::text::{Form, visible};
use crate::snapshot::Cursor;
use crate::snapshot::index::{ChunkMark, TextIndex};
use crate::text::lines::Lines;

/// Tokens kept back for the contract of a chunk, in each half.
const CONTRACT: u64 = 190;

pub(super) fn text_index(
    setting: &Setting<'_>,
    payload: &Payload<'_, '_>,
    allowance: u64,
) -> TextIndex {
    let single = setting.limits.budget(1).allowance().min(allowance);
    let tokens = single.saturating_sub(CONTRACT).max(single / 4).max(8);
    chunk::plan(
        payload.bytes,
        payload.form,
        &setting.limits.estimator,
        Size { lines: setting.limits.chunk_size, tokens },
    )
}

pub(super) fn first_chunk(
    setting: &Setting<'_>,
    payload: &Payload<'_, '_>,
    text: &TextIndex,
    base: &Cursor,
    frame: &Frame<'_>,
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
    chunk_of(
        text,
        bytes,
        payload.form,
        Place { from, line, total, range_end: range.then_some(end) },
        base,
        frame,
    )
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
        Shown {
            facts: Facts::Chunk {
                index: text.chunk_at(place.from) as u64,
                total: text.chunks.len() as u64,
                start_line: place.line,
                end_line: last.max(place.line),
                lines: text.lines,
                bytes: visible(content, form).len() as u64,
                range: place.range_end.is_some(),
            },
            next: (to < end).then(|| Cursor { offset: to, end: cursor_end, ..base.clone() }),
            body: Body::Text(content.to_vec(), form),
        }
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
