//! Parses the values of the guard's arguments.

use serde_json::{Map, Value};

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

/// Converts a jq program that only follows names and indexes, such as `.data.items[0]."a b"`, to a
/// JSONPath. `None` for other programs and other paths.
pub(super) fn jq_path(text: &str) -> Option<String> {
    let mut rest = text.trim().strip_prefix('.')?;
    let mut path = "$".to_owned();
    // A dot follows each step except the first, and may precede a bracket.
    let mut is_dotted = true;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (step, after) = after.split_once(']')?;
            let is_key = step.len() > 1 && step.starts_with('"') && step.ends_with('"');
            let is_index = step.strip_prefix('-').unwrap_or(step).parse::<u32>().is_ok();
            let is_plain = !step.contains(['\\', '\'']) && step.matches('"').count() == 2;
            match step {
                "" => path.push_str("[*]"),
                _ if is_index || is_key && is_plain => path.push_str(&format!("[{step}]")),
                _ => return None,
            }
            rest = after;
        } else {
            if !is_dotted {
                return None;
            }
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (name, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
            };
            let is_name = !name.is_empty() && !name.contains(['\\', '\'']);
            if !is_name || rest.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            path.push_str(&format!("['{name}']"));
            rest = after;
        }
        is_dotted = rest.strip_prefix('.').is_some_and(|after| !after.is_empty());
        rest = if is_dotted { rest.strip_prefix('.')? } else { rest };
    }
    Some(path)
}

/// Parses an order: `-price`, `price desc, name`, `price:desc`, a list of these, or
/// `{"price": -1}`.
pub(super) fn parse_order(value: &Value) -> Result<String, String> {
    const INVALID: &str = "sort must name fields, such as \"-price\" or \"price desc, name\"";
    let invalid = || INVALID.to_owned();
    let key = |text: &str| {
        let text = text.trim();
        if let Some(field) = text.strip_prefix('-') {
            return format!("{} desc", field_name(field));
        }
        let lower = text.to_lowercase();
        match lower.rsplit_once([':', ' ', '-']) {
            Some((field, direction @ ("asc" | "desc" | "ascending" | "descending"))) => {
                let field = text.get(..field.len()).unwrap_or(text);
                format!("{} {direction}", field_name(field))
            }
            // Clauses of SQL follow the field.
            _ if lower.contains(" limit ") || lower.contains(" nulls ") => text.to_owned(),
            _ => field_name(text.trim_start_matches('+')),
        }
    };
    let keys: Vec<String> = match value {
        Value::String(text) => {
            let start = text.get(.."order by ".len());
            let is_clause = start.is_some_and(|start| start.eq_ignore_ascii_case("order by "));
            let text = if is_clause { text.split_at("order by ".len()).1 } else { text };
            text.split(',').map(key).collect()
        }
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

/// Returns the name of a field for an order. A name of several words, such as `Length (m)`, is put
/// into quotes. Expressions remain.
fn field_name(text: &str) -> String {
    let text = text.trim();
    let has_words = text.contains(char::is_whitespace)
        && !text.contains(['"', '\'', '`', '[', '+', '*', '/'])
        && !text.contains(" - ");
    let is_call = text.find('(').is_some_and(|at| {
        text.get(..at).is_some_and(|before| before.ends_with(|c: char| c.is_alphanumeric()))
    });
    if has_words && !is_call { format!("\"{text}\"") } else { text.to_owned() }
}

/// Parses a number of records to skip.
pub(super) fn parse_offset(value: &Value) -> Result<u64, String> {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    number.ok_or_else(|| "offset must be a whole number from 0: the records to skip".to_owned())
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
    if is_json {
        return Ok(value.to_string());
    }
    let comparisons = value.as_array().filter(|list| !list.is_empty());
    let comparisons: Option<Vec<String>> =
        comparisons.and_then(|list| list.iter().map(comparison).collect());
    comparisons.map_or_else(|| parse_text(name, value), |all| Ok(all.join(" AND ")))
}

/// Returns the comparison in a list of a field, an operator and a value, as filters of Parquet have
/// them: `["price", ">=", 5]`. `None` for other values.
fn comparison(value: &Value) -> Option<String> {
    let [Value::String(field), Value::String(operator), value] = value.as_array()?.as_slice()
    else {
        return None;
    };
    let is_plain = |c: char| c.is_alphanumeric() || ['_', '.'].contains(&c);
    let field = match field.chars().all(is_plain) {
        true => field.clone(),
        false if field.contains('"') => return None,
        false => format!("\"{field}\""),
    };
    let literal = |value: &Value| match value {
        Value::String(text) => Some(format!("'{}'", text.replace('\'', "''"))),
        Value::Array(_) | Value::Object(_) => None,
        other => Some(other.to_string()),
    };
    let value = match value {
        Value::Array(list) => {
            let list: Option<Vec<String>> = list.iter().map(literal).collect();
            format!("({})", list?.join(", "))
        }
        other => literal(other)?,
    };
    Some(format!("{field} {operator} {value}"))
}

/// Parses the selection of a document database, `{"price": 1, "_id": 0}`, to names with commas.
pub(super) fn parse_projection(members: &Map<String, Value>) -> Result<String, String> {
    let is_chosen = |value: &Value| value == true || value == 1;
    let is_left_out = |value: &Value| value == false || value == 0;
    let mut names = Vec::new();
    for (name, value) in members {
        match value {
            value if is_chosen(value) => names.push(name.as_str()),
            value if is_left_out(value) && name == "_id" => {}
            _ => {
                return Err(format!(
                    "fields names the fields that are shown, as in \"id,status\" or {{\"id\": 1}}: {name} has another value"
                ));
            }
        }
    }
    if names.is_empty() {
        return Err("fields must name a field that is shown".to_owned());
    }
    Ok(names.join(","))
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
