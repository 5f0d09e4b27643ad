//! Values of records and literals of expressions, and their comparison within one type.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::decimal::decimal;
use crate::json::outline::{Node, Outline};
use crate::json::scan::Kind;

/// The factors of units, in bytes or of amounts. Kubernetes and most tools write them so.
const UNITS: &[(&str, f64)] = &[
    ("ki", 1_024.0),
    ("kib", 1_024.0),
    ("mi", 1_048_576.0),
    ("mib", 1_048_576.0),
    ("gi", 1_073_741_824.0),
    ("gib", 1_073_741_824.0),
    ("ti", 1_099_511_627_776.0),
    ("tib", 1_099_511_627_776.0),
    ("b", 1.0),
    ("k", 1e3),
    ("kb", 1e3),
    ("mb", 1e6),
    ("g", 1e9),
    ("gb", 1e9),
    ("t", 1e12),
    ("tb", 1e12),
];

/// A scalar value of a record, or the kind of another value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// Null, or an absent field.
    Null,
    /// A boolean.
    Bool(bool),
    /// A number, verbatim.
    Number(Cow<'a, str>),
    /// A string, decoded.
    Text(Cow<'a, str>),
    /// An object.
    Object,
}

impl<'a> Value<'a> {
    /// Returns the value of a node. An array counts as an object.
    pub(super) fn new(outline: &'a Outline<'_>, node: &Node) -> Self {
        let text = |bytes: Cow<'a, [u8]>| match bytes {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        };
        match node.kind {
            Kind::String => Value::Text(text(outline.name(&node.span))),
            Kind::Scalar => {
                let raw = text(outline.raw(node));
                match raw.as_ref() {
                    "null" => Value::Null,
                    "true" => Value::Bool(true),
                    "false" => Value::Bool(false),
                    _ => Value::Number(raw),
                }
            }
            Kind::Object | Kind::Array => Value::Object,
        }
    }

    /// Returns the value as text. None if it is null or an object.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Null | Value::Object => None,
            Value::Bool(true) => Some("true"),
            Value::Bool(false) => Some("false"),
            Value::Number(text) | Value::Text(text) => Some(text),
        }
    }

    /// Returns the number that the value is, or that its text is written as in JSON.
    pub(super) fn number(&self) -> Option<Number> {
        match self {
            Value::Number(text) => Number::parse(text),
            Value::Text(text) => Number::parse_plain(text),
            _ => None,
        }
    }

    /// Returns the value without a reference to the document.
    pub(super) fn into_owned(self) -> Value<'static> {
        match self {
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Number(text) => Value::Number(Cow::Owned(text.into_owned())),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Object => Value::Object,
        }
    }
}

/// A number. Comparisons are exact while both sides have at most 18 decimal places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    pub(super) float: f64,
    exact: Option<i128>,
}

impl Number {
    /// Parses any number that a document may contain, such as `-1.5e3` or `NaN`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let float = text.parse::<f64>().ok()?;
        Some(Self { float, exact: decimal(text) })
    }

    /// Parses a number that is written as JSON writes it. `007`, `+5`, `1e5` and `inf` are texts:
    /// as identifiers, they differ from the number.
    pub(super) fn parse_plain(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let has_zero = whole.len() > 1 && whole.starts_with('0');
        (is_digits(whole) && is_digits(fraction) && !has_zero).then(|| Self::parse(text)).flatten()
    }

    /// Compares two numbers. None if one of them is `NaN`.
    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        match (self.exact, other.exact) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => self.float.partial_cmp(&other.float),
        }
    }

    /// Compares two numbers in a total order, in which `NaN` comes last.
    pub(super) fn total_compare(self, other: Self) -> Ordering {
        self.compare(other).unwrap_or_else(|| self.float.total_cmp(&other.float))
    }
}

/// A literal of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Literal {
    /// The text, without quotes.
    pub(super) text: String,
    /// True if the literal was in quotes.
    pub(super) is_quoted: bool,
    number: Option<Number>,
    amount: Option<(f64, String)>,
    version: Option<Vec<u64>>,
}

impl Literal {
    /// Creates a literal from its text.
    pub(super) fn new(text: String, is_quoted: bool) -> Self {
        let is_number =
            Number::parse_plain(&text).is_some() || (!is_quoted && is_special_number(&text));
        let number = if is_number { Number::parse(&text) } else { None };
        let amount = amount(&text);
        let version = version(&text);
        Self { text, is_quoted, number, amount, version }
    }

    /// Returns the number that the literal is, if it is one.
    pub(super) fn number(&self) -> Option<Number> {
        self.number
    }

    /// Returns true if the literal is the null value.
    pub(super) fn is_null(&self) -> bool {
        !self.is_quoted && self.text.eq_ignore_ascii_case("null")
    }

    /// Returns true if the literal is `true` or `false`.
    pub(super) fn boolean(&self) -> Option<bool> {
        match () {
            () if self.text.eq_ignore_ascii_case("true") => Some(true),
            () if self.text.eq_ignore_ascii_case("false") => Some(false),
            () => None,
        }
    }

    /// Returns true if a value equals the literal, or none if the value is null or an object.
    pub(super) fn equals(&self, value: &Value<'_>) -> Option<bool> {
        match value {
            Value::Null | Value::Object => None,
            Value::Bool(value) => Some(self.boolean() == Some(*value)),
            Value::Text(text) if text.as_ref() == self.text => Some(true),
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

    /// Compares a value with the literal. None if they are not of one type: numbers are compared
    /// with numbers, amounts with amounts, versions with versions, and text with text.
    pub(super) fn order(&self, value: &Value<'_>) -> Option<Ordering> {
        let text = match value {
            Value::Number(text) | Value::Text(text) => text,
            _ => return None,
        };
        if let Some(number) = self.number {
            let left = value.number()?;
            // The same text is equal, also `NaN`.
            return if text.as_ref() == self.text {
                Some(Ordering::Equal)
            } else {
                left.compare(number)
            };
        }
        if let Some((number, unit)) = &self.amount {
            let (left, own) = match value {
                Value::Number(text) => (text.parse().ok()?, String::new()),
                _ => amount(text)?,
            };
            let (left, right) = match (factor(&own), factor(unit)) {
                _ if own == *unit => (left, *number),
                (Some(factor), Some(other)) => (left * factor, number * other),
                _ => return None,
            };
            return left.partial_cmp(&right);
        }
        let Value::Text(text) = value else { return None };
        if let Some(parts) = &self.version {
            return Some(version(text)?.cmp(parts));
        }
        // The order of dates is that of their texts only if the year comes first in both.
        let is_other_date = |text: &str| {
            let first = text.split('/').next().unwrap_or_default();
            let digits = first.bytes().all(|byte| byte.is_ascii_digit());
            digits && (1..3).contains(&first.len()) && text.contains('/')
        };
        if is_other_date(text) || is_other_date(&self.text) {
            return None;
        }
        Some(text.as_ref().cmp(self.text.as_str()))
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

/// Returns a text in single quotes, as an expression reads it.
pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

fn is_special_number(text: &str) -> bool {
    matches!(text, "NaN" | "Infinity" | "-Infinity")
        || (text.parse::<f64>().is_ok_and(f64::is_finite)
            && text
                .starts_with(|first: char| first.is_ascii_digit() || first == '-' || first == '.')
            && !text.trim_start_matches('-').starts_with("00"))
}

/// Returns the number and the unit of an amount such as `16Gi` or `250ms`, in lower case.
fn amount(text: &str) -> Option<(f64, String)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-')?;
    let (number, unit) = text.split_at_checked(end)?;
    let unit = unit.trim();
    let is_unit = unit.len() <= 4 && unit.chars().all(|c| c.is_alphabetic() || c == '%');
    (is_unit && !unit.is_empty()).then_some(())?;
    // `m` is a thousandth in Kubernetes, a minute or a megabyte elsewhere.
    Some((number.parse().ok()?, unit.to_lowercase()))
}

fn factor(unit: &str) -> Option<f64> {
    if unit.is_empty() {
        return Some(1.0);
    }
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
}

/// Returns the parts of a version or address such as `v1.10.2`.
fn version(text: &str) -> Option<Vec<u64>> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let parts: Vec<&str> = text.split('.').collect();
    if !(3..=8).contains(&parts.len()) {
        return None;
    }
    parts.into_iter().map(|part| part.parse().ok()).collect()
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
        assert_eq!(date.order(&text("04/25/2013")), None);
        assert_eq!(bare("1/2/2012").order(&text("3/4/2011")), None);
        assert_eq!(bare("src/b").order(&text("src/a")), Some(Ordering::Less));
    }

    #[test]
    fn amounts_and_versions_are_compared_by_value() {
        assert_eq!(bare("16Gi").order(&text("8Gi")), Some(Ordering::Less));
        assert_eq!(bare("16Gi").order(&text("32000Mi")), Some(Ordering::Greater));
        assert_eq!(bare("250ms").order(&text("1000ms")), Some(Ordering::Greater));
        assert_eq!(bare("250ms").order(&text("1s")), None);
        assert_eq!(bare("1.2.10").order(&text("1.2.9")), Some(Ordering::Less));
        assert_eq!(bare("2024-05-01").order(&text("2024-04-30T10:00:00Z")), Some(Ordering::Less));
        assert_eq!(bare("2024-05-01").order(&text("30/04/2024")), None);
    }
}
