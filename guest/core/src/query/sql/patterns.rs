//! Patterns of `LIKE` with an escape character, and patterns of `SIMILAR TO`.

use crate::query::code::{keyword, replaced};
use crate::query::value::quote;

/// Converts `LIKE 'a!_%' ESCAPE '!'` to `LIKE 'a\_%'`. `None` if there is no such pattern.
pub(super) fn escaped(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, sign, after)) = next_escape(rest) {
        let start = before.strip_suffix('\'')?.rfind('\'')?;
        let (head, pattern) = before.split_at_checked(start)?;
        let pattern = pattern.get(1..pattern.len().checked_sub(1)?)?;
        out.push_str(head);
        out.push('\'');
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            if letter == sign {
                let next = letters.next()?;
                // A backslash in the text itself has no spelling that all readers share.
                if next == '\\' {
                    return None;
                }
                out.extend(['\\', next]);
            } else if letter == '\\' {
                return None;
            } else {
                out.push(letter);
            }
        }
        out.push('\'');
        rest = after;
    }
    out.push_str(rest);
    (rest.len() < text.len()).then_some(out)
}

/// Returns the text before the next clause `ESCAPE 'x'` without white space at its end, the escape
/// character, and the text after the clause.
fn next_escape(text: &str) -> Option<(&str, char, &str)> {
    let lower = text.to_ascii_lowercase();
    let (at, clause) = lower.match_indices("escape").find_map(|(at, word)| {
        let before = text.get(..at)?;
        let is_clause = before.ends_with(char::is_whitespace) && before.trim_end().ends_with('\'');
        is_clause.then_some((at, text.get(at + word.len()..)?.trim_start()))
    })?;
    let mut sign = clause.strip_prefix('\'')?.chars();
    let escape = sign.next()?;
    // Some languages write the backslash twice.
    let after = sign.as_str();
    let after = if escape == '\\' { after.strip_prefix('\\').unwrap_or(after) } else { after };
    Some((text.get(..at)?.trim_end(), escape, after.strip_prefix('\'')?))
}

/// Converts `x SIMILAR TO '(a|b)%'` to `x REGEXP '^(?:(a|b).*)$'`.
pub(super) fn similar(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let is_start = before.ends_with(char::is_whitespace);
        let after = (keyword(rest, 0, "similar") == Some(0) && is_start)
            .then(|| rest.get("similar".len()..))??
            .trim_start();
        let after = (keyword(after, 0, "to") == Some(0)).then(|| after.get(2..))??.trim_start();
        let (pattern, end) = after.strip_prefix('\'')?.split_once('\'')?;
        if end.starts_with('\'') || pattern.contains(['\\', '[']) {
            return None;
        }
        let mut regex = String::new();
        for letter in pattern.chars() {
            match letter {
                '%' => regex.push_str(".*"),
                '_' => regex.push('.'),
                '.' | '^' | '$' => regex.extend(['\\', letter]),
                _ => regex.push(letter),
            }
        }
        let regex = quote(&format!("(?s-i)^(?:{regex})$"));
        Some((rest.len() - end.len(), format!("REGEXP {regex}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_characters_become_backslashes() {
        for (text, expected) in [
            (r"a LIKE 'B\_1%' ESCAPE '\' AND b = 'x'", r"a LIKE 'B\_1%' AND b = 'x'"),
            (r"a LIKE 'B\_%' escape '\\'", r"a LIKE 'B\_%'"),
            (
                "a LIKE '50!%%' ESCAPE '!' OR a LIKE 'x#_' ESCAPE '#'",
                r"a LIKE '50\%%' OR a LIKE 'x\_'",
            ),
        ] {
            assert_eq!(escaped(text).as_deref(), Some(expected));
        }
        for text in ["escape = 'x'", "a = 'b' AND escape = 'c'", "a LIKE 'an escape'"] {
            assert_eq!(escaped(text), None, "{text}");
        }
    }

    #[test]
    fn similar_patterns_become_regular_expressions() {
        assert_eq!(
            similar("t SIMILAR TO 'The (a|b) %.x_' AND n = 1").as_deref(),
            Some(r"t REGEXP '(?s-i)^(?:The (a|b) .*\\.x.)$' AND n = 1")
        );
        assert_eq!(similar("similar = 'to'"), None);
    }
}
