//! The source of a log entry: the process, thread and class that stand before its message.

/// The maximum number of addresses, numbers and pairs between a time and a severity.
const MAX_SOURCE_TOKENS: usize = 5;

/// The maximum number of words of a source.
const MAX_SOURCE_WORDS: usize = 12;
/// The signs that separate a source from the message.
const SEPARATORS: [&[u8]; 4] = [b"- ", b": ", b"| ", b"-- "];

/// Returns the length, in bytes, of the source at the start of a message, with the sign after it:
/// `7 --- [main] shop.Orders : refused`. 0 without a source. Words of prose are no source.
pub(super) fn source_length(message: &[u8]) -> usize {
    let mut rest = message.trim_ascii_start();
    for _ in 0..=MAX_SOURCE_WORDS {
        if let Some(after) = SEPARATORS.iter().find_map(|sign| rest.strip_prefix(*sign)) {
            return message.len() - after.len();
        }
        let end = match rest.first() {
            Some(b'[') => memchr::memchr(b']', rest).map(|at| at + 1),
            _ => memchr::memchr(b' ', rest),
        };
        let token = end.and_then(|end| rest.split_at_checked(end));
        let Some((token, after)) = token else { return 0 };
        if !is_source_word(token) {
            return 0;
        }
        rest = after.trim_ascii_start();
    }
    0
}

/// Returns true for a word that prose does not have: a part in brackets, a number, a path, a
/// punctuation mark, or a name with capital letters inside.
fn is_source_word(word: &[u8]) -> bool {
    let is_mark = |byte: &u8| byte.is_ascii_digit() || b".:_$".contains(byte);
    let has_capitals = word
        .windows(2)
        .any(|pair| matches!(pair, [a, b] if a.is_ascii_lowercase() && b.is_ascii_uppercase()));
    word.starts_with(b"[")
        || word.iter().any(is_mark)
        || !word.iter().any(is_letter)
        || has_capitals
}

/// Returns true if a text has at least two words.
pub(super) fn has_words(text: &[u8]) -> bool {
    let is_word = |word: &&[u8]| word.iter().filter(|byte| is_letter(byte)).nth(1).is_some();
    text.split(u8::is_ascii_whitespace).filter(is_word).nth(1).is_some()
}

/// Returns true for a letter, or a byte of one in UTF-8.
pub(super) fn is_letter(byte: &u8) -> bool {
    byte.is_ascii_alphabetic() || *byte >= 0x80
}

/// Returns true if the words between a time and a severity are those of a source: addresses,
/// numbers and pairs, and at most one name.
pub(super) fn is_source<'l>(tokens: impl Iterator<Item = &'l [u8]>) -> bool {
    let (mut names, mut others) = (0, 0);
    for token in tokens {
        match token.iter().any(|byte| byte.is_ascii_digit() || *byte == b'=') {
            true => others += 1,
            false => names += 1,
        }
    }
    // A zone of the time and a process are two names.
    names + others == 2 || names <= 1 && others <= MAX_SOURCE_TOKENS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_after_source(message: &str) -> &str {
        message.get(source_length(message.as_bytes())..).unwrap()
    }

    #[test]
    fn sources_end_at_a_sign() {
        for message in [
            " 7 --- [shop] [           main] f.e.c.Orders              : age 7 s",
            " 7 --- [nio-8080-exec-1] JpaWeb$Configuration : age 7 s",
            "c.a.StockClient - age 7 s",
            "  [a b - 1] 2026-01-02 1:02:03,5  A.java:1 - age 7 s",
            " 1234 OrderService | age 7 s",
        ] {
            assert_eq!(text_after_source(message), "age 7 s", "{message}");
        }
    }

    #[test]
    fn prose_is_no_source() {
        for message in
            ["login of a user - retrying", "cannot open file : no space", "f.e.Orders failed"]
        {
            assert_eq!(text_after_source(message), message);
        }
    }
}
