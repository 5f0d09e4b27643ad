//! Regular expressions with a limit of the bytes that they search.

use std::borrow::Cow;

use regex_lite::{Regex, RegexBuilder};

/// Maximum number of bytes that one query searches.
pub(super) const MAX_SEARCHED_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of bytes that are searched with a pattern of one KiB compiled size; fewer for
/// larger patterns. The engine takes at most about 300 ns per byte and KiB, so that the worst
/// pattern takes about a second.
const SEARCHED_BYTES_PER_PATTERN_KIB: usize = 2 * 1024 * 1024;
/// Maximum size of a compiled pattern, in bytes.
const MAX_COMPILED_PATTERN_BYTES: usize = 64 * 1024;
/// A compiled regular expression, with the limit of a search.
#[derive(Debug)]
pub(super) struct CompiledRegex {
    pub(super) regex: Regex,
    /// Maximum number of bytes that are searched.
    pub(super) max_bytes: usize,
}

impl CompiledRegex {
    /// Compiles a regular expression. `^` and `$` match at each line if `by_line`.
    ///
    /// # Errors
    /// Fails if the expression is invalid or too long.
    pub(super) fn new(
        pattern: &str,
        ignore_case: bool,
        by_line: bool,
    ) -> Result<Self, regex_lite::Error> {
        // The engine does not report the compiled size, which determines the search time. So find
        // the smallest power of two under which the pattern compiles.
        let mut size = 256;
        let pattern = if ignore_case { in_any_case(pattern) } else { Cow::Borrowed(pattern) };
        loop {
            let mut builder = RegexBuilder::new(&pattern);
            builder.case_insensitive(ignore_case).multi_line(by_line);
            match builder.size_limit(size).build() {
                Ok(regex) => {
                    // Small patterns take less time than their size suggests.
                    let factor = if size <= 1_024 { 2 } else { 1 };
                    let max_bytes = (SEARCHED_BYTES_PER_PATTERN_KIB / size * 1_024 * factor)
                        .min(MAX_SEARCHED_BYTES);
                    return Ok(Self { regex, max_bytes });
                }
                Err(error) if size >= MAX_COMPILED_PATTERN_BYTES => return Err(error),
                Err(_) => size *= 2,
            }
        }
    }
}

/// Returns a pattern that matches its letters beyond ASCII in any case, which the engine ignores
/// for ASCII only. Ranges of letters remain as they are. O(pattern).
fn in_any_case(pattern: &str) -> Cow<'_, str> {
    if pattern.is_ascii() {
        return Cow::Borrowed(pattern);
    }
    let (mut out, mut is_escaped, mut in_set, mut last) = (String::new(), false, false, ' ');
    let mut characters = pattern.chars().peekable();
    while let Some(next) = characters.next() {
        let other = next.to_lowercase().chain(next.to_uppercase()).find(|other| *other != next);
        let is_range = in_set && (last == '-' || characters.peek() == Some(&'-'));
        match other.filter(|other| !next.is_ascii() && !other.is_ascii() && !is_range) {
            Some(other) if in_set => out.extend([next, other]),
            Some(other) => out.extend(['[', next, other, ']']),
            None => out.push(next),
        }
        if !is_escaped {
            in_set = (in_set || next == '[') && next != ']';
        }
        is_escaped = next == '\\' && !is_escaped;
        last = next;
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_beyond_ascii_match_in_any_case() {
        for (pattern, expected) in [
            ("k\u{f6}ln", "k[\u{f6}\u{d6}]ln"),
            ("[\u{e4}\u{d6}]", "[\u{e4}\u{c4}\u{d6}\u{f6}]"),
            ("[\u{e4}-\u{f6}]", "[\u{e4}-\u{f6}]"),
            ("\\[\u{df}\u{20ac}", "\\[\u{df}\u{20ac}"),
        ] {
            assert_eq!(in_any_case(pattern), expected);
        }
    }
}
