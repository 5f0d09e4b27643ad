//! Passing a string: most are short and without escapes, and their end is found at a glance.

use super::{Form, Scan, Scanner, Span};
use crate::blocks;
use crate::json::text;

impl Scanner<'_> {
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
        let stop = match self.form {
            Form::Raw => b'"',
            Form::Escaped => b'\\',
        };
        let Some(place) = blocks::first_of(part, stop, b'\\') else { return false };
        let ends = rest.get(place + self.form.quote() - 1) == Some(&b'"');
        self.at += if ends { place } else { 0 };
        ends
    }

    /// Moves from inside of a string to the quote that ends it; false, where it stands then, if none does.
    #[inline(never)]
    fn reach_quote(&mut self) -> bool {
        match self.form {
            Form::Raw => {
                self.at += blocks::until(self.bytes, self.at, b'"', b'\\');
                self.bytes.get(self.at) == Some(&b'"') || self.quote()
            }
            Form::Escaped => self.reach_escaped_quote(),
        }
    }

    /// Everything that matters inside an escaped string begins with a backslash: `\"` ends it, `\\` begins an escape of its own.
    #[inline]
    fn reach_escaped_quote(&mut self) -> bool {
        loop {
            self.at += blocks::until(self.bytes, self.at, b'\\', b'\\');
            match self.bytes.get(self.at + 1) {
                Some(b'"') => return true,
                Some(b'\\') => {
                    self.at += 2;
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
