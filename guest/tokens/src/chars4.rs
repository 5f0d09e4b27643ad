//! The reference estimator: a quarter of the characters, plus a fifth of that (FR-013, R001).

/// Returns the tokens of `text`: `floor(chars/4) + floor(0.20 * floor(chars/4))`, where `chars` are
/// Unicode scalar values. O(n).
///
/// The safety margin of a fifth is part of the formula, so none is added when a budget is enforced.
#[must_use]
pub fn estimate(text: &str) -> u64 {
    of_chars(text.chars().count() as u64)
}

/// Returns the tokens, by the formula of [`estimate`], of a text with `chars` Unicode scalar
/// values.
#[must_use]
pub fn of_chars(chars: u64) -> u64 {
    let quarter = chars / 4;
    quarter + quarter / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_to_the_letter() {
        for (chars, tokens) in
            [(0, 0), (3, 0), (4, 1), (19, 4), (20, 6), (100, 30), (16_000, 4_800)]
        {
            assert_eq!(estimate(&"x".repeat(chars)), tokens, "{chars} characters");
        }
    }

    #[test]
    fn characters_are_unicode_scalar_values() {
        assert_eq!(estimate("日本語日本語日本語日本語日本語日本語日本"), 6);
        assert_eq!(estimate("👩‍👩‍👧"), 1, "five scalar values, one grapheme");
    }
}
