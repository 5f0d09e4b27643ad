//! Amounts of money for sums, each with its own currency.

use super::Scale;
use super::amount::{decimal_comma, money};
use super::written::number_in;
use crate::query::value::{Number, Value};

impl Scale {
    /// Returns the number of a value as text, and its currency, which is empty for numbers. `None`
    /// if the value is neither a number nor, on this scale, an amount of money.
    pub(in crate::query) fn amount_of(&self, value: &Value<'_>) -> Option<(String, String)> {
        let number = value.number().and(value.text()).map(|text| (text.to_owned(), String::new()));
        if let (Scale::Unit { unit, has_comma }, Value::Text(text)) = (self, value)
            && number.is_none()
        {
            return number_in(text, unit, *has_comma).map(|number| (number, String::new()));
        }
        let (Scale::Currencies(has_comma), Value::Text(text)) = (self, value) else {
            return number;
        };
        // Beside amounts such as `9,99`, the dot of `1.234` is one of thousands.
        if number.is_some() && *has_comma != Some(true) {
            return number;
        }
        let has_comma = decimal_comma(text).or(*has_comma)?;
        let found = money(text, has_comma)?;
        // `(1)` alone is a text.
        if found.has_parentheses && found.currency.is_empty() {
            return None;
        }
        Some((found.number.to_string(), found.currency))
    }

    /// Returns the position of an amount, ignoring its currency.
    pub(super) fn amount_position(&self, value: &Value<'_>) -> Option<Number> {
        Number::parse(&self.amount_of(value)?.0)
    }
}

/// Returns an amount with its currency, such as `€12.5` and `USD 12.5`.
pub(in crate::query) fn with_currency(number: &str, currency: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |digits| ("-", digits));
    let space = if currency.ends_with(|c: char| c.is_ascii_alphabetic()) { " " } else { "" };
    format!("{sign}{currency}{space}{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_numbers_and_currencies() {
        let read = |text: &'static str, has_comma| {
            let found = Scale::Currencies(has_comma).amount_of(&Value::Text(text.into()));
            found.map(|(number, currency)| with_currency(&number, &currency))
        };
        assert_eq!(read("$11,905.80", Some(false)).as_deref(), Some("$11905.8"));
        assert_eq!(read("-9,99 €", Some(false)).as_deref(), Some("-€9.99"));
        assert_eq!(read("(1)", Some(false)), None);
        assert_eq!(read("USD 5", None), None);
        assert_eq!(read("USD 5", Some(false)).as_deref(), Some("USD 5"));
        assert_eq!(read("€1,234", Some(true)).as_deref(), Some("€1.234"));
        assert_eq!(read("1.234", Some(true)).as_deref(), Some("1234"));
        assert_eq!(read("1.234", Some(false)).as_deref(), Some("1.234"));
        assert_eq!(read("n/a", Some(false)), None);
    }
}
