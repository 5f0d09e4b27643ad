//! Chunks of a long text, whose lengths are estimated from samples.

use super::fit::settle;
use super::{ChunkLimits, MAX_EXACT_BYTES};
use crate::json::text::{Form, boundary, sample};
use crate::snapshot::index::ChunkMark;
use crate::text::boundary::{Rank, Ranker};
use crate::text::lines::IndexedText;
use crate::tokens::{COST_SCALE, Estimator, WordCache};

/// The size of a stride, in bytes: a section of a text whose cost is estimated from one sample.
const STRIDE_BYTES: usize = 64 * 1024;
/// The size of the sample of a stride, in bytes.
const SAMPLE_BYTES: usize = 512;
/// The maximum number of samples of a stride.
const MAX_SAMPLES: usize = 16;
/// The maximum total size, in bytes, of the samples of a text whose strides have several samples.
const MAX_SAMPLED_BYTES: usize = 64 * 1024;
/// The number of samples of a stride from which on [`SMALL_MARGIN`] applies, not [`MARGIN`].
const FEW_SAMPLES: usize = 4;
/// The margin that is added to the cost of a stride with few samples, as a fraction: a twelfth.
const MARGIN: (u64, u64) = (1, 12);
/// The margin for a stride with more samples, as a fraction: a twenty-fourth.
const SMALL_MARGIN: (u64, u64) = (1, 24);
/// The maximum number of lines before the end of a chunk that are searched for a boundary.
const MAX_LOOKBACK_LINES: usize = 24;

/// Returns the position of the second chunk of a text. `None` if one chunk holds the whole text.
/// The first chunk is priced exactly if it lies in the first 64 kB. O(first chunk), or O(n) if it
/// is longer.
pub(super) fn second_chunk(
    text: &IndexedText<'_>,
    estimator: &Estimator,
    size: ChunkLimits,
) -> Option<ChunkMark> {
    let (bytes, form) = (text.bytes(), text.form());
    let head = bytes.get(..boundary(bytes, MAX_EXACT_BYTES, form)).unwrap_or(bytes);
    let exact = super::second_chunk(text, head, estimator, size);
    exact.or_else(|| {
        // The first chunk is longer than the part of the text that is priced exactly.
        let plan = SampledPlanner::new(text, estimator, size);
        plan.mark(plan.next_chunk(0, 0, size.first))
    })
}

/// Returns the chunks of a text from `second`, the second chunk, on, priced by samples. A chunk
/// that exceeds its token limit is cut when an answer shows it. O(n).
pub(super) fn later_chunks(
    text: &IndexedText<'_>,
    estimator: &Estimator,
    size: ChunkLimits,
    second: ChunkMark,
) -> Vec<ChunkMark> {
    let plan = SampledPlanner::new(text, estimator, size);
    let (mut chunks, mut next) = (Vec::new(), Some(second));
    while let Some(mark) = next {
        chunks.push(mark);
        let at = usize::try_from(mark.offset).unwrap_or(usize::MAX);
        let line = usize::try_from(mark.line).unwrap_or(usize::MAX).saturating_sub(1);
        next = plan.mark(plan.next_chunk(at, line, size.tokens));
    }
    chunks
}

/// Returns the estimated cost per byte for each section of [`STRIDE_BYTES`] of a text, in
/// 1/[`COST_SCALE`] token. Includes a margin, because samples may be cheaper than the rest.
fn prices(bytes: &[u8], form: Form, estimator: &Estimator) -> Vec<u64> {
    let mut words = WordCache::default();
    let strides = bytes.len().div_ceil(STRIDE_BYTES).max(1);
    let samples = (MAX_SAMPLED_BYTES / SAMPLE_BYTES / strides).clamp(1, MAX_SAMPLES);
    let prices: Vec<u64> = (0..bytes.len())
        .step_by(STRIDE_BYTES)
        .map(|from| {
            let length = STRIDE_BYTES.min(bytes.len() - from);
            let (mut cost, mut sampled) = (0, 0);
            for number in 0..samples {
                let middle = from + length * (2 * number + 1) / (2 * samples);
                let (part, length) = sample(bytes, middle, SAMPLE_BYTES, form);
                cost += estimator.scaled_cost_in(&mut words, &part);
                sampled += length as u64;
            }
            cost / sampled.max(1)
        })
        .collect();
    // A stride that is cheaper than the average may be so in its few samples only.
    let mean = prices.iter().sum::<u64>() / (prices.len() as u64).max(1);
    let (least, (more, of)) =
        if samples < FEW_SAMPLES { (mean, MARGIN) } else { (0, SMALL_MARGIN) };
    prices.into_iter().map(|price| price.max(least).max(1) * (of + more) / of).collect()
}

struct SampledPlanner<'a> {
    text: &'a IndexedText<'a>,
    prices: Vec<u64>,
    ranker: Ranker,
    size: ChunkLimits,
}

impl<'a> SampledPlanner<'a> {
    fn new(text: &'a IndexedText<'a>, estimator: &Estimator, size: ChunkLimits) -> Self {
        let form = text.form();
        let ranker = text.ranker();
        Self { text, prices: prices(text.bytes(), form, estimator), ranker, size }
    }

    /// Returns the position of the chunk that begins at byte offset `at`, in line `line`, counted
    /// from 0. `None` at the end of the text.
    fn mark(&self, (at, line): (usize, usize)) -> Option<ChunkMark> {
        let mark = ChunkMark { offset: at as u64, line: line as u64 + 1 };
        (at < self.text.bytes().len()).then_some(mark)
    }

    /// Returns the byte offset and line at which a chunk ends. The chunk begins at byte `at` of
    /// line `line`, counted from 0, and costs about `tokens`.
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
        // A line that must be divided continues a chunk that has room for a part of it.
        let is_nearly_full = (end - at) * 8 >= (most - at) * 7;
        if !is_nearly_full && next_end - end > most - at && last - line < self.lines() {
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

    /// Returns the line before which a chunk ends: the one with the highest boundary rank in the
    /// chunk's last three quarters, and in its last [`MAX_LOOKBACK_LINES`] lines. `first` is the
    /// line in which the chunk begins, `last` the latest end.
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

    /// Returns the byte offset at which a chunk ends inside a line that is larger than a chunk. The
    /// chunk begins at byte `at`. It ends at byte `most` at the latest, unless it must extend to
    /// contain one character.
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
