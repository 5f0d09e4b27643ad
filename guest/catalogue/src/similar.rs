//! Finds names that are similar to a wrong name.

use std::collections::HashSet;

use crate::text::normalized_name;

/// Minimum share of common letter pairs in similar names.
const MIN_SIMILARITY: f64 = 0.4;

/// Returns the names that are most similar to `name`, at most `count`, most similar first. Compares
/// pairs of adjacent letters, so that the order of words is irrelevant.
pub fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>, count: usize) -> Vec<&'n str> {
    let wanted = pairs(name);
    let mut found: Vec<(f64, usize, &str)> = names
        .enumerate()
        .map(|(at, other)| (similarity(&wanted, &pairs(other)), at, other))
        .filter(|(similarity, _, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    found.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
    found.into_iter().take(count).map(|(_, _, name)| name).collect()
}

/// Returns the pairs of adjacent letters. The first and last letter each form a further pair.
fn pairs(name: &str) -> HashSet<(char, char)> {
    let letters: Vec<char> =
        std::iter::once(' ').chain(normalized_name(name).chars().take(128)).chain([' ']).collect();
    letters.windows(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?))).collect()
}

#[allow(clippy::cast_precision_loss, reason = "short names")]
fn similarity(left: &HashSet<(char, char)>, right: &HashSet<(char, char)>) -> f64 {
    let common = left.intersection(right).count();
    2.0 * common as f64 / (left.len() + right.len()).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_found() {
        let names = ["git__commit", "git__log", "weather__forecast"];
        assert_eq!(nearest("git__comit", names.into_iter(), 1), ["git__commit"]);
        assert_eq!(nearest("commit_git", names.into_iter(), 1), ["git__commit"]);
        assert!(nearest("zzz", names.into_iter(), 3).is_empty());
    }
}
