//! Filters and totals in the JSON syntax of document databases and search engines: `{"price":
//! {"$gt": 5}}`, `{"term": {"kind": "new"}}`. They are converted to the syntax of `where` and
//! `aggregate`, which the answer shows.

mod filters;
mod script;
mod totals;

use serde_json::{Map, Value};

pub(super) use self::filters::condition as filters;
pub(super) use self::script::json;
pub(super) use self::totals::totals;
use super::reader::is_word_character;
use super::value::quote;

/// Returns true if an expression begins like a JSON object.
pub(super) fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Returns true if an expression begins like a JSON list of objects.
pub(super) fn is_pipeline(text: &str) -> bool {
    text.trim_start().strip_prefix('[').is_some_and(is_object)
}

fn parse(argument: &str, text: &str, example: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(format!("{argument} is not a valid JSON object; write {example}")),
    }
}

/// Converts a filter to a condition.
///
/// # Errors
/// Returns a message for the caller if the filter is invalid, or has an unknown operator.
pub(super) fn condition(text: &str) -> Result<String, String> {
    all(&parse("where", text, "status='open' AND price>5")?)
}

fn join(parts: Vec<String>, word: &str) -> String {
    match parts.as_slice() {
        [part] => part.clone(),
        parts => {
            let parts: Vec<String> = parts.iter().map(|part| format!("({part})")).collect();
            parts.join(word)
        }
    }
}

/// Converts members that must all hold, and joins them with AND.
fn all(members: &Map<String, Value>) -> Result<String, String> {
    if members.is_empty() {
        return Err("where: the filter is empty; leave where out for all records".to_owned());
    }
    let found = filters::comparison(members).or_else(|| filters::rule(members));
    if let Some(text) = found.or_else(|| filters::group(members)) {
        return text;
    }
    all_members(members)
}

/// Converts members that are no comparison or group as a whole, and joins them with AND.
fn all_members(members: &Map<String, Value>) -> Result<String, String> {
    let parts: Result<Vec<String>, String> =
        members.iter().map(|(name, value)| member(name, value)).collect();
    Ok(join(parts?, " AND "))
}

/// Converts a filter, or each filter of a list, and joins them with `word`.
fn several(name: &str, value: &Value, word: &str) -> Result<String, String> {
    let filters = match value {
        Value::Array(filters) => filters.iter().collect(),
        filter => vec![filter],
    };
    let parts: Result<Vec<String>, String> = filters
        .into_iter()
        .map(|filter| match filter.as_object() {
            Some(members) => all(members),
            None => Err(format!("where: {name} takes a list of objects; {NO_FILTER}")),
        })
        .collect();
    let parts = parts?;
    if parts.is_empty() {
        return Err(format!("where: {name} has no filters; {NO_FILTER}"));
    }
    Ok(join(parts, word))
}

const NO_FILTER: &str = "write a='x' AND (b>5 OR c IS NULL)";

fn member(name: &str, value: &Value) -> Result<String, String> {
    match name {
        "$and" | "must" | "filter" | "query" | "AND" | "_and"
            if value.is_array() || value.is_object() =>
        {
            several(name, value, " AND ")
        }
        "and" | "or" if is_filters(value) => {
            several(name, value, if name == "or" { " OR " } else { " AND " })
        }
        "$or" | "should" | "OR" | "_or" if value.is_array() => several(name, value, " OR "),
        "$nor" | "must_not" | "NOT" | "_not" if value.is_array() || value.is_object() => {
            Ok(format!("NOT ({})", several(name, value, " OR ")?))
        }
        "$match" | "selector" if value.is_object() => all(object(value)?),
        "bool" if value.is_object() => clauses(object(value)?),
        "term" | "terms" | "range" | "prefix" | "wildcard" if is_clause(name, value) => {
            let parts: Result<Vec<String>, String> =
                object(value)?.iter().map(|(field, value)| clause(name, field, value)).collect();
            Ok(join(parts?, " AND "))
        }
        "exists" if value["field"].is_string() => {
            let field = value["field"].as_str().unwrap_or_default();
            Ok(format!("{} IS NOT NULL", field_name(field)))
        }
        _ if name.starts_with('$') => Err(unknown(name)),
        _ => filters::lookup(name, value).unwrap_or_else(|| comparisons(&field_name(name), value)),
    }
}

/// Returns true if a value is a list of filters, not one of values.
fn is_filters(value: &Value) -> bool {
    let filters = value.as_array();
    filters.is_some_and(|filters| !filters.is_empty() && filters.iter().all(Value::is_object))
}

/// Converts the clauses of a search engine. `should` beside `must` or `filter` selects nothing,
/// unless `minimum_should_match` is 1. Without that member, such a filter is ambiguous, and is an
/// error. Any other value of the member is an error, too.
fn clauses(members: &Map<String, Value>) -> Result<String, String> {
    let minimum = members.get("minimum_should_match");
    let is_one = minimum.is_some_and(|value| *value == 1 || *value == "1");
    let has_must = members.contains_key("must") || members.contains_key("filter");
    if !members.contains_key("should") || (minimum.is_none() && !has_must) {
        return all(members);
    }
    if !is_one {
        return Err(format!(
            "where: should beside must or filter selects nothing unless minimum_should_match is 1, \
             the only value; {NO_FILTER}"
        ));
    }
    let mut others = members.clone();
    others.remove("minimum_should_match");
    all(&others)
}

fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| format!("where: an object is expected; {NO_FILTER}"))
}

/// Returns true if a member is a clause of a search engine, not a field of that name.
fn is_clause(name: &str, value: &Value) -> bool {
    value.as_object().is_some_and(|fields| {
        !fields.is_empty()
            && fields.iter().all(|(field, value)| match name {
                "range" => value.is_object(),
                "terms" => value.is_array(),
                _ => !field.starts_with('$') && operator(field).is_none(),
            })
    })
}

fn clause(name: &str, field: &str, value: &Value) -> Result<String, String> {
    let field = field_name(field);
    let inner = value.get("value").unwrap_or(value);
    match name {
        "prefix" => Ok(format!("{field} ^= {}", literal(inner)?)),
        "wildcard" => Ok(format!("{field} GLOB {}", literal(inner)?)),
        "terms" => compare(&field, "in", value),
        "range" => comparisons(&field, value),
        _ => comparisons(&field, inner),
    }
}

/// Returns a pattern between slashes, with the slashes inside it escaped.
fn between_slashes(pattern: &Value) -> String {
    pattern.as_str().unwrap_or_default().replace("\\/", "/").replace('/', "\\/")
}

/// Converts the value of a field: one that the field must equal, or an object of operators.
fn comparisons(field: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::Object(members) => {
            let mut parts = Vec::new();
            let has_options = members.contains_key("$options");
            for (name, value) in members {
                if name == "$options" {
                    continue;
                }
                match operator(name) {
                    Some("regex") if has_options => {
                        let flags = members["$options"].as_str().unwrap_or_default();
                        let pattern = between_slashes(value);
                        parts.push(format!("{field} =~ /{pattern}/{flags}"));
                    }
                    Some(operator) => parts.push(compare(field, operator, value)?),
                    None if name.starts_with('$') => return Err(unknown(name)),
                    None => {
                        parts.push(comparisons(&format!("{field}.{}", field_name(name)), value)?)
                    }
                }
            }
            if parts.is_empty() {
                return Err(format!("where: {field} has no comparison; {NO_FILTER}"));
            }
            Ok(join(parts, " AND "))
        }
        Value::Array(list) if list.iter().any(Value::is_object) => {
            let first = list.iter().find_map(Value::as_object).and_then(|first| all(first).ok());
            let test = first.unwrap_or_else(|| "name = 'x'".to_owned());
            Err(format!(
                "where: {field} is compared with a list of objects; for an element of the list write any({field}; {test})"
            ))
        }
        Value::Array(_) => Err(format!(
            "where: {field} is compared with a list; write {{\"{field}\": {{\"$in\": {value}}}}}, or {field} IN (…)"
        )),
        Value::Null => Ok(format!("{field} IS NULL")),
        value => Ok(format!("{field} = {}", literal(value)?)),
    }
}

/// Returns the plain name of an operator such as `$gte`, `_gte` or `gte`. `None` if it is unknown.
fn operator(name: &str) -> Option<&str> {
    let plain = name.strip_prefix(['$', '_']).unwrap_or(name);
    // Without the sign, it is rather the name of a field.
    if name == "all" {
        return None;
    }
    let known = [
        "eq",
        "equals",
        "ne",
        "neq",
        "gt",
        "gte",
        "lt",
        "lte",
        "in",
        "nin",
        "all",
        "exists",
        "regex",
        "not",
        "size",
        "elemMatch",
        "contains",
        "startsWith",
        "endsWith",
        "like",
        "ilike",
        "is_null",
    ];
    known.contains(&plain).then_some(plain)
}

/// Returns true if all members of an object are comparisons, such as `{"$gt": 3, "$lt": 8}`.
fn has_only_operators(value: &Value) -> bool {
    let is_operator =
        |name: &String| name == "$options" || name.starts_with('$') && operator(name).is_some();
    value.as_object().is_some_and(|members| !members.is_empty() && members.keys().all(is_operator))
}

fn compare(field: &str, operator: &str, value: &Value) -> Result<String, String> {
    let list = || -> Result<String, String> {
        let values = value.as_array().ok_or_else(|| {
            format!("where: {operator} takes a list; write {field} IN ('a', 'b')")
        })?;
        let values: Result<Vec<String>, String> = values.iter().map(literal).collect();
        Ok(format!("IN ({})", values?.join(", ")))
    };
    let flag = |if_true: &str, if_false: &str| match value.as_bool() {
        Some(true) => Ok(format!("{field} {if_true}")),
        Some(false) => Ok(format!("{field} {if_false}")),
        None => Err(format!("where: {operator} takes true or false; write {field} IS NOT NULL")),
    };
    let has_null = |values: &Value| {
        values.is_null() || values.as_array().is_some_and(|values| values.contains(&Value::Null))
    };
    Ok(match operator {
        "eq" | "equals" => comparisons(field, value)?,
        "gt" => format!("{field} > {}", literal(value)?),
        "gte" => format!("{field} >= {}", literal(value)?),
        "lt" => format!("{field} < {}", literal(value)?),
        "lte" => format!("{field} <= {}", literal(value)?),
        "ne" | "neq" if value.is_null() => format!("{field} IS NOT NULL"),
        // In document databases, null differs from any other value.
        "ne" => format!("({field} != {} OR {field} IS NULL)", literal(value)?),
        "neq" => format!("{field} != {}", literal(value)?),
        "in" => format!("{field} {}", list()?),
        "nin" if has_null(value) => format!("NOT ({field} {})", list()?),
        "nin" => format!("({field} NOT {} OR {field} IS NULL)", list()?),
        // Each value must be one of the field's.
        "all" => {
            let values = value.as_array().filter(|values| !values.is_empty()).ok_or_else(|| {
                format!("where: all takes a list; write {field} = 'a' AND {field} = 'b'")
            })?;
            let tests = values.iter().map(|value| Ok(format!("{field} = {}", literal(value)?)));
            join(tests.collect::<Result<Vec<String>, String>>()?, " AND ")
        }
        "exists" => match value.as_bool() {
            Some(false) => format!("NOT exists({field})"),
            _ => flag("EXISTS", "IS NULL")?,
        },
        "is_null" => flag("IS NULL", "IS NOT NULL")?,
        "regex" => {
            format!("{field} =~ /{}/", between_slashes(value))
        }
        "size" => format!("length({field}) = {}", literal(value)?),
        "not" => format!("NOT ({})", comparisons(field, value)?),
        // Operators without a field compare the elements themselves.
        "elemMatch" if has_only_operators(value) => {
            format!("any({field}; {})", comparisons("value", value)?)
        }
        "elemMatch" => format!("any({field}; {})", all(object(value)?)?),
        // Of a list, an element in some languages.
        "contains" => format!("{field} CONTAINS {}", literal(value)?),
        "startsWith" => format!("{field} ^= {}", literal(value)?),
        "endsWith" => format!("{field} $= {}", literal(value)?),
        "like" | "ilike" => format!("{field} LIKE {}", literal(value)?),
        other => return Err(unknown(other)),
    })
}

fn unknown(name: &str) -> String {
    format!(
        "where: {name} is not known; there are $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $all, $exists, $regex, $size, $elemMatch, $not, $and and $or; or {NO_FILTER}"
    )
}

/// Converts a value. Texts get quotes.
fn literal(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(quote(text)),
        Value::Array(_) | Value::Object(_) => {
            Err(format!("where: {value} is not a single value; {NO_FILTER}"))
        }
        value => Ok(value.to_string()),
    }
}

/// Words that begin a clause of this language.
const KEYWORDS: [&str; 6] = ["limit", "offset", "skip", "top", "first", "take"];

/// Converts a name. Keys that are words of this language, or have other characters than words, get
/// quotes.
fn field_name(name: &str) -> String {
    let is_plain = |key: &str| {
        !KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(key))
            && !key.is_empty()
            && key.chars().all(|c| is_word_character(c) || "-/@#".contains(c))
    };
    let keys: Vec<String> = name
        .split('.')
        .map(|key| if is_plain(key) { key.to_owned() } else { quote(key) })
        .collect();
    keys.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_groups_take_linear_time() {
        // Converting each group twice would take 2^60 conversions.
        for member in ["{\"rules\":[", "{\"logic\":\"and\",\"filters\":["] {
            let leaf = r#"{"field":"a","op":"eq","value":1}"#;
            let nested = format!("{}{leaf}{}", member.repeat(60), "]}".repeat(60));
            assert_eq!(condition(&nested).as_deref(), Ok("a = 1"));
            let unknown = format!("{}{{\"a\":[{{}}]}}{}", member.repeat(60), "]}".repeat(60));
            assert!(condition(&unknown).is_err());
        }
    }

    #[test]
    fn filters_are_rewritten() {
        for (filter, expected) in [
            (r#"{"a": 1, "b": "x'y"}"#, "(a = 1) AND (b = 'x''y')"),
            (r#"{"a (g)": {"$gt": 1, "$lte": 5}}"#, "('a (g)' > 1) AND ('a (g)' <= 5)"),
            (r#"{"a": {"$ne": 1}}"#, "(a != 1 OR a IS NULL)"),
            (r#"{"a.b": {"$in": ["x", 2]}}"#, "a.b IN ('x', 2)"),
            (
                r#"{"$or": [{"a": null}, {"b": {"$exists": false}}]}"#,
                "(a IS NULL) OR (NOT exists(b))",
            ),
            (
                r#"{"and":[{"property":"a","select":{"equals":"x"}},{"property":"b","number":{"greater_than":5}}]}"#,
                "(a = 'x') AND (b > 5)",
            ),
            (r#"{"property":"a","rich_text":{"is_not_empty":true}}"#, "a IS NOT EMPTY"),
            (
                r#"{"or":[{">":[{"var":"a.b"},8]},{"in":[{"var":"c"},["x","y"]]}]}"#,
                "(a.b > 8) OR (c IN ('x', 'y'))",
            ),
            (
                r#"{"and":[{"==":[{"var":"a"},"x"]},{"!":{"in":["y",{"var":"b"}]}}]}"#,
                "(a == 'x') AND (NOT (b CONTAINS 'y'))",
            ),
            (r#"{"<":[1,{"var":"a"},5]}"#, "1 < a AND a < 5"),
            (r#"{"property":"a","date":{"on_or_before":"2024-05-01"}}"#, "date(a) <= '2024-05-01'"),
            (r#"{"a":{"b":{"equals":"x"}}}"#, "a.b = 'x'"),
            (r#"{"a": {"b": {"gte": 2}}}"#, "a.b >= 2"),
            (r#"{"tags": {"$elemMatch": {"k": "v"}}}"#, "any(tags; k = 'v')"),
            (r#"{"tags": {"$elemMatch": {"$eq": "a"}}}"#, "any(tags; value = 'a')"),
            (
                r#"{"n": {"$elemMatch": {"$gt": 3, "$lt": 8}}}"#,
                "any(n; (value > 3) AND (value < 8))",
            ),
            (r#"{"name": {"$regex": "^a/b", "$options": "i"}}"#, r"name =~ /^a\/b/i"),
            (r#"{"term": {"kind": "new"}}"#, "kind = 'new'"),
            (r#"{"term": {"gte": 5}}"#, "term >= 5"),
            (
                r#"{"query": {"bool": {"must": [{"term": {"a": 1}}], "must_not": [{"exists": {"field": "b"}}]}}}"#,
                "(a = 1) AND (NOT (b IS NOT NULL))",
            ),
            (r#"{"range": {"at": {"gte": "2024-01-01"}}}"#, "at >= '2024-01-01'"),
            (
                r#"{"bool": {"should": [{"term": {"a": 1}}, {"term": {"a": 2}}]}}"#,
                "(a = 1) OR (a = 2)",
            ),
            (
                r#"{"bool": {"filter": {"term": {"b": 3}}, "minimum_should_match": 1, "should": [{"term": {"a": 1}}, {"term": {"a": 2}}]}}"#,
                "(b = 3) AND ((a = 1) OR (a = 2))",
            ),
        ] {
            assert_eq!(condition(filter).unwrap(), expected, "{filter}");
        }
        for filter in [
            r#"{"a": {"$near": 1}}"#,
            r#"{"a": [1]}"#,
            "{}",
            "{",
            r#"{"$where": "x"}"#,
            // Search engines take the second clause as a wish, databases as a condition.
            r#"{"bool": {"must": [{"term": {"b": 3}}], "should": [{"term": {"a": 1}}]}}"#,
            r#"{"bool": {"should": [{"term": {"a": 1}}], "minimum_should_match": 2}}"#,
        ] {
            assert!(condition(filter).unwrap_err().contains("where"), "{filter}");
        }
    }
}
