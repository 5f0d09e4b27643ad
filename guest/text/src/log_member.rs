//! Members of JSON objects in the lines of logs.

use super::log_time::run;

/// A member of a JSON object.
pub(super) struct Member<'l> {
    pub(super) name: &'l [u8],
    /// The raw value. Empty for objects and lists, whose members follow.
    pub(super) value: &'l [u8],
    /// The byte offset of the value.
    pub(super) at: usize,
    /// The number of brackets around the member.
    pub(super) depth: usize,
}

/// Iterates over the members of a JSON object and of its inner objects. Tolerates faults, and
/// objects without an end. O(object).
pub(super) struct Members<'l> {
    text: &'l [u8],
    at: usize,
    depth: usize,
}

impl<'l> Members<'l> {
    pub(super) fn new(text: &'l [u8]) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Returns the offset after the string that begins at the quote `at`.
    pub(super) fn string_end(&self, at: usize) -> usize {
        let mut end = at + 1;
        loop {
            let rest = self.text.get(end..).unwrap_or_default();
            let Some(stop) = memchr::memchr2(b'"', b'\\', rest) else { return self.text.len() };
            if rest.get(stop) == Some(&b'"') {
                return end + stop + 1;
            }
            end += stop + 2;
        }
    }

    fn after_spaces(&self, at: usize) -> usize {
        at + run(self.text, at, |byte| *byte == b' ')
    }

    /// Returns the raw scalar at `at`. Empty for objects and lists.
    fn value(&self, at: usize) -> &'l [u8] {
        let end = match self.text.get(at) {
            Some(b'"') => self.string_end(at),
            Some(b'{' | b'[') => at,
            _ => at + run(self.text, at, |byte| !b",}] ".contains(byte)),
        };
        self.text.get(at..end.min(self.text.len())).unwrap_or_default()
    }
}

impl<'l> Iterator for Members<'l> {
    type Item = Member<'l>;

    fn next(&mut self) -> Option<Member<'l>> {
        loop {
            let at = self.at;
            match self.text.get(at)? {
                b'"' => {
                    let end = self.string_end(at);
                    self.at = end;
                    let colon = self.after_spaces(end);
                    if self.text.get(colon) != Some(&b':') {
                        continue;
                    }
                    let start = self.after_spaces(colon + 1);
                    let value = self.value(start);
                    self.at = start + value.len();
                    let name = self.text.get(at + 1..end.saturating_sub(1)).unwrap_or_default();
                    return Some(Member { name, value, at: start, depth: self.depth });
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return None;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }
}

/// Returns true if a line begins with an object that has members.
pub(super) fn is_object(line: &[u8]) -> bool {
    line.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\""))
}

/// Returns a value without its quotes.
pub(super) fn unquoted(value: &[u8]) -> &[u8] {
    let Some(inner) = value.strip_prefix(b"\"") else { return value };
    inner.strip_suffix(b"\"").unwrap_or(inner)
}
