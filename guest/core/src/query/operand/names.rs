//! The names of functions of fields.

use super::FieldFunction;
use crate::query::date::DatePart;

/// The names of the functions.
pub(super) const FUNCTIONS: &[(&str, FieldFunction)] = &[
    ("length", FieldFunction::Length),
    ("len", FieldFunction::Length),
    ("size", FieldFunction::Length),
    ("json_array_length", FieldFunction::Length),
    ("cardinality", FieldFunction::Length),
    ("array_length", FieldFunction::Length),
    ("array_size", FieldFunction::Length),
    ("jsonb_array_length", FieldFunction::Length),
    ("char_length", FieldFunction::Length),
    ("count", FieldFunction::Count),
    ("strlen", FieldFunction::Length),
    ("lower", FieldFunction::Lower),
    ("tolower", FieldFunction::Lower),
    ("lcase", FieldFunction::Lower),
    ("upper", FieldFunction::Upper),
    ("toupper", FieldFunction::Upper),
    ("ucase", FieldFunction::Upper),
    ("trim", FieldFunction::Trim),
    ("abs", FieldFunction::Absolute),
    ("round", FieldFunction::Round(0)),
    ("floor", FieldFunction::Floor),
    ("ceil", FieldFunction::Ceiling),
    ("ceiling", FieldFunction::Ceiling),
    ("year", FieldFunction::Date(DatePart::Year)),
    ("quarter", FieldFunction::Date(DatePart::Quarter)),
    ("month", FieldFunction::Date(DatePart::Month)),
    ("week", FieldFunction::Date(DatePart::Week)),
    ("date", FieldFunction::Date(DatePart::Day)),
    ("day", FieldFunction::Date(DatePart::Day)),
    ("hour", FieldFunction::Date(DatePart::Hour)),
    ("minute", FieldFunction::Date(DatePart::Minute)),
    ("weekday", FieldFunction::Date(DatePart::Weekday)),
    ("dayofweek", FieldFunction::Date(DatePart::Weekday)),
    ("dayname", FieldFunction::Date(DatePart::Weekday)),
    ("day_name", FieldFunction::Date(DatePart::Weekday)),
];

/// Returns the part of a date with this name. `None` if it is unknown.
pub(super) fn part_named(name: &str) -> Option<DatePart> {
    let (_, function) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
    if let FieldFunction::Date(part) = function { Some(*part) } else { None }
}

/// Returns the function that a method without arguments computes. `None` if it is unknown.
pub(super) fn method(word: &str) -> Option<FieldFunction> {
    Some(match word {
        "len" | "length" | "size" => FieldFunction::Length,
        "count" | "Count" => FieldFunction::Count,
        "lower" | "toLowerCase" | "ToLower" | "downcase" => FieldFunction::Lower,
        "upper" | "toUpperCase" | "ToUpper" | "upcase" => FieldFunction::Upper,
        "trim" | "strip" | "Trim" => FieldFunction::Trim,
        "abs" => FieldFunction::Absolute,
        "round" => FieldFunction::Round(0),
        "year" | "getFullYear" => FieldFunction::Date(DatePart::Year),
        _ => return None,
    })
}
