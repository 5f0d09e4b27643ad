//! Parses the values of the guard's arguments.

use serde_json::Value;

/// Maximum number of ids in the `filter_ids` argument.
const MAX_FILTER_IDS: usize = 1_000;

/// Returns the program of a jq command line, such as `jq -r '.[] | .name'`. `None` if the text is
/// not such a command.
pub(super) fn jq_program(text: &str) -> Option<String> {
    let mut rest = text.trim().strip_prefix("jq")?.strip_prefix(char::is_whitespace)?.trim();
    while let Some((option, after)) = rest.split_once(char::is_whitespace) {
        if !option.starts_with('-') {
            break;
        }
        rest = after.trim_start();
    }
    let inner = ['\'', '"']
        .iter()
        .find_map(|quote| rest.strip_prefix(*quote).and_then(|rest| rest.strip_suffix(*quote)));
    Some(inner.unwrap_or(rest).to_owned())
}

/// Parses an order: `-price`, `price desc, name`, `price:desc`, a list of these, or
/// `{"price": -1}`.
pub(super) fn parse_order(value: &Value) -> Result<String, String> {
    const INVALID: &str = "sort must name fields, such as \"-price\" or \"price desc, name\"";
    let invalid = || INVALID.to_owned();
    let key = |text: &str| {
        let text = text.trim();
        match text.strip_prefix('-') {
            Some(field) => format!("{field} desc"),
            None => match text.rsplit_once([':', ' ', '-']) {
                Some((field, direction @ ("asc" | "desc"))) => format!("{field} {direction}"),
                _ => text.trim_start_matches('+').to_owned(),
            },
        }
    };
    let keys: Vec<String> = match value {
        Value::String(text) => text.split(',').map(key).collect(),
        Value::Array(list) => {
            let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
            texts.ok_or_else(invalid)?.into_iter().map(key).collect()
        }
        Value::Object(members) => {
            let direction = |value: &Value| match value.as_str() {
                Some(text @ ("asc" | "desc")) => Some(text.to_owned()),
                Some(_) => None,
                None => Some(if value.as_i64()? < 0 { "desc" } else { "asc" }.to_owned()),
            };
            let keys: Option<Vec<String>> = members
                .iter()
                .map(|(name, value)| Some(format!("{name} {}", direction(value)?)))
                .collect();
            keys.ok_or_else(invalid)?
        }
        _ => return Err(invalid()),
    };
    let is_empty = keys.is_empty() || keys.iter().any(String::is_empty);
    if is_empty { Err(invalid()) } else { Ok(keys.join(", ")) }
}

/// Parses an argument that must be a string and not blank.
pub(super) fn parse_text(name: &str, value: &Value) -> Result<String, String> {
    let text = value.as_str().filter(|text| !text.trim().is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("{name} must be a string that is not empty"))
}

/// Parses an argument that is a text, or an object or list of objects as document databases use
/// them.
pub(super) fn parse_expression(name: &str, value: &Value) -> Result<String, String> {
    let is_pipeline = |list: &Vec<Value>| !list.is_empty() && list.iter().all(Value::is_object);
    let is_json = value.is_object() || value.as_array().is_some_and(is_pipeline);
    if is_json { Ok(value.to_string()) } else { parse_text(name, value) }
}

/// Parses an argument that is a list of strings, or one string with commas. Accepts numbers as
/// strings.
pub(super) fn parse_texts(name: &str, value: &Value) -> Result<Vec<String>, String> {
    let texts: Option<Vec<String>> = match value {
        Value::String(text) => Some(text.split(',').map(|text| text.trim().to_owned()).collect()),
        Value::Number(number) => Some(vec![number.to_string()]),
        Value::Array(values) => values
            .iter()
            .map(|value| match value {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            })
            .collect(),
        _ => None,
    };
    let texts = texts.filter(|texts| {
        !texts.is_empty() && texts.len() <= MAX_FILTER_IDS && !texts.iter().any(String::is_empty)
    });
    texts.ok_or_else(|| {
        format!(
            "{name} must be a list of 1 to {MAX_FILTER_IDS} names, or a string with commas between them"
        )
    })
}

/// Parses an argument that is a whole number from 1 to `most`. Accepts strings, because models
/// sometimes quote numbers.
pub(super) fn parse_number(name: &str, value: &Value, most: u64) -> Result<u64, String> {
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if number > most => Err(format!("{name} exceeds maximum of {most}")),
        Some(number) if number > 0 => Ok(number),
        _ => Err(format!(
            "{name} must be a whole number from 1{}",
            if most == u64::MAX { String::new() } else { format!(" to {most}") }
        )),
    }
}
