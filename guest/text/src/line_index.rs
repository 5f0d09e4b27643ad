//! Where the lines of a text end, told by one pass over it: together with all else that has to be known of every byte of a text.

use context_guard_json::blocks::{
    BLOCK_BYTES, BackslashCarry, ByteBlock, bit_positions, count_backslashes_before,
};
use context_guard_json::text::Form;

/// Lines that room is made for at first, at most.
const MOST_AT_FIRST: usize = 1 << 16;

/// What is known of a text that was passed once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineIndex {
    /// Where each line ends, after its terminator; the last may have none.
    lines: Vec<usize>,
    /// Whether code is fenced in somewhere, by three backticks or tildes.
    fenced: bool,
}

impl LineIndex {
    /// Passes a text. O(n), 64 bytes a step.
    #[must_use]
    pub fn build(bytes: &[u8], form: Form) -> Self {
        match form {
            Form::Raw => pass(bytes, &mut Raw),
            Form::Escaped => pass(bytes, &mut Escaped::<false>::default()),
        }
        .0
    }

    /// Passes the text that stands, escaped, between the quote before `bytes` and its counterpart. Beside it how long it is; none where it does not end. O(n), 64 bytes a step.
    #[must_use]
    pub fn build_to_quote(bytes: &[u8]) -> Option<(Self, usize)> {
        let (ends, end) = pass(bytes, &mut Escaped::<true>::default());
        Some((ends, end?))
    }

    /// Where each line ends.
    #[must_use]
    pub fn lines(&self) -> &[usize] {
        &self.lines
    }

    /// Whether code is fenced in.
    #[must_use]
    pub fn fenced(&self) -> bool {
        self.fenced
    }
}

/// What lines end with, block after block.
trait Breaks {
    /// The last bytes of those in the block that begins at `base`; and where the text ends in it, if it does.
    fn next(&mut self, bytes: &[u8], block: ByteBlock, base: usize) -> (u64, Option<usize>);
}

/// Those of a text as it is.
struct Raw;

impl Breaks for Raw {
    #[inline(always)]
    fn next(&mut self, _: &[u8], block: ByteBlock, _: usize) -> (u64, Option<usize>) {
        (block.positions_of(b'\n'), None)
    }
}

/// Those of an escaped text, which a quote ends where it is `QUOTED`.
#[derive(Default)]
struct Escaped<const QUOTED: bool>(BackslashCarry);

impl<const QUOTED: bool> Breaks for Escaped<QUOTED> {
    #[inline(always)]
    fn next(&mut self, bytes: &[u8], block: ByteBlock, base: usize) -> (u64, Option<usize>) {
        let (after, second) = self.0.next(block.positions_of(b'\\'));
        let (letters, quotes) =
            (block.positions_of(b'n'), if QUOTED { block.positions_of(b'"') } else { 0 });
        let doubtful = (letters | quotes) & after & second;
        let escaped = if doubtful == 0 { after } else { after & !plain(bytes, doubtful, base) };
        let breaks = letters & escaped;
        let Some(end) = bit_positions(quotes & !escaped).next() else { return (breaks, None) };
        (breaks & ((1 << end) - 1), Some(end))
    }
}

/// Of these bytes, which have two backslashes before them or more, those that stand for themselves.
#[inline(never)]
fn plain(bytes: &[u8], doubtful: u64, base: usize) -> u64 {
    let is_plain =
        |place: &usize| count_backslashes_before(bytes, 0, base + place).is_multiple_of(2);
    bit_positions(doubtful).filter(is_plain).fold(0, |set, place| set | 1 << place)
}

/// Passes a text to its end, and tells where that is if something in it does.
#[inline(always)]
fn pass(bytes: &[u8], breaks: &mut impl Breaks) -> (LineIndex, Option<usize>) {
    let mut lines = Vec::with_capacity((bytes.len() / 64).min(MOST_AT_FIRST));
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

/// Whether code is fenced in by marks in the block that begins at `base`, and what stands before it. `end`: where the text ends in it.
#[inline(never)]
fn fence(bytes: &[u8], base: usize, end: Option<usize>) -> bool {
    let text = end.and_then(|end| bytes.get(..base + end)).unwrap_or(bytes);
    // Three of which the first stand in the block before are in one that begins two bytes earlier.
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
        fn ends_are_those_of_the_lines(text in "([ab`~\\\\n\"]{0,80}[`~]{0,4}\n?){0,20}", after in "[\"\\\\n`~a]{0,80}") {
            let mut escaped = Vec::new();
            escape(&mut escaped, text.as_bytes());
            let fenced = text.contains("```") || text.contains("~~~");
            for (bytes, form) in [(text.as_bytes(), Form::Raw), (&escaped, Form::Escaped)] {
                let ends = LineIndex::build(bytes, form);
                prop_assert_eq!(&ends.lines, &walked(bytes, form));
                prop_assert_eq!(ends.fenced, fenced);
            }
            let quoted = [&escaped, b"\"".as_slice(), after.as_bytes()].concat();
            prop_assert_eq!(LineIndex::build_to_quote(&quoted), Some((LineIndex::build(&escaped, Form::Escaped), escaped.len())));
            prop_assert_eq!(LineIndex::build_to_quote(&escaped), None);
        }
    }
}
