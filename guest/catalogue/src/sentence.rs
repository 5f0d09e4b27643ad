//! The first sentence of a description.

/// Minimum length of a first sentence, in characters.
const MIN_CHARACTERS: usize = 12;
/// Maximum length of a first sentence, in characters.
const MAX_CHARACTERS: usize = 400;

/// Splits a description into its first sentence and the rest. The sentence ends at `.`, `!` or `?`
/// before white space, at a full stop of Chinese and Japanese, or at a line break. It has at least
/// 12 characters, and is cut after 400.
pub(crate) fn split_first(description: &str) -> (&str, &str) {
    let text = description.trim();
    let mut characters = text.char_indices().peekable();
    let mut count = 0;
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let end = match character {
            '\n' | '\r' => Some(at),
            '.' | '!' | '?' if next.is_none_or(char::is_whitespace) => Some(at + 1),
            '。' | '！' | '？' => Some(at + character.len_utf8()),
            _ => None,
        };
        count += 1;
        if let Some(end) = end.filter(|_| count >= MIN_CHARACTERS) {
            return text.split_at_checked(end).unwrap_or((text, ""));
        }
        if count >= MAX_CHARACTERS {
            return text.split_at_checked(at + character.len_utf8()).unwrap_or((text, ""));
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_stops_and_line_breaks() {
        for (text, first) in [
            ("Gets v1.2 data now. More.", "Gets v1.2 data now."),
            ("Hi. Lists all files\n\nArgs:", "Hi. Lists all files"),
            ("使用必应搜索指定的关键词。返回", "使用必应搜索指定的关键词。"),
            ("", ""),
        ] {
            assert_eq!(split_first(text).0, first);
        }
        assert_eq!(split_first(&"é".repeat(900)).0.chars().count(), 400);
    }
}
