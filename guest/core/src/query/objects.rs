//! Filters and totals in the JSON syntax of document databases and search engines: `{"price":
//! {"$gt": 5}}`, `{"term": {"kind": "new"}}`. They are converted to the syntax of `where` and
//! `aggregate`, which the answer shows.

use serde_json::{Map, Value};

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

/// Converts totals such as `{"terms": {"field": "kind"}}` and `{"$group": …}`.
///
/// # Errors
/// Returns a message for the caller if the totals are invalid or unknown.
pub(super) fn totals(text: &str) -> Result<String, String> {
    let example = "count by status, or sum(price) by city";
    if is_pipeline(text) {
        return stages(text, example);
    }
    let members = parse("aggregate", text, example)?;
    let unknown = || format!("aggregate: this object is not known; write {example}");
    let mut parts = members.iter();
    let (Some((name, value)), None) = (parts.next(), parts.next()) else { return Err(unknown()) };
    let object = value.as_object().ok_or_else(unknown)?;
    match name.as_str() {
        "$group" => group(object),
        "aggs" | "aggregations" => {
            let parts: Result<Vec<String>, String> =
                object.values().map(|total| totals(&total.to_string())).collect();
            Ok(parts?.join(", "))
        }
        _ => {
            let field = object.get("field").and_then(Value::as_str).ok_or_else(unknown)?;
            let field = field_name(field);
            let interval = ["calendar_interval", "interval", "fixed_interval"];
            let interval = interval.iter().find_map(|name| object.get(*name)?.as_str());
            match (name.as_str(), interval) {
                ("terms", _) => {
                    let size = object.get("size").and_then(Value::as_u64);
                    let top = size.map(|size| format!(" order by count desc limit {size}"));
                    Ok(format!("count by {field}{}", top.unwrap_or_default()))
                }
                ("avg" | "sum" | "min" | "max", _) => Ok(format!("{name}({field})")),
                ("value_count", _) => Ok(format!("count({field})")),
                ("cardinality", _) => Ok(format!("count(distinct {field})")),
                (
                    "date_histogram",
                    Some(part @ ("year" | "quarter" | "month" | "week" | "day" | "hour")),
                ) => Ok(format!("count by {part}({field})")),
                _ => Err(unknown()),
            }
        }
    }
}

/// Converts a pipeline that begins with `$group`.
fn stages(text: &str, example: &str) -> Result<String, String> {
    let invalid = |reason: &str| format!("aggregate: {reason}; write {example}");
    let sort_by_one = "$sort accepts one total, 1 or -1";
    let stages: Vec<Map<String, Value>> = serde_json::from_str(text)
        .map_err(|error| format!("aggregate: invalid pipeline: {error}"))?;
    let mut totals = String::new();
    for (at, stage) in stages.iter().enumerate() {
        let mut members = stage.iter();
        let (Some((name, value)), None) = (members.next(), members.next()) else {
            return Err(invalid("each stage of a pipeline has one member"));
        };
        match (name.as_str(), value) {
            ("$match", _) => {
                return Err(
                    "aggregate: put the filter of $match into the argument where".to_owned()
                );
            }
            ("$group", Value::Object(members)) if at == 0 => totals = group(members)?,
            ("$sort", Value::Object(keys)) if at == 1 => {
                let mut keys = keys.iter();
                let (Some((key, direction)), None) = (keys.next(), keys.next()) else {
                    return Err(invalid(sort_by_one));
                };
                // The keys of a group are known by the names of their fields.
                let order = match direction.as_i64() {
                    _ if key == "_id" => return Err(invalid(sort_by_one)),
                    Some(1) => "",
                    Some(-1) => " desc",
                    _ => return Err(invalid(sort_by_one)),
                };
                totals = format!("{totals} order by {}{order}", field_name(key));
            }
            ("$limit", Value::Number(limit)) if at > 0 => {
                totals = format!("{totals} limit {limit}")
            }
            (name, _) => {
                let reason = format!("a pipeline has $group, then $sort and $limit, not {name}");
                return Err(invalid(&reason));
            }
        }
    }
    Ok(totals)
}

/// Converts the stage `$group` of a pipeline.
fn group(members: &Map<String, Value>) -> Result<String, String> {
    let path =
        |value: &Value| -> Option<String> { value.as_str()?.strip_prefix('$').map(field_name) };
    let mut totals = Vec::new();
    let mut by = Vec::new();
    for (name, value) in members {
        if name == "_id" {
            match value {
                Value::Null => {}
                Value::Object(keys) => by.extend(keys.values().filter_map(path)),
                key => by.extend(path(key)),
            }
            let count = value.as_object().map_or(usize::from(!value.is_null()), Map::len);
            if by.len() != count {
                return Err("aggregate: _id of $group is a field such as \"$status\"; for parts of dates write count by month(created_at)".to_owned());
            }
            continue;
        }
        let total = value.as_object().and_then(|total| total.iter().next());
        let total = total.and_then(|(function, of)| {
            let function = function.strip_prefix('$')?;
            let is_count = function == "count" || (function == "sum" && of.as_i64() == Some(1));
            match (function, path(of)) {
                _ if is_count => Some("count".to_owned()),
                ("sum" | "avg" | "min" | "max", Some(field)) => {
                    Some(format!("{function}({field})"))
                }
                _ => None,
            }
        });
        let total = total.ok_or_else(|| {
            format!("aggregate: {name} of $group is not known; write sum(price) by city, with sum, avg, min, max, count or median")
        })?;
        totals.push(format!("{total} as {}", quote(name)));
    }
    if totals.is_empty() {
        totals.push("count".to_owned());
    }
    let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
    Ok(format!("{}{by}", totals.join(", ")))
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
        "$or" | "should" | "OR" | "_or" if value.is_array() => several(name, value, " OR "),
        "$nor" | "must_not" | "NOT" | "_not" if value.is_array() || value.is_object() => {
            Ok(format!("NOT ({})", several(name, value, " OR ")?))
        }
        "$match" if value.is_object() => all(object(value)?),
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
        _ => comparisons(&field_name(name), value),
    }
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
    let known = [
        "eq",
        "ne",
        "neq",
        "gt",
        "gte",
        "lt",
        "lte",
        "in",
        "nin",
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
        "eq" => comparisons(field, value)?,
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
        "exists" => flag("IS NOT NULL", "IS NULL")?,
        "is_null" => flag("IS NULL", "IS NOT NULL")?,
        "regex" => {
            format!("{field} =~ /{}/", between_slashes(value))
        }
        "size" => format!("length({field}) = {}", literal(value)?),
        "not" => format!("NOT ({})", comparisons(field, value)?),
        "elemMatch" => format!("any({field}; {})", all(object(value)?)?),
        "contains" => format!("{field} ~ {}", literal(value)?),
        "startsWith" => format!("{field} ^= {}", literal(value)?),
        "endsWith" => format!("{field} $= {}", literal(value)?),
        "like" | "ilike" => format!("{field} LIKE {}", literal(value)?),
        other => return Err(unknown(other)),
    })
}

fn unknown(name: &str) -> String {
    format!(
        "where: {name} is not known; there are $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists, $regex, $size, $elemMatch, $not, $and and $or; or {NO_FILTER}"
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

/// Converts a name. Keys with characters other than those of words get quotes.
fn field_name(name: &str) -> String {
    let is_plain = |key: &str| {
        !key.is_empty() && key.chars().all(|c| is_word_character(c) || "-/@#".contains(c))
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
    fn filters_are_rewritten() {
        for (filter, expected) in [
            (r#"{"a": 1, "b": "x'y"}"#, "(a = 1) AND (b = 'x''y')"),
            (r#"{"a (g)": {"$gt": 1, "$lte": 5}}"#, "('a (g)' > 1) AND ('a (g)' <= 5)"),
            (r#"{"a": {"$ne": 1}}"#, "(a != 1 OR a IS NULL)"),
            (r#"{"a.b": {"$in": ["x", 2]}}"#, "a.b IN ('x', 2)"),
            (r#"{"$or": [{"a": null}, {"b": {"$exists": false}}]}"#, "(a IS NULL) OR (b IS NULL)"),
            (r#"{"a": {"b": {"gte": 2}}}"#, "a.b >= 2"),
            (r#"{"tags": {"$elemMatch": {"k": "v"}}}"#, "any(tags; k = 'v')"),
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

    #[test]
    fn totals_are_rewritten() {
        for (text, expected) in [
            (
                r#"{"terms": {"field": "kind", "size": 5}}"#,
                "count by kind order by count desc limit 5",
            ),
            (r#"{"aggs": {"x": {"avg": {"field": "a b"}}}}"#, "avg('a b')"),
            (
                r#"{"$group": {"_id": "$c", "n": {"$sum": 1}, "t": {"$sum": "$p"}}}"#,
                "count as 'n', sum(p) as 't' by c",
            ),
            (
                r#"{"date_histogram": {"field": "at", "calendar_interval": "month"}}"#,
                "count by month(at)",
            ),
        ] {
            assert_eq!(totals(text).unwrap(), expected, "{text}");
        }
        let pipeline = r#"[{"$group": {"_id": "$c", "t": {"$sum": "$p"}}}, {"$sort": {"t": -1}}, {"$limit": 3}]"#;
        assert_eq!(totals(pipeline).unwrap(), "sum(p) as 't' by c order by t desc limit 3");
        assert!(totals(r#"[{"$match": {"a": 1}}]"#).unwrap_err().contains("where"));
        assert!(totals(r#"[{"$limit": 3}, {"$group": {"_id": "$c"}}]"#).is_err());
        assert!(totals(r#"{"$group": {"_id": {"$month": 1}}}"#).is_err());
        assert!(totals(r#"{"histogram": {"field": "a"}}"#).is_err());
    }
}
