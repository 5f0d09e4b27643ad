//! Parses queries: terms with weights, needs, and exact names.

use crate::text::{Splitter, TermKind};

/// Maximum number of leading characters of a query that are read.
const MAX_QUERY_CHARACTERS: usize = 4_000;
/// Maximum number of needs of one query that are ranked separately.
const MAX_NEEDS: usize = 8;
/// Minimum number of terms of a need.
const MIN_NEED_TERMS: usize = 3;
/// Maximum number of names after `select:`.
const MAX_SELECTED: usize = 50;
/// Maximum length of an exact name in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The weight of terms in quotes, because quoted names and titles say little about the needed tool.
const QUOTED_WEIGHT: f32 = 0.8;
/// The weight of numbers.
const NUMBER_WEIGHT: f32 = 0.08;
/// The weight that each repetition of a term adds.
pub(super) const REPETITION_WEIGHT: f32 = 0.5;
/// The maximum weight of a repeated term.
const MAX_REPETITION: f32 = 2.0;

/// Words that separate the needs of a query.
const SEPARATORS: &[&str] = &["then", "also", "additionally", "finally", "next"];

/// File extensions. A word with such an extension is a file name, such as `data.csv`.
const FILE_EXTENSIONS: &[&str] = &[
    "avi", "bmp", "c", "cfg", "conf", "cpp", "css", "csv", "db", "doc", "docx", "epub", "flac",
    "gif", "go", "gz", "html", "ini", "ipynb", "java", "jpeg", "jpg", "js", "json", "jsonl", "log",
    "m4a", "md", "mkv", "mov", "mp3", "mp4", "ods", "odt", "ogg", "parquet", "pdf", "png", "ppt",
    "pptx", "py", "rb", "rs", "rtf", "sh", "sql", "sqlite", "svg", "tar", "tiff", "toml", "ts",
    "tsv", "tsx", "txt", "wav", "webm", "webp", "xls", "xlsx", "xml", "yaml", "yml", "zip",
];

/// A term of a query.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueryTerm {
    pub(super) text: String,
    pub(super) word: String,
    pub(super) kind: TermKind,
    pub(super) weight: f32,
    /// True if the word is a capitalized name inside a sentence.
    pub(super) is_name: bool,
}

/// A part of a query.
struct Piece {
    text: String,
    weight: f32,
    is_name: bool,
}

/// The distinct terms of a query in the order of their first occurrence. `sequence` has all words,
/// as indices in `terms`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct QueryTerms {
    pub(super) terms: Vec<QueryTerm>,
    pub(super) sequence: Vec<usize>,
}

/// Returns the leading characters of a query that are read.
pub(super) fn shortened(query: &str) -> &str {
    let end = query.char_indices().nth(MAX_QUERY_CHARACTERS).map_or(query.len(), |(at, _)| at);
    query.get(..end).unwrap_or_default()
}

/// Reads the terms of a query.
pub(super) fn read(query: &str, splitter: &mut Splitter) -> QueryTerms {
    let mut counted: Vec<(QueryTerm, f32)> = Vec::new();
    let mut sequence = Vec::new();
    for Piece { text, weight, is_name } in pieces(shortened(query)) {
        for term in splitter.split(&text) {
            let weight = match term.kind {
                TermKind::Number => NUMBER_WEIGHT,
                _ => weight,
            };
            let known = counted.iter().position(|(known, _)| known.text == term.text);
            let at = known.unwrap_or(counted.len());
            match counted.get_mut(at) {
                Some((known, count)) => {
                    *count += 1.0;
                    known.weight = known.weight.max(weight);
                    known.is_name &= is_name;
                }
                None => {
                    let (text, word, kind) = (term.text, term.word, term.kind);
                    counted.push((QueryTerm { text, word, kind, weight, is_name }, 1.0));
                }
            }
            if term.kind != TermKind::Compound {
                sequence.push(at);
            }
        }
    }
    let repeated = |(term, count): (QueryTerm, f32)| {
        let factor = (1.0 + REPETITION_WEIGHT * (count - 1.0)).min(MAX_REPETITION);
        QueryTerm { weight: term.weight * factor, ..term }
    };
    QueryTerms { terms: counted.into_iter().map(repeated).collect(), sequence }
}

/// Splits a query into texts with weights. Replaces addresses and paths by words for their type.
fn pieces(query: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (text, is_quoted) in split_quotes(query) {
        let weight = if is_quoted { QUOTED_WEIGHT } else { 1.0 };
        let mut plain = String::new();
        let mut push = |text, is_name| pieces.push(Piece { text, weight, is_name });
        let mut previous = None;
        for word in text.split_whitespace() {
            let typed = typed(word);
            let is_name = is_name(previous.replace(word), word);
            if typed.is_some() || is_name {
                push(std::mem::take(&mut plain), false);
            }
            match typed {
                Some(kind) => push(kind, false),
                None if is_name => push(word.to_owned(), true),
                None => {
                    plain.push_str(word);
                    plain.push(' ');
                }
            }
        }
        push(plain, false);
    }
    pieces.retain(|piece| !piece.text.is_empty());
    pieces
}

/// Returns true if a word is probably a name: it has a capital letter, and follows a word that has
/// none and does not end a sentence.
fn is_name(previous: Option<&str>, word: &str) -> bool {
    let mut letters = word.chars().skip_while(|letter| !letter.is_alphanumeric());
    letters.next().is_some_and(char::is_uppercase)
        && letters.next().is_some_and(char::is_lowercase)
        && previous.is_some_and(|previous| {
            previous.ends_with(|end: char| end.is_alphanumeric() || end == ',')
        })
}

/// Splits a query at quotation marks. The boolean is true for text inside the marks.
fn split_quotes(query: &str) -> Vec<(&str, bool)> {
    let mut parts = Vec::new();
    let mut rest = query;
    while let Some((at, open)) = rest.char_indices().find(|(at, character)| {
        let before = rest.get(..*at).and_then(|before| before.chars().next_back());
        // A single quotation mark inside a word is an apostrophe.
        matches!(character, '"' | '“' | '`')
            || (matches!(character, '\'' | '‘') && before.is_none_or(|c| !c.is_alphanumeric()))
    }) {
        let close = match open {
            '“' => '”',
            '‘' => '’',
            other => other,
        };
        let (before, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let inside = after.get(open.len_utf8()..).unwrap_or_default();
        let end = inside.char_indices().find(|(at, character)| {
            let next = inside.get(at + character.len_utf8()..).and_then(|next| next.chars().next());
            *character == close && (open != '\'' || next.is_none_or(|next| !next.is_alphanumeric()))
        });
        let Some((end, _)) = end else { break };
        parts.push((before, false));
        parts.push((inside.get(..end).unwrap_or_default(), true));
        rest = inside.get(end + close.len_utf8()..).unwrap_or_default();
    }
    parts.push((rest, false));
    parts
}

/// Returns the words that replace an address or a path, such as `url`. `None` for other words.
fn typed(word: &str) -> Option<String> {
    let word = word
        .trim_matches(|c: char| matches!(c, '.' | ',' | ';' | ':' | '!' | '?'))
        .trim_matches(|c: char| matches!(c, '(' | ')' | '<' | '>' | '[' | ']' | '{' | '}'));
    let has_scheme = word.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    if has_scheme || word.starts_with("www.") {
        return Some("url".to_owned());
    }
    if let Some((local, domain)) = word.split_once('@')
        && !local.is_empty()
        && domain.contains('.')
        && !domain.contains('/')
    {
        return Some("email".to_owned());
    }
    let extension = word.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let extension = extension.filter(|ext| FILE_EXTENSIONS.binary_search(&ext.as_str()).is_ok());
    let is_absolute = ["/", "./", "../", "~/"].iter().any(|start| {
        word.strip_prefix(start).is_some_and(|rest| rest.starts_with(char::is_alphanumeric))
    });
    let is_drive =
        matches!(word.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    (is_absolute || is_drive || extension.is_some())
        .then(|| format!("file {}", extension.unwrap_or_default()))
}

/// Splits a query into its needs. Returns an empty list if the query has only one need.
pub(super) fn needs(query: &str, splitter: &mut Splitter) -> Vec<String> {
    let mut needs = vec![String::new()];
    let words: Vec<&str> = shortened(query).split_inclusive(char::is_whitespace).collect();
    let mut previous_ends = false;
    let mut skip = 0;
    for (at, word) in words.iter().enumerate() {
        if skip > 0 {
            skip -= 1;
            continue;
        }
        let bare = word.trim();
        let lower = bare.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let follows = |offset: usize| words.get(at + offset).map(|word| word.trim().to_lowercase());
        let previous_comma = at
            .checked_sub(1)
            .and_then(|at| words.get(at))
            .is_some_and(|word| word.trim().ends_with(','));
        let separates = SEPARATORS.contains(&lower.as_str())
            || bare == "+"
            || (lower == "and" && previous_comma);
        if lower == "as"
            && follows(1).as_deref() == Some("well")
            && follows(2).as_deref() == Some("as")
        {
            skip = 2;
            needs.push(String::new());
            continue;
        }
        if separates || previous_ends {
            needs.push(String::new());
        }
        if !separates && let Some(need) = needs.last_mut() {
            need.push_str(word);
        }
        previous_ends = bare.ends_with(['.', '!', '?', ';', '。', '！', '？', '；'])
            || word.contains(['\n', '\r']);
    }
    needs.retain(|need| {
        let terms = splitter.split(need);
        terms.iter().filter(|term| term.kind == TermKind::Word).count() >= MIN_NEED_TERMS
    });
    needs.truncate(MAX_NEEDS);
    if needs.len() < 2 {
        needs.clear();
    }
    needs
}

/// Returns the names of which a query may consist: the query itself, or the list after `select:`.
pub(super) fn exact_names(query: &str) -> Vec<&str> {
    let query = query.trim();
    match query.strip_prefix("select:") {
        Some(names) => names.split(',').map(unquoted).take(MAX_SELECTED).collect(),
        None if query.len() <= MAX_NAME_BYTES => vec![unquoted(query)],
        None => Vec::new(),
    }
}

/// Returns a name without quotation marks around it.
fn unquoted(name: &str) -> &str {
    name.trim_matches(['"', '\'', '`', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(query: &str) -> Vec<(String, f32)> {
        let terms = read(query, &mut Splitter::default()).terms;
        terms.into_iter().map(|term| (term.text, term.weight)).collect()
    }

    fn pair(text: &str, weight: f32) -> (String, f32) {
        (text.to_owned(), weight)
    }

    #[test]
    fn extensions_are_sorted() {
        assert!(FILE_EXTENSIONS.is_sorted());
    }

    #[test]
    fn addresses_and_paths_become_types() {
        assert_eq!(
            words("fetch https://a.example/x, mail bob@a.example read ./notes.txt"),
            [
                pair("fetch", 1.0),
                pair("url", 1.0),
                pair("mail", 1.0),
                pair("email", 1.0),
                pair("read", 1.0),
                pair("file", 1.0),
                pair("txt", 1.0),
            ]
        );
    }

    #[test]
    fn quotes_numbers_and_repetitions_have_weights() {
        assert_eq!(
            words("book 'Dune' 2021 book's book book"),
            [pair("book", 2.0), pair("dune", 0.8), pair("2021", 0.08)]
        );
    }

    #[test]
    fn needs_are_separated() {
        let needs = |query| needs(query, &mut Splitter::default());
        assert_eq!(
            needs("Find a good hotel in Rome, and then book a cheap flight there. Thanks!"),
            ["Find a good hotel in Rome, ", "book a cheap flight there. "]
        );
        assert!(needs("Find a hotel in Rome").is_empty());
    }

    #[test]
    fn names_are_recognized() {
        assert_eq!(exact_names(" `git__commit` "), ["git__commit"]);
        assert_eq!(exact_names("select:a__b, c::d"), ["a__b", "c::d"]);
    }
}
