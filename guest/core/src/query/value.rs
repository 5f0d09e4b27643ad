//! Values of records, and comparison of numbers.

use std::borrow::Cow;

pub(super) use crate::decimal::Number;
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

    /// Returns the value as a number. A text counts if it is a plain JSON number, between blanks or
    /// not. `None` for other values.
    pub(super) fn number(&self) -> Option<Number> {
        match self {
            Value::Number(text) => Number::parse(text),
            Value::Text(text) => Number::parse_plain(text.trim()),
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

impl Number {
    /// Returns the number as a value. A number that is not exact is rounded to 15 significant
    /// digits. Null if it is not finite.
    pub(super) fn value(self) -> Value<'static> {
        self.rounded().map_or(Value::Null, |text| Value::Number(text.into()))
    }
}

/// Returns a text in single quotes, escaped for an expression.
pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
