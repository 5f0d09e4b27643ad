//! The syntax that expressions of programming languages share: quotes and brackets.

/// Returns the characters of a text outside of quotes, with their positions.
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

/// Returns the position of the bracket that closes the group in which a text begins.
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

/// Splits a text at a separator outside of quotes and brackets.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hide_brackets_and_separators() {
        let text = r"a, 'b, \', c', f(d, [e]), `g, h`";
        assert_eq!(parts(text, ","), ["a", r"'b, \', c'", "f(d, [e])", "`g, h`"]);
        assert_eq!(end_of_group("a ')' (b) ]) c"), Some(10));
        assert_eq!(end_of_group("a (b)"), None);
        let outside: String = outside_quotes("a'b'c\"d\"e").map(|(_, c)| c).collect();
        assert_eq!(outside, "ace");
    }
}
