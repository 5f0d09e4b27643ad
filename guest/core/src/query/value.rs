//! Values of records, and comparison of numbers.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::decimal::{Sum, computed, decimal, rounded};
use crate::json::outline::{Node, Outline};
use crate::json::scan::Kind;

/// A scalar value of a record, or a mark for any other value.
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
    /// An object or an array.
    Object,
}

impl<'a> Value<'a> {
    /// Returns the value of a node.
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

    /// Returns the value as text. `None` if it is null or an object.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Null | Value::Object => None,
            Value::Bool(true) => Some("true"),
            Value::Bool(false) => Some("false"),
            Value::Number(text) | Value::Text(text) => Some(text),
        }
    }

    /// Returns the value as a number. A text counts if it is a plain JSON number. `None` for other
    /// values.
    pub(super) fn number(&self) -> Option<Number> {
        match self {
            Value::Number(text) => Number::parse(text),
            Value::Text(text) => Number::parse_plain(text),
            _ => None,
        }
    }

    /// Returns the value without a borrow of the document.
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

/// A number. Comparisons and operations are exact while both sides have at most 18 decimal places.
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

    /// Parses a number that JSON writers would produce. `007`, `+5`, `1e5` and `inf` are texts,
    /// because they may be identifiers.
    pub(super) fn parse_plain(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let has_zero = whole.len() > 1 && whole.starts_with('0');
        (is_digits(whole) && is_digits(fraction) && !has_zero).then(|| Self::parse(text)).flatten()
    }

    /// Returns a number with the value of a double.
    pub(super) fn of_float(float: f64) -> Self {
        Self { float, exact: None }
    }

    /// Returns the result of `+`, `-`, `*`, `/` or `%`. `None` if it is not finite.
    pub(super) fn computed(self, operator: char, other: Self) -> Option<Self> {
        let exact = self.exact.zip(other.exact);
        if let Some(exact) = exact.and_then(|(left, right)| computed(operator, left, right)) {
            return Some(Self { float: Sum::Exact(exact).float(), exact: Some(exact) });
        }
        let (left, right) = (self.float, other.float);
        let float = match operator {
            '+' => left + right,
            '-' => left - right,
            '*' => left * right,
            '/' => left / right,
            _ => left % right,
        };
        float.is_finite().then(|| Self::of_float(float))
    }

    /// Returns the number as a value. A number that is not exact is rounded to 15 significant
    /// digits. Null if it is not finite.
    pub(super) fn value(self) -> Value<'static> {
        let text = match self.exact {
            Some(exact) => Some(Sum::Exact(exact).to_string()),
            None => rounded(self.float),
        };
        text.map_or(Value::Null, |text| Value::Number(text.into()))
    }

    /// Compares two numbers. `None` if one of them is `NaN`.
    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        match (self.exact, other.exact) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => self.float.partial_cmp(&other.float),
        }
    }

    /// Compares two numbers in a total order, with `NaN` last.
    pub(super) fn total_compare(self, other: Self) -> Ordering {
        self.compare(other).unwrap_or_else(|| self.float.total_cmp(&other.float))
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.exact.map_or(Sum::Float(self.float), Sum::Exact).fmt(f)
    }
}

/// Returns a text in single quotes, escaped for an expression.
pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
