//! Regular expressions with a limit of the bytes that they search.

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
        loop {
            let mut builder = RegexBuilder::new(pattern);
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
