//! Filters of lines after label matchers, as LogQL has them: `{level="WARN"} |= "timed out"`.

use super::Query;
use super::code::{end_of_group, unquoted};

impl Query {
    /// Moves a filter of lines from the condition to the argument `grep`. Does nothing if the query
    /// has a pattern already.
    pub(super) fn separate_line_filter(&mut self) {
        if self.grep.is_none()
            && let Some((condition, pattern)) = self.condition.as_deref().and_then(line_filter)
        {
            (self.condition, self.grep) = (Some(condition), Some(pattern));
        }
    }
}

/// Returns the condition without its filter of lines, and the pattern of the filter. `None` for
/// other conditions, and for several filters.
fn line_filter(text: &str) -> Option<(String, String)> {
    let inner = text.trim().strip_prefix('{')?;
    let (matchers, after) = inner.split_at_checked(end_of_group(inner)?)?;
    let after = after.strip_prefix('}')?.trim_start();
    let (is_pattern, after) = match after.strip_prefix("|=") {
        Some(after) => (false, after),
        None => (true, after.strip_prefix("|~")?),
    };
    matchers.contains('=').then_some(())?;
    let filter = unquoted(after.trim())?;
    let pattern = if is_pattern { filter.to_owned() } else { regex_lite::escape(filter) };
    Some((format!("{{{matchers}}}"), pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_lines_are_separated() {
        for (text, expected) in [
            ("{a=\"x\"} |= \"b.c\"", Some(("{a=\"x\"}", r"b\.c"))),
            ("{a=\"x\", b=~\"y\"} |~ 'c|d'", Some(("{a=\"x\", b=~\"y\"}", "c|d"))),
            ("{a=\"x\"} |= \"b\" |= \"c\"", None),
            ("{a=\"x\"} | json", None),
            ("{\"a\": 1}", None),
            ("a = 'x'", None),
        ] {
            let expected = expected.map(|(text, pattern)| (text.to_owned(), pattern.to_owned()));
            assert_eq!(line_filter(text), expected, "{text}");
        }
    }
}
