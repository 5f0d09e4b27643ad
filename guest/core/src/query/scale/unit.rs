//! The unit that all amounts of a field have, for totals and computations: `3.3 km` and `12 km`.

use super::Scale;
use super::amount::is_multiple_of_bytes;
use super::survey::ScaleSurvey;
use super::written::{MAX_UNITS, is_of_bits};
use crate::query::names::join_names;
use crate::query::value::{Number, quote};

/// The words for powers of ten, in lower case.
const MAGNITUDES: [&str; 20] = [
    "hundred", "thousand", "tsd", "million", "millions", "mio", "mil", "mln", "mn", "billion",
    "billions", "bln", "mrd", "trillion", "tn", "lakh", "lakhs", "crore", "crores", "cr",
];
/// The least ratio of a number to the greatest amount in multiples of bytes that shows that the
/// number is one of bytes.
const FAR_RATIO: f64 = 1_000.0;

impl Scale {
    /// Returns the unit of the amounts. Empty for other scales.
    pub(in crate::query) fn unit(&self) -> &str {
        if let Self::Unit { unit, .. } = self { unit } else { "" }
    }
}

impl ScaleSurvey {
    /// Returns the scale for computing with amounts that all have one unit. `None` if values are
    /// numbers, have several units, or if a comma cannot be told from a decimal point.
    pub(in crate::query) fn unit_scale(&self) -> Option<Scale> {
        let written = &self.written;
        let [unit] = written.names.as_slice() else { return None };
        let is_most = written.count * 2 >= self.texts() && written.count == self.amounts();
        let is_clear = written.commas.0 == 0 || written.commas.1 == 0;
        let has_comma = written.commas.0 > 0;
        (self.plain_numbers() == 0 && is_most && is_clear)
            .then(|| Scale::Unit { unit: unit.clone(), has_comma })
    }

    /// Returns true if all values that are numbers or amounts have a unit.
    pub(in crate::query) fn has_units_only(&self) -> bool {
        self.amounts() > 0 && self.plain_numbers() == 0
    }

    /// Returns the scale of amounts that all have one unit, and the unit, if `number` can only be
    /// an amount of it. `None` if it may be another one: `1500m` and `12k` have a power of ten, and
    /// beside percentages, a number up to 1 may be a share.
    pub(in crate::query) fn clear_unit(&self, number: Number) -> Option<(Scale, String)> {
        let scale = self.unit_scale()?;
        let unit = scale.unit().to_owned();
        if number.float == 0.0 {
            return Some((scale, unit));
        }
        let is_share = unit == "%" && number.float.abs() <= 1.0;
        let is_apart = self.written.apart == self.written.count;
        let is_power = match unit.as_str() {
            "m" | "g" | "t" => !is_apart,
            "n" | "u" | "k" | "K" | "M" | "b" | "B" | "bn" | "G" | "T" => true,
            unit => MAGNITUDES.contains(&unit.to_lowercase().as_str()),
        };
        let is_bytes =
            is_multiple_of_bytes(&unit) && number.float.abs() >= self.written.greatest * FAR_RATIO;
        (!is_share && !is_power && !is_bytes).then_some((scale, unit))
    }

    /// Returns a note on an amount whose dot may separate thousands, such as `1.200 km`. `None` if
    /// there is none, or if other amounts show their decimal separator.
    pub(in crate::query) fn dotted_note(&self, field: &str) -> Option<String> {
        let dotted = self.written.dotted.as_ref().filter(|_| self.written.commas == (0, 0))?;
        Some(format!("{} at {field} was read with a dot before decimals", quote(dotted)))
    }

    /// Returns a note on an amount such as `500 Mb`, among the values or as the literal that they
    /// are compared with, which is read in bytes. `None` if none or both are of this form.
    pub(in crate::query) fn bits_note(&self, field: &str, literal: &str) -> Option<String> {
        match (&self.written.bits, is_of_bits(literal)) {
            (Some(sample), false) => {
                Some(format!("{} at {field} was read in bytes, not bits", quote(sample)))
            }
            (None, true) => Some(format!("{} was read in bytes, not bits", quote(literal))),
            _ => None,
        }
    }

    /// Returns the units of amounts that have several units. `None` if there are none.
    pub(in crate::query) fn several_units(&self) -> Option<String> {
        let is_most = self.written.count * 2 >= self.texts();
        let is_several = self.written.names.len() > 1 && self.plain_numbers() == 0 && is_most;
        is_several.then(|| join_names(&self.written.names, MAX_UNITS))
    }
}

#[cfg(test)]
mod tests {
    use super::super::written::number_in;
    use super::*;
    use crate::query::value::Value;

    fn scale(texts: &[&'static str]) -> Option<Scale> {
        let mut survey = ScaleSurvey::default();
        texts.iter().for_each(|text| survey.add(&Value::Text((*text).into())));
        survey.unit_scale()
    }

    #[test]
    fn amounts_of_one_unit_are_numbers() {
        let unit = |unit: &str, has_comma| Some(Scale::Unit { unit: unit.to_owned(), has_comma });
        assert_eq!(scale(&["3.3 km", "12 km", "n/a"]), unit("km", false));
        assert_eq!(scale(&["3,3 km", "1.234 km"]), unit("km", true));
        assert_eq!(scale(&["120 m\u{b2}", "1,200 m\u{b2}"]), unit("m\u{b2}", false));
        for texts in [
            ["3.3 km", "5 mi"].as_slice(),
            &["3.3 km", "5"],
            &["3,3 km", "5.5 km"],
            &["5 MB", "5 MB/s"],
            &["3d4h", "5 h"],
            &["9:30", "10:30"],
            &["1st", "2nd"],
        ] {
            assert_eq!(scale(texts), None, "{texts:?}");
        }
        assert_eq!(number_in("1.234 km", "km", true).as_deref(), Some("1234"));
        assert_eq!(number_in("1.2 mi", "km", false), None);
    }
}
