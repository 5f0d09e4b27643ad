//! Syntax that expressions of many programming languages share: quotes, brackets and regular
//! expressions.

use super::reader::is_word_character;

/// Returns the characters of a text outside of quotes, with their byte positions.
pub(super) fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut quote, mut is_escaped) = (None, false);
    text.char_indices().filter(move |(_, c)| {
        let c = *c;
        if quote.is_some() {
            if is_escaped {
                is_escaped = false;
            } else if c == '\\' {
                is_escaped = true;
            } else if quote == Some(c) {
                quote = None;
            }
            return false;
        }
        if matches!(c, '"' | '\'' | '`') {
            quote = Some(c);
        }
        quote.is_none()
    })
}

/// Returns a text with some parts outside of quotes replaced. `replace` is called for each
/// position, with the text before the position and the text from it on. It returns the length of
/// the part to replace and the replacement, or `None`. Returns `None` if nothing is replaced.
pub(super) fn replaced(
    text: &str,
    mut replace: impl FnMut(&str, &str) -> Option<(usize, String)>,
) -> Option<String> {
    let (mut out, mut copied) = (String::new(), 0);
    for (at, _) in outside_quotes(text) {
        if at < copied {
            continue;
        }
        let (before, rest) = text.split_at_checked(at)?;
        if let Some((length, replacement)) = replace(before, rest) {
            out.push_str(text.get(copied..at)?);
            out.push_str(&replacement);
            copied = at + length;
        }
    }
    out.push_str(text.get(copied..)?);
    (copied > 0).then_some(out)
}

/// Reads a regular expression between slashes, such as `/^ne/i`, at the start of a text. Returns
/// the expression, true if it ignores case, and the rest of the text. The flags `m` and `s` become
/// a part of the expression, such as `(?m)`; `g` and `u` have no effect. `None` if there is no
/// expression, or it has another flag.
pub(super) fn regex_literal(text: &str) -> Option<(String, bool, &str)> {
    let inner = text.strip_prefix('/')?;
    let mut is_escaped = false;
    let end = inner.find(|c| {
        let is_end = c == '/' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })?;
    let (pattern, rest) = (inner.get(..end)?, inner.get(end + 1..)?);
    let (flags, rest) =
        rest.split_at_checked(rest.find(|c| !is_word_character(c)).unwrap_or(rest.len()))?;
    let is_known = flags.chars().all(|flag| "igmsu".contains(flag));
    let inline: String = ['m', 's'].into_iter().filter(|flag| flags.contains(*flag)).collect();
    let prefix = if inline.is_empty() { inline } else { format!("(?{inline})") };
    is_known.then(|| (prefix + &pattern.replace("\\/", "/"), flags.contains('i'), rest))
}

/// Returns the text inside quotes. `None` if the text is not quoted, empty, or has more quotes.
pub(super) fn unquoted(text: &str) -> Option<&str> {
    let inner =
        ['\'', '"'].iter().find_map(|mark| text.strip_prefix(*mark)?.strip_suffix(*mark))?;
    (!inner.is_empty() && !inner.contains(['\'', '"'])).then_some(inner)
}

/// Returns the byte position of the bracket that closes the one before the start of the text.
/// `None` if it is not closed.
pub(super) fn end_of_group(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    outside_quotes(text).find_map(|(at, c)| match c {
        '(' | '[' | '{' => {
            depth += 1;
            None
        }
        ')' | ']' | '}' if depth == 0 => Some(at),
        ')' | ']' | '}' => {
            depth -= 1;
            None
        }
        _ => None,
    })
}

/// Splits a text at a separator outside of quotes and brackets, and trims the parts.
pub(super) fn parts<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    let (mut depth, mut start, mut parts) = (0usize, 0, Vec::new());
    for (at, c) in outside_quotes(text) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 && text.get(at..).is_some_and(|rest| rest.starts_with(separator)) => {
                parts.push(text.get(start..at).unwrap_or_default().trim());
                start = at + separator.len();
            }
            _ => {}
        }
    }
    parts.push(text.get(start..).unwrap_or_default().trim());
    parts
}

/// Returns the byte position of `word` outside of quotes and brackets, from position `from` on.
/// `None` if it does not occur.
pub(super) fn keyword(text: &str, from: usize, word: &str) -> Option<usize> {
    let mut depth = 0usize;
    outside_quotes(text).find_map(|(at, c)| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_start = at >= from
            && depth == 0
            && !text.get(..at).is_some_and(|before| before.ends_with(is_word_character));
        let rest = text.get(at..).unwrap_or_default();
        let (found, after) = rest.split_at_checked(word.len()).unwrap_or_default();
        let is_word = found.eq_ignore_ascii_case(word) && !after.starts_with(is_word_character);
        (is_start && is_word).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hide_brackets_and_separators() {
        let text = r"a, 'b, \', c', f(d, [e]), `g, h`";
        assert_eq!(parts(text, ","), ["a", r"'b, \', c'", "f(d, [e])", "`g, h`"]);
        assert_eq!(end_of_group("a ')' (b) ]) c"), Some(10));
        assert_eq!(end_of_group("a (b)"), None);
        let other = |_: &str, rest: &str| rest.starts_with("ab").then(|| (2, "x".to_owned()));
        assert_eq!(replaced("ab 'ab' abab", other).as_deref(), Some("x 'ab' xx"));
        assert_eq!(replaced("'ab'", other), None);
        assert_eq!(
            regex_literal(r"/a\/b\d/i.test(x)"),
            Some((r"a/b\d".to_owned(), true, ".test(x)"))
        );
        assert_eq!(regex_literal("/^a.b/gsmi, x"), Some(("(?ms)^a.b".to_owned(), true, ", x")));
        assert_eq!(regex_literal("/usr/bin"), None);
        let outside: String = outside_quotes("a'b'c\"d\"e").map(|(_, c)| c).collect();
        assert_eq!(outside, "ace");
    }
}
