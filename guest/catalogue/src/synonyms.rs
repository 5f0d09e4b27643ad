//! Groups of related words.

use crate::text::Splitter;

/// The built-in groups, one per line.
const BUILT_IN: &str = include_str!("../data/synonyms.txt");

/// A group of words that describe similar things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynonymGroup {
    /// True if the words are verbs, which have a lower weight.
    pub is_verbs: bool,
    /// The stems of the words.
    pub terms: Vec<String>,
}

/// Returns the built-in groups.
#[must_use]
pub fn built_in(splitter: &mut Splitter) -> Vec<SynonymGroup> {
    let lines = BUILT_IN.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| parse(line, splitter)).collect()
}

/// Parses a group: words between spaces, after `v ` if they are verbs. Returns `None` if it has
/// fewer than two words.
#[must_use]
pub fn parse(line: &str, splitter: &mut Splitter) -> Option<SynonymGroup> {
    let (is_verbs, words) = match line.strip_prefix("v ") {
        Some(words) => (true, words),
        None => (false, line),
    };
    let mut terms: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        let stem = splitter.stem(&word.to_lowercase());
        if !terms.contains(&stem) {
            terms.push(stem);
        }
    }
    (terms.len() > 1).then_some(SynonymGroup { is_verbs, terms })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn verbs_and_nouns_are_told_apart() {
        let mut splitter = Splitter::default();
        let groups = built_in(&mut splitter);
        assert!(groups.len() > 200);
        assert!(groups.iter().any(|group| group.is_verbs));
        assert_eq!(parse("v copy copies", &mut splitter), None);
        let group = parse("image picture", &mut splitter).unwrap();
        assert_eq!(group.terms, ["imag", "pictur"]);
    }
}
