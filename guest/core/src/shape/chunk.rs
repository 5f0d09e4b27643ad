//! Chunks of a text: where each begins, and what of it is shown.

mod stride;

use std::collections::VecDeque;

use crate::json::Span;
use crate::json::text::Form;
use crate::snapshot::index::{ChunkMark, TextIndex};
use crate::text::boundary::{Rank, Ranker};
use crate::text::fit::fit;
use crate::text::lines::Lines;
use crate::tokens::{Estimator, FINE};

/// Bytes up to which every line is priced.
const EXACT_BYTES: usize = 64 * 1024;
const FENCES: [&[u8]; 2] = [b"```", b"~~~"];

/// What a chunk may hold.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Lines.
    pub lines: u64,
    /// Tokens.
    pub tokens: u64,
    /// Tokens of the first one.
    pub first: u64,
}

/// A line that is not in a chunk yet.
struct Line {
    start: usize,
    /// In 1/[`FINE`] token.
    weight: u64,
    rank: Rank,
    number: u64,
}

/// Finds where the chunks of a text begin. They end at entries, paragraphs, sections and sentences where they can, at lines where they must;
/// a line that is larger than a chunk is cut at sentences or words. Up to 64 kB every line is priced; in longer texts the first chunk is, and the others are told from samples.
#[must_use]
pub fn plan(bytes: &[u8], form: Form, estimator: &Estimator, size: Size) -> TextIndex {
    // Where code is fenced in, every line has to be looked at: a place inside a fence looks like any other.
    let fenced = || FENCES.iter().any(|fence| memchr::memmem::find(bytes, fence).is_some());
    if bytes.len() > EXACT_BYTES && !fenced() {
        return stride::plan(bytes, form, estimator, size);
    }
    whole(bytes, form, estimator, size)
}

/// The same, every line priced. O(n).
fn whole(bytes: &[u8], form: Form, estimator: &Estimator, size: Size) -> TextIndex {
    let line_bytes = |span: &Span| bytes.get(span.clone()).unwrap_or_default();
    let mut ranker =
        Ranker::new(Lines::new(bytes, form).map(|line| bytes.get(line).unwrap_or_default()), form);
    let mut plan =
        Plan { bytes, form, estimator, size, chunks: Vec::new(), open: VecDeque::new(), weight: 0 };
    let mut number = 0;
    for line in Lines::new(bytes, form) {
        number += 1;
        let text = line_bytes(&line);
        let weight = estimator.weigh(&crate::json::text::visible(text, form));
        plan.add(
            Line { start: line.start, weight, rank: ranker.before(text, form), number },
            line.end,
        );
    }
    plan.close();
    TextIndex { lines: number, chunks: plan.chunks }
}

struct Plan<'a> {
    bytes: &'a [u8],
    form: Form,
    estimator: &'a Estimator,
    size: Size,
    chunks: Vec<ChunkMark>,
    /// The lines of the chunk that is being filled.
    open: VecDeque<Line>,
    weight: u64,
}

impl Plan<'_> {
    fn allowance(&self) -> u64 {
        let tokens = if self.chunks.is_empty() { self.size.first } else { self.size.tokens };
        tokens.max(1).saturating_mul(FINE)
    }

    fn add(&mut self, line: Line, end: usize) {
        while !self.open.is_empty()
            && (self.open.len() as u64 >= self.size.lines
                || self.weight + line.weight > self.allowance())
        {
            let count = self.best_end(line.rank);
            self.emit(count);
        }
        if line.weight > self.allowance() {
            return self.split(&line, end);
        }
        self.weight += line.weight;
        self.open.push_back(line);
    }

    /// How many of the open lines make the best chunk, when the line that comes next has this rank: the last of the best places in the later three quarters.
    fn best_end(&self, next: Rank) -> usize {
        let least = self.open.len() / 4 + 1;
        let places = self.open.iter().enumerate().skip(least).map(|(at, line)| (line.rank, at));
        let (rank, at) =
            places.chain([(next, self.open.len())]).max().unwrap_or((next, self.open.len()));
        if rank == Rank::Inside { self.open.len() } else { at }
    }

    fn emit(&mut self, count: usize) {
        let Some(first) = self.open.front() else { return };
        self.chunks.push(ChunkMark { offset: first.start as u64, line: first.number });
        for line in self.open.drain(..count.min(self.open.len())) {
            self.weight = self.weight.saturating_sub(line.weight);
        }
    }

    /// Cuts a line that is larger than a chunk.
    fn split(&mut self, line: &Line, end: usize) {
        let mut start = line.start;
        while start < end {
            self.chunks.push(ChunkMark { offset: start as u64, line: line.number });
            let rest = self.bytes.get(start..end).unwrap_or_default();
            let tokens = if self.chunks.len() <= 1 { self.size.first } else { self.size.tokens };
            start += fit(rest, self.form, self.estimator, tokens).max(1);
        }
    }

    fn close(&mut self) {
        let count = self.open.len();
        self.emit(count);
        if self.chunks.is_empty() {
            self.chunks.push(ChunkMark { offset: 0, line: 1 });
        }
    }
}

/// The longest beginning of `bytes` within `allowance` tokens that ends at a line, or inside the first line where that alone is too large.
#[must_use]
pub fn trim(bytes: &[u8], form: Form, estimator: &Estimator, allowance: u64) -> usize {
    let allowed = allowance.saturating_mul(FINE);
    let (mut weight, mut end) = (0, 0);
    for line in Lines::new(bytes, form) {
        let text = bytes.get(line.clone()).unwrap_or_default();
        weight += estimator.weigh(&crate::json::text::visible(text, form));
        if weight > allowed {
            break;
        }
        end = line.end;
    }
    if end > 0 { end } else { fit(bytes, form, estimator, allowance) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::text::{self, visible};

    fn chunks(text: &str, lines: u64, tokens: u64) -> Vec<String> {
        let index = plan(
            text.as_bytes(),
            Form::Raw,
            &Estimator::default(),
            Size { lines, tokens, first: tokens },
        );
        let ends = index.chunks.iter().skip(1).map(|mark| mark.offset as usize).chain([text.len()]);
        index
            .chunks
            .iter()
            .zip(ends)
            .map(|(mark, end)| text.get(mark.offset as usize..end).unwrap().to_owned())
            .collect()
    }

    #[test]
    fn two_hundred_lines_a_chunk() {
        let log: String = (0..10_000).map(|line| format!("{line:05} ok\n")).collect();
        let chunks = chunks(&log, 200, 100_000);
        assert_eq!((chunks.len(), chunks[0].lines().count()), (50, 200));
    }

    #[test]
    fn an_entry_is_never_split_while_it_fits() {
        let log: String = (0..300)
            .map(|at| {
                let trace = if at % 7 == 0 {
                    "java.lang.Error: x\n\tat a.b(C.java:1)\n\tat d.e(F.java:2)\n"
                } else {
                    ""
                };
                format!("2026-01-02 10:{:02}:{:02} INFO booking {at}\n{trace}", at / 60, at % 60)
            })
            .collect();
        for (at, chunk) in chunks(&log, 40, 100_000).iter().enumerate() {
            assert!(
                chunk.starts_with("2026-01-02"),
                "chunk {at} begins inside an entry: {chunk:.60}"
            );
        }
    }

    proptest! {
        #[test]
        fn chunks_put_together_are_the_text(text in "([a-z .\\\\\"é🦀]{0,60}\n?){0,40}", lines in 1u64..20, tokens in 4u64..80, escaped: bool) {
            let (form, mut bytes) = if escaped { (Form::Escaped, Vec::new()) } else { (Form::Raw, text.clone().into_bytes()) };
            if escaped {
                text::escape(&mut bytes, text.as_bytes());
            }
            let index = plan(&bytes, form, &Estimator::default(), Size { lines, tokens, first: tokens });
            prop_assert_eq!(index.lines, text.split_inclusive('\n').count() as u64);
            let mut joined = Vec::new();
            let ends = index.chunks.iter().skip(1).map(|mark| mark.offset as usize).chain([bytes.len()]);
            for (mark, end) in index.chunks.iter().zip(ends) {
                let chunk = visible(&bytes[mark.offset as usize..end], form).into_owned();
                prop_assert!(std::str::from_utf8(&chunk).is_ok());
                prop_assert!(chunk.split_inclusive(|byte| *byte == b'\n').count() as u64 <= lines);
                joined.extend(chunk);
            }
            prop_assert_eq!(joined, text.into_bytes());
        }
    }
}
