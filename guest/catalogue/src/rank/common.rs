//! Common English words, which are not misspelled.

/// The stems, one per line, sorted. These are words that resemble words of many tools, and that few
/// tools have. Stems of synonyms are not among them.
const STEMS: &str = include_str!("../../data/common.txt");

/// Returns the stems of common English words, sorted.
pub(super) fn common_stems() -> impl Iterator<Item = &'static str> {
    STEMS.lines()
}

/// Returns true if a stem is that of a common English word.
pub(super) fn is_common(stem: &str) -> bool {
    common_stems().any(|common| common == stem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synonyms;
    use crate::text::Splitter;

    #[test]
    fn common_stems_are_sorted_and_new() {
        assert!(common_stems().is_sorted_by(|left, right| left < right));
        let groups = synonyms::built_in(&mut Splitter::default());
        for stem in common_stems() {
            assert!(
                groups.iter().all(|group| group.terms.iter().all(|term| term != stem)),
                "{stem}"
            );
        }
        assert!(is_common("handl") && !is_common("project"));
    }
}
