//! Shortening of texts: the first sentence, then sentences with a keyword, then a truncation mark
//! (FR-018).

use unicode_segmentation::UnicodeSegmentation;
use wide::u8x16;

use context_guard_json::blocks::{BLOCK_BYTES, ByteBlock, find_where, in_range, is_ascii};
use context_guard_json::text::Form;

/// The prefix of all truncation marks.
pub const TRUNCATION_MARK_PREFIX: &str = " ... [";

/// The number of characters to which text other than prose, such as an encoded value, is shortened.
const STUB_CHARS: usize = 24;

/// Returns the truncation mark for `count` omitted units, such as ` ... [12 more words]`. `what` is
/// the plural name of the units.
#[must_use]
pub fn truncation_mark(count: usize, what: &str) -> String {
    format!("{TRUNCATION_MARK_PREFIX}{count} more {what}]")
}

/// Returns true if a text contains a truncation mark. A model must not send such text back as data.
#[must_use]
pub fn has_truncation_mark(text: &str) -> bool {
    text.match_indices(TRUNCATION_MARK_PREFIX).any(|(at, _)| {
        let rest = text.get(at + TRUNCATION_MARK_PREFIX.len()..).unwrap_or_default();
        let number = rest.trim_start_matches(|character: char| character.is_ascii_digit());
        number.len() < rest.len()
            && number.strip_prefix(" more ").is_some_and(|what| {
                ["words", "characters", "items", "fields", "lines"]
                    .iter()
                    .any(|end| what.starts_with(end))
            })
    })
}

/// Returns true if a text is prose, which can be shortened between words. Other texts are data.
/// Examines only the beginning of the text. O(1).
#[must_use]
pub fn is_prose(text: &[u8]) -> bool {
    const SAMPLE_CHARS: usize = 400;
    let head = text.get(..SAMPLE_CHARS).unwrap_or(text);
    let (characters, words, wide) = if is_ascii(head) {
        (head.len(), ascii_words(head), 0)
    } else {
        let (mut characters, mut words, mut wide, mut in_word) = (0, 0, 0, false);
        let head = text.get(..4 * SAMPLE_CHARS).unwrap_or(text);
        for character in String::from_utf8_lossy(head).chars().take(SAMPLE_CHARS) {
            characters += 1;
            wide += usize::from(character > '\u{2e80}');
            let word = !character.is_whitespace();
            words += usize::from(word && !in_word);
            in_word = word;
        }
        (characters, words, wide)
    };
    words >= 4 && characters / words <= 16 || wide * 3 > characters
}

/// Returns the number of words in ASCII text. O(n), 64 bytes per step.
fn ascii_words(text: &[u8]) -> usize {
    let (mut words, mut in_word) = (0, 0);
    for at in (0..text.len()).step_by(BLOCK_BYTES) {
        let block = ByteBlock::load(text, at);
        // Bits after the end of the text must not count as words.
        let within = u64::MAX >> (BLOCK_BYTES - (text.len() - at).min(BLOCK_BYTES));
        let word = within & !(block.positions_of(b' ') | block.positions_in(b'\t', b'\r'));
        // Counts the first byte of each word. `in_word` carries the last bit of the block before.
        words += (word & !(word << 1 | in_word)).count_ones() as usize;
        in_word = word >> 63;
    }
    words
}

/// Returns a text shortened to about `max_chars` characters and a truncation mark. Prefers
/// sentences with one of `keywords`. Text that is not prose keeps its first 24 characters at most,
/// or both ends of an address or path. Returns a text that is short enough unchanged.
#[must_use]
pub fn shorten(text: &str, max_chars: usize, keywords: &[String]) -> String {
    let length = text.chars().count();
    if length <= max_chars {
        return text.to_owned();
    }
    if !is_prose(text.as_bytes()) {
        if let Some(shortened) = shorten_path(text, length, max_chars) {
            return shortened;
        }
        let stub: String = text.chars().take(max_chars.min(STUB_CHARS)).collect();
        let left = length - stub.chars().count();
        return format!("{stub}{}", truncation_mark(left, "characters"));
    }
    // Without keywords only the first sentence is needed.
    let most_sentences = if keywords.is_empty() { 1 } else { usize::MAX };
    let sentences: Vec<&str> = if keywords.is_empty() && runs_on(text, max_chars) {
        vec![text]
    } else {
        sentences(text).take(most_sentences).collect()
    };
    let mut kept = String::new();
    let mut room = max_chars;
    let mut held = 0;
    for (at, sentence) in sentences.iter().enumerate() {
        let wanted = at == 0 || has_keyword(sentence, keywords);
        let count = sentence.chars().count();
        if !wanted {
            continue;
        }
        if count > room {
            if at == 0 {
                kept = words_within(sentence, room);
                held = kept.split_whitespace().count();
            }
            break;
        }
        kept.push_str(sentence);
        held += sentence.split_whitespace().count();
        room -= count;
    }
    // The sentences after the first one fill the remaining characters.
    if keywords.is_empty()
        && kept.trim_end() == sentences.first().map_or("", |first| first.trim_end())
    {
        let rest = text.get(kept.len()..).unwrap_or_default();
        let more = words_within(rest, room);
        held += more.split_whitespace().count();
        kept.push_str(&more);
    }
    let kept = kept.trim_end();
    let words = words(text);
    if words <= held || is_wide(text) {
        let left = length - kept.chars().count();
        return format!("{kept}{}", truncation_mark(left, "characters"));
    }
    format!("{kept}{}", truncation_mark(words - held, "words"))
}

/// The separators of the parts of addresses, paths and qualified names.
const PART_SIGNS: [char; 4] = ['/', '\\', ':', '.'];
/// The maximum length of a part of a qualified name. Longer parts are encoded data.
const MAX_PART_BYTES: usize = 64;

/// Returns the separator of the parts of an address, a path or a qualified name such as
/// `org.example.Test.case`. `None` for other texts.
fn part_sign(text: &str) -> Option<char> {
    let sign = PART_SIGNS.into_iter().find(|sign| text.matches(*sign).count() > 1)?;
    let is_name = sign == '/' || text.split(sign).all(|part| part.len() <= MAX_PART_BYTES);
    (is_name && !text.contains(char::is_whitespace)).then_some(sign)
}

/// Shortens an address, a path or a qualified name of `length` characters in its middle. The
/// beginning and the end remain, because they identify it. `None` for other texts, or if
/// `max_chars` is too small for both.
fn shorten_path(text: &str, length: usize, max_chars: usize) -> Option<String> {
    let tail_chars = max_chars.checked_sub(STUB_CHARS).filter(|tail| *tail >= STUB_CHARS / 2)?;
    let sign = part_sign(text)?;
    let tail_chars = tail_chars.min(length.saturating_sub(STUB_CHARS + 1));
    if tail_chars == 0 {
        return None;
    }
    let head: String = text.chars().take(STUB_CHARS).collect();
    let from = text.char_indices().nth(length - tail_chars)?.0;
    let tail = text.get(from..)?;
    // Whole parts.
    let tail = tail.find(sign).and_then(|at| tail.get(at..)).unwrap_or(tail);
    let left = length - STUB_CHARS - tail.chars().count();
    Some(format!("{head}{}{tail}", truncation_mark(left, "characters")))
}

/// The number of bytes at the start of a text from which its script is detected.
const SCRIPT_SAMPLE_BYTES: usize = 200;

/// Returns true if no sentence of `text` can end within its first `max_chars` characters. False if
/// one ends or may end there, and for text beyond ASCII.
fn runs_on(text: &str, max_chars: usize) -> bool {
    let bytes = text.as_bytes();
    let ends = |part: u8x16| {
        let is = |byte: u8| part.simd_eq(u8x16::splat(byte));
        is(b'.') | is(b'!') | is(b'?') | in_range(part, b'\n', b'\r')
    };
    let head = bytes.get(..max_chars.max(SCRIPT_SAMPLE_BYTES)).unwrap_or(bytes);
    is_ascii(head) && find_where(head, 0, ends) >= max_chars
}

/// Returns the number of words in a text.
fn words(text: &str) -> usize {
    let bytes = text.as_bytes();
    if is_ascii(bytes) { ascii_words(bytes) } else { text.split_whitespace().count() }
}

/// Returns true if the script of a text, such as Chinese, does not separate words by spaces.
fn is_wide(text: &str) -> bool {
    let bytes = text.as_bytes();
    if is_ascii(bytes.get(..SCRIPT_SAMPLE_BYTES).unwrap_or(bytes)) {
        return false;
    }
    let head = text.chars().take(SCRIPT_SAMPLE_BYTES);
    head.clone().filter(|character| *character > '\u{2e80}').count() * 3 > head.count()
}

fn has_keyword(sentence: &str, keywords: &[String]) -> bool {
    let sentence = sentence.to_lowercase();
    keywords.iter().any(|keyword| sentence.contains(&keyword.to_lowercase()))
}

/// Splits the first 64 kB of a text into sentences, each with the space after it. A line break also
/// ends a sentence.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let head = text
        .get(..context_guard_json::text::boundary(text.as_bytes(), 65_536, Form::Raw))
        .unwrap_or(text);
    head.split_inclusive('\n').flat_map(|line| line.split_sentence_bounds())
}

/// Returns as many leading words of `text` as fit `max_chars` characters, or a part of the first
/// word if it is longer.
fn words_within(text: &str, max_chars: usize) -> String {
    let cut = text.char_indices().nth(max_chars).map_or(text.len(), |(at, _)| at);
    let head = text.get(..cut).unwrap_or(text);
    if cut == text.len() {
        return head.to_owned();
    }
    let word_end = head.rfind(char::is_whitespace).filter(|_| !is_wide(text)).unwrap_or(cut);
    let whole = head.get(..word_end).unwrap_or(head);
    if whole.is_empty() { String::new() } else { graphemes(whole) }
}

/// Returns `text` without its last grapheme cluster, which may be incomplete if the text was cut.
fn graphemes(text: &str) -> String {
    match text.grapheme_indices(true).next_back() {
        Some((at, last)) if last.chars().count() > 1 => text.get(..at).unwrap_or(text).to_owned(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_keep_both_ends() {
        let url = "https://static.example.org/frameworks/3.7.3/orb/4/style/orb.min.css";
        assert_eq!(
            shorten(url, 48, &[]),
            "https://static.example.o ... [19 more characters]/orb/4/style/orb.min.css"
        );
        assert_eq!(shorten(url, 30, &[]), "https://static.example.o ... [43 more characters]");
        let path = format!("/srv/{}/name", "é".repeat(80));
        assert_eq!(
            shorten(&path, 48, &[]),
            format!("/srv/{} ... [61 more characters]/name", "é".repeat(19))
        );
        assert!(has_truncation_mark(&shorten(url, 48, &[])));
        assert_eq!(shorten(url, 100, &[]), url);
        for (name, expected) in [
            (
                "org.example.commons.StringBenchmark.DoubleArray.testJoin_3_20",
                "org.example.commons.Stri ... [23 more characters].testJoin_3_20",
            ),
            (
                r"C:\Users\someone\source\repos\Console\Console\Program.cs",
                r"C:\Users\someone\source\ ... [13 more characters]\Console\Program.cs",
            ),
        ] {
            assert_eq!(shorten(name, 48, &[]), expected);
        }
        // A token in three parts is no name.
        let token = format!("{}.{}.cc", "a".repeat(70), "b".repeat(70));
        assert_eq!(
            shorten(&token, 60, &[]),
            format!("{} ... [120 more characters]", "a".repeat(24))
        );
    }

    #[test]
    fn first_sentence_precedes_keywords_and_mark() {
        let text = "The house stands by the sea. It has four rooms and a garden. The deposit is 200 euro. Dogs are welcome.";
        assert_eq!(
            shorten(text, 60, &["deposit".to_owned()]),
            "The house stands by the sea. The deposit is 200 euro. ... [10 more words]"
        );
        assert_eq!(shorten(text, 20, &[]), "The house stands by ... [17 more words]");
        assert_eq!(shorten(text, 500, &[]), text);
    }

    #[test]
    fn data_and_cjk_are_counted_in_characters() {
        let blob = "QUJD".repeat(100);
        assert_eq!(
            shorten(&blob, 80, &[]),
            format!("{}{}", "QUJD".repeat(6), " ... [376 more characters]")
        );
        let japanese = "海のそばの家です。庭があります。犬も泊まれます。".repeat(4);
        assert!(shorten(&japanese, 20, &[]).ends_with(" more characters]"));
    }

    #[test]
    fn truncation_marks_are_detected() {
        assert!(
            has_truncation_mark("The house ... [12 more words]")
                && has_truncation_mark("x ... [1 more items] y")
        );
        assert!(
            !has_truncation_mark("and so on ... [see there]")
                && !has_truncation_mark(" ... [ more words]")
        );
    }
}
