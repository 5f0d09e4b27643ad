//! Intervals that a difference of dates is compared with, as numbers of days.

use crate::query::code::{keyword, replaced};
use crate::query::reader::is_word_character;

/// The units of an interval, each with its length in seconds.
const UNITS: [(&str, f64); 5] =
    [("week", 604_800.0), ("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0), ("second", 1.0)];
/// The seconds of a day.
const DAY: f64 = 86_400.0;

/// Converts the interval in `ended - started > INTERVAL '36 hours'` to a number of days: 1.5. Also
/// reads `INTERVAL 3 DAY`, `INTERVAL '3' DAY` and `'3 days'::interval`. `None` if there is none.
pub(super) fn converted(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let operand = rest.trim_start_matches(['<', '>', '=']);
        let sign = rest.get(..rest.len() - operand.len()).filter(|sign| !sign.is_empty())?;
        // An interval is rare, and what is before it may be long.
        let (days, after) = interval(operand.trim_start())?;
        is_difference(before).then_some(())?;
        Some((rest.len() - after.len(), format!("{sign} {days}")))
    })
}

/// Returns true if a text ends with the difference of two names.
fn is_difference(text: &str) -> bool {
    // The names are at its end.
    let start = (text.len().saturating_sub(256)..text.len()).find(|at| text.is_char_boundary(*at));
    let text = text.get(start.unwrap_or_default()..).unwrap_or_default();
    let mut from = 0;
    for word in ["and", "or", "where"] {
        while let Some(at) = keyword(text, from, word) {
            from = at + word.len();
        }
    }
    let last = text.get(from..).unwrap_or_default().trim().trim_matches(['(', ')']);
    let is_name = |name: &str| {
        let name = name.trim();
        name.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '"')
            && name.chars().all(|c| is_word_character(c) || ".\"".contains(c))
    };
    last.split_once('-').is_some_and(|(later, earlier)| is_name(later) && is_name(earlier))
}

/// Reads an interval at the start of a text. Returns its number of days, and the text after it.
fn interval(text: &str) -> Option<(f64, &str)> {
    let word = text.get(.."interval".len()).filter(|word| word.eq_ignore_ascii_case("interval"));
    let Some(word) = word else {
        let (inner, after) = text.strip_prefix('\'')?.split_once('\'')?;
        let after = after.strip_prefix("::interval")?;
        return Some((days(inner)?, after));
    };
    let rest = text.get(word.len()..)?.trim_start();
    let (number, after) = match rest.strip_prefix('\'') {
        Some(quoted) => quoted.split_once('\'')?,
        None => rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?),
    };
    if let Some(days) = days(number) {
        return Some((days, after));
    }
    let after = after.trim_start();
    let end = after.find(|c| !is_word_character(c)).unwrap_or(after.len());
    let (unit, after) = after.split_at_checked(end)?;
    Some((days(&format!("{number} {unit}"))?, after))
}

/// Returns the number of days of `3 days` or `1 day 12 hours`. `None` for other texts.
fn days(text: &str) -> Option<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut seconds = 0.0;
    for pair in words.chunks(2) {
        let [number, unit] = pair else { return None };
        let unit = unit.to_lowercase();
        let (_, length) =
            UNITS.iter().find(|(name, _)| unit.strip_suffix('s').unwrap_or(&unit) == *name)?;
        seconds += number.parse::<f64>().ok()? * length;
    }
    (!words.is_empty()).then_some(seconds / DAY)
}

#[cfg(test)]
mod tests {
    use super::converted;

    #[test]
    fn intervals_are_numbers_of_days() {
        for (text, expected) in [
            ("a - b > INTERVAL '36 hours'", Some("a - b > 1.5")),
            (
                "x = 1 AND (a.c - b) >= interval 3 day AND y = 2",
                Some("x = 1 AND (a.c - b) >= 3 AND y = 2"),
            ),
            ("a - b < INTERVAL '2' DAY", Some("a - b < 2")),
            ("a - b > '1 day 12 hours'::interval", Some("a - b > 1.5")),
            ("a - b > '3 days'", None),
            ("a > INTERVAL '3 days'", None),
            ("a > b - INTERVAL '3 days'", None),
            ("a - b > interval '3 months'", None),
        ] {
            assert_eq!(converted(text).as_deref(), expected, "{text}");
        }
    }
}
