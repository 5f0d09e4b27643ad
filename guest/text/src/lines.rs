//! Lines of a text in either form, terminators included: put together they are the text.

use std::borrow::Cow;

use super::line_index::LineIndex;
use context_guard_json::Span;
use context_guard_json::text::{Form, prefix, visible};

/// Bytes of the beginning of a line that are looked at: an escape is at most six.
const HEAD: usize = 96;

/// A text and where its lines end: they are read as they are needed.
pub struct IndexedText<'t> {
    bytes: &'t [u8],
    form: Form,
    ends: Cow<'t, LineIndex>,
}

impl<'t> IndexedText<'t> {
    /// Finds the lines of a text. O(n), 64 bytes a step.
    #[must_use]
    pub fn new(bytes: &'t [u8], form: Form) -> Self {
        Self { bytes, form, ends: Cow::Owned(LineIndex::build(bytes, form)) }
    }

    /// A text of which it is known where its lines end.
    #[must_use]
    pub fn with_index(bytes: &'t [u8], form: Form, ends: &'t LineIndex) -> Self {
        Self { bytes, form, ends: Cow::Borrowed(ends) }
    }

    /// The text.
    #[must_use]
    pub fn bytes(&self) -> &'t [u8] {
        self.bytes
    }

    /// How it stands.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Where each line ends, after its terminator.
    #[must_use]
    pub fn ends(&self) -> &[usize] {
        self.ends.lines()
    }

    /// Whether code is fenced in somewhere, by three backticks or tildes.
    #[must_use]
    pub fn fenced(&self) -> bool {
        self.ends.fenced()
    }

    /// How many lines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends().is_empty()
    }

    /// A line as it stands, terminator included; empty beyond the last.
    #[must_use]
    pub fn raw(&self, at: usize) -> &'t [u8] {
        let ends = self.ends();
        let Some(end) = ends.get(at) else { return &[] };
        let start = at.checked_sub(1).and_then(|before| ends.get(before)).unwrap_or(&0);
        self.bytes.get(*start..*end).unwrap_or_default()
    }

    /// The beginning of a line as a reader sees it: of 16 characters at least, where it has so many. O(1).
    #[must_use]
    pub fn head(&self, at: usize) -> Cow<'t, [u8]> {
        prefix(self.raw(at), HEAD, self.form)
    }

    /// A line as a reader sees it, without its terminator. O(line).
    #[must_use]
    pub fn line(&self, at: usize) -> Cow<'t, [u8]> {
        match visible(self.raw(at), self.form) {
            Cow::Borrowed(line) => Cow::Borrowed(without_end(line)),
            Cow::Owned(mut line) => {
                line.truncate(without_end(&line).len());
                Cow::Owned(line)
            }
        }
    }

    /// The lines from the first on.
    pub fn lines(&self) -> impl Iterator<Item = Cow<'t, [u8]>> {
        (0..self.len()).map(|at| self.line(at))
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The spans of the lines of a text.
pub struct LineSpans<'a> {
    bytes: &'a [u8],
    form: Form,
    at: usize,
}

impl<'a> LineSpans<'a> {
    /// The lines of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8], form: Form) -> Self {
        Self { bytes, form, at: 0 }
    }

    /// The end of the line that begins at the current place.
    fn end(&self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if self.form == Form::Raw {
            return memchr::memchr(b'\n', rest).map_or(self.bytes.len(), |at| self.at + at + 1);
        }
        let mut at = self.at;
        while let Some(stop) = self.bytes.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
            at += stop + 2;
            if self.bytes.get(at - 1) == Some(&b'n') {
                return at;
            }
        }
        self.bytes.len()
    }
}

impl Iterator for LineSpans<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let start = self.at;
        self.at = self.end().min(self.bytes.len());
        Some(start..self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_forms() {
        let read = |bytes: &str, form| {
            LineSpans::new(bytes.as_bytes(), form)
                .map(|line| bytes.get(line).unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(read("a\n\nb", Form::Raw), ["a\n", "\n", "b"]);
        assert_eq!(read(r"a\n\\n\nb\", Form::Escaped), [r"a\n", r"\\n\n", r"b\"]);
        assert_eq!(read("", Form::Raw), [""; 0]);
    }
}
