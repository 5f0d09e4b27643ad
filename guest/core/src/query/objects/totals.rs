//! Totals in the JSON syntax of document databases and search engines: `{"terms": {"field":
//! "kind"}}`, `[{"$group": …}]`, `{"group_by": "city", "sum": "price"}`.

use serde_json::{Map, Value};

use super::{field_name, is_pipeline, parse};
use crate::query::reader::is_word_character;
use crate::query::value::quote;

/// The functions of totals in objects.
const FUNCTIONS: [&str; 10] =
    ["sum", "avg", "mean", "min", "max", "median", "count", "std", "stddev", "variance"];

/// Converts totals such as `{"terms": {"field": "kind"}}` and `{"$group": …}`.
///
/// # Errors
/// Returns a message for the caller if the totals are invalid or unknown.
pub(in crate::query) fn totals(text: &str) -> Result<String, String> {
    let example = "count by status, or sum(price) by city";
    if is_pipeline(text) {
        return stages(text, example);
    }
    let members = parse("aggregate", text, example)?;
    if let Some(text) = single(&members).or_else(|| keyed(&members)) {
        return Ok(text);
    }
    let mut members = members;
    // Hits of a search engine, of which an aggregation shows none.
    let aggregations = members.contains_key("aggs") || members.contains_key("aggregations");
    if aggregations && members.get("size").is_some_and(|size| *size == 0) {
        members.remove("size");
    }
    let unknown = || format!("aggregate: this object is not known; write {example}");
    let mut parts = members.iter();
    let (Some((name, value)), None) = (parts.next(), parts.next()) else { return Err(unknown()) };
    let object = value.as_object().ok_or_else(unknown)?;
    match name.as_str() {
        "$group" => group(object),
        "aggs" | "aggregations" => {
            let parts: Result<Vec<String>, String> = object
                .values()
                .map(|total| nested(total).unwrap_or_else(|| totals(&total.to_string())))
                .collect();
            Ok(parts?.join(", "))
        }
        _ => {
            let known = ["field", "size", "calendar_interval", "interval", "fixed_interval"];
            if object.keys().any(|name| !known.contains(&name.as_str())) {
                return Err(unknown());
            }
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

/// Converts a total with its groups: `{"op": "avg", "field": "price", "group_by": "city"}`. `None`
/// for other objects.
fn single(members: &Map<String, Value>) -> Option<String> {
    let mut total = members.clone();
    let groups = ["group_by", "groupBy", "by"]
        .into_iter()
        .find_map(|name| total.remove(name).map(|groups| (name, groups)));
    total.get("field").or_else(|| total.get("column"))?;
    let total = named_metric(&Value::Object(total))?;
    let by = groups.map(|(name, groups)| keyed(&Map::from_iter([(name.to_owned(), groups)])));
    match by {
        None => Some(total),
        Some(by) => Some(format!("{total}{}", by?.strip_prefix("count")?)),
    }
}

/// Converts groups of a search engine with totals inside: `{"terms": {"field": "city"}, "aggs":
/// {"t": {"sum": {"field": "price"}}}}`. `None` for other objects.
fn nested(groups: &Value) -> Option<Result<String, String>> {
    let mut outer = groups.as_object()?.clone();
    let inner = outer.remove("aggs").or_else(|| outer.remove("aggregations"))?;
    let groups = match totals(&Value::Object(outer).to_string()) {
        Ok(groups) => groups,
        Err(reason) => return Some(Err(reason)),
    };
    let mut items = Vec::new();
    for (name, total) in inner.as_object()? {
        match totals(&total.to_string()) {
            Ok(total) if !total.contains(" by ") => {
                items.push(format!("{total} as {}", quote(name)));
            }
            Ok(_) => return None,
            Err(reason) => return Some(Err(reason)),
        }
    }
    Some(Ok(format!("{}, {}", items.join(", "), groups)))
}

/// Converts an object of functions with their fields: `{"group_by": "city", "sum": "price"}`.
/// `None` for other objects.
fn keyed(members: &Map<String, Value>) -> Option<String> {
    let names = |value: &Value| -> Option<Vec<String>> {
        match value {
            Value::String(name) => Some(vec![field_name(name)]),
            Value::Array(names) => names.iter().map(|name| name.as_str().map(field_name)).collect(),
            _ => None,
        }
    };
    let (mut by, mut totals) = (Vec::new(), Vec::new());
    let (mut having, mut order, mut limit) = (String::new(), String::new(), String::new());
    let has_empty = members.values().any(|value| value.as_array().is_some_and(Vec::is_empty));
    if members.is_empty() || has_empty {
        return None;
    }
    let text = |names: [&str; 2]| names.into_iter().find_map(|name| members.get(name)?.as_str());
    // `{"count": "n", "having": "n >= 4"}` names the count, `{"count": "price"}` a field.
    let is_used = |name: &str| {
        [text(["having", "HAVING"]), text(["order_by", "sort"])].into_iter().flatten().any(|used| {
            used.trim_start_matches(['-', '+']).split(|c| !is_word_character(c)).next()
                == Some(name)
        })
    };
    for (name, value) in members {
        let plain = name.to_lowercase().replace('_', "");
        match (plain.as_str(), value) {
            ("groupby" | "by" | "group", value) => by.extend(names(value)?),
            ("count", Value::Bool(true)) => totals.push("count".to_owned()),
            ("count", Value::String(of)) if of == "*" => totals.push("count".to_owned()),
            ("count", Value::String(alias)) if is_used(alias) => {
                totals.push(format!("count as {}", quote(alias)));
            }
            ("sum" | "avg" | "mean" | "min" | "max" | "median" | "count" | "distinct", value) => {
                totals.extend(names(value)?.iter().map(|field| format!("{plain}({field})")));
            }
            (
                "metrics" | "aggregations" | "aggregates" | "aggs" | "totals" | "measures",
                Value::Array(list),
            ) => {
                for total in list {
                    totals.push(named_metric(total)?);
                }
            }
            ("aggregate" | "aggregation" | "metric" | "agg", Value::String(_)) => {
                totals.push(metric(value)?);
            }
            (
                "metrics" | "aggregations" | "aggregates" | "aggs" | "totals" | "measures",
                Value::Object(named),
            ) => {
                for (alias, total) in named {
                    // `{"price": "max"}` and `{"price": ["min", "max"]}` name a field.
                    let functions = match total {
                        Value::Array(list) => list.iter().map(Value::as_str).collect(),
                        total => Some(Vec::from_iter(total.as_str())),
                    };
                    let functions = functions.filter(|all| {
                        !all.is_empty() && all.iter().all(|name| FUNCTIONS.contains(name))
                    });
                    match functions {
                        Some(functions) if total.as_str() != Some("count") => {
                            let field = field_name(alias);
                            totals.extend(functions.iter().map(|name| format!("{name}({field})")));
                        }
                        _ => totals.push(format!("{} as {}", metric(total)?, quote(alias))),
                    }
                }
            }
            ("having", Value::String(condition)) => having = format!(" having {condition}"),
            ("orderby" | "sort", Value::String(key)) => order = format!(" order by {key}"),
            ("limit" | "top", Value::Number(number)) => limit = format!(" limit {number}"),
            _ => return None,
        }
    }
    if totals.is_empty() {
        totals.push("count".to_owned());
    }
    let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
    Some(format!("{}{by}{having}{order}{limit}", totals.join(", ")))
}

/// Converts one total of a list, which may have a name: `{"op": "sum", "field": "price", "as":
/// "t"}`. `None` for other values.
fn named_metric(total: &Value) -> Option<String> {
    let Some(members) = total.as_object() else { return metric(total) };
    let mut members = members.clone();
    let names = ["as", "alias", "name"].into_iter().filter_map(|name| members.remove(name));
    let names: Vec<Value> = names.collect();
    let text = metric(&Value::Object(members))?;
    match names.as_slice() {
        [] => Some(text),
        [Value::String(name)] => Some(format!("{text} as {}", quote(name))),
        _ => None,
    }
}

/// Converts one total: `{"sum": "price"}`, `{"function": "sum", "field": "price"}` or
/// `"sum(price)"`. `None` for other values.
fn metric(total: &Value) -> Option<String> {
    if let Some(text) = total.as_str() {
        let call = text.split('(').next()?.trim().to_lowercase();
        return FUNCTIONS.contains(&call.as_str()).then(|| text.to_owned());
    }
    let members = total.as_object()?;
    let text = |names: &[&str]| names.iter().find_map(|name| members.get(*name)?.as_str());
    const OPERATORS: [&str; 6] = ["function", "op", "agg", "type", "fn", "func"];
    let (function, field) = match members.iter().collect::<Vec<_>>().as_slice() {
        [(name, function)] if OPERATORS.contains(&name.as_str()) => (function.as_str()?, None),
        [(name, field)] => match field {
            Value::String(field) => (name.as_str(), Some(field.as_str())),
            Value::Null | Value::Bool(true) => (name.as_str(), None),
            _ => return None,
        },
        [_, _] => (text(&OPERATORS)?, Some(text(&["field", "column"])?)),
        _ => return None,
    };
    let function = function.trim_start_matches('$').to_lowercase();
    let field = field.map(|field| field.strip_prefix('$').unwrap_or(field));
    match (function.as_str(), field) {
        ("count", None | Some("*" | "")) => Some("count".to_owned()),
        (function, Some(field)) if FUNCTIONS.contains(&function) => {
            Some(format!("{function}({})", field_name(field)))
        }
        _ => None,
    }
}

/// Converts a pipeline that begins with `$group`.
fn stages(text: &str, example: &str) -> Result<String, String> {
    let invalid = |reason: &str| format!("aggregate: {reason}; write {example}");
    let sort_by_one = "$sort accepts one key, 1 or -1";
    let stages: Vec<Map<String, Value>> = serde_json::from_str(text)
        .map_err(|error| format!("aggregate: invalid pipeline: {error}"))?;
    let mut totals = String::new();
    let mut stages = stages.as_slice();
    let mut list = None;
    if let Some((stage, rest)) = stages.split_first()
        && let Some(value) = stage.get("$unwind").filter(|_| stage.len() == 1)
    {
        let path = match value {
            Value::Object(members) if members.len() == 1 => members.get("path"),
            value => Some(value),
        };
        let path = path.and_then(Value::as_str).and_then(|path| path.strip_prefix('$'));
        let path = path.ok_or_else(|| invalid("$unwind takes a list such as \"$labels\""))?;
        list = Some(field_name(path));
        stages = rest;
    }
    for (at, stage) in stages.iter().enumerate() {
        let mut members = stage.iter();
        let (Some((name, value)), None) = (members.next(), members.next()) else {
            return Err(invalid("each stage of a pipeline has one member"));
        };
        match (name.as_str(), value) {
            ("$match", _) if list.is_some() => {
                return Err(invalid(
                    "$match after $unwind is about elements: choose the list with path, or use jq",
                ));
            }
            ("$match", _) => {
                return Err(
                    "aggregate: put the filter of $match into the argument where".to_owned()
                );
            }
            ("$group", Value::Object(members)) if at == 0 => {
                totals = group(members)?;
                if let Some(list) = &list {
                    totals = format!("{totals} unnest {list}");
                }
            }
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
                let reason = format!(
                    "a pipeline has $unwind, $group, $sort and $limit, in this order, not {name}"
                );
                return Err(invalid(&reason));
            }
        }
    }
    Ok(totals)
}

/// Converts the stage `$group` of a pipeline.
/// The operators of a field that groups records, each with the start of a call in this language.
const KEY_FUNCTIONS: [(&str, &str); 7] = [
    ("$year", "extract(year from "),
    ("$month", "extract(month from "),
    ("$dayOfMonth", "extract(day from "),
    ("$hour", "extract(hour from "),
    ("$toLower", "lower("),
    ("$toUpper", "upper("),
    ("$size", "length("),
];

/// Converts an operator of a field, such as `{"$year": "$at"}`. `None` for other objects.
fn key_function(key: &Map<String, Value>) -> Option<Result<String, String>> {
    let (operator, field) = key.iter().next().filter(|(name, _)| name.starts_with('$'))?;
    let field = field.as_str().and_then(|field| field.strip_prefix('$')).map(field_name);
    let function = KEY_FUNCTIONS.iter().find(|(name, _)| name == operator);
    Some(match (function, field) {
        (Some((_, function)), Some(field)) if key.len() == 1 => Ok(format!("{function}{field})")),
        _ => Err(format!(
            "aggregate: {operator} in _id of $group is not known; write count by month(created_at), or lower(kind), or use jq"
        )),
    })
}

fn group(members: &Map<String, Value>) -> Result<String, String> {
    let path =
        |value: &Value| -> Option<String> { value.as_str()?.strip_prefix('$').map(field_name) };
    let mut totals = Vec::new();
    let mut by = Vec::new();
    for (name, value) in members {
        if name == "_id" {
            match value {
                Value::Null => {}
                Value::Object(keys) if let Some(key) = key_function(keys) => by.push(key?),
                Value::Object(keys) => by.extend(keys.values().filter_map(path)),
                key => by.extend(path(key)),
            }
            let count = value.as_object().map_or(usize::from(!value.is_null()), Map::len);
            if by.len() != count {
                return Err("aggregate: _id of $group is a field such as \"$status\"; for parts of dates write count by month(created_at)".to_owned());
            }
            continue;
        }
        let total = value.as_object().filter(|total| total.len() == 1);
        let total = total.and_then(|total| total.iter().next());
        let total = total.and_then(|(function, of)| {
            let function = function.strip_prefix('$')?;
            let is_count = function == "count" || (function == "sum" && of.as_i64() == Some(1));
            match (function, path(of)) {
                _ if is_count => Some("count".to_owned()),
                ("sum" | "avg" | "min" | "max", Some(field)) => {
                    Some(format!("{function}({field})"))
                }
                ("stdDevPop", Some(field)) => Some(format!("stddev_pop({field})")),
                ("stdDevSamp", Some(field)) => Some(format!("stddev_samp({field})")),
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

#[cfg(test)]
mod tests {
    use super::*;

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
            (r#"{"$group": {"_id": {"$month": "$at"}}}"#, "count by extract(month from at)"),
            (r#"{"$group": {"_id": {"$toLower": "$kind"}}}"#, "count by lower(kind)"),
            (
                r#"{"date_histogram": {"field": "at", "calendar_interval": "month"}}"#,
                "count by month(at)",
            ),
        ] {
            assert_eq!(totals(text).unwrap(), expected, "{text}");
        }
        for (text, expected) in [
            (
                r#"{"count":"n","group_by":"name","having":"n >= 4"}"#,
                "count as 'n' by name having n >= 4",
            ),
            (r#"{"count":"n","group_by":"name"}"#, "count(n) by name"),
            (
                r#"{"group_by":["a"],"metrics":{"t":{"sum":"p"},"n":{"count":"*"}}}"#,
                "count as 'n', sum(p) as 't' by a",
            ),
            (
                r#"{"group_by":["a"],"metrics":[{"op":"sum","field":"p"},{"op":"count"}]}"#,
                "sum(p), count by a",
            ),
            (
                r#"{"by":"a","aggregations":[{"function":"avg","field":"p q","as":"t"}]}"#,
                "avg('p q') as 't' by a",
            ),
            (r#"{"group_by":"a","metrics":["sum(p)","count"]}"#, "sum(p), count by a"),
            (r#"{"op":"sum","field":"p","by":["a","b"]}"#, "sum(p) by a, b"),
            (r#"{"op":"sum","field":"p"}"#, "sum(p)"),
            (r#"{"group_by":"a","aggregate":"sum(p)"}"#, "sum(p) by a"),
            (r#"{"distinct":"a"}"#, "distinct(a)"),
            (
                r#"{"size":0,"aggs":{"x":{"terms":{"field":"c"},"aggs":{"t":{"sum":{"field":"p"}}}}}}"#,
                "sum(p) as 't', count by c",
            ),
            (
                r#"[{"$unwind":"$x"},{"$group":{"_id":"$x.n","n":{"$sum":1}}},{"$sort":{"n":-1}}]"#,
                "count as 'n' by x.n unnest x order by n desc",
            ),
        ] {
            assert_eq!(totals(text).as_deref(), Ok(expected), "{text}");
        }
        for text in [
            r#"{"group_by":["a"],"metrics":{"t":{"p":"sum"}}}"#,
            r#"{"group_by":["a"],"metrics":[{"op":"sum"}]}"#,
            r#"{"group_by":["a"],"metrics":[{"op":"sum","field":"p","where":"q > 1"}]}"#,
            r#"{"a":"sum"}"#,
            r#"{"size":5,"aggs":{"x":{"terms":{"field":"c"}}}}"#,
            r#"{"aggs":{"x":{"terms":{"field":"c"},"aggs":{"y":{"terms":{"field":"d"}}}}}}"#,
            r#"[{"$unwind":{"path":"$x","preserveNullAndEmptyArrays":true}},{"$group":{"_id":"$x"}}]"#,
            r#"[{"$unwind":"$x"},{"$match":{"x.c":1}},{"$group":{"_id":"$x.n"}}]"#,
        ] {
            assert!(totals(text).is_err(), "{text}");
        }
        let pipeline = r#"[{"$group": {"_id": "$c", "t": {"$sum": "$p"}}}, {"$sort": {"t": -1}}, {"$limit": 3}]"#;
        assert_eq!(totals(pipeline).unwrap(), "sum(p) as 't' by c order by t desc limit 3");
        assert!(totals(r#"[{"$match": {"a": 1}}]"#).unwrap_err().contains("where"));
        assert!(totals(r#"[{"$limit": 3}, {"$group": {"_id": "$c"}}]"#).is_err());
        assert!(totals(r#"{"$group": {"_id": {"$month": 1}}}"#).is_err());
        assert!(totals(r#"{"histogram": {"field": "a"}}"#).is_err());
    }
}
