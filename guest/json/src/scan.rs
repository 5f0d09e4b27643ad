//! The span scanner: a validating pull parser that returns spans of the original buffer.
//!
//! The scanner also reads JSON that is escaped inside a JSON string, where a quote is `\"` and a
//! line break is `\n`. It skips strings without decoding them.

mod kind;
mod open_containers;
mod scalar;
mod skip_unchecked;
mod string;
mod traversal;

use thiserror::Error;

pub use kind::Kind;

use super::Span;
use super::text::{self, Form};
use crate::blocks;

/// The maximum depth of nested objects and arrays; deeper documents are rejected.
pub const MAX_DEPTH: usize = 10_000;

/// An error of the scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScanError {
    /// A syntax error at this byte offset of the buffer.
    #[error("not JSON at byte {0}")]
    Syntax(usize),
    /// Nesting deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// A reader at a position in a JSON document. Most methods read the next value and advance past it.
#[derive(Clone)]
pub struct Scanner<'a> {
    bytes: &'a [u8],
    form: Form,
    at: usize,
}

/// The result of a method of [`Scanner`].
pub type Scan<T> = Result<T, ScanError>;

impl<'a> Scanner<'a> {
    /// Creates a scanner at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8], form: Form) -> Self {
        Self::starting_at(bytes, form, 0)
    }

    /// Creates a scanner at a value or separator inside `bytes`.
    #[must_use]
    pub fn starting_at(bytes: &'a [u8], form: Form, at: usize) -> Self {
        Self { bytes, form, at }
    }

    /// Returns the offset in the buffer of the next byte to read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the next decoded byte and the number of bytes that it has in the buffer, or `(0, 0)`
    /// at the end.
    #[inline]
    fn peek(&self) -> (u8, usize) {
        match self.bytes.get(self.at) {
            Some(b'\\') if self.form == Form::Escaped => {
                match text::simple(self.bytes.get(self.at + 1)) {
                    // Not white space or punctuation of JSON: no such byte may occur between
                    // values.
                    0 | 8 | 12 => (0, 1),
                    byte => (byte, 2),
                }
            }
            Some(byte) => (*byte, 1),
            None => (0, 0),
        }
    }

    fn error<T>(&self) -> Scan<T> {
        Err(ScanError::Syntax(self.at))
    }

    /// Skips white space.
    #[inline]
    pub fn skip_whitespace(&mut self) {
        // Compact JSON has none, so this check decides nearly always.
        if matches!(self.bytes.get(self.at), Some(byte) if *byte > b' ' && *byte != b'\\') {
            return;
        }
        while let (b' ' | b'\n' | b'\t' | b'\r', length) = self.peek() {
            self.at += length;
        }
    }

    /// Skips white space, and returns the kind of the next value.
    ///
    /// # Errors
    /// Fails if no value follows.
    #[inline]
    pub fn kind(&mut self) -> Scan<Kind> {
        match self.kind_here().or_else(|| self.kind_after_space()) {
            Some(kind) => Ok(kind),
            None => self.error(),
        }
    }

    #[inline(never)]
    fn kind_after_space(&mut self) -> Option<Kind> {
        self.skip_whitespace();
        self.kind_here()
    }

    /// Returns the kind of the value at the current position. `None` if no value begins there.
    #[inline]
    fn kind_here(&self) -> Option<Kind> {
        match *self.bytes.get(self.at)? {
            b'\\' if self.form == Form::Escaped => self.is_quote().then_some(Kind::String),
            byte => Kind::starting_with(byte),
        }
    }

    /// Skips white space and the byte `byte`. Returns false if another byte follows. `byte` must
    /// have the same form in raw and escaped JSON.
    #[inline]
    fn consume(&mut self, byte: u8) -> bool {
        if self.bytes.get(self.at) != Some(&byte) {
            self.skip_whitespace();
            if self.bytes.get(self.at) != Some(&byte) {
                return false;
            }
        }
        self.at += 1;
        true
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Scan<()> {
        if self.consume(byte) { Ok(()) } else { self.error() }
    }

    /// Checks that only white space follows in the buffer.
    ///
    /// # Errors
    /// Fails if anything else follows.
    pub fn end(&mut self) -> Scan<()> {
        self.skip_whitespace();
        if self.at == self.bytes.len() { Ok(()) } else { self.error() }
    }

    /// Skips white space, and returns the next decoded byte, or 0 at the end.
    #[inline]
    pub(super) fn next_byte(&mut self) -> u8 {
        self.skip_whitespace();
        self.peek().0
    }

    /// Skips `bytes` if they are next in the buffer. Returns false otherwise.
    #[inline]
    pub fn consume_bytes(&mut self, bytes: &[u8]) -> bool {
        let here = self.bytes.get(self.at..self.at + bytes.len());
        let meets = here.is_some_and(|here| blocks::equal_bytes(here, bytes));
        self.at += if meets { bytes.len() } else { 0 };
        meets
    }

    /// Advances to the offset `at`, which must be the end of a value. Does nothing if `at` is
    /// before the current position.
    pub fn advance_to(&mut self, at: usize) {
        self.at = at.max(self.at);
    }

    /// Skips one decoded byte, which may be an escape of several bytes in the buffer.
    #[inline]
    pub(super) fn step(&mut self) {
        self.at += self.peek().1;
    }

    /// Returns the content of the string at `span` as raw JSON: without quotes, but with its
    /// escapes.
    pub(super) fn inner(&self, span: &Span) -> std::borrow::Cow<'a, [u8]> {
        text::visible(self.bytes(span), self.form)
    }

    /// Returns the bytes of the buffer at `span`, or an empty slice if it is out of bounds.
    #[must_use]
    pub fn bytes(&self, span: &Span) -> &'a [u8] {
        self.bytes.get(span.clone()).unwrap_or_default()
    }

    /// Returns true if the key at `span` decodes to `name`.
    #[inline(always)]
    #[must_use]
    pub fn is_key(&self, span: &Span, name: &str) -> bool {
        if text::is_plain(self.bytes, span) {
            blocks::equal_bytes(self.bytes(span), name.as_bytes())
        } else {
            self.is_escaped_key(span, name)
        }
    }

    #[inline(never)]
    fn is_escaped_key(&self, span: &Span, name: &str) -> bool {
        *text::string(self.bytes(span), self.form) == *name.as_bytes()
    }

    /// Decodes the string at `span`, which excludes the quotes; invalid UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn decode(&self, span: &Span) -> String {
        String::from_utf8_lossy(&text::string(self.bytes(span), self.form)).into_owned()
    }
}

/// Returns true if `bytes` is one valid JSON value.
#[must_use]
pub fn is_json(bytes: &[u8], form: Form) -> bool {
    let mut scanner = Scanner::new(bytes, form);
    scanner.skip_value().and_then(|_| scanner.end()).is_ok()
}

#[cfg(test)]
mod tests;
