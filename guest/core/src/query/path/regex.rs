//! Regular expressions of `match` and `search` (RFC 9485).

use crate::query::compiled_regex::{CompiledRegex, MAX_PATTERN_CHARS};

/// A regular expression of a JSONPath.
#[derive(Debug)]
pub(super) struct PathRegex(CompiledRegex);

impl PathRegex {
    /// Compiles a regular expression of a JSONPath (RFC 9485). If `is_whole`, it must match the
    /// whole text.
    ///
    /// # Errors
    /// Returns the reason if the expression is invalid or too long.
    pub(super) fn new(pattern: &str, is_whole: bool) -> Result<Self, String> {
        let (mut translated, mut in_class, mut is_escaped) = (String::new(), false, false);
        for character in pattern.chars() {
            match character {
                // A dot is any character except line feed and carriage return.
                '.' if !in_class && !is_escaped => translated.push_str("[^\\n\\r]"),
                '[' if !is_escaped => in_class = true,
                ']' if !is_escaped => in_class = false,
                _ => {}
            }
            if character != '.' || in_class || is_escaped {
                translated.push(character);
            }
            is_escaped = character == '\\' && !is_escaped;
        }
        if is_whole {
            translated = format!("^(?:{translated})$");
        }
        Self::compile(pattern, &translated)
    }

    /// Compiles a regular expression in the syntax of programming languages, which may match a part
    /// of a text.
    ///
    /// # Errors
    /// Returns the reason if the expression is invalid or too long.
    pub(super) fn search(pattern: &str) -> Result<Self, String> {
        Self::compile(pattern, pattern)
    }

    /// Compiles `translated`. Errors show `pattern`, which the caller wrote.
    fn compile(pattern: &str, translated: &str) -> Result<Self, String> {
        if pattern.chars().nth(MAX_PATTERN_CHARS).is_some() {
            return Err(format!("a regular expression has at most {MAX_PATTERN_CHARS} characters"));
        }
        CompiledRegex::new(translated, false, false)
            .map(Self)
            .map_err(|error| format!("{pattern:?} is no regular expression here: {error}"))
    }

    /// Returns the cost of a search in `bytes` bytes. A cost of 2^30 takes about a second.
    pub(super) fn cost(&self, bytes: usize) -> usize {
        bytes.saturating_mul((1 << 30) / self.0.max_bytes.max(1))
    }

    /// Returns true if the text matches.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_is_counted_in_characters() {
        let pattern = "ж".repeat(1_000);
        assert!(PathRegex::new(&pattern, true).is_ok());
        assert!(PathRegex::search(&(pattern + "ж")).is_err());
    }
}
