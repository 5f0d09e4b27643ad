//! Statements inside conditions and totals: `price > (SELECT AVG(price) FROM items)` and
//! `id IN (SELECT item_id FROM orders WHERE total > 5)`. Their results replace them.

use serde_json::Value;

use crate::query::code::{end_of_group, keyword, outside_quotes};
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
        let values = values(&result).map_err(explained)?;
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

fn ends_with_in(before: &str) -> bool {
    let before = before.trim_end();
    let word = before.len().checked_sub(2).and_then(|at| before.split_at_checked(at));
    word.is_some_and(|(rest, word)| {
        word.eq_ignore_ascii_case("in") && rest.ends_with(|c: char| c.is_whitespace() || c == ')')
    })
}

/// Returns the values of a result as literals: the only member of each row, the only total, or the
/// keys of groups. Null and repeated values are left out.
fn values(result: &Value) -> Result<Vec<String>, String> {
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
            match others.as_slice() {
                [Value::Object(groups)] => groups.keys().map(|key| key.as_str().into()).collect(),
                [Value::Array(values)] => values.clone(),
                [value] => vec![(*value).clone()],
                _ => return Err(several()),
            }
        }
        _ => return Err(several()),
    };
    let mut literals: Vec<String> = Vec::new();
    for value in all {
        let literal = match value {
            Value::Null => continue,
            Value::String(text) => quote(&text),
            Value::Number(number) => number.to_string(),
            Value::Bool(is_true) => is_true.to_string(),
            _ => return Err("its values are objects or lists".to_owned()),
        };
        if !literals.contains(&literal) {
            literals.push(literal);
        }
    }
    Ok(literals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_replaced_by_their_results() {
        let results = [
            ("SELECT AVG(price) FROM t", r#"{"records":3,"AVG(price)":2.5}"#),
            ("SELECT id FROM o WHERE n > 1", r#"[{"id":7},{"id":null},{"id":7},{"id":"a'b"}]"#),
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
        assert!(check("a = (SELECT a, b FROM t)").unwrap_err().contains("one column"));
        assert!(check("a IN (SELECT a FROM t WHERE false)").unwrap_err().contains("no rows"));
        assert!(check("a IN (SELECT z FROM t)").is_err());
        assert_eq!(check("EXISTS (SELECT 1 FROM h)").unwrap(), None);
        assert_eq!(check("map(select(.a))").unwrap(), None);
    }
}
