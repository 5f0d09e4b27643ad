//! Statements inside conditions and totals: `price > (SELECT AVG(price) FROM items)` and
//! `id IN (SELECT item_id FROM orders WHERE total > 5)`. Their results replace them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::query::code::{end_of_group, keyword, outside_quotes};
use crate::query::reader::is_word_character;
use crate::query::value::quote;

/// The maximum number of statements inside a condition.
const MAX_STATEMENTS: usize = 8;

/// Replaces the statements inside a text by their results. `run` returns the result of a statement
/// as JSON. `None` if there are none.
///
/// # Errors
/// Returns a message for the caller if a statement fails, or has another result than one value, or
/// one value for each row after `IN`.
pub(in crate::query) fn replaced(
    text: &str,
    run: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<Option<String>, String> {
    let count = text.to_lowercase().matches("select").count();
    if count > MAX_STATEMENTS && next_statement(text).is_some() {
        return Err(format!("at most {MAX_STATEMENTS} statements are read inside another one"));
    }
    let mut current: Option<String> = None;
    for _ in 0..MAX_STATEMENTS {
        let text = current.as_deref().unwrap_or(text);
        let Some((start, end)) = next_statement(text) else { return Ok(current) };
        let (before, rest) = text.split_at_checked(start).unwrap_or_default();
        let (statement, after) = rest.split_at_checked(end).unwrap_or_default();
        let inner = statement.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
        let inner = inner.unwrap_or_default().trim();
        let explained = |reason: String| format!("the statement ({inner}) fails: {reason}");
        let result = run(inner).map_err(explained)?;
        let result: Value = serde_json::from_slice(&result).unwrap_or_default();
        let is_negated = ends_with_in(before) && ends_with_not(before);
        let values = values(&result, inner, is_negated).map_err(explained)?;
        let literal = match (ends_with_in(before), values.as_slice()) {
            (_, []) => return Err(explained("it has no rows".to_owned())),
            (true, values) => format!("({})", values.join(", ")),
            (false, [value]) => value.clone(),
            (false, _) => {
                return Err(explained("it has several rows, and one is compared".to_owned()));
            }
        };
        current = Some(format!("{before}{literal}{after}"));
    }
    Err(format!("at most {MAX_STATEMENTS} statements are read inside another one"))
}

/// Returns the reason why a statement inside another one cannot be run on its own: it names a field
/// of the outer statement by its table. `None` for other texts.
pub(in crate::query) fn correlated(text: &str) -> Option<String> {
    let (start, end) = next_statement(text)?;
    let inner = text.get(start + 1..start + end - 1)?;
    let outer = tables(text.get(..start)?);
    let own = tables(inner);
    let named = outer.iter().filter(|name| !own.contains(name)).find(|name| {
        let prefix = format!("{}.", name.to_lowercase());
        let lower = inner.to_lowercase();
        lower.match_indices(&prefix).any(|(at, _)| {
            !lower
                .get(..at)
                .is_some_and(|before| before.ends_with(|c| is_word_character(c) || c == '.'))
        })
    });
    named.map(|name| format!("the statement inside names {name}, a table of the outer one, and would have another result for each record: use jq"))
}

/// Returns the names of the table after the last `FROM` of a text, and its alias.
fn tables(text: &str) -> Vec<&str> {
    let Some(from) = keyword(text, 0, "from") else { return Vec::new() };
    let rest = text.get(from + "from".len()..).unwrap_or_default();
    let clauses = ["where", "group by", "having", "order by", "limit"];
    let end = clauses.iter().filter_map(|clause| keyword(rest, 0, clause)).min();
    let names = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default().split_whitespace();
    names.filter(|name| !name.eq_ignore_ascii_case("as")).take(2).collect()
}

/// Returns the start of the first statement in parentheses, and its length with them. Statements
/// after `EXISTS` and `FROM` are left out.
fn next_statement(text: &str) -> Option<(usize, usize)> {
    outside_quotes(text).filter(|(_, c)| *c == '(').find_map(|(at, _)| {
        let inner = text.get(at + 1..)?;
        let before = text.get(..at)?.trim_end().to_lowercase();
        let is_other = ["exists", "from", "join", ",", "as", "any", "all", "some"]
            .iter()
            .any(|word| before.ends_with(word));
        let is_statement = keyword(inner.trim_start(), 0, "select") == Some(0);
        let end =
            end_of_group(inner).filter(|_| is_statement && !is_other && !before.is_empty())?;
        // `select(…)` is a function in other languages.
        let after = inner.trim_start().get("select".len()..)?;
        after.starts_with(char::is_whitespace).then_some((at, end + 2))
    })
}

/// Returns true if a text ends with `NOT IN`.
fn ends_with_not(before: &str) -> bool {
    let mut words = before.split_whitespace().rev();
    words.next();
    words.next().is_some_and(|word| word.eq_ignore_ascii_case("not"))
}

/// Returns true if a statement selects the keys of its groups, and nothing else.
fn selects_keys(statement: &str) -> bool {
    let clause = |from: &str, until: &[&str]| {
        let start = keyword(statement, 0, from)? + from.len();
        let end = until.iter().filter_map(|word| keyword(statement, start, word)).min();
        statement.get(start..end.unwrap_or(statement.len())).map(str::trim)
    };
    let columns = clause("select", &["from"]);
    let keys = clause("group by", &["having", "order by", "limit", "offset"]);
    columns.zip(keys).is_some_and(|(columns, keys)| columns.eq_ignore_ascii_case(keys))
}

fn ends_with_in(before: &str) -> bool {
    let before = before.trim_end();
    let word = before.len().checked_sub(2).and_then(|at| before.split_at_checked(at));
    word.is_some_and(|(rest, word)| {
        word.eq_ignore_ascii_case("in") && rest.ends_with(|c: char| c.is_whitespace() || c == ')')
    })
}

/// Returns the values of a result as literals: the only member of each row, the only total, or the
/// keys of groups if the statement selects them. Null and repeated values are left out.
///
/// # Errors
/// Returns a message for the caller if the result has another form. `is_negated` is true for `NOT
/// IN`, which is never true beside null.
fn values(result: &Value, statement: &str, is_negated: bool) -> Result<Vec<String>, String> {
    let several = || "select one column".to_owned();
    let all: Vec<Value> = match result {
        Value::Array(rows) => rows
            .iter()
            .map(|row| match row {
                Value::Object(members) if members.len() > 1 => Err(several()),
                Value::Object(members) => Ok(members.values().next().cloned().unwrap_or_default()),
                value => Ok(value.clone()),
            })
            .collect::<Result<_, _>>()?,
        Value::Object(members) => {
            let others: Vec<&Value> = members
                .iter()
                .filter(|(name, _)| !["records", "notes"].contains(&name.as_str()))
                .map(|(_, value)| value)
                .collect();
            let has_groups = keyword(statement, 0, "group by").is_some();
            match others.as_slice() {
                [Value::Object(groups)] if has_groups && selects_keys(statement) => {
                    groups.keys().map(|key| key_value(key)).collect()
                }
                [Value::Object(distinct)] if !has_groups => distinct_values(distinct)?,
                [Value::Object(_) | Value::Array(_)] => {
                    return Err("a statement with groups inside another one selects their keys alone: run it first, and write its values".to_owned());
                }
                [value] => vec![(*value).clone()],
                _ => return Err(several()),
            }
        }
        _ => return Err(several()),
    };
    if is_negated && all.iter().any(Value::is_null) {
        return Err(
            "it has null, beside which NOT IN is never true: add WHERE … IS NOT NULL".to_owned()
        );
    }
    let (mut literals, mut seen) = (Vec::new(), BTreeSet::new());
    for value in all {
        let literal = match value {
            Value::Null => continue,
            Value::String(text) => quote(&text),
            Value::Number(number) => number.to_string(),
            Value::Bool(is_true) => is_true.to_string(),
            _ => return Err("its values are objects or lists".to_owned()),
        };
        if seen.insert(literal.clone()) {
            literals.push(literal);
        }
    }
    Ok(literals)
}

/// Returns the key of a group: a number, if it is written like one.
fn key_value(key: &str) -> Value {
    serde_json::from_str(key).ok().filter(Value::is_number).unwrap_or_else(|| key.into())
}

/// Returns all distinct values of a field.
fn distinct_values(distinct: &serde_json::Map<String, Value>) -> Result<Vec<Value>, String> {
    let count = distinct.get("count").and_then(Value::as_u64);
    let values = distinct.get("values").and_then(Value::as_array);
    match (count, values) {
        (Some(count), Some(values)) if values.len() as u64 == count && distinct.len() == 2 => {
            Ok(values.clone())
        }
        _ => Err("select one column".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_replaced_by_their_results() {
        let results = [
            ("SELECT AVG(price) FROM t", r#"{"records":3,"AVG(price)":2.5}"#),
            ("SELECT id FROM o WHERE n > 1", r#"[{"id":7},{"id":7},{"id":"a'b"}]"#),
            ("SELECT id FROM o", r#"[{"id":7},{"id":null}]"#),
            ("SELECT MIN(id) FROM t GROUP BY v", r#"{"records":3,"MIN(id)":{"x":1,"y":2}}"#),
            ("SELECT DISTINCT(v) FROM t", r#"{"records":3,"v":{"count":2,"values":["x","y"]}}"#),
            ("SELECT v FROM t GROUP BY v", r#"{"records":3,"count":{"x":1,"y":2}}"#),
            ("SELECT a, b FROM t", r#"[{"a":1,"b":2}]"#),
            ("SELECT a FROM t WHERE false", "[]"),
        ];
        let mut run = |text: &str| {
            let found = results.iter().find(|(statement, _)| *statement == text);
            found.map(|(_, result)| result.as_bytes().to_vec()).ok_or_else(|| text.to_owned())
        };
        let mut check = |text: &str| replaced(text, &mut run);
        assert_eq!(
            check("price > (SELECT AVG(price) FROM t) AND a = '(select'").unwrap().unwrap(),
            "price > 2.5 AND a = '(select'"
        );
        assert_eq!(
            check("id NOT IN (SELECT id FROM o WHERE n > 1)").unwrap().unwrap(),
            "id NOT IN (7, 'a''b')"
        );
        assert_eq!(check("v in (SELECT v FROM t GROUP BY v)").unwrap().unwrap(), "v in ('x', 'y')");
        assert_eq!(check("v IN (SELECT DISTINCT(v) FROM t)").unwrap().unwrap(), "v IN ('x', 'y')");
        assert_eq!(check("id IN (SELECT id FROM o)").unwrap().unwrap(), "id IN (7)");
        assert!(check("id NOT IN (SELECT id FROM o)").unwrap_err().contains("IS NOT NULL"));
        assert!(check("id IN (SELECT MIN(id) FROM t GROUP BY v)").unwrap_err().contains("keys"));
        assert!(check("a = (SELECT a, b FROM t)").unwrap_err().contains("one column"));
        assert!(check("a IN (SELECT a FROM t WHERE false)").unwrap_err().contains("no rows"));
        assert!(check("a IN (SELECT z FROM t)").is_err());
        assert_eq!(check("EXISTS (SELECT 1 FROM h)").unwrap(), None);
        assert_eq!(check("map(select(.a))").unwrap(), None);
    }
}
