//! Literals of expressions, and their comparison with values on a common scale.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::date;
use super::scale::{Scale, ScaleSurvey, duration, has_no_hours};
use super::value::{Number, Value, quote};

/// A literal of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Literal {
    /// The text, without quotes.
    pub(super) text: String,
    /// True if the literal was in quotes.
    pub(super) is_quoted: bool,
    /// True if the comparison with texts ignores case.
    pub(super) ignores_case: bool,
    number: Option<Number>,
    /// The scale on which values are compared with the literal.
    scale: Scale,
}

impl Literal {
    /// Creates a literal from its text.
    pub(super) fn new(text: String, is_quoted: bool) -> Self {
        let text = if is_quoted { text } else { without_underscores(text) };
        let is_number =
            Number::parse_plain(&text).is_some() || (!is_quoted && is_special_number(&text));
        let number = if is_number { Number::parse(&text) } else { None };
        let scale = Scale::of_literal(&text, number.is_some());
        Self { text, is_quoted, ignores_case: false, number, scale }
    }

    /// Converts a duration, such as `36 hours`, to a number of units of `unit_seconds` each. Other
    /// literals remain unchanged.
    pub(super) fn convert_to_time_units(&mut self, unit_seconds: f64) {
        if let Some(seconds) = duration(&self.text) {
            *self = Self::new((seconds / unit_seconds).to_string(), false);
        }
    }

    /// Chooses the scale for comparisons with the values of `field`. Returns a note for the answer
    /// if another scale was possible.
    ///
    /// # Errors
    /// Returns the reason if the values are ordered and the literal does not have their form.
    pub(super) fn fit(
        &mut self,
        survey: &ScaleSurvey,
        field: &str,
    ) -> Result<Option<String>, String> {
        let (scale, note) = survey.scale(field);
        let scale = scale.beside(&self.text);
        if scale == Scale::Text {
            return Ok(note.filter(|_| self.scale == Scale::Text));
        }
        // `1.000` in quotes beside `9,99` is a thousand.
        let has_comma = matches!(scale, Scale::Money { has_comma: true, .. });
        let text = Value::Text(Cow::Borrowed(self.text.as_str()));
        if self.is_quoted && has_comma && scale.position(&text).is_some() {
            self.number = None;
        }
        let is_fitting = scale.position(&self.value()).is_some();
        let is_date = matches!(scale, Scale::Time { .. });
        let of_day = if is_fitting { None } else { scale.of_day(&self.text) };
        if let Some(of_day) = of_day.filter(|_| is_date || !has_no_hours(&self.text)) {
            // Durations such as `00:04:12` have no hours.
            if survey.has_no_hours() && self.text.ends_with(|c: char| c.is_ascii_digit()) {
                return Err(format!(
                    "{field} holds {}, and {self} may be hours and minutes, or minutes and seconds; write {field} > '{1}:00' or {field} > '00:{1}'",
                    survey.samples(),
                    self.text
                ));
            }
            self.scale = of_day;
            return Ok(Some(format!("{self} was compared with the times of day at {field}")));
        }
        if let Scale::Time { order, has_zone } = scale {
            if self.scale == Scale::Text && is_fitting && survey.shows_day_order() {
                // Day and month have the order that they have in the values.
                self.scale = Scale::Time { order, has_zone: false };
                return Ok(Some(format!("{self} was read as the dates at {field} are written")));
            }
            let Scale::Time { has_zone: own, .. } = self.scale else {
                return Err(format!(
                    "{field} holds dates, such as {}, and {self} is none; there is no clock here: write the date itself, such as {field} >= '2024-05-01'",
                    survey.samples()
                ));
            };
            // A time without a zone is compared with times as they are written.
            self.scale = Scale::Time { order, has_zone: has_zone && own };
            let is_month = date::is_month(&self.text) && !survey.has_months();
            let of_month =
                is_month.then(|| format!("{self} was compared as the start of its first day"));
            return Ok(note.or(of_month));
        }
        if let Some(number) = self.number
            && let Some(note) = self.fit_unit(number, &scale, survey, field)?
        {
            return Ok(Some(note));
        }
        if !is_fitting {
            // The literal is an amount of another unit, or one beside plain numbers.
            let is_word = self.scale == Scale::Text && survey.is_uniform();
            return match is_word {
                true => Err(format!(
                    "no record has a comparable text at {field} to compare with {self}; it holds {}; write a value of that form, or convert it with jq",
                    survey.samples()
                )),
                false => Ok(None),
            };
        }
        let of_scale = match &scale {
            Scale::Amount(_) => {
                survey.dotted_note(field).or_else(|| survey.bits_note(field, &self.text))
            }
            Scale::Money { currency, .. } if self.number.is_some() && !currency.is_empty() => {
                Some(format!("{self} was compared with amounts in {currency} at {field}"))
            }
            _ => None,
        };
        self.scale = scale;
        Ok(note.or(of_scale))
    }

    /// Makes a number comparable with amounts that all have one unit. Returns a note for the
    /// answer. `None` if the values are no amounts, or if some have no unit.
    ///
    /// # Errors
    /// Returns the reason if the number may be one of another unit.
    fn fit_unit(
        &mut self,
        number: Number,
        scale: &Scale,
        survey: &ScaleSurvey,
        field: &str,
    ) -> Result<Option<String>, String> {
        let is_amount = matches!(scale, Scale::Amount(_)) && survey.has_units_only();
        if !is_amount || number.float == 0.0 && scale.position(&self.value()).is_some() {
            return Ok(None);
        }
        let Some((of_unit, unit)) = survey.clear_unit(number) else {
            let samples = survey.samples();
            let sample = samples.split('\'').nth(1).unwrap_or_default();
            if sample.ends_with('%') {
                return Err(format!(
                    "{field} holds {samples}, and {self} may be a share or a percentage: write '{}%' or '{self}%'",
                    (number.float * 1e8).round() / 1e6
                ));
            }
            // A large number is rather one of another unit.
            let example = match number.float.abs() < 1_000.0 {
                true => self.in_unit_of(sample).unwrap_or_default(),
                false => quote(sample),
            };
            return Err(format!(
                "{field} holds amounts, such as {samples}, and {self} has no unit: write the amount with its unit, such as {example}"
            ));
        };
        self.scale = of_unit;
        Ok(Some(self.unit_note(survey, &unit, field)))
    }

    fn unit_note(&self, survey: &ScaleSurvey, unit: &str, field: &str) -> String {
        let dotted = survey.dotted_note(field).map_or(String::new(), |note| format!("; {note}"));
        format!("{self} was compared with the amounts in {unit} at {field}{dotted}")
    }

    /// Makes a number equal amounts that all have one unit: `281` is `281 km`. Returns a note for
    /// the answer. `None` if the values are no such amounts.
    pub(super) fn fit_equality(&mut self, survey: &ScaleSurvey, field: &str) -> Option<String> {
        let (scale, unit) = survey.clear_unit(self.number?)?;
        self.scale = scale;
        Some(self.unit_note(survey, &unit, field))
    }

    /// Returns this number with the unit of the amount `sample`, in quotes. `None` if it is no
    /// number, or if the text is no amount.
    pub(super) fn in_unit_of(&self, sample: &str) -> Option<String> {
        let number = self.number.and(Some(&self.text))?;
        let is_digit = |c: char| c.is_ascii_digit();
        let (start, end) = (sample.find(is_digit)?, sample.rfind(is_digit)? + 1);
        let amount = format!("{}{number}{}", sample.get(..start)?, sample.get(end..)?);
        let scale = Scale::of_literal(&amount, false);
        matches!(scale, Scale::Amount(_) | Scale::Money { .. }).then(|| quote(&amount))
    }

    /// Returns the literal as a value.
    pub(super) fn value(&self) -> Value<'_> {
        let text = Cow::Borrowed(self.text.as_str());
        if self.number.is_some() { Value::Number(text) } else { Value::Text(text) }
    }

    /// Returns true if the literal is written as a call, such as `BLANK()`.
    pub(super) fn is_call(&self) -> bool {
        let call = self.text.strip_suffix(')').and_then(|text| text.split_once('('));
        let is_name = |name: &str| {
            name.starts_with(char::is_alphabetic)
                && name.chars().all(|c| c.is_alphanumeric() || "_.".contains(c))
        };
        !self.is_quoted && call.is_some_and(|(name, _)| is_name(name))
    }

    /// Returns the literal as a number. `None` if it is not one.
    pub(super) fn number(&self) -> Option<Number> {
        self.number
    }

    /// Returns the scale on which values are compared with the literal.
    pub(super) fn scale(&self) -> &Scale {
        &self.scale
    }

    /// Returns true if the literal is the null value.
    pub(super) fn is_null(&self) -> bool {
        !self.is_quoted && self.text.eq_ignore_ascii_case("null")
    }

    /// Returns the boolean value of the literal. `None` if it is neither `true` nor `false`.
    pub(super) fn boolean(&self) -> Option<bool> {
        match () {
            () if self.text.eq_ignore_ascii_case("true") => Some(true),
            () if self.text.eq_ignore_ascii_case("false") => Some(false),
            () => None,
        }
    }

    /// Returns the boolean value that the unquoted digit 1 or 0 has in SQL. `None` for other
    /// literals.
    fn digit(&self) -> Option<bool> {
        match self.text.as_str() {
            "1" if !self.is_quoted => Some(true),
            "0" if !self.is_quoted => Some(false),
            _ => None,
        }
    }

    /// Returns true if a value equals the literal. `None` if the value is null or an object.
    pub(super) fn equals(&self, value: &Value<'_>) -> Option<bool> {
        match value {
            Value::Null | Value::Object => None,
            value if !self.scale.unit().is_empty() => {
                Some(self.order(value) == Some(Ordering::Equal))
            }
            // SQL dialects without a boolean type write 1 and 0.
            Value::Bool(value) => {
                Some(self.boolean() == Some(*value) || self.digit() == Some(*value))
            }
            Value::Text(text) if text.as_ref() == self.text => Some(true),
            Value::Text(text) if self.ignores_case && is_same_text(text, &self.text) => Some(true),
            Value::Text(_) if self.is_quoted => Some(false),
            Value::Number(text) if text.as_ref() == self.text => Some(true),
            _ => {
                let (Some(value), Some(number)) = (value.number(), self.number) else {
                    return Some(false);
                };
                Some(value.compare(number).is_some_and(Ordering::is_eq))
            }
        }
    }

    /// Compares a value with the literal. `None` if they have no common scale: numbers compare with
    /// numbers, amounts with amounts, versions with versions, and texts with texts.
    pub(super) fn order(&self, value: &Value<'_>) -> Option<Ordering> {
        // The same text is equal, also `NaN`.
        if self.number.is_some() && value.number().is_some() && value.text() == Some(&self.text) {
            return Some(Ordering::Equal);
        }
        self.scale.position(value)?.compare(&self.scale.position(&self.value())?)
    }
}

impl std::fmt::Display for Literal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_word = self.number.is_some() || self.boolean().is_some() || self.is_null();
        if is_word && !self.is_quoted {
            write!(f, "{}", self.text)
        } else {
            write!(f, "{}", quote(&self.text))
        }
    }
}

/// Returns `1_000_000` without its underscores, and any other text unchanged.
fn without_underscores(text: String) -> String {
    let is_group = |group: &str| group.len() == 3 && group.bytes().all(|b| b.is_ascii_digit());
    let digits = text.strip_prefix('-').unwrap_or(&text);
    let whole = digits.split('.').next().unwrap_or_default();
    let mut groups = whole.split('_');
    let first = groups.next().unwrap_or_default();
    let is_first = (1..=3).contains(&first.len()) && first.bytes().all(|b| b.is_ascii_digit());
    let is_grouped = whole.contains('_') && is_first && groups.all(is_group);
    if is_grouped { text.replace('_', "") } else { text }
}

fn is_same_text(left: &str, right: &str) -> bool {
    left.to_lowercase() == right.to_lowercase()
}

fn is_special_number(text: &str) -> bool {
    matches!(text, "NaN" | "Infinity" | "-Infinity")
        || (text.parse::<f64>().is_ok_and(f64::is_finite)
            && text
                .starts_with(|first: char| first.is_ascii_digit() || first == '-' || first == '.')
            && !text.trim_start_matches('-').starts_with("00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value<'_> {
        Value::Text(text.into())
    }

    fn bare(text: &str) -> Literal {
        Literal::new(text.to_owned(), false)
    }

    #[test]
    fn comparisons_stay_within_a_type() {
        let sixty = bare("60");
        assert_eq!(sixty.order(&Value::Null), None);
        assert_eq!(sixty.order(&text("n/a")), None);
        assert_eq!(sixty.order(&Value::Bool(true)), None);
        assert_eq!(sixty.order(&text("61.5")), Some(Ordering::Greater));
        assert_eq!(sixty.order(&Value::Number("9".into())), Some(Ordering::Less));
        assert_eq!(bare("open").order(&Value::Number("9".into())), None);
    }

    #[test]
    fn long_numbers_are_compared_exactly() {
        let literal = bare("9007199254740993");
        assert_eq!(literal.equals(&Value::Number("9007199254740992".into())), Some(false));
        assert_eq!(literal.equals(&Value::Number("9007199254740993.0".into())), Some(true));
    }

    #[test]
    fn texts_are_numbers_only_if_written_as_in_json() {
        assert_eq!(bare("7").equals(&text("007")), Some(false));
        assert_eq!(bare("7").equals(&text("7.0")), Some(true));
        assert_eq!(bare("100000").equals(&text("1e5")), Some(false));
        assert_eq!(
            Literal::new("7".to_owned(), true).equals(&Value::Number("7".into())),
            Some(true)
        );
    }

    #[test]
    fn dates_with_slashes_have_an_order_if_the_year_comes_first() {
        let date = Literal::new("2012/01/01".to_owned(), true);
        assert_eq!(date.order(&text("2011/04/25")), Some(Ordering::Less));
        assert_eq!(date.order(&text("04/05/2013")), None);
        assert_eq!(bare("src/b").order(&text("src/a")), Some(Ordering::Less));
    }

    #[test]
    fn amounts_and_versions_are_compared_by_value() {
        assert_eq!(bare("16Gi").order(&text("8Gi")), Some(Ordering::Less));
        assert_eq!(bare("16Gi").order(&text("32000Mi")), Some(Ordering::Greater));
        assert_eq!(bare("250ms").order(&text("1000ms")), Some(Ordering::Greater));
        assert_eq!(bare("250ms").order(&text("1s")), Some(Ordering::Greater));
        assert_eq!(bare("1.2.10").order(&text("1.2.9")), Some(Ordering::Less));
        assert_eq!(bare("2024-05-01").order(&text("2024-04-30T10:00:00Z")), Some(Ordering::Less));
        assert_eq!(bare("2024-05-01").order(&text("04/05/2024")), None);
    }
}
