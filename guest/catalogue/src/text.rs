//! Splits texts into terms: lower-case words without suffixes.

use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization as _;

/// Maximum length of a term in bytes. Longer words, such as encoded data, are ignored.
const MAX_TERM_BYTES: usize = 64;
/// Maximum number of words whose stems are cached.
const MAX_CACHED_STEMS: usize = 50_000;

/// Function words, sorted. `get`, `up`, `down` and `all` are not stop words, because they occur in
/// the names of tools.
const STOP_WORDS: &[&str] = &[
    "about",
    "after",
    "again",
    "also",
    "am",
    "an",
    "and",
    "any",
    "anyone",
    "anything",
    "are",
    "as",
    "at",
    "be",
    "because",
    "been",
    "before",
    "being",
    "both",
    "but",
    "by",
    "can",
    "could",
    "did",
    "do",
    "does",
    "doing",
    "done",
    "during",
    "each",
    "either",
    "etc",
    "ever",
    "every",
    "few",
    "for",
    "from",
    "had",
    "has",
    "have",
    "having",
    "he",
    "her",
    "here",
    "hers",
    "him",
    "his",
    "how",
    "if",
    "in",
    "into",
    "is",
    "it",
    "its",
    "itself",
    "just",
    "let",
    "like",
    "ll",
    "may",
    "me",
    "might",
    "mine",
    "more",
    "most",
    "must",
    "my",
    "myself",
    "need",
    "needs",
    "no",
    "nor",
    "not",
    "of",
    "off",
    "on",
    "once",
    "only",
    "or",
    "other",
    "our",
    "ours",
    "own",
    "please",
    "re",
    "same",
    "shall",
    "she",
    "should",
    "so",
    "some",
    "someone",
    "something",
    "such",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "through",
    "to",
    "too",
    "us",
    "use",
    "used",
    "uses",
    "using",
    "various",
    "ve",
    "very",
    "via",
    "want",
    "wants",
    "was",
    "we",
    "were",
    "what",
    "when",
    "where",
    "whether",
    "which",
    "while",
    "who",
    "whom",
    "whose",
    "why",
    "will",
    "with",
    "within",
    "without",
    "would",
    "you",
    "your",
    "yours",
];

/// Returns the function words that are no terms.
pub(crate) fn stop_words() -> impl Iterator<Item = &'static str> {
    STOP_WORDS.iter().copied()
}

/// Returns true for a function word in lower case.
pub(crate) fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// A term, with the original word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The term: a stem, a number or a pair of characters.
    pub text: String,
    /// The original word, in lower case.
    pub word: String,
    /// The kind of term.
    pub kind: TermKind,
}

/// The kind of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermKind {
    /// A word, or a part of a compound such as `getWeather`.
    Word,
    /// A number.
    Number,
    /// A whole compound, in addition to its parts.
    Compound,
}

/// A splitter of texts into terms, with a cache of stems.
pub struct Splitter {
    stemmer: Stemmer,
    stems: HashMap<String, String>,
}

impl Default for Splitter {
    fn default() -> Self {
        Self { stemmer: Stemmer::create(Algorithm::English), stems: HashMap::new() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Upper,
    Lower,
    Digit,
    Ideograph,
    Joiner,
    Other,
}

impl Splitter {
    /// Returns the terms of a text, in order. Omits stop words and single letters.
    pub fn split(&mut self, text: &str) -> Vec<Term> {
        let mut terms = Vec::new();
        if text.is_ascii() {
            self.split_normalized(text, &mut terms);
        } else {
            let normalized: String = text.nfkc().collect();
            self.split_normalized(&normalized, &mut terms);
        }
        terms
    }

    /// Returns the stem of a word in lower case. A word with other characters than ASCII is its own
    /// stem.
    pub fn stem(&mut self, word: &str) -> String {
        if !word.is_ascii() {
            return word.to_owned();
        }
        if let Some(stem) = self.stems.get(word) {
            return stem.clone();
        }
        let stem = self.stemmer.stem(word).into_owned();
        if self.stems.len() < MAX_CACHED_STEMS {
            self.stems.insert(word.to_owned(), stem.clone());
        }
        stem
    }

    fn split_normalized(&mut self, text: &str, terms: &mut Vec<Term>) {
        let mut run = String::new();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            // An apostrophe inside a word starts an ending: `user's`, `don't`.
            if matches!(character, '\'' | '’') && !run.is_empty() {
                self.end_run(&mut run, terms);
                while characters.next_if(|next| next.is_alphabetic()).is_some() {}
                continue;
            }
            match class(character) {
                Class::Other => self.end_run(&mut run, terms),
                Class::Ideograph => {
                    self.end_run(&mut run, terms);
                    run.push(character);
                    while let Some(next) =
                        characters.next_if(|next| class(*next) == Class::Ideograph)
                    {
                        run.push(next);
                    }
                    push_bigrams(&run, terms);
                    run.clear();
                }
                _ => run.push(character),
            }
        }
        self.end_run(&mut run, terms);
    }

    /// Appends the parts of a run of letters, digits and underscores to `terms`. Appends the run
    /// itself, too, if it is a compound.
    fn end_run(&mut self, run: &mut String, terms: &mut Vec<Term>) {
        if run.is_empty() {
            return;
        }
        let parts = parts(run);
        let before = terms.len();
        for part in &parts {
            self.push_word(part, terms);
        }
        if parts.len() > 1 && terms.len() > before {
            let compound: String = parts.concat();
            if compound.len() <= MAX_TERM_BYTES && !compound.bytes().all(|b| b.is_ascii_digit()) {
                let text = self.stem(&compound);
                terms.push(Term { text, word: compound, kind: TermKind::Compound });
            }
        }
        run.clear();
    }

    fn push_word(&mut self, word: &str, terms: &mut Vec<Term>) {
        if word.len() > MAX_TERM_BYTES || is_stop_word(word) {
            return;
        }
        if word.chars().all(char::is_numeric) {
            let text = word.to_owned();
            terms.push(Term { word: text.clone(), text, kind: TermKind::Number });
        } else if word.chars().nth(1).is_some() {
            let text = self.stem(word);
            terms.push(Term { text, word: word.to_owned(), kind: TermKind::Word });
        }
    }
}

fn class(character: char) -> Class {
    match character {
        'a'..='z' => Class::Lower,
        'A'..='Z' => Class::Upper,
        '0'..='9' => Class::Digit,
        '_' => Class::Joiner,
        // Kana, ideographs, Hangul, and the languages of South East Asia, which have no spaces.
        '\u{e00}'..='\u{eff}'
        | '\u{1000}'..='\u{109f}'
        | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}' => Class::Ideograph,
        other if other.is_numeric() => Class::Digit,
        other if other.is_uppercase() => Class::Upper,
        // Combining marks belong to the letters before them.
        other if other.is_alphabetic() || is_mark(other) => Class::Lower,
        _ => Class::Other,
    }
}

/// Returns true for combining marks, such as vowel signs of Hindi.
fn is_mark(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}' | '\u{900}'..='\u{dff}' | '\u{64b}'..='\u{65f}')
}

/// Splits a run at underscores, between letters and digits, and at word boundaries in camel case.
/// Returns the parts in lower case.
fn parts(run: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut previous = Class::Joiner;
    let mut characters = run.chars().peekable();
    while let Some(character) = characters.next() {
        let class = class(character);
        let starts_word = match (previous, class) {
            (_, Class::Joiner) => true,
            (Class::Digit, Class::Digit) | (Class::Joiner, _) => false,
            (Class::Digit, _) | (_, Class::Digit) => true,
            (Class::Lower, Class::Upper) => true,
            // The last capital of `HTTPServer` starts a word, but not that of `URLs`.
            (Class::Upper, Class::Upper) => {
                let mut rest = characters.clone();
                let follows =
                    |next: Option<char>| next.is_some_and(|next| self::class(next) == Class::Lower);
                follows(rest.next()) && follows(rest.next())
            }
            _ => false,
        };
        if starts_word && !current.is_empty() {
            parts.push(std::mem::take(&mut current));
        }
        if class != Class::Joiner {
            current.extend(character.to_lowercase());
        }
        previous = class;
    }
    if !current.is_empty() {
        parts.push(current);
    }
    parts
}

fn push_bigrams(run: &str, terms: &mut Vec<Term>) {
    let characters: Vec<char> = run.chars().collect();
    let mut push = |text: String| {
        terms.push(Term { word: text.clone(), text, kind: TermKind::Word });
    };
    if let [one] = characters.as_slice() {
        push(one.to_string());
    }
    for pair in characters.windows(2) {
        push(pair.iter().collect());
    }
}

/// Returns the lower-case letters and digits of a name. Names that differ only in their notation
/// have equal results.
#[must_use]
pub fn normalized_name(name: &str) -> String {
    let letters = name.nfkc().filter(|character| character.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Vec<String> {
        Splitter::default().split(text).into_iter().map(|term| term.text).collect()
    }

    #[test]
    fn stop_words_are_sorted() {
        assert!(STOP_WORDS.is_sorted());
        for word in ["get", "up", "down", "all"] {
            assert!(STOP_WORDS.binary_search(&word).is_err());
        }
    }

    #[test]
    fn compounds_are_split() {
        assert_eq!(terms("getHTTPServer"), ["get", "http", "server", "gethttpserv"]);
        assert_eq!(terms("list_PDFs x"), ["list", "pdfs", "listpdf"]);
        assert_eq!(terms("mp3 to 2024-05"), ["mp", "3", "mp3", "2024", "05"]);
        assert_eq!(terms("The user's weather"), ["user", "weather"]);
    }

    #[test]
    fn scripts_without_spaces_become_pairs() {
        assert_eq!(terms("搜索指定 file"), ["搜索", "索指", "指定", "file"]);
        assert_eq!(terms("ﬁles ①"), ["file", "1"]);
        assert_eq!(terms("Привет мир"), ["привет", "мир"]);
    }

    #[test]
    fn notations_of_a_name_are_equal() {
        assert_eq!(normalized_name("git::commitAll"), normalized_name("git__commit_all"));
    }
}
