//! Scanning of strings. Most strings are short and have no escapes, so that one vector comparison
//! finds their end.

use super::{Form, Scan, Scanner, Span};
use crate::blocks;
use crate::text;

impl<'a> Scanner<'a> {
    /// Skips a string and returns the span between its quotes.
    ///
    /// # Errors
    /// Fails if no string follows or it does not end.
    #[inline]
    pub fn string(&mut self) -> Scan<Span> {
        if !self.is_quote() {
            return self.error();
        }
        let quote = self.form.quote();
        self.at += quote;
        let start = self.at;
        if !self.finds_quote() && !self.reach_quote() {
            return self.error();
        }
        let end = self.at;
        self.at += quote;
        Ok(start..end)
    }

    /// Returns all bytes of the buffer after the quote at the current position.
    #[must_use]
    pub fn after_quote(&self) -> &'a [u8] {
        self.bytes.get(self.at + self.form.quote()..).unwrap_or_default()
    }

    /// Skips a raw string whose end the callback `find` determines. `find` gets the bytes after the
    /// opening quote. It returns a value and the offset of the closing quote, or `None` if there is
    /// none. Returns the span between the quotes, and the value of `find`.
    ///
    /// # Errors
    /// Fails if no string follows or it does not end.
    pub fn string_with<T>(
        &mut self,
        find: impl FnOnce(&[u8]) -> Option<(T, usize)>,
    ) -> Scan<(Span, T)> {
        if self.form != Form::Raw || !self.is_quote() {
            return self.error();
        }
        let Some((known, length)) = find(self.after_quote()) else { return self.error() };
        let start = self.at + Form::Raw.quote();
        self.at = start + length + Form::Raw.quote();
        Ok((start..start + length, known))
    }

    /// Skips a string that contains an escaped JSON document, which the callback `read` parses in
    /// place. Returns the span between the quotes and the result of `read`. Returns `None` without
    /// advancing if `read` fails or other text follows the document.
    pub fn embedded_document<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Scan<T>,
    ) -> Option<(Span, T)> {
        if self.form != Form::Raw || !self.is_quote() {
            return None;
        }
        let start = self.at + Form::Raw.quote();
        let mut inner = Self::starting_at(self.bytes, Form::Escaped, start);
        let value = read(&mut inner).ok()?;
        inner.skip_whitespace();
        // The unescaped quote ends the string.
        if self.bytes.get(inner.at) != Some(&b'"') {
            return None;
        }
        self.at = inner.at + Form::Raw.quote();
        Some((start..inner.at, value))
    }

    /// Returns true if a quote is next, in the form of the document: with a backslash if the
    /// document is escaped.
    #[inline]
    pub(super) fn is_quote(&self) -> bool {
        match self.form {
            Form::Raw => self.bytes.get(self.at) == Some(&b'"'),
            Form::Escaped => self.bytes.get(self.at..self.at + 2) == Some(b"\\\""),
        }
    }

    /// Advances to the closing quote of a raw string if it is within the next 16 bytes, with no
    /// escape before it. Returns false otherwise.
    #[inline]
    fn finds_quote(&mut self) -> bool {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(part) = rest.first_chunk() else { return false };
        let Some(place) = blocks::first_position(part, b'"', b'\\') else { return false };
        let ends = match self.form {
            Form::Raw => rest.get(place) == Some(&b'"'),
            Form::Escaped => rest.get(place..place + 2) == Some(b"\\\""),
        };
        self.at += if ends { place } else { 0 };
        ends
    }

    /// Advances from inside a string, raw or escaped, to its closing quote. Returns false if there
    /// is none.
    #[inline(never)]
    fn reach_quote(&mut self) -> bool {
        match self.form {
            Form::Raw => {
                self.at += blocks::find(self.bytes, self.at, b'"', b'\\');
                self.bytes.get(self.at) == Some(&b'"') || self.find_closing_quote()
            }
            Form::Escaped => self.reach_escaped_quote(),
        }
    }

    /// Advances to the closing quote of a string in an escaped document. There, `\"` closes the
    /// string, `\\` begins an escape in it, and an unescaped quote ends the containing string.
    /// Returns false if nothing closes the string.
    #[inline]
    fn reach_escaped_quote(&mut self) -> bool {
        loop {
            self.at += blocks::find(self.bytes, self.at, b'"', b'\\');
            if self.bytes.get(self.at) == Some(&b'"') {
                return false;
            }
            match self.bytes.get(self.at + 1) {
                Some(b'"') => return true,
                Some(b'\\') => {
                    self.at += 2;
                    if self.bytes.get(self.at) == Some(&b'"') {
                        return false;
                    }
                    // The second half of the inner escape: a plain letter, or `\"`, `\\`, `\/`.
                    let (_, length) = self.peek();
                    self.at += length;
                }
                Some(b'/') => self.at += 2,
                Some(b'u') => match text::hex(self.bytes, self.at + 2) {
                    // A quote, backslash or control character as a unicode escape: no common
                    // serializer writes it, and it cannot be skipped in place.
                    Some(0x22 | 0x5C | 0..0x20) | None => return false,
                    Some(_) => self.at += 6,
                },
                _ => return false,
            }
        }
    }
}
