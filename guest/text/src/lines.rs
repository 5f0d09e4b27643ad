//! Lines of a text, including their terminators.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::boundary::Ranker;
use super::line_index::LineIndex;
use context_guard_json::Span;
use context_guard_json::text::{Form, prefix, visible};

/// The maximum number of bytes of a line that [`IndexedText::start`] decodes.
const START_BYTES: usize = 1024;

/// A text with its line index.
pub struct IndexedText<'t> {
    bytes: &'t [u8],
    form: Form,
    ends: Cow<'t, LineIndex>,
    ranker: OnceCell<Ranker>,
}

impl<'t> IndexedText<'t> {
    /// Indexes a text. O(n), 64 bytes per step.
    #[must_use]
    pub fn new(bytes: &'t [u8], form: Form) -> Self {
        let ends = Cow::Owned(LineIndex::build(bytes, form));
        Self { bytes, form, ends, ranker: OnceCell::new() }
    }

    /// Combines a text with its existing line index `ends`.
    #[must_use]
    pub fn with_index(bytes: &'t [u8], form: Form, ends: &'t LineIndex) -> Self {
        Self { bytes, form, ends: Cow::Borrowed(ends), ranker: OnceCell::new() }
    }

    /// Returns the bytes of the text in the buffer, which may be escaped.
    #[must_use]
    pub fn bytes(&self) -> &'t [u8] {
        self.bytes
    }

    /// Returns the form of the text: raw, or escaped inside a JSON string.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns, for each line, the offset after its terminator.
    #[must_use]
    pub fn ends(&self) -> &[usize] {
        self.ends.lines()
    }

    /// Returns true if the text contains a code fence: three backticks or tildes in a row.
    #[must_use]
    pub fn fenced(&self) -> bool {
        self.ends.fenced()
    }

    /// Returns a ranker for the boundaries between the lines, which is at the start of the text.
    /// The first call detects from the leading lines whether the text is a log.
    #[must_use]
    pub fn ranker(&self) -> Ranker {
        let lines = || (0..self.len()).map(|line| self.raw(line));
        *self.ranker.get_or_init(|| Ranker::new(lines(), self.form))
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends().len()
    }

    /// Returns true if there are no lines.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends().is_empty()
    }

    /// Returns line `at`, counted from 0, verbatim with its terminator. Empty beyond the last line.
    #[must_use]
    pub fn raw(&self, at: usize) -> &'t [u8] {
        let ends = self.ends();
        let Some(end) = ends.get(at) else { return &[] };
        let start = at.checked_sub(1).and_then(|before| ends.get(before)).unwrap_or(&0);
        self.bytes.get(*start..*end).unwrap_or_default()
    }

    /// Decodes the beginning of line `at`, counted from 0, or the whole line without its
    /// terminator. O(1).
    #[must_use]
    pub fn start(&self, at: usize) -> Cow<'t, [u8]> {
        self.start_within(at, START_BYTES)
    }

    /// Decodes the first `max_bytes` of line `at`, counted from 0, or the whole line without its
    /// terminator. O(`max_bytes`).
    #[must_use]
    pub fn start_within(&self, at: usize, max_bytes: usize) -> Cow<'t, [u8]> {
        trimmed(prefix(self.raw(at), max_bytes, self.form))
    }

    /// Decodes line `at`, counted from 0, without its terminator. O(line).
    #[must_use]
    pub fn line(&self, at: usize) -> Cow<'t, [u8]> {
        trimmed(visible(self.raw(at), self.form))
    }

    /// Iterates over the decoded lines, without terminators.
    pub fn lines(&self) -> impl Iterator<Item = Cow<'t, [u8]>> {
        (0..self.len()).map(|at| self.line(at))
    }
}

fn trimmed(line: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match line {
        Cow::Borrowed(line) => Cow::Borrowed(without_end(line)),
        Cow::Owned(mut line) => {
            line.truncate(without_end(&line).len());
            Cow::Owned(line)
        }
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// An iterator over the spans of a text's lines, including terminators.
pub struct LineSpans<'a> {
    bytes: &'a [u8],
    form: Form,
    at: usize,
}

impl<'a> LineSpans<'a> {
    /// Creates an iterator over the lines of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8], form: Form) -> Self {
        Self { bytes, form, at: 0 }
    }

    /// Returns the offset after the current line and its terminator.
    fn end(&self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if self.form == Form::Raw {
            return memchr::memchr(b'\n', rest).map_or(self.bytes.len(), |at| self.at + at + 1);
        }
        let mut at = self.at;
        while let Some(stop) = self.bytes.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
            // Skips the escaped character too: the second backslash of a pair begins no escape.
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
