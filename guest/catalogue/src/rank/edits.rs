//! The cost of the edits that turn a misspelled word into a word of the index.

/// Maximum length, in bytes, of a misspelled word.
pub(super) const MAX_LENGTH: usize = 32;
/// Maximum length, in bytes, of a word of the index, which is a stem with a suffix.
const MAX_LETTERS: usize = 40;

/// The cost of swapped adjacent letters. Costs are tenths of the cost of a missing letter.
const SWAPPED: u8 = 8;
/// The cost of a letter that occurs twice instead of once, or once instead of twice.
const DOUBLED: u8 = 8;
/// The cost of a letter in place of the letter of a neighbouring key.
const NEIGHBOUR: u8 = 9;
/// The cost of a missing letter.
const MISSING: u8 = 10;
/// The cost of an additional letter.
const EXTRA: u8 = 13;
/// The cost of an additional letter of a key beside that of the letter before or after it.
const EXTRA_NEIGHBOUR: u8 = 10;
/// The cost of a vowel in place of another one.
const VOWEL: u8 = 11;
/// The cost of any other letter in place of the correct one.
const REPLACED: u8 = 14;
/// The additional cost of an edit of the first letter, which is rarely wrong.
const FIRST: u8 = 2;

/// For each letter, the letters of the keys around its key.
const NEIGHBOURS: [&[u8]; 26] = [
    b"qswz", b"ghnv", b"dfvx", b"cefrsx", b"drsw", b"cdgrtv", b"bfhtvy", b"bgjnuy", b"jkou",
    b"hikmnu", b"ijlmo", b"kop", b"jkn", b"bhjm", b"iklp", b"lo", b"aw", b"deft", b"adewxz",
    b"fgry", b"hijy", b"bcfg", b"aeqs", b"cdsz", b"ghtu", b"asx",
];

type Row = [u8; MAX_LENGTH + 1];

/// A table of the costs of turning each beginning of a word into each beginning of a text. Texts
/// with a common beginning share the rows for it.
pub(super) struct EditTable<'w> {
    word: &'w [u8],
    /// The row for the empty text, then one for each letter of `text`.
    rows: [Row; MAX_LETTERS + 1],
    text: [u8; MAX_LETTERS],
}

impl<'w> EditTable<'w> {
    /// Creates a table for the first [`MAX_LENGTH`] bytes of a word.
    pub(super) fn new(word: &'w [u8]) -> Self {
        let word = word.get(..MAX_LENGTH).unwrap_or(word);
        let mut rows = [[u8::MAX; MAX_LENGTH + 1]; MAX_LETTERS + 1];
        let mut cost = 0_u8;
        for (column, cell) in rows[0].iter_mut().enumerate().take(word.len() + 1) {
            if column > 0 {
                cost = cost.saturating_add(extra(word, column - 1));
            }
            *cell = cost;
        }
        Self { word, rows, text: [0; MAX_LETTERS] }
    }

    /// Sets letter `at` of the text, and computes its row from the rows before it. Returns a lower
    /// bound for the costs in all later rows.
    pub(super) fn set(&mut self, at: usize, letter: u8) -> u8 {
        let Some(slot) = self.text.get_mut(at) else { return u8::MAX };
        *slot = letter;
        let previous_letter = at.checked_sub(1).and_then(|at| self.text.get(at)).copied();
        let before_previous = at.checked_sub(1).and_then(|at| self.rows.get(at)).copied();
        let Some((before, rest)) = self.rows.split_at_mut_checked(at + 1) else { return u8::MAX };
        let (Some(previous), Some(current)) = (before.last(), rest.first_mut()) else {
            return u8::MAX;
        };
        let first = |is_first: bool| if is_first { FIRST } else { 0 };
        let missing = if previous_letter == Some(letter) { DOUBLED } else { MISSING };
        let missing = missing + first(at == 0);
        let mut left = previous[0].saturating_add(missing);
        let mut smallest = left;
        current[0] = left;
        let mut before_left = None;
        let mut swaps = u8::MAX;
        let columns = self.word.iter().zip(current.iter_mut().skip(1));
        for ((column, (typed, cell)), pair) in columns.enumerate().zip(previous.windows(2)) {
            let [diagonal, above] = *pair else { continue };
            let replaced = if *typed == letter {
                diagonal
            } else {
                let is_first = first(at == 0 && column == 0);
                diagonal.saturating_add(replaced(*typed, letter) + is_first)
            };
            let mut best = replaced
                .min(above.saturating_add(missing))
                .min(left.saturating_add(extra(self.word, column)));
            if let (Some(before_previous), Some(place)) = (&before_previous, column.checked_sub(1))
            {
                let start = before_previous.get(place).copied().unwrap_or(u8::MAX);
                if before_left == Some(letter) && previous_letter == Some(*typed) {
                    best = best.min(start.saturating_add(SWAPPED + first(at == 1 && place == 0)));
                }
            }
            // The next row can continue with a swap from the row before this one.
            swaps = swaps.min(diagonal);
            before_left = Some(*typed);
            left = best;
            *cell = best;
            smallest = smallest.min(best);
        }
        smallest.min(swaps.saturating_add(SWAPPED))
    }

    /// Returns the cost of turning the whole word into the first `length` letters of the text.
    pub(super) fn cost(&self, length: usize) -> u8 {
        let row = self.rows.get(length);
        row.and_then(|row| row.get(self.word.len())).copied().unwrap_or(u8::MAX)
    }

    /// Returns the cost of turning the word into the first `length` letters of the text and a
    /// suffix. Returns `u8::MAX` if the cost exceeds `limit`.
    pub(super) fn cost_with(&mut self, length: usize, suffix: &[u8], limit: u8) -> u8 {
        for (at, letter) in (length..).zip(suffix) {
            if self.set(at, *letter) > limit {
                return u8::MAX;
            }
        }
        let cost = self.cost(length + suffix.len());
        if cost > limit { u8::MAX } else { cost }
    }
}

/// Returns the cost of the letter with index `at` if it is one too many.
fn extra(word: &[u8], at: usize) -> u8 {
    match at.checked_sub(1) {
        Some(before) if word.get(before) == word.get(at) => DOUBLED,
        Some(before) => {
            let is_near = |other: Option<&u8>| match (word.get(at), other) {
                (Some(typed), Some(other)) => neighbours(*typed).contains(other),
                _ => false,
            };
            if is_near(word.get(before)) || is_near(word.get(at + 1)) {
                EXTRA_NEIGHBOUR
            } else {
                EXTRA
            }
        }
        None => EXTRA + FIRST,
    }
}

/// Returns the cost of a typed letter in place of another one.
fn replaced(typed: u8, correct: u8) -> u8 {
    let is_vowel = |letter| matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u' | b'y');
    if neighbours(typed).contains(&correct) {
        NEIGHBOUR
    } else if is_vowel(typed) && is_vowel(correct) {
        VOWEL
    } else {
        REPLACED
    }
}

/// Returns the letters of the keys around a letter's key.
fn neighbours(letter: u8) -> &'static [u8] {
    NEIGHBOURS.get(usize::from(letter.wrapping_sub(b'a'))).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(word: &str, text: &str) -> u8 {
        let mut table = EditTable::new(word.as_bytes());
        for (at, letter) in text.bytes().enumerate() {
            table.set(at, letter);
        }
        table.cost(text.len())
    }

    #[test]
    fn edits_have_costs() {
        for (word, text, edits) in [
            ("weather", "weather", 0),
            ("weahter", "weather", SWAPPED),
            ("ewather", "weather", SWAPPED + FIRST),
            ("wether", "weather", MISSING),
            ("eather", "weather", MISSING + FIRST),
            ("comit", "commit", DOUBLED),
            ("weatther", "weather", DOUBLED),
            ("wweather", "weather", DOUBLED),
            ("weaxther", "weather", EXTRA),
            ("weatjer", "weather", NEIGHBOUR),
            ("qeather", "weather", NEIGHBOUR + FIRST),
            ("weatxer", "weather", REPLACED),
            ("weqrher", "weather", 2 * NEIGHBOUR),
        ] {
            assert_eq!(cost(word, text), edits, "{word}");
        }
    }

    #[test]
    fn neighbours_are_mutual() {
        for (letter, keys) in (b'a'..).zip(NEIGHBOURS) {
            for key in keys {
                let back = NEIGHBOURS[usize::from(key - b'a')];
                assert!(back.contains(&letter), "{} {}", char::from(letter), char::from(*key));
            }
        }
    }

    #[test]
    fn bounds_are_never_above_the_cost() {
        for (word, text) in [("ewather", "weather"), ("locaiton", "location"), ("ab", "ba")] {
            let mut table = EditTable::new(word.as_bytes());
            let bounds: Vec<u8> =
                text.bytes().enumerate().map(|(at, letter)| table.set(at, letter)).collect();
            assert!(bounds.iter().all(|bound| *bound <= table.cost(text.len())), "{word}");
        }
    }
}
