//! Applies functions to values of fields.

use std::borrow::Cow;

use super::FieldFunction;
use crate::query::date::{DayOrder, date_part};
use crate::query::value::Value;

impl FieldFunction {
    /// Applies the function to a value. `order` is the order of day and month in dates. Null if the
    /// value has another type.
    pub(in crate::query) fn apply(self, value: &Value<'_>, order: DayOrder) -> Value<'static> {
        if let Some(number) = self.of_number(value) {
            return number;
        }
        let Some(text) = value.text() else { return Value::Null };
        let text = match self {
            FieldFunction::Length
            | FieldFunction::Count
            | FieldFunction::List(_)
            | FieldFunction::Absolute
            | FieldFunction::Round(_)
            | FieldFunction::Floor
            | FieldFunction::Ceiling => return Value::Null,
            FieldFunction::Trim => text.trim().to_owned(),
            FieldFunction::Lower => text.to_lowercase(),
            FieldFunction::Upper => text.to_uppercase(),
            FieldFunction::Slice(from, until) => text.chars().take(until).skip(from).collect(),
            FieldFunction::Date(part) => {
                return date_part(value, part, order).map_or(Value::Null, |text| {
                    let is_number = text.parse::<i64>().is_ok();
                    let text = Cow::Owned(text);
                    if is_number { Value::Number(text) } else { Value::Text(text) }
                });
            }
        };
        Value::Text(Cow::Owned(text))
    }

    /// Applies a numeric function. `None` if this is not one, or if the value is not a number.
    fn of_number(self, value: &Value<'_>) -> Option<Value<'static>> {
        let number = value.number()?.float;
        let result = match self {
            FieldFunction::Absolute => number.abs(),
            FieldFunction::Floor => number.floor(),
            FieldFunction::Ceiling => number.ceil(),
            FieldFunction::Round(decimals) => {
                let factor = 10f64.powi(i32::try_from(decimals).unwrap_or_default());
                (number * factor).round() / factor
            }
            _ => return None,
        };
        Some(Value::Number(Cow::Owned(format!("{result}"))))
    }
}
