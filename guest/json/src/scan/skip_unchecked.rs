//! Passing a value without reading it: by its brackets and quotes alone, 64 bytes a step.
//!
//! What stands inside is not looked at: that as many brackets close as open is all that is known of it. So a value that is broken inside is passed as it is, and
//! reaches a client as it would have without the guard.

use super::{Kind, MAX_DEPTH, Scan, ScanError, Scanner};
use crate::Span;
use crate::blocks::{
    BLOCK_BYTES, BackslashCarry, ByteBlock, EscapeState, bit_positions, count_backslashes_before,
    inside_mask,
};
use crate::text::{Form, hex};

impl Scanner<'_> {
    /// Passes one value and gives its span. O(n), some 5 GB/s on long values.
    ///
    /// # Errors
    /// Where none comes, or it does not end.
    pub fn skip_unchecked(&mut self) -> Scan<Span> {
        let kind = self.kind()?;
        let start = self.at;
        match (kind, self.form) {
            (Kind::Object | Kind::Array, Form::Raw) => self.brackets::<Plain>()?,
            (Kind::Object | Kind::Array, Form::Escaped) => self.brackets::<Escaped>()?,
            (Kind::String, _) => self.string().map(drop)?,
            (Kind::Scalar, _) => self.scalar().map(drop)?,
        }
        Ok(start..self.at)
    }

    /// Passes what stands inside_mask a bracket, which comes next, and its counterpart: where as many have closed as have opened.
    #[inline(never)]
    fn brackets<Q: Quotes>(&mut self) -> Scan<()> {
        let mut quotes = Q::default();
        let (mut base, mut inside, mut depth) = (self.at, 0, 0);
        while base < self.bytes.len() {
            let block = ByteBlock::load(self.bytes, base);
            if let Some(end) = bit_positions(quotes.bare(block)).next() {
                // What is escaped ends here.
                self.bytes = self.bytes.get(..base + end).unwrap_or_default();
                continue;
            }
            let quotes = quotes.next(self, block, base)?;
            // In the middle of a long string.
            if quotes == 0 && inside != 0 {
                base += BLOCK_BYTES;
                continue;
            }
            let strings = inside_mask(quotes) ^ inside;
            inside = if strings >> 63 == 1 { u64::MAX } else { 0 };
            let (open, close) = block.brackets();
            let (open, close) = (open & !strings, close & !strings);
            let (opened, closed) = (open.count_ones() as usize, close.count_ones() as usize);
            // Only here may the last of them close.
            if closed >= depth {
                let mut depth = depth;
                for place in bit_positions(open | close) {
                    depth = if open >> place & 1 == 1 { depth + 1 } else { depth - 1 };
                    if depth == 0 {
                        self.at = base + place + 1;
                        return Ok(());
                    }
                }
            }
            depth = depth + opened - closed;
            if depth > MAX_DEPTH {
                return Err(ScanError::TooDeep);
            }
            base += BLOCK_BYTES;
        }
        self.error()
    }

    /// Moves to the quote that ends a string which is not escaped once more, from inside of it; false where none does.
    pub(super) fn quote(&mut self) -> bool {
        let mut escapes = EscapeState::default();
        let mut base = self.at;
        while base < self.bytes.len() {
            let block = ByteBlock::load(self.bytes, base);
            let found = block.positions_of(b'"') & !escapes.next(block.positions_of(b'\\'));
            if let Some(place) = bit_positions(found).next() {
                self.at = base + place;
                return true;
            }
            base += BLOCK_BYTES;
        }
        false
    }
}

/// Finds the quotes that begin and end strings, block after block.
trait Quotes: Default {
    /// Those of the next block that end all that is escaped, being so themselves.
    fn bare(&self, block: ByteBlock) -> u64;
    /// Those of the block that begins at `base`.
    fn next(&mut self, scanner: &Scanner<'_>, block: ByteBlock, base: usize) -> Scan<u64>;
}

/// Those of JSON as it is.
#[derive(Default)]
struct Plain(EscapeState);

impl Quotes for Plain {
    #[inline(always)]
    fn bare(&self, _: ByteBlock) -> u64 {
        0
    }

    #[inline(always)]
    fn next(&mut self, _: &Scanner<'_>, block: ByteBlock, _: usize) -> Scan<u64> {
        Ok(block.positions_of(b'"') & !self.0.next(block.positions_of(b'\\')))
    }
}

/// Those of JSON inside a JSON string.
#[derive(Default)]
struct Escaped(BackslashCarry);

impl Quotes for Escaped {
    #[inline(always)]
    fn bare(&self, block: ByteBlock) -> u64 {
        block.positions_of(b'"') & !self.0.before(block.positions_of(b'\\'))
    }

    #[inline(always)]
    fn next(&mut self, scanner: &Scanner<'_>, block: ByteBlock, base: usize) -> Scan<u64> {
        let (quotes, slashes) = (block.positions_of(b'"'), block.positions_of(b'\\'));
        let (after, second) = self.0.next(slashes);
        let letters = after & !quotes & !slashes;
        // Most are ends of lines.
        if letters != 0 {
            let units = letters & block.positions_of(b'u');
            if units != 0 {
                spelt_in_digits(scanner, units, base)?;
            }
        }
        // In escaped text every quote has a backslash before it. Where another stands before that, it may be a character of a string.
        let found = quotes & after;
        let doubtful = found & second;
        Ok(if doubtful == 0 { found } else { found & !inner(scanner, doubtful, base)? })
    }
}

/// Of these quotes, which have two backslashes before them or more, those that are characters of a string. One with an even number of them ends all that is escaped, inside a string.
#[inline(never)]
fn inner(scanner: &Scanner<'_>, quotes: u64, base: usize) -> Scan<u64> {
    let mut inner = 0;
    for place in bit_positions(quotes) {
        match count_backslashes_before(scanner.bytes, scanner.at, base + place) % 4 {
            3 => inner |= 1 << place,
            1 => {}
            _ => return Err(ScanError::Syntax(base + place)),
        }
    }
    Ok(inner)
}

/// Whether among these, each a `u` with a backslash before it, is one of a quote, backslash or control character that is spelt in digits: too strange to be read in place.
#[inline(never)]
fn spelt_in_digits(scanner: &Scanner<'_>, units: u64, base: usize) -> Scan<()> {
    for at in bit_positions(units).map(|place| base + place) {
        if count_backslashes_before(scanner.bytes, scanner.at, at).is_multiple_of(2) {
            continue;
        }
        if let Some(0x22 | 0x5C | 0..0x20) | None = hex(scanner.bytes, at + 1) {
            return Err(ScanError::Syntax(at));
        }
    }
    Ok(())
}
