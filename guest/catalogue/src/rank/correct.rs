//! Corrects misspelled words.

use crate::index::Index;

/// Minimum length, in bytes, of a word that is corrected by one edit.
const MIN_LENGTH: usize = 5;
/// Minimum length, in bytes, of a word that is corrected by two edits.
const MIN_LENGTH_TWO_EDITS: usize = 9;
/// Maximum number of corrections of a word.
const MAX_CORRECTIONS: usize = 2;
/// Maximum length, in bytes, of a word that is corrected.
const MAX_LENGTH: usize = 32;

/// Returns at most two terms that differ from a misspelled word by one edit, or by two for long
/// words. The nearest come first, then the most frequent. They begin with the letter of the word.
/// An edit inserts, removes or replaces a letter, or swaps adjacent letters.
pub(super) fn corrections(index: &Index<'_>, word: &str, stem: &str) -> Vec<u32> {
    let is_letters = word.bytes().all(|byte| byte.is_ascii_alphabetic());
    if !is_letters || !(MIN_LENGTH..=MAX_LENGTH).contains(&word.len()) {
        return Vec::new();
    }
    let edits = if word.len() >= MIN_LENGTH_TWO_EDITS { 2 } else { 1 };
    let Some(first) = stem.bytes().next() else { return Vec::new() };
    let mut candidates: Vec<(usize, usize, u32)> = index
        .terms_with_first(first)
        .filter(|(_, term)| term.len().abs_diff(stem.len()) <= edits)
        .filter_map(|(number, term)| {
            let frequency = index.frequency(number);
            let distance = distance(stem.as_bytes(), term, edits)?;
            (frequency > 0 && distance > 0).then_some((distance, frequency, number))
        })
        .collect();
    candidates.sort_unstable_by(|left, right| {
        left.0.cmp(&right.0).then(right.1.cmp(&left.1)).then(left.2.cmp(&right.2))
    });
    candidates.into_iter().take(MAX_CORRECTIONS).map(|(_, _, number)| number).collect()
}

/// A row of the table of edit distances.
type Row = [u8; MAX_LENGTH + 3];

/// Returns the number of edits between two words. `None` if the number exceeds `limit`, or if a
/// word is too long.
fn distance(left: &[u8], right: &[u8], limit: usize) -> Option<usize> {
    if left.len().max(right.len()) > MAX_LENGTH + 2 {
        return None;
    }
    let at = |row: &Row, column: usize| row.get(column).copied().unwrap_or(u8::MAX / 2);
    let mut before_previous: Row = [u8::MAX / 2; MAX_LENGTH + 3];
    let mut previous = before_previous;
    for (cell, column) in previous.iter_mut().zip(0..) {
        *cell = column;
    }
    for (row, letter) in left.iter().enumerate() {
        let mut current: Row = [u8::MAX / 2; MAX_LENGTH + 3];
        let mut left_cell = u8::try_from(row + 1).ok()?;
        let mut smallest = left_cell;
        current[0] = left_cell;
        for (column, other) in right.iter().enumerate() {
            let replaced = at(&previous, column) + u8::from(letter != other);
            let mut best = replaced.min(at(&previous, column + 1) + 1).min(left_cell + 1);
            let swapped = row > 0
                && column > 0
                && left.get(row - 1) == Some(other)
                && right.get(column - 1) == Some(letter);
            if swapped {
                best = best.min(at(&before_previous, column - 1) + 1);
            }
            if let Some(cell) = current.get_mut(column + 1) {
                *cell = best;
            }
            left_cell = best;
            smallest = smallest.min(best);
        }
        // Later rows are never smaller than the smallest cell of this one, less a swap.
        if usize::from(smallest) > limit + 1 {
            return None;
        }
        before_previous = std::mem::replace(&mut previous, current);
    }
    Some(usize::from(at(&previous, right.len()))).filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (left, right, edits) in [
            ("weather", "weather", Some(0)),
            ("weahter", "weather", Some(1)),
            ("wether", "weather", Some(1)),
            ("wxyther", "weather", Some(2)),
            ("forecast", "weather", None),
        ] {
            assert_eq!(distance(left.as_bytes(), right.as_bytes(), 2), edits, "{left}");
        }
    }
}
