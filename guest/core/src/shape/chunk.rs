//! Divides texts into chunks.

mod fit;
mod stride;

use std::collections::VecDeque;

use crate::json::Span;
use crate::json::text::{Form, boundary, visible};
use crate::snapshot::index::{ChunkMark, TextIndex};
use crate::text::boundary::{Rank, Ranker};
use crate::text::lines::{IndexedText, LineSpans};
use crate::tokens::{COST_SCALE, Estimator, WordCache};
use fit::fit;

/// The maximum size, in bytes, of a text whose lines are all priced. Larger texts are priced by
/// samples.
const MAX_EXACT_BYTES: usize = 64 * 1024;
/// The maximum size, in bytes, of a text with code fences whose lines are all priced. In larger
/// texts, a chunk may end inside a code block.
const MAX_FENCED_BYTES: usize = 4 * 1024 * 1024;
/// The numbers of bytes per allowed token after which the cost of a long line is computed. No token
/// has more than 128 bytes, so that more bytes always exceed a limit.
const BYTES_PER_TOKEN: [usize; 3] = [8, 32, 130];

/// The maximum size of the chunks that a text is divided into.
#[derive(Clone, Copy, Debug)]
pub struct ChunkLimits {
    /// The maximum number of lines in a chunk.
    pub lines: u64,
    /// The maximum number of tokens in a chunk.
    pub tokens: u64,
    /// The maximum number of tokens in the first chunk. It may be less than `tokens`, to reserve
    /// space for highlights: important lines of the other chunks.
    pub first: u64,
}

/// A line that is not assigned to a chunk yet.
struct OpenLine {
    start: usize,
    /// The cost of the line, in units of 1/[`COST_SCALE`] token.
    cost: u64,
    rank: Rank,
    number: u64,
}

/// Divides a text into chunks.
///
/// Chunks end at log entries, paragraphs, sections or sentences if possible, else at lines. A line
/// that is larger than a chunk is divided at sentences or words. In texts of more than 64 kB (with
/// code fences, 4 MB), only a first chunk within the first 64 kB is priced exactly. The others are
/// priced by samples. O(n).
#[must_use]
pub fn plan_chunks(text: &IndexedText<'_>, estimator: &Estimator, size: ChunkLimits) -> TextIndex {
    let mut index = plan_first_chunk(text, estimator, size);
    if let [_, second] = *index.chunks.as_slice() {
        index.chunks.pop();
        index.chunks.extend(plan_later_chunks(text, estimator, size, second));
    }
    index
}

/// Returns the first chunk of [`plan_chunks`], and the second unless the first holds the whole
/// text. O(first chunk).
pub(super) fn plan_first_chunk(
    text: &IndexedText<'_>,
    estimator: &Estimator,
    size: ChunkLimits,
) -> TextIndex {
    let second = match is_sampled(text) {
        true => stride::second_chunk(text, estimator, size),
        false => second_chunk(text, text.bytes(), estimator, size),
    };
    let chunks = [ChunkMark { offset: 0, line: 1 }].into_iter().chain(second).collect();
    TextIndex { lines: text.len() as u64, chunks }
}

/// Returns the chunks of [`plan_chunks`] from `second`, the second chunk, on. O(n).
pub(super) fn plan_later_chunks(
    text: &IndexedText<'_>,
    estimator: &Estimator,
    size: ChunkLimits,
    second: ChunkMark,
) -> Vec<ChunkMark> {
    if is_sampled(text) {
        return stride::later_chunks(text, estimator, size, second);
    }
    let size = ChunkLimits { first: size.tokens, ..size };
    let mut plan = ChunkPlanner::new(text, text.bytes(), estimator, size);
    plan.read(second.offset, |_| false);
    plan.close();
    plan.chunks
}

/// Returns true if the costs of the lines of a text are estimated from samples. In texts with code
/// fences, all lines are read, because each fence affects the lines after it. Only very large texts
/// with code fences are sampled.
fn is_sampled(text: &IndexedText<'_>) -> bool {
    let most = if text.fenced() { MAX_FENCED_BYTES } else { MAX_EXACT_BYTES };
    text.bytes().len() > most
}

/// Returns the cost of the lines of a text, in tokens, each priced separately as for chunks. It
/// usually exceeds the cost of the whole. O(n).
pub(super) fn lines_cost(bytes: &[u8], form: Form, estimator: &Estimator) -> u64 {
    let mut words = WordCache::default();
    let lines = LineSpans::new(bytes, form).map(|line| bytes.get(line).unwrap_or_default());
    let costs = lines.map(|line| estimator.scaled_cost_in(&mut words, &visible(line, form)));
    costs.sum::<u64>() / COST_SCALE
}

/// Returns the position of the second chunk of `bytes`, the whole or the beginning of a text,
/// pricing only the lines of the first. `None` if one chunk holds all `bytes`. O(first chunk).
pub(super) fn second_chunk(
    text: &IndexedText<'_>,
    bytes: &[u8],
    estimator: &Estimator,
    size: ChunkLimits,
) -> Option<ChunkMark> {
    let mut plan = ChunkPlanner::new(text, bytes, estimator, size);
    plan.max_chunks = 2;
    plan.read(0, |plan| plan.second().is_some());
    plan.second()
}

struct ChunkPlanner<'a> {
    bytes: &'a [u8],
    form: Form,
    /// Ranks the boundaries between the lines.
    ranker: Ranker,
    estimator: &'a Estimator,
    size: ChunkLimits,
    chunks: Vec<ChunkMark>,
    /// The number of chunks after which a long line is divided no further.
    max_chunks: usize,
    /// The lines that were read, but do not belong to a chunk yet.
    open: VecDeque<OpenLine>,
    cost: u64,
}

impl<'a> ChunkPlanner<'a> {
    /// Creates a planner for `bytes`, the whole or the beginning of a text.
    fn new(
        text: &IndexedText<'_>,
        bytes: &'a [u8],
        estimator: &'a Estimator,
        size: ChunkLimits,
    ) -> Self {
        Self {
            bytes,
            form: text.form(),
            ranker: text.ranker(),
            estimator,
            size,
            chunks: Vec::new(),
            max_chunks: usize::MAX,
            open: VecDeque::new(),
            cost: 0,
        }
    }

    /// Reads lines from byte `from` on until `enough` returns true, or the text ends. O(n).
    fn read(&mut self, from: u64, enough: impl Fn(&Self) -> bool) {
        let (bytes, form) = (self.bytes, self.form);
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let text = |line: Span| bytes.get(line).unwrap_or_default();
        let mut ranker = self.ranker;
        let (mut number, mut words) = (0, WordCache::default());
        for line in LineSpans::new(bytes, form) {
            number += 1;
            let rank = ranker.before(text(line.clone()), form);
            if line.end <= from {
                continue;
            }
            let start = line.start.max(from);
            let text = text(start..line.end);
            let cost = self.line_cost(&mut words, text);
            self.add(OpenLine { start, cost, rank, number }, line.end);
            if enough(self) {
                break;
            }
        }
    }

    /// Returns the cost of a line, in 1/[`COST_SCALE`] token. If the line is larger than a chunk,
    /// returns the cost of a beginning that is also larger. O(chunk).
    fn line_cost(&self, words: &mut WordCache, line: &[u8]) -> u64 {
        let limit = self.max_cost().max(self.size.tokens.saturating_mul(COST_SCALE));
        let tokens = usize::try_from(limit / COST_SCALE + 1).unwrap_or(usize::MAX);
        let lengths = BYTES_PER_TOKEN.into_iter().map(|bytes| tokens.saturating_mul(bytes));
        for length in lengths.filter(|length| *length < line.len()) {
            let head = line.get(..boundary(line, length, self.form)).unwrap_or(line);
            let cost = self.estimator.scaled_cost_in(words, &visible(head, self.form));
            if cost > limit {
                return cost;
            }
        }
        self.estimator.scaled_cost_in(words, &visible(line, self.form))
    }

    /// Returns the position of the second chunk. `None` if too few lines were read to determine it.
    fn second(&self) -> Option<ChunkMark> {
        let open = || {
            let line = self.open.front().filter(|_| !self.chunks.is_empty())?;
            Some(ChunkMark { offset: line.start as u64, line: line.number })
        };
        self.chunks.get(1).copied().or_else(open)
    }

    /// The maximum cost of the chunk that is being filled, in 1/[`COST_SCALE`] token.
    fn max_cost(&self) -> u64 {
        let tokens = if self.chunks.is_empty() { self.size.first } else { self.size.tokens };
        tokens.max(1).saturating_mul(COST_SCALE)
    }

    /// Adds a line that ends at byte `end` to the open lines. First emits chunks of open lines,
    /// until the line fits the next chunk.
    fn add(&mut self, line: OpenLine, end: usize) {
        // A line that must be divided continues a chunk that has room for a part of it.
        let continues = line.cost > self.max_cost()
            && self.cost < self.max_cost() / 8 * 7
            && (self.open.len() as u64) < self.size.lines;
        while !continues
            && !self.open.is_empty()
            && (self.open.len() as u64 >= self.size.lines
                || self.cost + line.cost > self.max_cost())
        {
            let count = self.best_end(line.rank);
            self.emit(count);
        }
        if line.cost > self.max_cost() {
            return self.split(&line, end);
        }
        self.cost += line.cost;
        self.open.push_back(line);
    }

    /// Returns the number of open lines to put into the next chunk. `next` is the boundary rank of
    /// the line after the open ones.
    ///
    /// The chunk ends before the last line with the highest boundary rank, so that it is nearly
    /// full. The boundary is between sentences in its last tenth, or else between lines in its last
    /// quarter. If neither exists, it is outside of a log entry in the last half. If there is none,
    /// the chunk has all open lines.
    fn best_end(&self, next: Rank) -> usize {
        let end = (next, self.open.len());
        // The number of lines that cost at least `share` hundredths of all.
        let lines_of = |share: u64| {
            let mut cost = 0;
            let before = self.open.iter().take_while(|line| {
                cost += line.cost;
                cost * 100 < self.cost * share
            });
            before.count() + 1
        };
        for (share, least) in [(90, Rank::Sentence), (75, Rank::Line), (50, Rank::Line)] {
            let ends = self.open.iter().enumerate().skip(lines_of(share));
            let best = ends.map(|(at, line)| (line.rank, at)).chain([end]).max().unwrap_or(end);
            if best.0 >= least {
                return best.1;
            }
        }
        self.open.len()
    }

    /// Appends a chunk that consists of the first `count` open lines.
    fn emit(&mut self, count: usize) {
        let Some(first) = self.open.front() else { return };
        self.chunks.push(ChunkMark { offset: first.start as u64, line: first.number });
        for line in self.open.drain(..count.min(self.open.len())) {
            self.cost = self.cost.saturating_sub(line.cost);
        }
    }

    /// Divides a line that is larger than a chunk into several chunks. The line ends at byte `end`.
    fn split(&mut self, line: &OpenLine, end: usize) {
        let mut start = line.start;
        if let Some(first) = self.open.front() {
            let rest = self.bytes.get(start..end).unwrap_or_default();
            let tokens = self.max_cost().saturating_sub(self.cost) / COST_SCALE;
            self.chunks.push(ChunkMark { offset: first.start as u64, line: first.number });
            start += fit(rest, self.form, self.estimator, tokens).max(1);
            self.open.clear();
            self.cost = 0;
        }
        while start < end && self.chunks.len() < self.max_chunks {
            self.chunks.push(ChunkMark { offset: start as u64, line: line.number });
            let rest = self.bytes.get(start..end).unwrap_or_default();
            let tokens = if self.chunks.len() <= 1 { self.size.first } else { self.size.tokens };
            // A chunk must have at least one byte, or the loop would not end.
            start += fit(rest, self.form, self.estimator, tokens).max(1);
        }
    }

    /// Appends the remaining open lines as the last chunk. A text without lines gets one empty
    /// chunk.
    fn close(&mut self) {
        let count = self.open.len();
        self.emit(count);
        if self.chunks.is_empty() {
            self.chunks.push(ChunkMark { offset: 0, line: 1 });
        }
    }
}

/// Returns the length, in bytes, of the longest prefix of `bytes` that costs at most `token_limit`
/// tokens. The prefix ends at a line end. It ends inside a line that is the first or larger than
/// the limit, or if half of the limit would remain unused. If a sentence or section ends in the
/// last tenth, the prefix ends there. It has at least one character, even if that costs more.
/// O(prefix).
#[must_use]
pub fn trim(bytes: &[u8], form: Form, estimator: &Estimator, token_limit: u64) -> usize {
    let allowed = token_limit.saturating_mul(COST_SCALE);
    let (mut cost, mut end, mut words) = (0, 0, WordCache::default());
    let lines = || LineSpans::new(bytes, form);
    let sample = lines().map(|line| bytes.get(line).unwrap_or_default());
    let mut ranker = Ranker::new(sample, form);
    let mut best = (Rank::Line, 0);
    for line in lines() {
        let text = bytes.get(line.clone()).unwrap_or_default();
        let before = cost;
        let rank = ranker.before(text, form);
        if before * 10 >= allowed * 9 && rank >= best.0 && rank >= Rank::Sentence {
            best = (rank, line.start);
        }
        let line_cost = estimator.scaled_cost_in(&mut words, &visible(text, form));
        cost += line_cost;
        if cost > allowed {
            // Rather than leave half of the limit unused, the text ends inside a line. So it does
            // inside a line that must be divided anyway.
            let is_long = line_cost > allowed && before < allowed / 8 * 7;
            if end > 0 && (before < allowed / 2 || is_long) {
                end += fit(text, form, estimator, (allowed - before) / COST_SCALE);
            } else if best.1 > 0 {
                end = best.1;
            }
            break;
        }
        end = line.end;
    }
    if end > 0 { end } else { fit(bytes, form, estimator, token_limit) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::text;

    fn chunks(text: &str, lines: u64, tokens: u64) -> Vec<String> {
        let index = plan_chunks(
            &IndexedText::new(text.as_bytes(), Form::Raw),
            &Estimator::default(),
            ChunkLimits { lines, tokens, first: tokens },
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
    fn chunk_has_at_most_its_lines() {
        let log: String = (0..10_000).map(|line| format!("{line:05} ok\n")).collect();
        let chunks = chunks(&log, 200, 100_000);
        assert_eq!((chunks.len(), chunks[0].lines().count()), (50, 200));
    }

    #[test]
    fn entry_is_not_split_if_it_fits() {
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
        fn chunks_join_to_the_text(
            text in "([a-z .\\\\\"é🦀]{0,60}\n?){0,40}",
            lines in 1u64..20,
            tokens in 4u64..80,
            escaped: bool,
        ) {
            let (form, mut bytes) = (if escaped { Form::Escaped } else { Form::Raw }, Vec::new());
            match form {
                Form::Escaped => text::escape(&mut bytes, text.as_bytes()),
                Form::Raw => bytes.extend(text.bytes()),
            }
            let limits = ChunkLimits { lines, tokens, first: tokens };
            let index = plan_chunks(&IndexedText::new(&bytes, form), &Estimator::default(), limits);
            prop_assert_eq!(index.lines, text.split_inclusive('\n').count() as u64);
            let mut joined = Vec::new();
            let ends = index.chunks.iter().skip(1).map(|mark| mark.offset as usize);
            let ends = ends.chain([bytes.len()]);
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
