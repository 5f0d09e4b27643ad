//! Filters as lists of comparisons: `[{"field": "kind", "op": "eq", "value": "new"}]`, and lookups
//! of Django as members: `{"price__gt": 5}`.

use serde_json::{Map, Value};

use super::{all, between_slashes, compare, comparisons, field_name, join, literal};
use crate::query::value::quote;

const FIELDS: [&str; 6] = ["field", "column", "key", "name", "property", "attribute"];
const OPERATORS: [&str; 4] = ["op", "operator", "comparator", "comparison"];
const VALUES: [&str; 2] = ["value", "values"];
const LISTS: [&str; 4] = ["filters", "conditions", "rules", "criteria"];
const LOGIC: [&str; 5] = ["logic", "combinator", "conjunction", "operator", "op"];
/// The lookups of Django, each with the operator of a comparison.
const LOOKUPS: [(&str, &str); 18] = [
    ("exact", "eq"),
    ("ne", "neq"),
    ("gt", "gt"),
    ("gte", "gte"),
    ("lt", "lt"),
    ("lte", "lte"),
    ("in", "in"),
    ("contains", "contains"),
    ("icontains", "contains"),
    ("startswith", "startswith"),
    ("istartswith", "startswith"),
    ("endswith", "endswith"),
    ("iendswith", "endswith"),
    ("regex", "regex"),
    ("range", "between"),
    ("isnull", "isnull"),
    ("iexact", "iexact"),
    ("iregex", "iregex"),
];

/// Converts a list of comparisons, which must all hold.
///
/// # Errors
/// Returns a message for the caller if the list is invalid, or may mean AND or OR.
pub(in crate::query) fn condition(text: &str) -> Result<String, String> {
    let filters: Vec<Map<String, Value>> = serde_json::from_str(text).map_err(|_| {
        "where is no valid JSON list of objects; write status='open' AND price>5".to_owned()
    })?;
    if filters.is_empty() {
        return Err("where: the filter is empty; leave where out for all records".to_owned());
    }
    if filters.len() > 1 && !filters.iter().all(is_comparison) {
        return Err(
            "where: a list of filters means AND in some languages, and OR in others; write {\"and\": […]} or {\"or\": […]}, or comparisons such as [{\"field\": \"price\", \"op\": \"gt\", \"value\": 5}]"
                .to_owned(),
        );
    }
    let parts: Result<Vec<String>, String> = filters.iter().map(all).collect();
    Ok(join(parts?, " AND "))
}

/// Returns true if an object is a comparison or a group, not the members of a record.
fn is_comparison(members: &Map<String, Value>) -> bool {
    comparison(members).is_some() || group(members).is_some() || has_junction(members)
}

/// Returns true if an object has a member that joins conditions.
fn has_junction(members: &Map<String, Value>) -> bool {
    const JUNCTIONS: [&str; 6] = ["and", "or", "AND", "OR", "$and", "$or"];
    JUNCTIONS.iter().any(|name| members.contains_key(*name))
}

/// Returns the only member of `names`, if the object has exactly one of them.
fn only<'v>(members: &'v Map<String, Value>, names: &[&str]) -> Option<&'v Value> {
    let mut found = names.iter().filter_map(|name| members.get(*name));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Converts `{"filters": […], "logic": "or"}`. `None` for other objects.
pub(super) fn group(members: &Map<String, Value>) -> Option<Result<String, String>> {
    let filters = only(members, &LISTS)?.as_array()?;
    let has_logic = only(members, &LOGIC).is_some();
    let word = match only(members, &LOGIC) {
        Some(logic) if members.len() == 2 => match logic.as_str()?.to_lowercase().as_str() {
            "and" | "all" => " AND ",
            "or" | "any" => " OR ",
            _ => return None,
        },
        None if members.len() == 1 => " AND ",
        _ => return None,
    };
    let filters: Option<Vec<&Map<String, Value>>> = filters.iter().map(Value::as_object).collect();
    let filters = filters.filter(|filters| !filters.is_empty())?;
    let mut parts = Vec::new();
    for filter in filters {
        // Each filter is converted once: groups may contain groups.
        let part = comparison(filter).or_else(|| rule(filter)).or_else(|| group(filter));
        parts.push(match part {
            Some(part) => part,
            None if has_logic || has_junction(filter) => super::all_members(filter),
            // Records may have a list of such a name: `{"conditions": [{"type": "Ready"}]}`.
            None => return None,
        });
    }
    let parts: Result<Vec<String>, String> = parts.into_iter().collect();
    Some(parts.map(|parts| join(parts, word)))
}

/// Converts `{"field": "price", "op": "gt", "value": 5}`. `None` for other objects, and for unknown
/// operators.
pub(super) fn comparison(members: &Map<String, Value>) -> Option<Result<String, String>> {
    if let Some(found) = property(members) {
        return Some(found);
    }
    let field = field_name(only(members, &FIELDS)?.as_str()?);
    let operator = only(members, &OPERATORS)?.as_str()?.to_lowercase();
    let value = only(members, &VALUES);
    if members.len() != 2 + usize::from(value.is_some()) {
        return None;
    }
    let operator = match operator.trim() {
        "=" | "==" | "===" | "equals" | "equal" | "is" => "eq".to_owned(),
        "!=" | "<>" | "!==" => "neq".to_owned(),
        ">" => "gt".to_owned(),
        ">=" | "ge" => "gte".to_owned(),
        "<" => "lt".to_owned(),
        "<=" | "le" => "lte".to_owned(),
        "~" => "contains".to_owned(),
        "=~" | "matches" => "regex".to_owned(),
        word => word.replace(['_', ' ', '-', '$'], ""),
    };
    operation(&field, &operator, value.unwrap_or(&Value::Null), value.is_some())
}

/// Converts a comparison of JSON Logic: `{">": [{"var": "price"}, 5]}`. `None` for other objects.
pub(super) fn rule(members: &Map<String, Value>) -> Option<Result<String, String>> {
    let mut members = members.iter();
    let (Some((operator, value)), None) = (members.next(), members.next()) else { return None };
    let field = |value: &Value| -> Option<String> {
        let (name, _) = value.as_object().filter(|object| object.len() == 1)?.iter().next()?;
        (name == "var").then(|| value["var"].as_str().map(field_name))?
    };
    if operator == "!" {
        let inner = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let test = match field(inner) {
            Some(field) => Ok(format!("({field} = false OR {field} IS EMPTY)")),
            None => super::all(inner.as_object()?).map(|text| format!("NOT ({text})")),
        };
        return Some(test);
    }
    let [left, right, rest @ ..] = value.as_array()?.as_slice() else { return None };
    // `{"<": [1, {"var": "price"}, 5]}` is a range.
    if let ([high], Some(field), "<" | "<=") = (rest, field(right), operator.as_str()) {
        return Some(literal(left).and_then(|low| {
            let high = literal(high)?;
            Ok(format!("{low} {operator} {field} AND {field} {operator} {high}"))
        }));
    }
    rest.is_empty().then_some(())?;
    let compares = ["==", "===", "!=", "!==", "<", "<=", ">", ">="].contains(&operator.as_str());
    Some(match (field(left), field(right), operator.as_str()) {
        (Some(field), None, "in") => compare(&field, "in", right),
        // The text or the list contains the value.
        (None, Some(field), "in") => compare(&field, "contains", left),
        (Some(field), Some(other), _) if compares => Ok(format!("{field} {operator} {other}")),
        (Some(field), None, _) if compares => {
            literal(right).map(|value| format!("{field} {operator} {value}"))
        }
        (None, Some(field), _) if compares => {
            literal(left).map(|value| format!("{value} {operator} {field}"))
        }
        _ => return None,
    })
}

/// Converts a filter of Notion: `{"property": "price", "number": {"greater_than": 5}}`. `None` for
/// other objects, and for unknown operators.
fn property(members: &Map<String, Value>) -> Option<Result<String, String>> {
    let field = field_name(members.get("property")?.as_str()?);
    let mut tests = members.iter().filter(|(name, _)| *name != "property");
    let (Some((_, tests)), None) = (tests.next(), tests.next()) else { return None };
    let mut tests = tests.as_object()?.iter();
    let (Some((name, value)), None) = (tests.next(), tests.next()) else { return None };
    let operator = match name.as_str() {
        "equals" => "eq",
        "does_not_equal" => "neq",
        "does_not_contain" => "notcontains",
        "starts_with" => "startswith",
        "ends_with" => "endswith",
        "greater_than" | "after" => "gt",
        "greater_than_or_equal_to" | "on_or_after" => "gte",
        "less_than" | "before" => "lt",
        "less_than_or_equal_to" | "on_or_before" => "lte",
        "is_empty" if *value == Value::Bool(true) => {
            return operation(&field, "empty", &Value::Null, false);
        }
        "is_not_empty" if *value == Value::Bool(true) => {
            return operation(&field, "notempty", &Value::Null, false);
        }
        "contains" => "contains",
        _ => return None,
    };
    // A day includes all its times.
    let is_day = value.as_str().is_some_and(crate::query::date::is_day);
    let field = match name.as_str() {
        "before" | "after" | "on_or_before" | "on_or_after" if is_day => format!("date({field})"),
        _ => field,
    };
    operation(&field, operator, value, true)
}

/// Converts the comparison of a field with an operator. `None` if the operator is unknown.
fn operation(
    field: &str,
    operator: &str,
    value: &Value,
    has_value: bool,
) -> Option<Result<String, String>> {
    let missing = || Err(format!("where: {operator} takes a value; write {field} = 'x'"));
    let null = |is_null: bool| {
        let is_null = value.as_bool().map_or(is_null, |flag| flag == is_null);
        Ok(format!("{field} IS {}NULL", if is_null { "" } else { "NOT " }))
    };
    let takes_value = |name: &str| if has_value { compare(field, name, value) } else { missing() };
    let negated = |name: &str| takes_value(name).map(|text| format!("NOT ({text})"));
    Some(match operator {
        "eq" if has_value => comparisons(field, value),
        "ne" | "neq" | "notequals" | "notequal" | "isnot" => takes_value("neq"),
        "gt" | "gte" | "lt" | "lte" | "in" | "like" | "ilike" => takes_value(operator),
        // Of a list, an element, not a part of one.
        "contains" | "notcontains" if has_value => literal(value).map(|text| match operator {
            "contains" => format!("{field}.includes({text})"),
            _ => format!("NOT ({field}.includes({text}))"),
        }),
        "contains" | "notcontains" => missing(),
        "icontains" => takes_value("contains"),
        "regex" if value.is_string() => compare(field, operator, value),
        "iregex" if value.is_string() => Ok(format!("{field} =~ /{}/i", between_slashes(value))),
        "iexact" if value.is_string() => literal(value).map(|text| format!("{field} ==* {text}")),
        "notin" | "nin" => negated("in"),
        "notlike" => negated("like"),
        "startswith" | "istartswith" => takes_value("startsWith"),
        "endswith" | "iendswith" => takes_value("endsWith"),
        "between" | "range" => match value.as_array().map(Vec::as_slice) {
            Some([low, high]) => literal(low).and_then(|low| {
                literal(high).map(|high| format!("{field} BETWEEN {low} AND {high}"))
            }),
            _ => Err(format!("where: {operator} takes a list of two values")),
        },
        "isnull" | "null" if value.is_null() || value.is_boolean() => null(true),
        "isnotnull" | "notnull" | "exists" if value.is_null() || value.is_boolean() => null(false),
        "isempty" | "empty" if !has_value || value.is_null() => Ok(format!("{field} IS EMPTY")),
        "isnotempty" | "notempty" if !has_value || value.is_null() => {
            Ok(format!("{field} IS NOT EMPTY"))
        }
        "eq" => missing(),
        _ => return None,
    })
}

/// Converts a member such as `"price__gt": 5`. `None` for other names. The rest of the name is a
/// path if no field has the name: `cost__amount`.
pub(super) fn lookup(name: &str, value: &Value) -> Option<Result<String, String>> {
    let (field, word) = name.rsplit_once("__").filter(|(field, _)| !field.is_empty())?;
    let (_, operator) = LOOKUPS.iter().find(|(lookup, _)| *lookup == word)?;
    let has_null = value.is_null() && *operator != "isnull";
    let found = operation(&field_name(field), operator, value, !has_null);
    Some(
        found.unwrap_or_else(|| Err(format!("where: {} has a value of another type", quote(name)))),
    )
}

#[cfg(test)]
mod tests {
    use crate::query::objects;

    #[test]
    fn lists_of_comparisons_are_rewritten() {
        for (filter, expected) in [
            (
                r#"[{"field":"a","op":"eq","value":"x"},{"column":"b","operator":">","value":5}]"#,
                "(a = 'x') AND (b > 5)",
            ),
            (
                r#"[{"key":"a b","op":"not_in","value":[1,2]},{"name":"c","op":"is_null"}]"#,
                "(NOT ('a b' IN (1, 2))) AND (c IS NULL)",
            ),
            (r#"[{"field":"a","op":"between","value":[1,5]}]"#, "a BETWEEN 1 AND 5"),
            (
                r#"[{"or":[{"field":"a","op":"startsWith","value":"x"},{"b":1}]}]"#,
                "(a ^= 'x') OR (b = 1)",
            ),
            (r#"[{"a":1}]"#, "a = 1"),
            (r#"[{"field":"a","op":"contains","value":"x"}]"#, "a.includes('x')"),
        ] {
            assert_eq!(objects::filters(filter).as_deref(), Ok(expected), "{filter}");
        }
        // Records may have lists of these names.
        for (filter, member) in [
            (r#"{"rules":[{"port":80}]}"#, "rules"),
            (r#"{"conditions":[{"type":"Ready"}]}"#, "conditions"),
            (r#"{"filters":[{"status":"open"},{"status":"new"}]}"#, "filters"),
            (r#"{"criteria":[{"field":"a","op":"eq","value":1},{"b":2}]}"#, "criteria"),
        ] {
            let refused = objects::condition(filter).unwrap_err();
            assert!(refused.contains(member), "{filter}: {refused}");
        }
        for (filter, expected) in [
            (r#"{"filters":[{"field":"a","op":"eq","value":1}]}"#, "a = 1"),
            (
                r#"{"rules":[{"port":80},{"port":81}],"combinator":"or"}"#,
                "(port = 80) OR (port = 81)",
            ),
        ] {
            assert_eq!(objects::condition(filter).as_deref(), Ok(expected), "{filter}");
        }
        for filter in [
            // OR in some languages, AND in others.
            r#"[{"a":1},{"b":2}]"#,
            r#"[{"field":"a","op":"near","value":1},{"field":"b","op":"eq","value":1}]"#,
            r#"[{"field":"a","op":"eq","value":1,"boost":2},{"field":"b","op":"eq","value":1}]"#,
            r#"[{"field":"a","op":"eq"}]"#,
            r#"[{"field":"a","op":"eq","value":[1,2]}]"#,
            "[]",
            "[1]",
        ] {
            assert!(objects::filters(filter).is_err(), "{filter}");
        }
    }

    #[test]
    fn groups_and_lookups_are_rewritten() {
        for (filter, expected) in [
            (
                r#"{"logic":"or","filters":[{"field":"a","operator":"gte","value":5},{"field":"b","operator":"isnotnull"}]}"#,
                "(a >= 5) OR (b IS NOT NULL)",
            ),
            (
                r#"{"and":[{"field":"a","op":"like","value":"x%"},{"field":"b","op":"ne","value":1}]}"#,
                "(a LIKE 'x%') AND (b != 1)",
            ),
            (r#"{"field":"a","op":"<=","value":5}"#, "a <= 5"),
            (
                r#"{"a__b__gt":5,"c__in":["x"],"d__isnull":true}"#,
                "(a__b > 5) AND (c IN ('x')) AND (d IS NULL)",
            ),
            (r#"{"a__b":5}"#, "a__b = 5"),
            // A record may have fields of these names.
            (r#"{"name":"x","value":5}"#, "(name = 'x') AND (value = 5)"),
            (r#"{"field":"a","op":"x","value":5}"#, "(field = 'a') AND (op = 'x') AND (value = 5)"),
        ] {
            assert_eq!(objects::condition(filter).as_deref(), Ok(expected), "{filter}");
        }
        assert!(objects::condition(r#"{"a__isnull":"x"}"#).is_err());
    }
}
