//! Patterns with characters that callers do not mean as operators: log levels in brackets, dollar
//! amounts, and the basic syntax of grep.

/// Words that in brackets denote the level of a log entry or the result of a test, not a character
/// class.
const LEVELS: [&str; 20] = [
    "alert", "crit", "critical", "debug", "emerg", "error", "err", "fail", "failed", "fatal",
    "info", "notice", "ok", "pass", "passed", "severe", "skip", "trace", "warn", "warning",
];

/// Escapes the characters that can only be meant literally. Returns the new pattern, and the
/// escaped texts for a note. `None` if nothing is escaped.
///
/// A character class has each letter once, so `[ERROR]` is literal. No line continues after `$`.
pub(super) fn with_literal_signs(pattern: &str) -> Option<(String, Vec<String>)> {
    let (mut out, mut signs) = (String::new(), Vec::new());
    let mut at = 0;
    while let Some(next) = pattern.get(at..).and_then(|rest| rest.chars().next()) {
        let rest = pattern.get(at..).unwrap_or_default();
        let after = rest.get(next.len_utf8()..).unwrap_or_default();
        let taken = match next {
            '\\' => 1 + after.chars().next().map_or(0, char::len_utf8),
            '[' => match level(rest) {
                Some(word) => {
                    out.push_str(&format!("\\[{word}\\]"));
                    signs.push(format!("[{word}]"));
                    at += word.len() + 2;
                    continue;
                }
                None => set_length(rest),
            },
            '$' if after.starts_with(|c: char| c.is_alphanumeric()) => {
                out.push('\\');
                signs.push("$".to_owned());
                1
            }
            _ => next.len_utf8(),
        };
        out.push_str(rest.get(..taken).unwrap_or(rest));
        at += taken.min(rest.len());
    }
    signs.dedup();
    (!signs.is_empty()).then_some((out, signs))
}

/// Returns the word in brackets at the start of `text`, if it is not a character class.
fn level(text: &str) -> Option<&str> {
    let (word, after) = text.strip_prefix('[')?.split_once(']')?;
    let is_word = word.len() > 1 && word.chars().all(|c| c.is_ascii_alphabetic());
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    let is_repeated = letters.windows(2).any(|pair| pair.first() == pair.last());
    let is_level = is_repeated || LEVELS.contains(&word.to_lowercase().as_str());
    let is_counted = after.starts_with(['+', '*', '?', '{']);
    (is_word && is_level && !is_counted).then_some(word)
}

/// Returns the length, in bytes, of the character class at the start of `text`, including its
/// brackets.
fn set_length(text: &str) -> usize {
    let start = if text.starts_with("[^") { 2 } else { 1 };
    // A bracket at the start of a set is one of its characters.
    let first = usize::from(text.get(start..).is_some_and(|rest| rest.starts_with(']')));
    let mut is_escaped = false;
    let inside = text.get(start + first..).unwrap_or_default();
    let end = inside.char_indices().find(|(_, next)| {
        let is_end = *next == ']' && !is_escaped;
        is_escaped = *next == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| start + first + at + 1)
}

/// Converts a pattern from the basic syntax of grep, in which `\|` separates alternatives and `|`
/// is literal. `None` if it has no `\|`.
pub(super) fn from_basic_syntax(pattern: &str) -> Option<String> {
    let is_special = |c: char| "|()+?{}".contains(c);
    let (mut out, mut found) = (String::new(), false);
    let mut characters = pattern.chars();
    while let Some(next) = characters.next() {
        match next {
            '\\' => match characters.next() {
                Some(sign) if is_special(sign) => {
                    // Other escaped signs are texts in both syntaxes.
                    found |= sign == '|';
                    out.push(sign);
                }
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            sign if is_special(sign) => out.extend(['\\', sign]),
            other => out.push(other),
        }
    }
    found.then_some(out)
}

/// Converts a pattern that begins with a star, as globs do and regular expressions cannot: `*a*b*`
/// to `.*a.*b.*`. `None` for other patterns.
pub(super) fn from_glob(pattern: &str) -> Option<String> {
    let texts = pattern.strip_prefix('*')?.split('*').map(regex_lite::escape);
    Some(format!(".*{}", texts.collect::<Vec<_>>().join(".*")))
}

/// Returns the lower-case name in a pattern that begins like the member of an object: `"status":
/// "failed"`, `status: failed`, `"status":\s*"failed"`. `None` for other patterns.
pub(super) fn member_name(pattern: &str) -> Option<String> {
    let text = pattern.trim_start_matches(['^', '(', '"', '\'']);
    let end = text.find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)));
    let (name, rest) = text.split_at_checked(end.unwrap_or(text.len())).unwrap_or_default();
    let rest = rest.trim_start_matches(['"', '\'', ' ']);
    let sign =
        rest.starts_with([':', '=']) && !rest.starts_with("://") && !rest.starts_with(":\\d");
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_') && sign;
    is_name.then(|| name.to_lowercase())
}

/// Returns true if a pattern may match the name of a member together with its value.
pub(super) fn may_span_member(pattern: &str) -> bool {
    pattern.contains(['.', ':', '=', ' ', '"', '\\'])
}

/// Returns the `where` condition for a pattern that consists of several members of one object, such
/// as `"id": 1, "status": "failed"`. `None` for other patterns.
pub(super) fn members_condition(pattern: &str) -> Option<String> {
    let inner = pattern.trim().trim_start_matches('{').trim_end_matches('}');
    let mut tests = Vec::new();
    for part in crate::query::code::parts(inner, ",") {
        let (name, value) = part.trim().strip_prefix('"')?.split_once("\":")?;
        let value = value.trim();
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        let is_plain = |text: &str| !text.contains(['"', '\\', '*', '[', '(', '|']);
        if !is_plain(name) || !is_plain(quoted.unwrap_or(value)) || value.is_empty() {
            return None;
        }
        let value = quoted.map_or_else(|| value.to_owned(), crate::query::value::quote);
        tests.push(format!("{name} = {value}"));
    }
    (tests.len() > 1).then(|| tests.join(" AND "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_that_can_only_be_text_are_escaped() {
        for (pattern, expected) in [
            ("[ERROR]", Some(r"\[ERROR\]")),
            ("x [WARN] y", Some(r"x \[WARN\] y")),
            ("[error]: a", Some(r"\[error\]: a")),
            ("$100", Some(r"\$100")),
            (r"a|$5\.00$", Some(r"a|\$5\.00$")),
            ("[AEIOU]", None),
            ("[ERROR]+", None),
            ("[a-z]x$", None),
            ("[$1]", None),
            (r"\[ERROR]", None),
            ("[]$1]", None),
            (r"[\]$1]", None),
        ] {
            let found = with_literal_signs(pattern);
            assert_eq!(found.map(|(text, _)| text).as_deref(), expected, "{pattern}");
        }
    }

    #[test]
    fn leading_star_is_a_glob() {
        assert_eq!(from_glob("*a.b*c").as_deref(), Some(r".*a\.b.*c"));
        assert_eq!(from_glob("a*"), None);
    }

    #[test]
    fn basic_syntax_exchanges_signs_and_texts() {
        assert_eq!(from_basic_syntax(r"a\|b(c)").as_deref(), Some(r"a|b\(c\)"));
        assert_eq!(from_basic_syntax(r"\(a\|b\)\+\.").as_deref(), Some(r"(a|b)+\."));
        assert_eq!(from_basic_syntax(r"close\(\)"), None);
        assert_eq!(from_basic_syntax("a|b"), None);
    }

    #[test]
    fn members_are_recognised() {
        for (pattern, expected) in [
            ("\"a\": 1", true),
            ("status:\\s*ok", true),
            ("^level=error", true),
            ("https://x", false),
            ("10:30", false),
            ("a b: c", false),
        ] {
            assert_eq!(member_name(pattern).is_some(), expected, "{pattern}");
        }
        assert_eq!(
            members_condition(r#"{"a": 1, "b": "it's"}"#).as_deref(),
            Some("a = 1 AND b = 'it''s'")
        );
        assert_eq!(members_condition("\"a\": 1"), None);
    }
}
