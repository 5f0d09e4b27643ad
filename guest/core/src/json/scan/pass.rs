//! Passing a value without reading it: by its brackets and quotes alone, 64 bytes a step.
//!
//! What stands inside is not looked at: that as many brackets close as open is all that is known of it. So a value that is broken inside is passed as it is, and
//! reaches a client as it would have without the guard.

use super::{Kind, MAX_DEPTH, Scan, ScanError, Scanner};
use crate::blocks::{BLOCK, Block, Escapes, between, places};
use crate::json::Span;
use crate::json::text::{Form, hex};

impl Scanner<'_> {
    /// Passes one value and gives its span. O(n), some 5 GB/s on long values.
    ///
    /// # Errors
    /// Where none comes, or it does not end.
    pub fn pass(&mut self) -> Scan<Span> {
        match self.kind()? {
            Kind::Object | Kind::Array => {
                let start = self.at;
                self.brackets()?;
                Ok(start..self.at)
            }
            _ => self.skip(),
        }
    }

    /// Passes what stands between a bracket, which comes next, and its counterpart: where as many have closed as have opened.
    fn brackets(&mut self) -> Scan<()> {
        let mut quotes = Quotes::new(self.form);
        let (mut base, mut inside, mut depth) = (self.at, 0, 0);
        while base < self.bytes.len() {
            let block = Block::at(self.bytes, base);
            let strings = between(quotes.next(self, block, base)?) ^ inside;
            inside = if strings >> 63 == 1 { u64::MAX } else { 0 };
            let (open, close) = block.brackets();
            let (open, close) = (open & !strings, close & !strings);
            let (opened, closed) = (open.count_ones() as usize, close.count_ones() as usize);
            // Only here may the last of them close.
            if closed >= depth {
                let mut depth = depth;
                for place in places(open | close) {
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
            base += BLOCK;
        }
        self.error()
    }

    /// Moves to the quote that ends a string which is not escaped once more, from inside of it; false where none does.
    pub(super) fn quote(&mut self) -> bool {
        let mut escapes = Escapes::default();
        let mut base = self.at;
        while base < self.bytes.len() {
            let block = Block::at(self.bytes, base);
            let found = block.is(b'"') & !escapes.next(block.is(b'\\'));
            if let Some(place) = places(found).next() {
                self.at = base + place;
                return true;
            }
            base += BLOCK;
        }
        false
    }
}

/// Finds the quotes that begin and end strings, block after block.
struct Quotes {
    form: Form,
    escapes: Escapes,
    /// Which of the two bytes before the block are backslashes, the nearer one being bit 1.
    slashes: u64,
}

impl Quotes {
    fn new(form: Form) -> Self {
        Self { form, escapes: Escapes::default(), slashes: 0 }
    }

    #[inline]
    fn next(&mut self, scanner: &Scanner<'_>, block: Block, base: usize) -> Scan<u64> {
        let (quotes, slashes) = (block.is(b'"'), block.is(b'\\'));
        if self.form == Form::Raw {
            return Ok(quotes & !self.escapes.next(slashes));
        }
        let after = slashes << 1 | self.slashes >> 1;
        let second = slashes << 2 | self.slashes;
        self.slashes = slashes >> 62;
        for place in places(after & !quotes & !slashes) {
            if scanner.bytes.get(base + place) == Some(&b'u') {
                digits(scanner, base + place)?;
            }
        }
        // In escaped text every quote has a backslash before it. Where another stands before that, it may be a character of a string.
        let mut found = quotes & after;
        for place in places(found & second) {
            if slashes_before(scanner, base + place) % 4 == 3 {
                found &= !(1 << place);
            }
        }
        Ok(found)
    }
}

/// Backslashes right before a place, none of them before the place where the scanner stands.
fn slashes_before(scanner: &Scanner<'_>, at: usize) -> usize {
    let before = scanner.bytes.get(scanner.at..at).unwrap_or_default();
    before.iter().rev().take_while(|byte| **byte == b'\\').count()
}

/// A quote, backslash or control character of escaped text that is spelt in digits, its `u` at this place: too strange to be read in place.
fn digits(scanner: &Scanner<'_>, at: usize) -> Scan<()> {
    if slashes_before(scanner, at).is_multiple_of(2) {
        return Ok(());
    }
    match hex(scanner.bytes, at + 1) {
        Some(0x22 | 0x5C | 0..0x20) | None => Err(ScanError::Syntax(at)),
        Some(_) => Ok(()),
    }
}
