//! Patterns that a text must match: a substring, a `LIKE` pattern or a regular expression.

use std::cell::Cell;

use crate::query::grep::{Pattern, has_capital};
use crate::query::reader::is_word_character;
use crate::query::value::quote;

/// The name of the case-sensitive operator whose regular expression is in slashes.
const IN_SLASHES: &str = "=~ /…/";

/// A pattern that texts are compared with.
#[derive(Debug)]
pub(super) struct TextPattern {
    kind: PatternKind,
    /// The text of the pattern, as the caller wrote it.
    text: String,
    /// True once a text matched whose case differs from the pattern.
    has_other_case: Cell<bool>,
    /// The regular expression to use instead, if no value contains the text.
    alternative: Option<Box<TextPattern>>,
}

#[derive(Debug)]
enum PatternKind {
    /// A substring, ignoring case.
    Contains(String),
    /// A substring of whole words, ignoring case.
    Words(String),
    /// A prefix, ignoring case.
    StartsWith(String),
    /// A suffix, ignoring case.
    EndsWith(String),
    /// The whole text, ignoring case.
    Equals(String),
    /// The whole text, ignoring case because the caller requests it.
    EqualsAnyCase(String),
    /// The whole text, case-sensitive.
    Verbatim,
    /// A regular expression, the number of bytes that it may still search, and the name of its
    /// operator.
    Regex(Box<Pattern>, Cell<usize>, &'static str),
}

impl TextPattern {
    fn new(kind: PatternKind, text: &str) -> Self {
        let has_other_case = Cell::new(false);
        Self { kind, text: text.to_owned(), has_other_case, alternative: None }
    }

    /// Creates a pattern that matches this whole text, ignoring case.
    pub(super) fn equals(text: &str) -> Self {
        Self::new(PatternKind::EqualsAnyCase(text.to_lowercase()), text)
    }

    /// Creates a pattern that matches only this text. If no value is this text, the pattern instead
    /// uses its wildcards: `*` matches any text, `?` any character.
    ///
    /// # Errors
    /// Returns a message for the caller if the pattern is too long.
    pub(super) fn verbatim_or_search(text: &str) -> Result<Self, String> {
        Self::search(text).map(|search| search.or_verbatim(text))
    }

    /// Creates a pattern that matches only this text. If no value is this text, the pattern instead
    /// uses its `LIKE` wildcards.
    ///
    /// # Errors
    /// Returns a message for the caller if the pattern is too long.
    pub(super) fn verbatim_or_like(text: &str) -> Result<Self, String> {
        Self::like(text).map(|like| like.or_verbatim(text))
    }

    fn or_verbatim(self, text: &str) -> Self {
        Self { alternative: Some(Box::new(self)), ..Self::new(PatternKind::Verbatim, text) }
    }

    /// Creates a pattern that matches texts with these whole words. If there are none, it instead
    /// matches texts that contain `text` anywhere.
    pub(super) fn words(text: &str) -> Self {
        let kind = PatternKind::Words(text.to_lowercase());
        let part = Some(Box::new(Self::contains(text)));
        Self { alternative: part, ..Self::new(kind, text) }
    }

    /// Makes a regular expression ignore case.
    pub(super) fn ignore_case(&mut self) {
        if let PatternKind::Regex(_, _, name @ ("=~" | "GLOB" | IN_SLASHES)) = &self.kind {
            let (text, name) = match *name {
                "GLOB" => (glob_regex(&self.text, '*', '?'), "GLOB"),
                _ => (self.text.clone(), "=~"),
            };
            if let Ok(kind) = Self::regex_kind(&text, Some(true), name) {
                self.kind = kind;
            }
        }
        if let PatternKind::Verbatim = self.kind {
            self.kind = PatternKind::EqualsAnyCase(self.text.to_lowercase());
        }
        if let Some(alternative) = &mut self.alternative {
            alternative.ignore_case();
        }
    }

    /// Returns the pattern with an alternative: `text` as a regular expression, if that is valid.
    pub(super) fn or_regex(self, text: &str) -> Self {
        Self { alternative: Self::regex(text, None).ok().map(Box::new), ..self }
    }

    /// Chooses between the pattern and its alternative. `is_found` returns true if a value matches
    /// a pattern. Returns a note for the answer if there was a choice.
    pub(super) fn choose_reading(&mut self, is_found: impl Fn(&Self) -> bool) -> Option<String> {
        let alternative = self.alternative.take()?;
        let text = quote(&self.text);
        let is_found = is_found(self);
        if matches!(alternative.kind, PatternKind::Regex(_, _, "=~")) {
            return self.choose_regex(*alternative, &text, is_found);
        }
        let is_word = matches!(self.kind, PatternKind::Words(_));
        if is_found {
            return (!is_word)
                .then(|| format!("{text} was read as text, because a value is this text"));
        }
        *self = *alternative;
        Some(match is_word {
            true => format!("no value has the word {text}, so that parts of words match"),
            false => {
                format!("{text} was read with wildcards, as {self}, because no value is this text")
            }
        })
    }

    fn choose_regex(&mut self, alternative: Self, text: &str, is_found: bool) -> Option<String> {
        if is_found {
            return Some(format!(
                "{text} was read as text; for a regular expression write =~ {text}"
            ));
        }
        *self = alternative;
        let case = match has_capital(&self.text) {
            true => format!(", and its capital letters count: for any case write ~* {text}"),
            false => String::new(),
        };
        Some(format!("{text} was read as a regular expression, because no value contains it{case}"))
    }

    /// Creates a pattern that matches texts that contain `text`, ignoring case.
    pub(super) fn contains(text: &str) -> Self {
        Self::new(PatternKind::Contains(text.to_lowercase()), text)
    }

    /// Creates a pattern that matches texts that begin with `text`, ignoring case.
    pub(super) fn starts_with(text: &str) -> Self {
        Self::new(PatternKind::StartsWith(text.to_lowercase()), text)
    }

    /// Creates a pattern that matches texts that end with `text`, ignoring case.
    pub(super) fn ends_with(text: &str) -> Self {
        Self::new(PatternKind::EndsWith(text.to_lowercase()), text)
    }

    /// Creates a pattern of SQL `LIKE`, ignoring case: `%` matches any text, `_` any character.
    /// Fails for a pattern with `*` and without `%`: databases differ in the meaning of `*`.
    pub(super) fn like(text: &str) -> Result<Self, String> {
        if text.contains('*') && !text.contains(['%', '\\']) {
            let any = text.replace('*', "%");
            return Err(format!(
                "where: in LIKE, % is any text: write LIKE '{any}', or = for {text} itself"
            ));
        }
        Self::with_wildcards(text, '%', '_')
    }

    /// Creates a search pattern, ignoring case: `*` matches any text, `?` any character.
    pub(super) fn search(text: &str) -> Result<Self, String> {
        let pattern = Self::with_wildcards(text, '*', '?')?;
        // The answer states it as `LIKE`.
        Ok(Self { text: text.replace('*', "%").replace('?', "_"), ..pattern })
    }

    fn with_wildcards(text: &str, many: char, one: char) -> Result<Self, String> {
        let inner = text.trim_matches(many);
        let simple = !inner.contains([many, one, '\\']);
        let (starts, ends) = (text.starts_with(many), text.ends_with(many));
        let lower = inner.to_lowercase();
        let kind = match (starts, ends) {
            (true, true) if simple => PatternKind::Contains(lower),
            (true, false) if simple => PatternKind::EndsWith(lower),
            (false, true) if simple => PatternKind::StartsWith(lower),
            (false, false) if simple => PatternKind::Equals(lower),
            _ => Self::regex_kind(&glob_regex(text, many, one), Some(true), "LIKE")?,
        };
        Ok(Self::new(kind, text))
    }

    /// Creates a case-sensitive `GLOB` pattern: `*` matches any text, `?` any character.
    pub(super) fn glob(text: &str) -> Result<Self, String> {
        let kind = Self::regex_kind(&glob_regex(text, '*', '?'), Some(false), "GLOB")?;
        Ok(Self::new(kind, text))
    }

    /// Creates a pattern from a regular expression. If `ignore_case` is `None`, an expression in
    /// lower case ignores case (smart case).
    pub(super) fn regex(text: &str, ignore_case: Option<bool>) -> Result<Self, String> {
        // The answer states the case that the expression regards.
        let name = match ignore_case {
            Some(true) if has_capital(text) => "~*",
            Some(false) if !has_capital(text) => IN_SLASHES,
            _ => "=~",
        };
        Ok(Self::new(Self::regex_kind(text, ignore_case, name)?, text))
    }

    fn regex_kind(
        text: &str,
        ignore_case: Option<bool>,
        name: &'static str,
    ) -> Result<PatternKind, String> {
        let pattern = Pattern::new(text, ignore_case)
            .map_err(|reason| reason.replacen("grep", &format!("where: {name}"), 1))?;
        let budget = Cell::new(pattern.max_bytes());
        Ok(PatternKind::Regex(Box::new(pattern), budget, name))
    }

    /// Returns true if a text matches.
    pub(super) fn is_match(&self, text: &str) -> bool {
        let is_match = self.matches(text);
        let is_other = || !self.text.split(['%', '_']).all(|part| text.contains(part));
        let is_stated = match self.kind {
            PatternKind::Regex(_, _, name) => name != "LIKE",
            PatternKind::EqualsAnyCase(_) | PatternKind::Words(_) | PatternKind::Verbatim => true,
            _ => false,
        };
        if is_match && !is_stated && is_other() {
            self.has_other_case.set(true);
        }
        is_match
    }

    /// Returns a note on the case of letters. One note is for a pattern with capital letters that
    /// matched texts in another case. The other is for a case-sensitive expression with capital
    /// letters that matched nothing.
    pub(super) fn case_note(&self, is_without_match: bool) -> Option<String> {
        let counts_case = matches!(self.kind, PatternKind::Regex(_, _, "=~"));
        if is_without_match && counts_case && has_capital(&self.text) {
            return Some(format!("for any case write ~* {}", quote(&self.text)));
        }
        let has_capital = self.text.chars().any(char::is_uppercase);
        (has_capital && self.has_other_case.get()).then(|| {
            let part = self.text.trim_matches('%');
            let escaped: String = part.chars().map(escape_regex).collect();
            let regex = match self.kind {
                PatternKind::Contains(_) => escaped,
                PatternKind::StartsWith(_) => format!("^{escaped}"),
                PatternKind::EndsWith(_) => format!("{escaped}$"),
                _ => glob_regex(&self.text, '%', '_'),
            };
            format!(
                "texts with {} in another case match, too; for this case only write =~ {}",
                quote(part),
                quote(&regex)
            )
        })
    }

    fn matches(&self, text: &str) -> bool {
        match &self.kind {
            PatternKind::Contains(part) => text.to_lowercase().contains(part),
            PatternKind::Words(part) => has_words(&text.to_lowercase(), part),
            PatternKind::StartsWith(part) => text.to_lowercase().starts_with(part),
            PatternKind::EndsWith(part) => text.to_lowercase().ends_with(part),
            PatternKind::Equals(whole) | PatternKind::EqualsAnyCase(whole) => {
                text.to_lowercase() == *whole
            }
            PatternKind::Verbatim => text == self.text,
            PatternKind::Regex(pattern, budget, _) => {
                match budget.get().checked_sub(text.len() + 1) {
                    Some(left) => {
                        budget.set(left);
                        pattern.is_match(text)
                    }
                    None => {
                        budget.set(0);
                        false
                    }
                }
            }
        }
    }

    /// Returns an error if the pattern could not search all texts within its byte limit.
    pub(super) fn check_budget(&self) -> Result<(), String> {
        match &self.kind {
            PatternKind::Regex(pattern, budget, name) if budget.get() == 0 => Err(format!(
                "where: {name} {:?} searched the maximum of {} bytes, and texts are left: narrow the records with path, or use ~ or a shorter pattern",
                self.text,
                pattern.max_bytes()
            )),
            _ => Ok(()),
        }
    }
}

/// Returns true if a text contains `part` as whole words. The regular expression engine knows word
/// boundaries for ASCII only. O(text + part) with the algorithm of Knuth, Morris and Pratt, because
/// occurrences may overlap.
fn has_words(text: &str, part: &str) -> bool {
    let continues = |inner: Option<char>, outer: Option<char>| {
        inner.is_some_and(is_word_character) && outer.is_some_and(is_word_character)
    };
    let (first, last) = (part.chars().next(), part.chars().next_back());
    let is_whole = |start: usize, end: usize| {
        let before = text.get(..start).and_then(|before| before.chars().next_back());
        let after = text.get(end..).and_then(|after| after.chars().next());
        !continues(first, before) && !continues(last, after)
    };
    let part = part.as_bytes();
    // The length of the longest beginning of the part that the bytes so far end with.
    let advance = |borders: &[usize], mut length: usize, byte: u8| {
        while length > 0 && part.get(length) != Some(&byte) {
            length = borders.get(length - 1).copied().unwrap_or_default();
        }
        length + usize::from(part.get(length) == Some(&byte))
    };
    let (mut borders, mut length) = (vec![0], 0);
    for byte in part.iter().skip(1) {
        length = advance(&borders, length, *byte);
        borders.push(length);
    }
    length = 0;
    part.is_empty()
        || text.bytes().enumerate().any(|(at, byte)| {
            length = advance(&borders, length, byte);
            length == part.len() && is_whole(at + 1 - length, at + 1)
        })
}

/// Returns the regular expression of a wildcard pattern: `many` matches any text, `one` any
/// character.
fn glob_regex(pattern: &str, many: char, one: char) -> String {
    let mut regex = "^(?s:".to_owned();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            c if c == many => regex.push_str(".*"),
            c if c == one => regex.push('.'),
            '\\' => regex.push_str(&escape_regex(characters.next().unwrap_or('\\'))),
            c => regex.push_str(&escape_regex(c)),
        }
    }
    regex + ")$"
}

fn escape_regex(character: char) -> String {
    if "\\.+*?()|[]{}^$#&-~/".contains(character) {
        format!("\\{character}")
    } else {
        character.to_string()
    }
}

impl std::fmt::Display for TextPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match &self.kind {
            PatternKind::Regex(_, _, IN_SLASHES) => return write!(f, "=~ /{}/", self.text),
            PatternKind::Regex(_, _, name) => name,
            PatternKind::EqualsAnyCase(_) => "= in any case",
            PatternKind::Verbatim => "=",
            PatternKind::Words(_) => "HAS",
            PatternKind::Contains(part) if *part == self.text.to_lowercase() => "CONTAINS",
            PatternKind::StartsWith(part) if *part == self.text.to_lowercase() => "STARTS WITH",
            PatternKind::EndsWith(part) if *part == self.text.to_lowercase() => "ENDS WITH",
            _ => "LIKE",
        };
        write!(f, "{name} {}", quote(&self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::{TextPattern, has_words};

    #[test]
    fn words_are_found_between_other_signs() {
        for (text, part, expected) in [
            ("le caf\u{e9} noir", "caf", false),
            ("le caf\u{e9} noir", "caf\u{e9}", true),
            ("caf\u{e9}s, caf\u{e9}", "caf\u{e9}", true),
            ("xa a a", "a a", true),
            ("xa ax", "a a", false),
            ("a-b_c", "a", true),
            ("a-b_c", "b", false),
            ("(a)", "(", true),
            ("", "a", false),
            ("a", "", true),
        ] {
            assert_eq!(has_words(text, part), expected, "{text} has {part}");
        }
    }

    #[test]
    fn patterns_are_stated_with_their_wildcards() {
        for (pattern, expected) in [
            (TextPattern::like("a%"), "LIKE 'a%'"),
            (TextPattern::like("%a%b"), "LIKE '%a%b'"),
            (TextPattern::search("*a*"), "LIKE '%a%'"),
            (TextPattern::search("a*b?"), "LIKE 'a%b_'"),
            (Ok(TextPattern::contains("a")), "CONTAINS 'a'"),
        ] {
            assert_eq!(pattern.unwrap().to_string(), expected);
        }
    }
}
