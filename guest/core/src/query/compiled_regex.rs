//! Regular expressions with a limit on the bytes that they search.

use std::borrow::Cow;
use std::ops::Range;

use regex_lite::{Regex, RegexBuilder};

use super::literal_search::LiteralSearch;

/// Maximum length of a regular expression, in characters.
pub(super) const MAX_PATTERN_CHARS: usize = 1_000;
/// Maximum number of bytes that one query searches with an engine of regular expressions. Plain
/// texts are searched further.
pub(super) const MAX_SEARCHED_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of bytes that are searched with a pattern of one KiB compiled size. It is lower
/// for larger patterns. The engine takes at most about 300 ns per byte and KiB, so the worst
/// pattern takes about a second.
const SEARCHED_BYTES_PER_PATTERN_KIB: usize = 2 * 1024 * 1024;
/// Maximum number of comparisons of bytes in a search for plain texts.
const MAX_LITERAL_COMPARISONS: usize = 1 << 30;
/// Maximum size of a compiled pattern, in bytes.
const MAX_COMPILED_PATTERN_BYTES: usize = 64 * 1024;
/// A compiled regular expression, with a limit on the bytes to search.
#[derive(Debug)]
pub(super) struct CompiledRegex {
    regex: Regex,
    /// The plain texts that the expression matches. None if it is no plain text.
    literals: Option<LiteralSearch>,
    /// Maximum number of bytes that are searched.
    pub(super) max_bytes: usize,
    /// Maximum number of bytes that an engine of regular expressions searches, also for a plain
    /// text.
    #[cfg(feature = "jq")]
    pub(super) max_engine_bytes: usize,
}

impl CompiledRegex {
    /// Compiles a regular expression. If `by_line`, `^` and `$` match at each line.
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
        let literals = LiteralSearch::parse(pattern, ignore_case);
        let pattern = if ignore_case { in_any_case(pattern) } else { Cow::Borrowed(pattern) };
        loop {
            let mut builder = RegexBuilder::new(&pattern);
            builder.case_insensitive(ignore_case).multi_line(by_line);
            match builder.size_limit(size).build() {
                Ok(regex) => {
                    // Small patterns take less time than their size suggests.
                    let factor = if size <= 1_024 { 2 } else { 1 };
                    let max_engine_bytes = (SEARCHED_BYTES_PER_PATTERN_KIB / size * 1_024 * factor)
                        .min(MAX_SEARCHED_BYTES);
                    let of_texts = literals
                        .as_ref()
                        .map_or(0, |texts| MAX_LITERAL_COMPARISONS / texts.cost().max(1));
                    let max_bytes = of_texts.max(max_engine_bytes);
                    return Ok(Self {
                        regex,
                        literals,
                        max_bytes,
                        #[cfg(feature = "jq")]
                        max_engine_bytes,
                    });
                }
                Err(error) if size >= MAX_COMPILED_PATTERN_BYTES => return Err(error),
                Err(_) => size *= 2,
            }
        }
    }
}

impl CompiledRegex {
    /// Returns the expression, for its groups.
    pub(super) fn regex(&self) -> &Regex {
        &self.regex
    }

    /// Returns the expression as it was compiled.
    pub(super) fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    /// Returns true if the expression matches in `text`.
    pub(super) fn is_match(&self, text: &str) -> bool {
        match &self.literals {
            Some(literals) => literals.is_match(text),
            None => self.regex.is_match(text),
        }
    }

    /// Returns the byte ranges of the matches in `text`, from left to right.
    pub(super) fn find_iter<'s>(
        &'s self,
        text: &'s str,
    ) -> Box<dyn Iterator<Item = Range<usize>> + 's> {
        match &self.literals {
            Some(literals) => Box::new(literals.find_iter(text)),
            None => Box::new(self.regex.find_iter(text).map(|found| found.range())),
        }
    }
}

/// Returns a pattern that also ignores the case of letters beyond ASCII, because the engine ignores
/// the case of ASCII letters only. Ranges of letters remain unchanged. O(pattern).
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
