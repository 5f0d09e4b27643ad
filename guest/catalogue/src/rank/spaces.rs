//! Corrects missing and additional spaces in queries.

use std::borrow::Cow;

use super::common::is_common;
use super::correct::corrections;
use crate::index::Index;
use crate::text::{Splitter, is_stop_word};

/// Minimum length, in bytes, of a word that is split.
const MIN_SPLIT: usize = 6;
/// Maximum length, in bytes, of a word that is split or joined.
const MAX_LENGTH: usize = 32;
/// Minimum length, in bytes, of each part of a split word that is not a function word.
const MIN_PART: usize = 4;
/// Maximum cost of an edit that is more probable than a missing space.
const PROBABLE_EDIT: u8 = 8;
/// Minimum number of tools with a word of three letters that is the first part.
const FREQUENT: usize = 10;
/// Minimum length, in bytes, of each part if a tool has the parts next to each other.
const MIN_PAIR_PART: usize = 3;

/// Maximum number of tools with a compound whose words are searched, too.
const RARE: usize = 2;

/// Function words that occur after apostrophes only, and are else parts of words.
const ENDINGS: &[&str] = &["ll", "re", "ve"];
/// Punctuation after a word.
const PUNCTUATION: &[char] = &['.', ',', ';', ':', '!', '?', ')', '"', '\''];

/// Returns the text with other spaces. A word that is not in the index becomes two words that are.
/// A word that is not in the index, and its neighbour, become one word that is. Compounds of two
/// words get the other spelling, too.
pub(super) fn corrected<'t>(
    index: &Index<'_>,
    text: &'t str,
    splitter: &mut Splitter,
) -> Cow<'t, str> {
    let words = words(text);
    let mut vocabulary = IndexWords { index, splitter };
    let unknown: Vec<bool> = words.iter().map(|word| vocabulary.is_unknown(&word.lower)).collect();
    let is_unknown = |at: usize| unknown.get(at).copied().unwrap_or_default();
    let mut corrected = String::new();
    let mut copied = 0;
    let mut replace = |start: usize, end: usize, replacement: &str| {
        corrected.push_str(text.get(copied..start).unwrap_or_default());
        corrected.push_str(replacement);
        copied = end;
    };
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let end = word.start + word.lower.len();
        let next = words.get(at + 1).filter(|next| text.get(end..next.start) == Some(" "));
        if let Some(next) = next
            && (is_unknown(at) || is_unknown(at + 1))
            && vocabulary.has_tools(&format!("{}{}", word.lower, next.lower))
        {
            replace(end, next.start, "");
            // The next word is a part of this one.
            at += 1;
        } else if let Some(next) = next
            && vocabulary.is_compound(&word.lower, &next.lower)
        {
            let end = next.start + next.lower.len();
            replace(end, end, &format!(" {}{}", word.lower, next.lower));
        } else if is_unknown(at) {
            if let Some((first, second)) = vocabulary.split(&word.lower) {
                replace(word.start, end, &format!("{first} {second}"));
            }
        } else if let Some((first, second)) = vocabulary.split_compound(&word.lower) {
            replace(end, end, &format!(" {first} {second}"));
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    corrected.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(corrected)
}

/// A word of ASCII letters in a text.
struct PlainWord {
    start: usize,
    /// The word in lower case.
    lower: String,
}

/// Returns the words between white space that consist of ASCII letters only, and are not in camel
/// case. Punctuation may surround them.
fn words(text: &str) -> Vec<PlainWord> {
    let mut words = Vec::new();
    let mut start = 0;
    for token in text.split_inclusive(char::is_whitespace) {
        let trimmed = token.trim_start_matches(['(', '"', '\'']);
        let at = start + token.len() - trimmed.len();
        start += token.len();
        let word =
            trimmed.trim_end_matches(|c: char| c.is_whitespace() || PUNCTUATION.contains(&c));
        let is_camel_case = word.as_bytes().windows(2).any(|pair| {
            matches!(pair, [left, right] if left.is_ascii_lowercase() && right.is_ascii_uppercase())
        });
        if !word.is_empty() && !is_camel_case && word.bytes().all(|byte| byte.is_ascii_alphabetic())
        {
            words.push(PlainWord { start: at, lower: word.to_ascii_lowercase() });
        }
    }
    words
}

/// The words of an index.
struct IndexWords<'i, 's> {
    index: &'i Index<'i>,
    splitter: &'s mut Splitter,
}

impl IndexWords<'_, '_> {
    /// Returns true if a tool has the word.
    fn has_tools(&mut self, word: &str) -> bool {
        let stem = self.splitter.stem(word);
        word.len() <= MAX_LENGTH
            && self.index.term(&stem).is_some_and(|term| self.index.frequency(term) > 0)
    }

    /// Returns true if two words of the index are also one word, in as many tools as the rarer of
    /// them.
    fn is_compound(&mut self, first: &str, second: &str) -> bool {
        let mut frequency = |word: &str| {
            let term = self.index.term(&self.splitter.stem(word));
            term.map_or(0, |term| self.index.frequency(term))
        };
        let rarer = frequency(first).min(frequency(second));
        rarer > 0 && frequency(&format!("{first}{second}")) >= rarer
    }

    /// Returns true if a word is neither in the index nor a function word.
    fn is_unknown(&mut self, word: &str) -> bool {
        let is_function_word = is_stop_word(word) && !ENDINGS.contains(&word);
        let is_omitted = is_function_word || word.len() < 2;
        !is_omitted && self.index.term(&self.splitter.stem(word)).is_none()
    }

    /// Returns the two words of which an unknown word consists. `None` if there are none, or if a
    /// spelling error is more probable than a missing space.
    fn split<'w>(&mut self, word: &'w str) -> Option<(&'w str, &'w str)> {
        let mut best = None;
        for (first_text, second_text) in splits(word, 1) {
            let Some(first) = self.part(first_text) else { continue };
            let Some(second) = self.part(second_text) else { continue };
            let is_pair = self.is_pair(&first, &second);
            // `get` and `add` often occur without a space, but short parts of names are chance.
            let is_likely = second.length >= MIN_PART
                && (first.length >= MIN_PART || first.frequency >= FREQUENT);
            let score = (is_pair, first.frequency.min(second.frequency));
            if (is_pair || is_likely) && best.is_none_or(|(best, _)| score > best) {
                best = Some((score, (first_text, second_text)));
            }
        }
        let ((is_pair, _), parts) = best?;
        if is_common(&self.splitter.stem(word)) {
            return None;
        }
        // Words that are next to each other in a tool are as probable as the more costly edits.
        let corrections = corrections(self.index, word, self.splitter);
        let is_misspelled = corrections.iter().any(|one| !is_pair || one.cost <= PROBABLE_EDIT);
        (!is_misspelled).then_some(parts)
    }

    /// Returns the two words of a rare compound of the index, such as `goldprice`. `None` if no
    /// tool has these words next to each other.
    fn split_compound<'w>(&mut self, word: &'w str) -> Option<(&'w str, &'w str)> {
        let mut splits = splits(word, MIN_PAIR_PART).peekable();
        splits.peek()?;
        let term = self.index.term(&self.splitter.stem(word))?;
        let frequency = self.index.frequency(term);
        if !(1..=RARE).contains(&frequency) {
            return None;
        }
        splits.find(|(first, second)| {
            let parts = self.part(first).zip(self.part(second));
            parts.is_some_and(|(first, second)| {
                first.frequency.min(second.frequency) > frequency && self.is_pair(&first, &second)
            })
        })
    }

    /// Returns the data of a part of a word. `None` if it is no word.
    fn part(&mut self, part: &str) -> Option<Part> {
        if is_stop_word(part) || part == "a" {
            // The other part decides.
            return Some(Part { term: None, length: usize::MAX, frequency: usize::MAX });
        }
        if part.len() < MIN_PAIR_PART {
            return None;
        }
        let stem = self.splitter.stem(part);
        let term = self.index.term(&stem);
        let frequency = term.map(|term| self.index.frequency(term));
        (frequency.is_some() || is_common(&stem)).then_some(Part {
            term,
            length: part.len(),
            frequency: frequency.unwrap_or_default(),
        })
    }

    /// Returns true if a tool has the parts next to each other.
    fn is_pair(&self, first: &Part, second: &Part) -> bool {
        let pair = first.term.zip(second.term);
        pair.is_some_and(|(first, second)| self.index.pair_tools(first, second).next().is_some())
    }
}

/// Returns the ways to split a word in two parts of at least `shortest` bytes. Empty for words that
/// are too short or too long.
fn splits(word: &str, shortest: usize) -> impl Iterator<Item = (&str, &str)> {
    let is_split = (MIN_SPLIT..=MAX_LENGTH).contains(&word.len());
    let lengths = if is_split { shortest..word.len() + 1 - shortest } else { 0..0 };
    lengths.filter_map(|length| word.split_at_checked(length))
}

/// A part of a word, which can be two words without the space between them.
struct Part {
    /// The term of the index. `None` if it is only a common word.
    term: Option<u32>,
    length: usize,
    /// The number of tools with the term.
    frequency: usize,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::index::{self, Settings};
    use crate::tool::Tool;

    fn corrected_with(descriptions: &[&str], text: &str) -> String {
        let definitions: Vec<String> = descriptions
            .iter()
            .map(|text| format!(r#"{{"name":"t","description":"{text}"}}"#))
            .collect();
        let tools = definitions.iter().map(|one| Tool::parse("s", "s__t", one).unwrap());
        let bytes = index::compile(&tools.collect::<Vec<_>>(), &Settings::default());
        let index = Index::open(&bytes).unwrap();
        corrected(&index, text, &mut Splitter::default()).into_owned()
    }

    #[test]
    fn missing_spaces_are_inserted() {
        let tools = ["Lists issues of a repository", "Searches GitHub", "Draws a canvas"];
        for (text, expected) in [
            ("(listissues!", "(list issues!"),
            ("draw thecanvas", "draw the canvas"),
            ("draw acanvas", "draw a canvas"),
            ("lists issues", "lists issues"),
            // A swap of letters is more probable.
            ("repositoyr", "repositoyr"),
            ("https://listissues.example/listissues", "https://listissues.example/listissues"),
            ("list_issues listIssues", "list_issues listIssues"),
        ] {
            assert_eq!(corrected_with(&tools, text), expected);
        }
    }

    #[test]
    fn additional_spaces_are_removed() {
        let tools = ["Searches GitHub", "Shows information about a refund", "Lists a git log"];
        for (text, expected) in [
            ("git hub", "git hub github"),
            ("some informa tion, please", "some information, please"),
            ("re fund", "refund"),
            ("git, hub", "git, hub"),
            ("a git log", "a git log"),
        ] {
            assert_eq!(corrected_with(&tools, text), expected);
        }
    }

    #[test]
    fn words_of_compounds_are_added() {
        let tools = ["Shows goldPrice", "Gold price of a day", "Price of gold", "Sets a price"];
        assert_eq!(corrected_with(&tools, "goldprice"), "goldprice gold price");
    }

    #[test]
    fn common_words_are_not_split() {
        assert_eq!(corrected_with(&["Ends the week", "Week end"], "weekend"), "weekend");
        assert_eq!(corrected_with(&["Ends the week", "Week end"], "weekends"), "weekends");
    }
}
