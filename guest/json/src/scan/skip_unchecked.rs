//! Skipping of values by brackets and quotes alone, 64 bytes per step.
//!
//! Skipping checks only that brackets are balanced. An invalid value reaches the client unchanged,
//! as it would without the guard.

use super::{Kind, MAX_DEPTH, Scan, ScanError, Scanner};
use crate::Span;
use crate::blocks::{
    BLOCK_BYTES, BackslashCarry, ByteBlock, EscapeState, bit_positions, count_backslashes_before,
    inside_mask,
};
use crate::text::{Form, hex};

impl Scanner<'_> {
    /// Skips a value and returns its span, without validation. O(n), about 5 GB/s on long values.
    ///
    /// # Errors
    /// Fails if no value follows or it does not end.
    pub fn skip_unchecked(&mut self) -> Scan<Span> {
        let kind = self.kind()?;
        let start = self.at;
        match (kind, self.form) {
            (Kind::Object | Kind::Array, Form::Raw) => self.brackets::<RawQuotes>()?,
            (Kind::Object | Kind::Array, Form::Escaped) => self.brackets::<EscapedQuotes>()?,
            (Kind::String, _) => self.string().map(drop)?,
            (Kind::Scalar, _) => self.scalar().map(drop)?,
        }
        Ok(start..self.at)
    }

    /// Skips the object or array at the current position, up to and including its closing bracket,
    /// without validation.
    #[inline(never)]
    fn brackets<Q: Quotes>(&mut self) -> Scan<()> {
        let mut quotes = Q::default();
        let (mut base, mut inside, mut depth) = (self.at, 0, 0);
        while base < self.bytes.len() {
            let block = ByteBlock::load(self.bytes, base);
            if let Some(end) = bit_positions(quotes.unescaped(block)).next() {
                // An unescaped quote ends the string that contains this document.
                self.bytes = self.bytes.get(..base + end).unwrap_or_default();
                continue;
            }
            let quotes = quotes.next(self, block, base)?;
            // The block is inside a long string.
            if quotes == 0 && inside != 0 {
                base += BLOCK_BYTES;
                continue;
            }
            let strings = inside_mask(quotes) ^ inside;
            inside = if strings >> 63 == 1 { u64::MAX } else { 0 };
            let (open, close) = block.brackets();
            let (open, close) = (open & !strings, close & !strings);
            let (opened, closed) = (open.count_ones() as usize, close.count_ones() as usize);
            // The outermost bracket can close in this block only if it closes at least `depth`
            // brackets.
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

    /// Advances from inside a raw string to its closing quote. Returns false if there is none.
    pub(super) fn find_closing_quote(&mut self) -> bool {
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

/// Finds the quotes that delimit strings in a document, in consecutive blocks of 64 bytes.
trait Quotes: Default {
    /// Returns a bit set of the unescaped quotes in the next block, each of which ends the string
    /// around an escaped document. Empty for raw JSON.
    fn unescaped(&self, block: ByteBlock) -> u64;
    /// Returns a bit set of the quotes that delimit strings in the block at offset `base`. Then
    /// advances to the next block.
    fn next(&mut self, scanner: &Scanner<'_>, block: ByteBlock, base: usize) -> Scan<u64>;
}

/// Finds the quotes that delimit strings in raw JSON.
#[derive(Default)]
struct RawQuotes(EscapeState);

impl Quotes for RawQuotes {
    #[inline(always)]
    fn unescaped(&self, _: ByteBlock) -> u64 {
        0
    }

    #[inline(always)]
    fn next(&mut self, _: &Scanner<'_>, block: ByteBlock, _: usize) -> Scan<u64> {
        Ok(block.positions_of(b'"') & !self.0.next(block.positions_of(b'\\')))
    }
}

/// Finds the quotes that delimit strings in JSON that is escaped inside a JSON string.
#[derive(Default)]
struct EscapedQuotes(BackslashCarry);

impl Quotes for EscapedQuotes {
    #[inline(always)]
    fn unescaped(&self, block: ByteBlock) -> u64 {
        block.positions_of(b'"') & !self.0.before(block.positions_of(b'\\'))
    }

    #[inline(always)]
    fn next(&mut self, scanner: &Scanner<'_>, block: ByteBlock, base: usize) -> Scan<u64> {
        let (quotes, slashes) = (block.positions_of(b'"'), block.positions_of(b'\\'));
        let (after, second) = self.0.next(slashes);
        let letters = after & !quotes & !slashes;
        // Most of them are `\n`; only unicode escapes need a closer look.
        if letters != 0 {
            let units = letters & block.positions_of(b'u');
            if units != 0 {
                reject_escaped_syntax(scanner, units, base)?;
            }
        }
        // In escaped text a backslash precedes every quote. A second backslash before it may make
        // the quote part of a string.
        let found = quotes & after;
        let doubtful = found & second;
        Ok(if doubtful == 0 { found } else { found & !quotes_in_strings(scanner, doubtful, base)? })
    }
}

/// Returns the bits of `quotes` whose quotes are content of a string, not delimiters. Each has two
/// or more backslashes before it. Escaping twice turns `"` into `\\\"`. If the number of
/// backslashes modulo 4 is 3, the quote is content; if 1, it is a delimiter. An even number ends
/// the containing string inside an inner string, which is an error.
#[inline(never)]
fn quotes_in_strings(scanner: &Scanner<'_>, quotes: u64, base: usize) -> Scan<u64> {
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

/// Returns an error if a unicode escape in the block at `base` encodes a quote, a backslash or a
/// control character. `units` are the positions of `u` after a backslash. No common serializer
/// writes such escapes, and a scan without decoding would misread them.
#[inline(never)]
fn reject_escaped_syntax(scanner: &Scanner<'_>, units: u64, base: usize) -> Scan<()> {
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
