//! Parses lists of ids in the spellings of other languages.

use serde_json::Value;

use super::values::parse_texts;

/// Parses the argument `filter_ids`: a list of ids or one text, as [`parse_texts`] reads them. Also
/// reads a JSON list in a text, a list of SQL such as `id IN ('a', 'b')`, and records with an id
/// each. O(value).
///
/// # Errors
/// Returns a message for the caller if the value is none of these.
pub(super) fn parse_ids(name: &str, value: &Value) -> Result<Vec<String>, String> {
    if let Value::Array(list) = value {
        let ids: Option<Vec<Value>> = list.iter().map(id_of).collect();
        return parse_texts(name, &ids.map_or_else(|| value.clone(), Value::Array));
    }
    let Some(text) = value.as_str().map(str::trim) else { return parse_texts(name, value) };
    if text.starts_with('[')
        && let Ok(list @ Value::Array(_)) = serde_json::from_str(text)
    {
        return parse_ids(name, &list);
    }
    match inside_list(text) {
        Some(inside) => parse_texts(name, &Value::Array(quoted_parts(inside))),
        None => parse_texts(name, value),
    }
}

/// Returns the id of a list's entry: the entry, or the only member of an object. `None` for other
/// objects.
fn id_of(entry: &Value) -> Option<Value> {
    let members = match entry {
        Value::String(text) => return Some(text.trim().into()),
        Value::Object(members) => members,
        other => return Some(other.clone()),
    };
    let mut values = members.values();
    values.next().filter(|_| members.len() == 1).cloned()
}

/// Returns what is between the brackets of `('a', 'b')`, `['a', 'b']`, `id IN ('a', 'b')` and
/// `id in ['a']`. `None` for other texts.
fn inside_list(text: &str) -> Option<&str> {
    let open = text.find(['(', '['])?;
    let close = if text.get(open..)?.starts_with('(') { ')' } else { ']' };
    let (before, list) = text.split_at_checked(open)?;
    let words: Vec<&str> = before.split_whitespace().collect();
    let is_list = match words.as_slice() {
        [] => true,
        [_, operator] => operator.eq_ignore_ascii_case("in"),
        _ => false,
    };
    let inside = list.get(1..)?.strip_suffix(close)?;
    (is_list && !inside.contains(['(', ')', '[', ']'])).then_some(inside)
}

/// Splits a list at its commas, and removes the quotes of its entries.
fn quoted_parts(list: &str) -> Vec<Value> {
    let unquoted = |part: &str| {
        let part = part.trim();
        let inner = ['\'', '"', '`']
            .iter()
            .find_map(|quote| part.strip_prefix(*quote).and_then(|part| part.strip_suffix(*quote)));
        Value::from(inner.unwrap_or(part))
    };
    list.split(',').map(unquoted).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ids_are_read_in_usual_spellings() {
        for value in [
            json!(["A-1", " B 2 "]),
            json!("A-1, B 2"),
            json!("[\"A-1\", \"B 2\"]"),
            json!("('A-1', 'B 2')"),
            json!("['A-1','B 2']"),
            json!("key IN ('A-1', \"B 2\")"),
            json!([{"id": "A-1"}, {"id": "B 2"}]),
        ] {
            assert_eq!(parse_ids("filter_ids", &value), Ok(vec!["A-1".into(), "B 2".into()]));
        }
        assert_eq!(
            parse_ids("filter_ids", &json!([7, {"id": 8}])),
            Ok(vec!["7".into(), "8".into()])
        );
        // Brackets may be part of an id.
        assert_eq!(parse_ids("filter_ids", &json!("f(x)")), Ok(vec!["f(x)".into()]));
        for value in [json!([{"a": 1, "b": 2}]), json!([]), json!("()"), json!([[1]])] {
            assert!(parse_ids("filter_ids", &value).is_err(), "{value}");
        }
    }
}
