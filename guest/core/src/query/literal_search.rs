//! Searches for plain texts: patterns without signs of regular expressions, and alternatives of
//! such patterns. They mostly take about a nanosecond per byte, a hundredth of the time of a
//! regular expression.

use std::ops::Range;

use memchr::{memchr2, memmem};

/// The letters of English texts, the most frequent first. Other bytes count as rare.
const FREQUENT: &[u8] = b" etaoinsrhldcumfpgwybvkxjqz0123456789";
/// The maximum number of alternatives.
const MAX_ALTERNATIVES: usize = 16;

/// The plain texts that a pattern matches.
#[derive(Debug)]
pub(super) struct LiteralSearch {
    literals: Vec<PlainText>,
}

#[derive(Debug)]
struct PlainText {
    text: Vec<u8>,
    /// The index of the rarest byte of `text`.
    anchor: usize,
    ignore_case: bool,
}

impl LiteralSearch {
    /// Returns the search that finds what a regular expression finds. `None` if the expression is
    /// no plain text, or has more than 16 alternatives or an empty one. Also `None` if case beyond
    /// ASCII is to be ignored. O(pattern).
    pub(super) fn parse(pattern: &str, ignore_case: bool) -> Option<Self> {
        let pattern = match ignore_case {
            true => pattern.strip_prefix("(?i)").unwrap_or(pattern),
            false => pattern,
        };
        if ignore_case && !pattern.is_ascii() {
            return None;
        }
        let mut literals = vec![String::new()];
        let mut characters = pattern.chars();
        while let Some(next) = characters.next() {
            let literal = match next {
                '|' => {
                    literals.push(String::new());
                    continue;
                }
                // `\<` and `\>` are the ends of words.
                '\\' => characters
                    .next()
                    .filter(|next| next.is_ascii_punctuation() && !"<>".contains(*next))?,
                '^' | '$' | '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' => {
                    return None;
                }
                other => other,
            };
            literals.last_mut()?.push(literal);
        }
        let is_usable = literals.len() <= MAX_ALTERNATIVES && !literals.contains(&String::new());
        let literals = literals.into_iter().map(|text| PlainText::new(text, ignore_case));
        is_usable.then(|| Self { literals: literals.collect() })
    }

    /// Returns the maximum number of comparisons for each byte of a text. A text in any case may be
    /// compared whole at each byte.
    pub(super) fn cost(&self) -> usize {
        let cost = |text: &PlainText| if text.ignore_case { text.text.len() } else { 1 };
        self.literals.iter().map(cost).sum()
    }

    /// Returns true if one of the texts is in `text`. O(text) for each alternative, times its
    /// length at worst if case is ignored.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.literals.iter().any(|literal| literal.find(text.as_bytes(), 0).is_some())
    }

    /// Returns the places of the texts, from left to right. At one place, the first of the
    /// alternatives counts. O(text), for each alternative.
    pub(super) fn find_iter<'s>(
        &'s self,
        text: &'s str,
    ) -> impl Iterator<Item = Range<usize>> + 's {
        let text = text.as_bytes();
        let mut next: Vec<Option<usize>> =
            self.literals.iter().map(|literal| literal.find(text, 0)).collect();
        std::iter::from_fn(move || {
            let places = next.iter().zip(&self.literals);
            let found =
                places.filter_map(|(at, literal)| Some((*at.as_ref()?, literal.text.len())));
            let (start, length) = found.min_by_key(|(start, _)| *start)?;
            let end = start + length;
            for (at, literal) in next.iter_mut().zip(&self.literals) {
                if at.is_some_and(|at| at < end) {
                    *at = literal.find(text, end);
                }
            }
            Some(start..end)
        })
    }
}

impl PlainText {
    fn new(text: String, ignore_case: bool) -> Self {
        let text = text.into_bytes();
        let rarity = |byte: &u8| {
            let frequent = FREQUENT.iter().position(|other| other.eq_ignore_ascii_case(byte));
            frequent.unwrap_or(FREQUENT.len())
        };
        let bytes = text.iter().enumerate();
        let anchor = bytes.max_by_key(|(_, byte)| rarity(byte)).map_or(0, |(at, _)| at);
        Self { text, anchor, ignore_case }
    }

    /// Returns the offset of the first place of the text in `bytes`, from byte `from` on.
    fn find(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let rest = bytes.get(from..)?;
        if !self.ignore_case {
            return memmem::find(rest, &self.text).map(|at| from + at);
        }
        let sign = *self.text.get(self.anchor)?;
        let (lower, upper) = (sign.to_ascii_lowercase(), sign.to_ascii_uppercase());
        let mut at = from + self.anchor;
        loop {
            at += memchr2(lower, upper, bytes.get(at..)?)?;
            let start = at - self.anchor;
            let place = bytes.get(start..start + self.text.len())?;
            if place.eq_ignore_ascii_case(&self.text) {
                return Some(start);
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex_lite::RegexBuilder;

    use super::*;

    #[test]
    fn only_plain_texts_are_searched_so() {
        for (pattern, ignore_case, expected) in [
            ("needle", true, true),
            ("error|fatal error", true, true),
            (r"a\.b\|c", false, true),
            ("K\u{f6}ln", false, true),
            ("k\u{f6}ln", true, false),
            ("a.b", false, false),
            (r"\bword", false, false),
            (r"\d", false, false),
            (r"\<word\>", false, false),
            ("a||b", false, false),
            ("", false, false),
            ("^a", false, false),
        ] {
            let found = LiteralSearch::parse(pattern, ignore_case);
            assert_eq!(found.is_some(), expected, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn finds_what_the_regular_expression_finds(
            alternatives in prop::collection::vec("[abA. \u{e9}]{1,4}", 1..4),
            text in "[abAB. \u{e9}]{0,60}",
            ignore_case in any::<bool>(),
        ) {
            let alternatives: Vec<String> =
                alternatives.iter().map(|text| regex_lite::escape(text)).collect();
            let pattern = alternatives.join("|");
            if let Some(search) = LiteralSearch::parse(&pattern, ignore_case) {
                let regex =
                    RegexBuilder::new(&pattern).case_insensitive(ignore_case).build().unwrap();
                let expected: Vec<_> = regex.find_iter(&text).map(|found| found.range()).collect();
                prop_assert_eq!(search.is_match(&text), !expected.is_empty());
                prop_assert_eq!(search.find_iter(&text).collect::<Vec<_>>(), expected);
            }
        }
    }
}
