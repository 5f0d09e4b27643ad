//! Constructs that the linear-time engine lacks: look-around and back-references. Errors name the
//! construct and suggest a replacement.

use super::has_capital;
use crate::query::value::quote;

/// The starts of look-around groups. The first boolean is true for look-ahead, the second for
/// negative groups.
const LOOKS: [(&str, bool, bool); 4] =
    [("(?=", true, false), ("(?!", true, true), ("(?<=", false, false), ("(?<!", false, true)];
/// Other unsupported constructs, each with its replacement.
const OTHERS: [(&str, &str); 4] = [("(?>", "(?:"), ("\\K", ""), ("\\h", "\\s"), ("\\Z", "$")];

/// Returns the reason and a correction for an invalid pattern that has one of these constructs.
/// `None` for other patterns.
pub(super) fn explain(pattern: &str) -> Option<String> {
    look_around(pattern).or_else(|| back_reference(pattern)).or_else(|| {
        let (known, instead) = OTHERS.iter().find(|(known, _)| find(pattern, known).is_some())?;
        Some(format!("it has no {known}; write grep: {}", pattern.replace(known, instead)))
    })
}

/// Returns a POSIX class outside of brackets, such as `[:digit:]`, which would match these letters
/// literally. `None` if there is none.
pub(super) fn bare_class(pattern: &str) -> Option<&str> {
    let at = find(pattern, "[:")?;
    let (before, rest) = pattern.split_at_checked(at)?;
    let class = rest.get(..rest.find(":]")? + 2)?;
    let is_inside = before.rfind('[') > before.rfind(']');
    let is_name = class.chars().all(|c| c.is_ascii_lowercase() || "[:]".contains(c));
    (is_name && !is_inside).then_some(class)
}

/// Returns a non-ASCII letter beside `\b`, which the engine does not treat as a letter. `None` if
/// there is none.
pub(super) fn bounded_letter(pattern: &str) -> Option<char> {
    find(pattern, "\\b")?;
    let plain = pattern.replace("(?:", "").replace(['(', ')'], "");
    let is_letter = |c: &char| c.is_alphabetic() && !c.is_ascii();
    let parts: Vec<&str> = plain.split("\\b").collect();
    parts.windows(2).find_map(|pair| {
        let [before, after] = pair else { return None };
        let letters = [before.chars().next_back(), after.chars().next()];
        letters.into_iter().flatten().find(is_letter)
    })
}

/// Returns the position of the first `sign` without a preceding backslash.
fn find(pattern: &str, sign: &str) -> Option<usize> {
    let is_plain = |at: &usize| {
        let before = pattern.get(..*at).unwrap_or_default();
        (before.len() - before.trim_end_matches('\\').len()).is_multiple_of(2)
    };
    pattern.match_indices(sign).map(|(at, _)| at).find(is_plain)
}

/// Returns the length of a group up to its closing parenthesis, exclusive. `None` if it is not
/// closed.
fn group_end(inner: &str) -> Option<usize> {
    let (mut depth, mut is_escaped, mut in_set) = (0usize, false, false);
    inner.find(|c| {
        let is_sign = !std::mem::replace(&mut is_escaped, false);
        match c {
            _ if !is_sign => {}
            '\\' => is_escaped = true,
            '[' => in_set = true,
            ']' => in_set = false,
            '(' if !in_set => depth += 1,
            ')' if !in_set && depth == 0 => return true,
            ')' if !in_set => depth -= 1,
            _ => {}
        }
        false
    })
}

/// Returns a correction of a pattern with look-around: a pattern without it, or the texts that a
/// line must and must not contain.
fn look_around(pattern: &str) -> Option<String> {
    let next = |pattern: &str| {
        let starts = LOOKS.iter().filter_map(|look| Some((find(pattern, look.0)?, *look)));
        starts.min_by_key(|(at, _)| *at)
    };
    let (mut rest, mut tests, mut first) = (pattern.to_owned(), Vec::new(), None);
    let mut is_similar = false;
    while let Some((at, (start, is_ahead, is_negative))) = next(&rest) {
        first.get_or_insert(start);
        let (before, inner) = (rest.get(..at)?, rest.get(at + start.len()..)?);
        let end = group_end(inner)?;
        let (inner, after) = (inner.get(..end)?, inner.get(end + 1..)?);
        let text = match is_ahead {
            true => format!("{before}{inner}"),
            false if next(after).is_some() => return None,
            false => format!("{inner}{after}"),
        };
        tests.push((
            text.trim_start_matches("^.*").trim_start_matches(".*").to_owned(),
            is_negative,
        ));
        // At the start of a line there is one place only.
        let is_one_place = before.starts_with('^') && !before.contains(['*', '+', '?', '{', '|']);
        is_similar |= is_negative && !(is_ahead && is_one_place);
        rest = format!("{before}{after}");
    }
    let is_any = |text: &str| text.trim_matches(['^', '.', '*', '+', '$']).is_empty();
    let construct = format!("it has no look-around such as {})", first?);
    if let [(text, false)] = tests.as_slice()
        && (is_any(&rest) || text.len() > rest.len() && text.contains(&rest))
    {
        return Some(format!("{construct}; write grep: {text}"));
    }
    if let [(text, true)] = tests.as_slice()
        && let Some(pattern) = next_character(pattern, text, &rest)
    {
        return Some(format!("{construct}; write grep: {pattern}"));
    }
    // A line may have the text in one place, and in another one with what must not be there.
    let similar = match is_similar && !is_any(&rest) {
        true => ", which is only similar, because it leaves out lines that have both",
        false => "",
    };
    if !is_any(&rest) {
        tests.insert(0, (rest, false));
    }
    let flag = if has_capital(pattern) { "" } else { "; \"i\"" };
    let program = tests.iter().map(|(text, is_negative)| match is_negative {
        true => format!("(test({text:?}{flag}) | not)"),
        false => format!("test({text:?}{flag})"),
    });
    let program = program.collect::<Vec<_>>().join(" and ");
    let condition = tests.iter().map(|(text, is_negative)| {
        format!("{}FIELD =~ {}", if *is_negative { "NOT " } else { "" }, quote(text))
    });
    let condition = condition.collect::<Vec<_>>().join(" AND ");
    Some(format!(
        "{construct}; for lines write jq: map(select({program})), and for records, with the name of the field, where: {condition}{similar}"
    ))
}

/// Replaces the only look-around of `pattern` by a character class, if it forbids one character at
/// an end: `a([^b]|$)` for `a(?!b)`. `text` is the pattern with this character, and `rest` the
/// pattern without it. `None` for other patterns.
fn next_character(pattern: &str, text: &str, rest: &str) -> Option<String> {
    let is_one = |text: &str| {
        let mut signs = text.chars();
        match (signs.next(), signs.next(), signs.next()) {
            (Some(sign), None, _) => !"\\.+*?()|[]{}^$".contains(sign),
            (Some('\\'), Some(sign), None) => "dsw".contains(sign) || !sign.is_alphanumeric(),
            _ => false,
        }
    };
    let ahead = text.strip_prefix(rest).filter(|inner| is_one(inner));
    if let Some(inner) = ahead.filter(|inner| pattern.ends_with(&format!("(?!{inner})"))) {
        return Some(format!("{rest}([^{inner}]|$)"));
    }
    let inner = text.strip_suffix(rest).filter(|inner| is_one(inner))?;
    pattern.starts_with(&format!("(?<!{inner})")).then(|| format!("(^|[^{inner}]){rest}"))
}

/// Returns a correction of a pattern with a back-reference: a jq program that compares two
/// captures.
fn back_reference(pattern: &str) -> Option<String> {
    let at = (1..10).find_map(|number| find(pattern, &format!("\\{number}")))?;
    let sign = pattern.get(at..at + 2)?;
    let compared = || {
        let start = find(pattern, "(").filter(|_| sign == "\\1")?;
        let inner = pattern.get(start + 1..)?;
        let group = inner.get(..group_end(inner)?).filter(|group| !group.starts_with('?'))?;
        let (before, after) = (pattern.get(..start)?, inner.get(group.len() + 1..)?);
        let named = format!("{before}(?<a>{group}){after}");
        Some(named.replace(sign, &format!("(?<b>{group})")))
    };
    let named = compared().unwrap_or_else(|| "(?<a>\\w+) (?<b>\\w+)".to_owned());
    Some(format!(
        "it has no back-reference such as {sign}; for lines in which two texts are the same write jq: map(select([capture({named:?}; \"g\")] | any(.a == .b)))"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructs_are_named_with_their_corrections() {
        for (pattern, expected) in [
            ("one(?= two)", "; write grep: one two"),
            ("(?<=a=)\\d+", "; write grep: a=\\d+"),
            (
                "^(?=.*one)(?=.*two)",
                "jq: map(select(test(\"one\"; \"i\") and test(\"two\"; \"i\")))",
            ),
            (
                "One(?!.*[)(]two).*x",
                "map(select(test(\"One.*x\") and (test(\"One.*[)(]two\") | not)))",
            ),
            ("(?<!a)b", "; write grep: (^|[^a])b"),
            ("a(?!b)", "; write grep: a([^b]|$)"),
            ("a(?!\\d)", "; write grep: a([^\\d]|$)"),
            ("a(?!b)c", "where: FIELD =~ 'ac' AND NOT FIELD =~ 'ab', which is only similar"),
            ("(?<!ab)c", "where: FIELD =~ 'c' AND NOT FIELD =~ 'abc', which is only similar"),
            ("^(?!.*a).*$", "map(select((test(\"a\"; \"i\") | not)))"),
            ("^ab(?!c)d", "where: FIELD =~ '^abd' AND NOT FIELD =~ '^abc'"),
            ("\\b(\\w+) \\1\\b", "capture(\"\\\\b(?<a>\\\\w+) (?<b>\\\\w+)\\\\b\"; \"g\")"),
            ("(?>a|b)c", "write grep: (?:a|b)c"),
        ] {
            let found = explain(pattern).unwrap();
            assert!(found.contains(expected), "{pattern}: {found}");
        }
        for pattern in ["(", r"\\1(", r"\(?=("] {
            assert_eq!(explain(pattern), None, "{pattern}");
        }
        assert_eq!(bounded_letter("\\b(?:zo\u{eb})\\b"), Some('\u{eb}'));
        assert_eq!(bounded_letter("\u{eb}\\bz\\b"), Some('\u{eb}'));
        assert_eq!(bounded_letter("\\bz\u{eb}z\\b"), None);
        assert_eq!(bare_class("a[:digit:]+"), Some("[:digit:]"));
        assert_eq!(bare_class("[[:digit:]_[:alpha:]]"), None);
    }
}
