//! Lines of a text in either form, terminators included: put together they are the text.

use std::borrow::Cow;

use crate::blocks::{BLOCK, Block, Slashes, places, slashes_before};
use crate::json::Span;
use crate::json::text::{Form, visible};

/// Where each line of a text ends, after its terminator; the last may have none. O(n), 64 bytes a step.
fn ends(bytes: &[u8], form: Form) -> Vec<usize> {
    let mut ends = match form {
        Form::Raw => found(bytes, |block, _| block.is(b'\n')),
        Form::Escaped => {
            let mut before = Slashes::default();
            found(bytes, move |block, base| {
                let (after, second) = before.next(block.is(b'\\'));
                let found = block.is(b'n') & after;
                if found & second == 0 {
                    found
                } else {
                    found & !plain(bytes, found & second, base)
                }
            })
        }
    };
    if ends.last().copied().unwrap_or(0) < bytes.len() {
        ends.push(bytes.len());
    }
    ends
}

/// Of these letters, which have two backslashes before them or more, those that stand for themselves.
#[inline(never)]
fn plain(bytes: &[u8], letters: u64, base: usize) -> u64 {
    let is_plain = |place: &usize| slashes_before(bytes, 0, base + place).is_multiple_of(2);
    places(letters).filter(is_plain).fold(0, |set, place| set | 1 << place)
}

/// The places right after those that `test` finds in each block, which begins at such a byte.
#[inline(always)]
fn found(bytes: &[u8], mut test: impl FnMut(Block, usize) -> u64) -> Vec<usize> {
    let mut found = Vec::with_capacity(bytes.len() / 64);
    for base in (0..bytes.len()).step_by(BLOCK) {
        let here = test(Block::at(bytes, base), base);
        found.extend(places(here).map(|place| base + place + 1));
    }
    found
}

/// A text and where its lines end: they are read as they are needed.
pub struct Lined<'t> {
    bytes: &'t [u8],
    form: Form,
    ends: Vec<usize>,
}

impl<'t> Lined<'t> {
    /// Finds the lines of a text. O(n), 64 bytes a step.
    #[must_use]
    pub fn of(bytes: &'t [u8], form: Form) -> Self {
        Self { bytes, form, ends: ends(bytes, form) }
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
        &self.ends
    }

    /// How many lines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A line as it stands, terminator included; empty beyond the last.
    #[must_use]
    pub fn raw(&self, at: usize) -> &'t [u8] {
        let Some(end) = self.ends.get(at) else { return &[] };
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).unwrap_or(&0);
        self.bytes.get(*start..*end).unwrap_or_default()
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
pub struct Lines<'a> {
    bytes: &'a [u8],
    form: Form,
    at: usize,
}

impl<'a> Lines<'a> {
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

impl Iterator for Lines<'_> {
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
            Lines::new(bytes.as_bytes(), form)
                .map(|line| bytes.get(line).unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(read("a\n\nb", Form::Raw), ["a\n", "\n", "b"]);
        assert_eq!(read(r"a\n\\n\nb\", Form::Escaped), [r"a\n", r"\\n\n", r"b\"]);
        assert_eq!(read("", Form::Raw), [""; 0]);
    }

    #[test]
    fn ends_are_those_of_the_lines() {
        let text = "a\n\nb\\n\\\n\\\\\n and more \\\\n\n".repeat(70) + "\\\\\nend";
        let mut escaped = Vec::new();
        crate::json::text::escape(&mut escaped, text.as_bytes());
        for (bytes, form) in [(text.as_bytes(), Form::Raw), (&escaped, Form::Escaped)] {
            let walked: Vec<usize> = Lines::new(bytes, form).map(|line| line.end).collect();
            assert_eq!(ends(bytes, form), walked);
        }
    }
}
