//! Amounts as they are written: `3.3 km`.

use super::amount::{amount, decimal_comma, grouped_number};

/// The maximum number of distinct units that a survey holds, for errors.
pub(super) const MAX_UNITS: usize = 5;

/// The units of the amounts of a field, as they are written.
#[derive(Debug, Default)]
pub(super) struct WrittenUnits {
    pub(super) names: Vec<String>,
    pub(super) count: u64,
    /// The number of amounts with a decimal comma, and of those with a decimal dot.
    pub(super) commas: (u64, u64),
    /// The number of amounts with white space before the unit.
    pub(super) apart: u64,
    /// The greatest amount, without its sign.
    pub(super) greatest: f64,
    /// An amount with three digits after its only separator, a dot: `1.200 km`.
    pub(super) dotted: Option<String>,
    /// An amount whose unit is one of bits for some writers: `500 Mb`.
    pub(super) bits: Option<String>,
}

impl WrittenUnits {
    /// Adds an amount.
    pub(super) fn add(&mut self, text: &str) {
        let text = text.trim();
        let Some((digits, unit)) = split(text) else { return };
        match decimal_comma(digits) {
            Some(true) => self.commas.0 += 1,
            Some(false) => self.commas.1 += 1,
            None if self.dotted.is_none() && may_be_thousands(digits) => {
                self.dotted = Some(text.to_owned());
            }
            None => {}
        }
        if self.bits.is_none() && is_of_bits(text) {
            self.bits = Some(text.to_owned());
        }
        self.greatest = amount(text).map_or(0.0, |(number, _)| number.abs()).max(self.greatest);
        self.count += 1;
        self.apart += u64::from(text.contains(char::is_whitespace));
        if self.names.len() < MAX_UNITS && !self.names.iter().any(|known| known == unit) {
            self.names.push(unit.to_owned());
        }
    }
}

/// Returns true if the unit of an amount may be one of bits, such as `Mb`, which is read as `MB`.
pub(super) fn is_of_bits(text: &str) -> bool {
    let unit = split(text).map_or("", |(_, unit)| unit.trim_end_matches("/s"));
    ["Kb", "Mb", "Gb", "Tb"].contains(&unit)
}

/// Returns true if a dot in a number may separate thousands: `1.200`, but not `0.125`.
fn may_be_thousands(digits: &str) -> bool {
    let whole = digits.split_once('.').map_or("", |(whole, _)| whole.trim_start_matches('-'));
    (1..=3).contains(&whole.len()) && !whole.starts_with('0')
}

/// Returns the number of an amount in `unit`, as JSON. `None` for other texts.
pub(super) fn number_in(text: &str, unit: &str, has_comma: bool) -> Option<String> {
    let (digits, own) = split(text)?;
    (own == unit).then(|| grouped_number(digits, has_comma)).flatten()
}

/// Splits `3.3 km` into its digits and its unit. `None` for times of day, for durations of several
/// units, and for other texts.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && !"-.,".contains(c))?;
    let (digits, unit) = text.split_at_checked(end)?;
    let unit = unit.trim_start();
    let is_unit = !unit.is_empty()
        && unit.chars().all(|c| !c.is_ascii_digit() && !":+".contains(c))
        && !["ago", "st", "nd", "rd", "th", "am", "pm"]
            .iter()
            .any(|word| unit.to_lowercase().ends_with(&format!(" {word}")) || unit == *word);
    let is_number = digits.ends_with(|c: char| c.is_ascii_digit());
    (is_unit && is_number && amount(text).is_some()).then_some((digits, unit))
}
