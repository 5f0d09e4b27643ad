//! Passing a string: most are short and without escapes, and their end is found at a glance.

use super::{Form, Scan, Scanner, Span};
use crate::blocks;
use crate::text;

impl<'a> Scanner<'a> {
    /// Passes a string and gives the span between its quotes.
    ///
    /// # Errors
    /// Where none comes, or it does not end.
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

    /// Everything after the quote that stands here.
    #[must_use]
    pub fn after_quote(&self) -> &'a [u8] {
        self.bytes.get(self.at + self.form.quote()..).unwrap_or_default()
    }

    /// Passes a string that is not escaped once more, and gives the span between its quotes, and what else is known of it then: `find` tells where in what follows its first quote
    /// the other one stands.
    ///
    /// # Errors
    /// Where none comes, or it does not end.
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

    /// Passes a string that holds a document, as `read` reads that where it stands, escaped; and gives the span between its quotes, and what was read. None, and nothing is
    /// passed, where it holds none: then it is searched for its end as any other. One pass instead of two.
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
        // A quote with no backslash before it is the end of the string, which nothing that is escaped goes beyond.
        if self.bytes.get(inner.at) != Some(&b'"') {
            return None;
        }
        self.at = inner.at + Form::Raw.quote();
        Some((start..inner.at, value))
    }

    /// Whether a quote stands here.
    #[inline]
    pub(super) fn is_quote(&self) -> bool {
        match self.form {
            Form::Raw => self.bytes.get(self.at) == Some(&b'"'),
            Form::Escaped => self.bytes.get(self.at..self.at + 2) == Some(b"\\\""),
        }
    }

    /// Moves to the quote that ends a string without escapes, where that is near, as it is in keys and most values.
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

    /// Moves from inside of a string to the quote that ends it; false, where it stands then, if none does.
    #[inline(never)]
    fn reach_quote(&mut self) -> bool {
        match self.form {
            Form::Raw => {
                self.at += blocks::find(self.bytes, self.at, b'"', b'\\');
                self.bytes.get(self.at) == Some(&b'"') || self.quote()
            }
            Form::Escaped => self.reach_escaped_quote(),
        }
    }

    /// Everything that matters inside an escaped string begins with a backslash: `\"` ends it, `\\` begins an escape of its own. A quote without one is the end of all that is escaped.
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
                    // The escaped character: a plain one, or `\"`, `\\`, `\/`.
                    let (_, length) = self.peek();
                    self.at += length;
                }
                Some(b'/') => self.at += 2,
                Some(b'u') => match text::hex(self.bytes, self.at + 2) {
                    // A quote, backslash or control character spelt in digits: too strange to read in place.
                    Some(0x22 | 0x5C | 0..0x20) | None => return false,
                    Some(_) => self.at += 6,
                },
                _ => return false,
            }
        }
    }
}
