//! An index of the lines of a text, built in one pass that also detects code fences.

use context_guard_json::blocks::{
    BLOCK_BYTES, BackslashCarry, ByteBlock, bit_positions, count_backslashes_before,
};
use context_guard_json::text::Form;

/// The maximum number of lines for which memory is allocated in advance.
const MAX_INITIAL_LINES: usize = 1 << 16;

/// The positions of the line ends of a text, with a flag for code fences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineIndex {
    /// The offset after the terminator of each line. The last line may lack a terminator.
    lines: Vec<usize>,
    /// True if the text contains three backticks or tildes in a row.
    fenced: bool,
}

impl LineIndex {
    /// Indexes the lines of a text. In an escaped text, only `\n` ends a line, not `\u000a`. O(n),
    /// 64 bytes per step.
    #[must_use]
    pub fn build(bytes: &[u8], form: Form) -> Self {
        match form {
            Form::Raw => index(bytes, &mut Raw),
            Form::Escaped => index(bytes, &mut Escaped::<false>::default()),
        }
        .0
    }

    /// Indexes an escaped text up to its closing quote. `bytes` begins after the opening quote.
    /// Returns the index and the length of the text, or `None` without a closing quote. O(n), 64
    /// bytes per step.
    #[must_use]
    pub fn build_to_quote(bytes: &[u8]) -> Option<(Self, usize)> {
        let (ends, end) = index(bytes, &mut Escaped::<true>::default());
        Some((ends, end?))
    }

    /// Returns, for each line, the offset after its terminator.
    #[must_use]
    pub fn lines(&self) -> &[usize] {
        &self.lines
    }

    /// Returns true if the text contains a code fence: three backticks or tildes in a row.
    #[must_use]
    pub fn fenced(&self) -> bool {
        self.fenced
    }
}

/// Finds line terminators in a text, in consecutive blocks of 64 bytes.
trait Breaks {
    /// Returns a bit set of the last byte of each terminator in the block at offset `base`. Also
    /// returns the position in the block at which the text ends, or `None` if the text continues.
    fn next(&mut self, bytes: &[u8], block: ByteBlock, base: usize) -> (u64, Option<usize>);
}

/// Finds the line terminators in a raw text.
struct Raw;

impl Breaks for Raw {
    #[inline(always)]
    fn next(&mut self, _: &[u8], block: ByteBlock, _: usize) -> (u64, Option<usize>) {
        (block.positions_of(b'\n'), None)
    }
}

/// Finds the terminators of an escaped text. If `QUOTED`, an unescaped quote ends the text.
#[derive(Default)]
struct Escaped<const QUOTED: bool>(BackslashCarry);

impl<const QUOTED: bool> Breaks for Escaped<QUOTED> {
    #[inline(always)]
    fn next(&mut self, bytes: &[u8], block: ByteBlock, base: usize) -> (u64, Option<usize>) {
        let (after, second) = self.0.next(block.positions_of(b'\\'));
        let (letters, quotes) =
            (block.positions_of(b'n'), if QUOTED { block.positions_of(b'"') } else { 0 });
        // After two or more backslashes, the parity of the run decides: count it. This is rare.
        let doubtful = (letters | quotes) & after & second;
        let escaped = if doubtful == 0 { after } else { after & !plain(bytes, doubtful, base) };
        let breaks = letters & escaped;
        let Some(end) = bit_positions(quotes & !escaped).next() else { return (breaks, None) };
        (breaks & ((1 << end) - 1), Some(end))
    }
}

/// Returns the bits of `doubtful` whose bytes are not escaped. Each of these bytes of the block at
/// `base` has two or more backslashes before it.
#[inline(never)]
fn plain(bytes: &[u8], doubtful: u64, base: usize) -> u64 {
    let is_plain =
        |place: &usize| count_backslashes_before(bytes, 0, base + place).is_multiple_of(2);
    bit_positions(doubtful).filter(is_plain).fold(0, |set, place| set | 1 << place)
}

/// Returns the index of the lines that `breaks` finds in a text. Also returns the offset of the
/// quote that ends the text, or `None` if no quote does.
#[inline(always)]
fn index(bytes: &[u8], breaks: &mut impl Breaks) -> (LineIndex, Option<usize>) {
    let mut lines = Vec::with_capacity((bytes.len() / 64).min(MAX_INITIAL_LINES));
    let (mut fenced, mut end) = (false, None);
    for base in (0..bytes.len()).step_by(BLOCK_BYTES) {
        let block = ByteBlock::load(bytes, base);
        let here;
        (here, end) = breaks.next(bytes, block, base);
        lines.extend(bit_positions(here).map(|place| base + place + 1));
        if block.has_any(b'`', b'~') {
            fenced |= fence(bytes, base, end);
        }
        if end.is_some() {
            end = end.map(|end| base + end);
            break;
        }
    }
    let length = end.unwrap_or(bytes.len());
    if lines.last().copied().unwrap_or(0) < length {
        lines.push(length);
    }
    (LineIndex { lines, fenced }, end)
}

/// Returns true if the last byte of a code fence is in the block at `base`. `end` is the position
/// in the block at which the text ends, or `None` if the text continues.
#[inline(never)]
fn fence(bytes: &[u8], base: usize, end: Option<usize>) -> bool {
    let text = end.and_then(|end| bytes.get(..base + end)).unwrap_or(bytes);
    // A fence that begins in the previous block is inside the block that begins two bytes earlier.
    [base.saturating_sub(2), base].into_iter().any(|base| {
        let block = ByteBlock::load(text, base);
        let three = |marks: u64| marks & marks >> 1 & marks >> 2;
        (three(block.positions_of(b'`')) | three(block.positions_of(b'~'))) != 0
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lines::LineSpans;
    use context_guard_json::text::escape;

    fn walked(bytes: &[u8], form: Form) -> Vec<usize> {
        LineSpans::new(bytes, form).map(|line| line.end).collect()
    }

    proptest! {
        #[test]
        fn line_ends_match_line_spans(
            text in "([ab`~\\\\n\"]{0,80}[`~]{0,4}\n?){0,20}", after in "[\"\\\\n`~a]{0,80}"
        ) {
            let mut escaped = Vec::new();
            escape(&mut escaped, text.as_bytes());
            let fenced = text.contains("```") || text.contains("~~~");
            for (bytes, form) in [(text.as_bytes(), Form::Raw), (&escaped, Form::Escaped)] {
                let ends = LineIndex::build(bytes, form);
                prop_assert_eq!(&ends.lines, &walked(bytes, form));
                prop_assert_eq!(ends.fenced, fenced);
            }
            let quoted = [&escaped, b"\"".as_slice(), after.as_bytes()].concat();
            let expected = (LineIndex::build(&escaped, Form::Escaped), escaped.len());
            prop_assert_eq!(LineIndex::build_to_quote(&quoted), Some(expected));
            prop_assert_eq!(LineIndex::build_to_quote(&escaped), None);
        }
    }
}
