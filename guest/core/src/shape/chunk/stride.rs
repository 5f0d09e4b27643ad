//! Chunks of a long text, whose lengths are estimated from samples.

use super::fit::settle;
use super::{ChunkLimits, MAX_EXACT_BYTES, second_chunk};
use crate::json::text::{Form, boundary, sample};
use crate::snapshot::index::{ChunkMark, TextIndex};
use crate::text::boundary::{Rank, Ranker};
use crate::text::lines::IndexedText;
use crate::tokens::{COST_SCALE, Estimator, WordCache};

/// The size of a stride, in bytes: a section of a text whose cost is estimated from one sample.
const STRIDE_BYTES: usize = 64 * 1024;
/// The size of the sample of a stride, in bytes.
const SAMPLE_BYTES: usize = 512;
/// The maximum number of lines before the end of a chunk that are searched for a boundary.
const MAX_LOOKBACK_LINES: usize = 24;

/// Divides a text into chunks. The first is priced exactly, the others by samples. A chunk that
/// exceeds its token limit is cut when it is shown. O(n).
pub(super) fn plan(text: &IndexedText<'_>, estimator: &Estimator, size: ChunkLimits) -> TextIndex {
    let (bytes, form) = (text.bytes(), text.form());
    let mut plan = SampledPlanner {
        text,
        prices: prices(bytes, form, estimator),
        ranker: Ranker::new((0..text.len()).map(|line| text.raw(line)), form),
        size,
        chunks: vec![ChunkMark { offset: 0, line: 1 }],
    };
    let head = bytes.get(..boundary(bytes, MAX_EXACT_BYTES, form)).unwrap_or(bytes);
    let (mut at, mut line) = match second_chunk(head, form, estimator, size) {
        Some(second) => {
            let line = usize::try_from(second.line).unwrap_or(1) - 1;
            (usize::try_from(second.offset).unwrap_or(usize::MAX), line)
        }
        // The first chunk is longer than the part of the text that is priced exactly.
        None => plan.next_chunk(0, 0, size.first),
    };
    while at < bytes.len() {
        plan.chunks.push(ChunkMark { offset: at as u64, line: line as u64 + 1 });
        (at, line) = plan.next_chunk(at, line, size.tokens);
    }
    let chunks = plan.chunks;
    TextIndex { lines: text.len() as u64, chunks }
}

/// Returns the estimated cost per byte for each section of [`STRIDE_BYTES`] of a text, in
/// 1/[`COST_SCALE`] token. It has a margin of a twelfth, because a sample may be cheaper than the
/// rest.
fn prices(bytes: &[u8], form: Form, estimator: &Estimator) -> Vec<u64> {
    let mut words = WordCache::default();
    let samples: Vec<u64> = (0..bytes.len())
        .step_by(STRIDE_BYTES)
        .map(|from| {
            let middle = from + STRIDE_BYTES.min(bytes.len() - from) / 2;
            let (part, length) = sample(bytes, middle, SAMPLE_BYTES, form);
            estimator.scaled_cost_in(&mut words, &part) / (length as u64).max(1)
        })
        .collect();
    // A stride that is cheaper than the average may be so in its sample only.
    let mean = samples.iter().sum::<u64>() / (samples.len() as u64).max(1);
    samples.into_iter().map(|price| price.max(mean).max(1) * 13 / 12).collect()
}

struct SampledPlanner<'a> {
    text: &'a IndexedText<'a>,
    prices: Vec<u64>,
    ranker: Ranker,
    size: ChunkLimits,
    chunks: Vec<ChunkMark>,
}

impl SampledPlanner<'_> {
    /// Returns the byte offset and line at which a chunk ends. It begins at byte `at` of line
    /// `line`, counted from 0, and costs about `tokens`.
    fn next_chunk(&self, at: usize, line: usize, tokens: u64) -> (usize, usize) {
        let price = self.prices.get(at / STRIDE_BYTES).copied().unwrap_or(COST_SCALE);
        let reach = tokens.max(1).saturating_mul(COST_SCALE) / price;
        let most = at.saturating_add(usize::try_from(reach).unwrap_or(usize::MAX)).max(at + 1);
        let (bytes, ends) = (self.text.bytes(), self.text.ends());
        if most >= bytes.len() && ends.len() - line <= self.lines() {
            return (bytes.len(), ends.len());
        }
        let within = ends.partition_point(|end| *end <= most);
        let last = within.min(line.saturating_add(self.lines()));
        if last <= line {
            return (self.end_inside_line(at, most), line);
        }
        let (end, next_end) = (self.line_end(last - 1), self.line_end(last));
        // A line that must be divided continues a chunk that would otherwise be mostly empty.
        if (end - at) * 2 < most - at && next_end - end > most - at && last - line < self.lines() {
            return (self.end_inside_line(at, most), last);
        }
        let next = self.best_end(line, last);
        (self.line_end(next - 1), next)
    }

    fn lines(&self) -> usize {
        usize::try_from(self.size.lines).unwrap_or(usize::MAX)
    }

    fn line_end(&self, line: usize) -> usize {
        self.text.ends().get(line).copied().unwrap_or(self.text.bytes().len())
    }

    /// Returns the line before which a chunk ends. It has the highest boundary rank in the chunk's
    /// last three quarters. `first` is the line in which the chunk begins, `last` the latest end.
    fn best_end(&self, first: usize, last: usize) -> usize {
        if last >= self.text.len() {
            return last;
        }
        let least = (first + (last - first) / 4 + 1).max(last.saturating_sub(MAX_LOOKBACK_LINES));
        let mut best = (Rank::Inside, last);
        for line in (least..=last).rev() {
            let (before, after) = (self.text.raw(line - 1), self.text.raw(line));
            let rank = self.ranker.between(before, after, self.text.form());
            if rank > best.0 {
                best = (rank, line);
            }
            // No rank is higher.
            if rank == Rank::Entry {
                break;
            }
        }
        best.1
    }

    /// Returns the byte offset at which a chunk ends inside a line that is larger than a chunk. It
    /// begins at byte `at` and ends at byte `most` at the latest, except to hold one character.
    fn end_inside_line(&self, at: usize, most: usize) -> usize {
        let form = self.text.form();
        let rest = self.text.bytes().get(at..).unwrap_or_default();
        let end = boundary(rest, most - at, form);
        match settle(rest, end, form) {
            good if good > 0 => at + good,
            _ if end > 0 => at + end,
            // A chunk must have at least one character, and characters must not be divided.
            _ => {
                let whole = |end: &usize| boundary(rest, *end, form) == *end;
                at + (1..=rest.len()).find(whole).unwrap_or(rest.len())
            }
        }
    }
}
