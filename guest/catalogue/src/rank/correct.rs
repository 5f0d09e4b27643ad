//! Corrects misspelled words.

use super::common::{common_stems, is_common};
use super::edits::{EditTable, MAX_LENGTH};
use crate::index::Index;
use crate::text::{self, Splitter};

/// Minimum length, in bytes, of a word that is corrected.
const MIN_LENGTH: usize = 3;
/// Minimum length, in bytes, of a word whose first letter is corrected.
const MIN_LENGTH_FIRST: usize = 4;
/// Minimum length, in bytes, of a word that is corrected by two edits.
const MIN_LENGTH_TWO_EDITS: usize = 10;
/// Maximum cost of one edit.
const ONE_EDIT: u8 = 12;
/// Maximum cost of one edit of a word of three letters.
const ONE_EDIT_SHORT: u8 = 10;
/// Maximum cost of an edit of a function word. These words say nothing about the needed tool.
const FUNCTION_WORD: u8 = 10;
/// Maximum cost of two edits.
const TWO_EDITS: u8 = 20;
/// Minimum length, in bytes, of a term that replaces a word by two edits.
const MIN_STEM_TWO_EDITS: usize = 7;
/// Last letters of stems that other letters replace in forms of the word, such as `querying` for
/// `queri`.
const REPLACED_ENDS: &[(u8, &[&str])] =
    &[(b'e', &["ing", "able"]), (b'i', &["y", "ying"]), (b'l', &["ility", "ly"])];
/// Maximum number of corrections of a word.
const MAX_CORRECTIONS: usize = 3;
/// Maximum difference of the costs of corrections of a word.
const MAX_DIFFERENCE: u8 = 4;

/// Suffixes that stems omit, sorted by length. A misspelled word keeps them, because its stem is
/// that of another word.
const SUFFIXES: &[&str] = &[
    "d", "e", "l", "s", "y", "al", "ed", "er", "es", "ic", "ly", "or", "als", "ant", "ary", "ate",
    "ent", "ers", "ful", "ics", "ies", "ing", "ion", "ism", "ist", "ity", "ive", "ize", "led",
    "ned", "ors", "ous", "ped", "ted", "able", "ally", "ance", "ancy", "ants", "ated", "ates",
    "ator", "ding", "ence", "ency", "ents", "ging", "ible", "ical", "ings", "ions", "ists", "ives",
    "ized", "izer", "ling", "ment", "ness", "ning", "ping", "ting", "ality", "ately", "ating",
    "ation", "ative", "ators", "ement", "ences", "ently", "icity", "ional", "ities", "ivity",
    "izing", "ments", "ously", "ations", "atives", "ements", "encies", "ically", "ability",
    "ational", "ibility", "ication", "ization", "ications", "izations",
];

/// A word of the index in place of a misspelled word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Correction {
    pub(super) term: u32,
    /// The cost of the edits.
    pub(super) cost: u8,
    /// The likelihood of this correction, relative to that of the first.
    pub(super) share: f32,
}

/// Returns the terms that a misspelled word most probably means, best first. Empty if there are
/// none, or if a function word is as probable.
pub(super) fn corrections(
    index: &Index<'_>,
    word: &str,
    splitter: &mut Splitter,
) -> Vec<Correction> {
    let is_letters = word.bytes().all(|byte| byte.is_ascii_lowercase());
    let has_length = (MIN_LENGTH..=MAX_LENGTH).contains(&word.len());
    if !is_letters || !has_length || is_common(&splitter.stem(word)) {
        return Vec::new();
    }
    let limit = if word.len() > MIN_LENGTH { ONE_EDIT } else { ONE_EDIT_SHORT };
    let mut search = Search {
        index,
        splitter,
        table: EditTable::new(word.as_bytes()),
        length: word.len(),
        limit,
        found: Vec::new(),
    };
    search.first_letter_is_correct(word.as_bytes());
    search.first_letters_are_swapped(word.as_bytes());
    if search.found.is_empty() && word.len() >= MIN_LENGTH_FIRST {
        search.first_letter_is_wrong(word.as_bytes());
    }
    if search.found.is_empty() && word.len() >= MIN_LENGTH_TWO_EDITS {
        search.limit = TWO_EDITS;
        search.first_letter_is_correct(word.as_bytes());
    }
    let common = if search.found.is_empty() { u8::MAX } else { search.common_word_cost() };
    let mut found = search.found;
    let Some(best) = found.iter().map(|correction| correction.cost).min() else {
        return Vec::new();
    };
    if function_word_cost(word) <= best || common < best {
        return Vec::new();
    }
    found.retain(|correction| correction.cost <= best.saturating_add(MAX_DIFFERENCE));
    for correction in &mut found {
        #[allow(clippy::cast_precision_loss, reason = "a rough likelihood")]
        let frequency = (index.frequency(correction.term) as f32).max(0.5);
        correction.share = frequency.sqrt() * likelihood(correction.cost - best);
    }
    found
        .sort_by(|left, right| right.share.total_cmp(&left.share).then(left.term.cmp(&right.term)));
    found.truncate(MAX_CORRECTIONS);
    let most = found.first().map_or(1.0, |first| first.share);
    for correction in &mut found {
        correction.share /= most;
    }
    found
}

/// Returns the likelihood of a correction whose cost exceeds the smallest one by `difference`.
fn likelihood(difference: u8) -> f32 {
    1.0 / (1.0 + f32::from(difference))
}

/// Returns the smallest cost of turning a word into a function word. `u8::MAX` if all exceed
/// [`FUNCTION_WORD`].
fn function_word_cost(word: &str) -> u8 {
    let mut table = EditTable::new(word.as_bytes());
    let near =
        text::stop_words().filter(|stop| stop.len() > 2 && stop.len().abs_diff(word.len()) < 2);
    let costs = near.map(|stop| table.cost_with(0, stop.as_bytes(), FUNCTION_WORD));
    costs.min().unwrap_or(u8::MAX)
}

/// A search for terms that are similar to a word.
struct Search<'i, 's, 'w> {
    index: &'i Index<'i>,
    splitter: &'s mut Splitter,
    table: EditTable<'w>,
    /// The length of the word.
    length: usize,
    limit: u8,
    found: Vec<Correction>,
}

impl Search<'_, '_, '_> {
    fn first_letter_is_correct(&mut self, word: &[u8]) {
        self.terms_with(word.get(..1).unwrap_or_default());
    }

    /// Finds terms whose first two letters are those of the word in the other order.
    fn first_letters_are_swapped(&mut self, word: &[u8]) {
        if let [first, second, ..] = *word
            && first != second
        {
            self.terms_with(&[second, first]);
        }
    }

    /// Finds terms that differ in their first letter, which is replaced, missing, doubled or
    /// swapped. The second letter of the term is then the first or the second of the word.
    fn first_letter_is_wrong(&mut self, word: &[u8]) {
        let [first, second, ..] = *word else { return };
        for letter in (b'a'..=b'z').filter(|letter| *letter != first) {
            self.terms_with(&[letter, second]);
            if first != second && letter != second {
                self.terms_with(&[letter, first]);
            }
        }
    }

    /// Compares the word with all terms that begin with `prefix`.
    fn terms_with(&mut self, prefix: &[u8]) {
        let index = self.index;
        self.compare_sorted(index.terms_with_prefix(prefix), |search, term, text| {
            let cost = search.cost(text);
            if cost <= search.limit && (index.frequency(term) > 0 || search.has_synonyms(term)) {
                search.found.push(Correction { term, cost, share: 0.0 });
            }
        });
    }

    /// Returns the smallest cost of turning the word into a common word. `u8::MAX` if all exceed
    /// the limit.
    fn common_word_cost(&mut self) -> u8 {
        let mut smallest = u8::MAX;
        let words = common_stems().map(|stem| ((), stem.as_bytes()));
        self.compare_sorted(words, |search, (), text| smallest = smallest.min(search.cost(text)));
        smallest
    }

    /// Calls `compare` for each text whose beginnings have costs within the limit. Texts with a
    /// common beginning must be next to each other.
    fn compare_sorted<'t, T>(
        &mut self,
        texts: impl Iterator<Item = (T, &'t [u8])>,
        mut compare: impl FnMut(&mut Self, T, &[u8]),
    ) {
        let mut previous: &[u8] = &[];
        // The length of the shortest beginning of the previous text whose cost exceeds the limit.
        let mut dead = usize::MAX;
        for (value, text) in texts {
            let common = previous.iter().zip(text).take_while(|(left, right)| left == right);
            let common = common.count();
            previous = text;
            if common >= dead {
                continue;
            }
            dead = usize::MAX;
            for (at, letter) in text.iter().enumerate().skip(common) {
                if self.table.set(at, *letter) > self.limit {
                    dead = at + 1;
                    break;
                }
            }
            let can_replace = || {
                let last = text.last();
                REPLACED_ENDS.iter().any(|(end, _)| Some(end) == last)
            };
            if dead == usize::MAX || (dead == text.len() && can_replace()) {
                compare(self, value, text);
            }
        }
    }

    /// Returns the smallest cost of turning the word into a form of a stem, whose letters are in
    /// the table. Returns more than the limit if there is none.
    fn cost(&mut self, text: &[u8]) -> u8 {
        if self.limit > ONE_EDIT && text.len() < MIN_STEM_TWO_EDITS {
            return u8::MAX;
        }
        // Each edit changes the length by one letter at most.
        let edits = if self.limit > ONE_EDIT { 2 } else { 1 };
        let mut cost = self.table.cost(text.len());
        for suffix in SUFFIXES {
            if (text.len() + suffix.len()).abs_diff(self.length) <= edits {
                cost = cost.min(self.cost_with_suffix(text, text, suffix, cost));
            }
        }
        if let Some((last, start)) = text.split_last()
            && let Some((_, suffixes)) = REPLACED_ENDS.iter().find(|(end, _)| end == last)
        {
            for suffix in *suffixes {
                cost = cost.min(self.cost_with_suffix(text, start, suffix, cost));
            }
            // The row of the last letter belongs to the texts that follow.
            self.table.set(start.len(), *last);
        }
        cost
    }

    /// Returns the cost of turning the word into a form of the term `text`: the letters `start` and
    /// a suffix. Returns `u8::MAX` if the cost is not below `known`, or if this is no such form.
    fn cost_with_suffix(&mut self, text: &[u8], start: &[u8], suffix: &str, known: u8) -> u8 {
        let cost = self.table.cost_with(start.len(), suffix.as_bytes(), self.limit);
        // A word without errors is a form of another term.
        if cost == 0 || cost >= known {
            return u8::MAX;
        }
        let form = std::str::from_utf8(start).map(|start| format!("{start}{suffix}"));
        let is_form = form.is_ok_and(|form| self.splitter.stem(&form).as_bytes() == text);
        if is_form { cost } else { u8::MAX }
    }

    /// Returns true if a tool contains a synonym of the term.
    fn has_synonyms(&self, term: u32) -> bool {
        let mut groups = self.index.synonym_groups(term);
        groups.any(|(_, mut terms)| terms.any(|term| self.index.frequency(term) > 0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::index::{self, Settings};
    use crate::tool::Tool;

    /// Returns the corrections of a word in an index of one tool with this description.
    fn corrected(description: &str, word: &str) -> Vec<String> {
        let definition = format!(r#"{{"name":"t","description":"{description}"}}"#);
        let tool = Tool::parse("s", "s__t", &definition).unwrap();
        let bytes = index::compile(&[tool], &Settings::default());
        let index = Index::open(&bytes).unwrap();
        let corrections = corrections(&index, word, &mut Splitter::default());
        let text = |correction: &Correction| index.term_text(correction.term as usize).unwrap();
        corrections.iter().map(|one| String::from_utf8_lossy(text(one)).into_owned()).collect()
    }

    #[test]
    fn all_kinds_of_errors_are_corrected() {
        for word in ["weahter", "ewather", "weater", "eather", "weatther", "weathet", "qeather"] {
            assert_eq!(corrected("Weather", word), ["weather"], "{word}");
        }
        assert_eq!(corrected("Word", "wod"), ["word"]);
        assert_eq!(corrected("Weather", "leather"), [""; 0]);
    }

    #[test]
    fn forms_of_a_stem_are_corrected() {
        for (description, word, stem) in [
            ("Location", "locatoin", "locat"),
            ("Location", "loactions", "locat"),
            ("Notification", "notificatinos", "notif"),
            ("Query", "qeury", "queri"),
            ("Query", "queires", "queri"),
            ("Query", "qurying", "queri"),
            ("Write", "wriing", "write"),
            ("Create", "craeting", "creat"),
        ] {
            assert_eq!(corrected(description, word), [stem], "{word}");
        }
    }

    #[test]
    fn words_without_errors_are_not_corrected() {
        // A common word, a function word with an error, and a common word with an error.
        for (description, word) in [("Quest", "guest"), ("Form", "frmo"), ("Hands", "hadnle")] {
            assert!(corrected(description, word).is_empty(), "{word}");
        }
        // The built-in synonyms have this word.
        assert_eq!(corrected("Quarry", "qeury"), [""; 0]);
    }

    #[test]
    fn words_of_synonyms_are_corrected() {
        assert_eq!(corrected("Picture", "photgraph"), ["photograph"]);
        assert!(corrected("Weather", "photgraph").is_empty());
    }

    #[test]
    fn similar_words_share_a_correction() {
        let tools = ["Card", "Card", "Cart"].map(|text| format!(r#"{{"name":"{text}"}}"#));
        let tools = tools.iter().map(|one| Tool::parse("s", "s__t", one).unwrap());
        let bytes = index::compile(&tools.collect::<Vec<_>>(), &Settings::default());
        let index = Index::open(&bytes).unwrap();
        let found = corrections(&index, "carf", &mut Splitter::default());
        let texts: Vec<_> = found.iter().map(|one| index.term_text(one.term as usize)).collect();
        assert_eq!(texts, [Some(&b"card"[..]), Some(b"cart")]);
        // The rarer word is less probable.
        assert!(found[0].share == 1.0 && found[1].share < 1.0);
    }
}
