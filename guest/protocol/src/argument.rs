//! The names of the guard's own arguments, in tool calls and in the queries of REST requests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The names of the guard's own arguments, each accepted with the prefix [`ARGUMENT_PREFIX`].
///
/// Stored tool information refers to them by index, so add new names at the end.
pub const ARGUMENT_NAMES: [&str; 19] = [
    "cursor",
    "limit",
    "pages",
    "startLine",
    "endLine",
    "fields",
    "response_mode",
    "filter_ids",
    "min_score",
    "path",
    "grep",
    "context",
    "aggregate",
    "where",
    "ignoreCase",
    "jq",
    "since",
    "sort",
    "offset",
];

/// Aliases of the guard's arguments, from other tools, each with the argument's name. The read tool
/// and the object [`ARGUMENTS_OBJECT`] accept them. With the prefix [`ARGUMENT_PREFIX`], every tool
/// does.
pub const ARGUMENT_ALIASES: [(&str, &str); 35] = [
    ("nextCursor", "cursor"),
    ("next_cursor", "cursor"),
    ("max_results", "limit"),
    ("maxResults", "limit"),
    ("page_size", "limit"),
    ("pageSize", "limit"),
    ("start_line", "startLine"),
    ("end_line", "endLine"),
    ("columns", "fields"),
    ("select", "fields"),
    ("responseMode", "response_mode"),
    ("filterIds", "filter_ids"),
    ("ids", "filter_ids"),
    ("minScore", "min_score"),
    ("jsonpath", "path"),
    ("json_path", "path"),
    ("pointer", "path"),
    ("pattern", "grep"),
    ("regex", "grep"),
    ("search", "grep"),
    ("filter", "where"),
    ("condition", "where"),
    // Statements of SQL are read in any of the arguments for queries.
    ("sql", "where"),
    ("statement", "where"),
    ("query", "where"),
    ("jq_filter", "jq"),
    ("ignore_case", "ignoreCase"),
    ("case_insensitive", "ignoreCase"),
    ("caseInsensitive", "ignoreCase"),
    ("sort_by", "sort"),
    ("sortBy", "sort"),
    ("order_by", "sort"),
    ("orderBy", "sort"),
    ("orderby", "sort"),
    ("skip", "offset"),
];

/// Number of names, from the start of [`ARGUMENT_NAMES`], that need no prefix if the tool or
/// endpoint has no parameter of that name. The other names are common words and need the prefix.
pub const PLAIN_NAME_COUNT: usize = 9;

/// The prefix that marks an argument as the guard's.
pub const ARGUMENT_PREFIX: &str = "_guard_";

/// Returns true if `name` is the name of a guard argument that needs no prefix.
#[must_use]
pub fn is_plain_name(name: &str) -> bool {
    ARGUMENT_NAMES.iter().take(PLAIN_NAME_COUNT).any(|known| *known == name)
}

/// The name of the argument whose members are arguments for the guard: an object, or a string that
/// contains its JSON.
pub const ARGUMENTS_OBJECT: &str = "_guard";

/// The guard arguments whose values are evaluated over a whole answer. The caller thus determines
/// the cost of the evaluation.
const QUERY_NAMES: [&str; 12] = [
    "fields",
    "response_mode",
    "filter_ids",
    "min_score",
    "path",
    "grep",
    "aggregate",
    "where",
    "jq",
    "since",
    "sort",
    "offset",
];

/// Returns the name of the guard argument for `name`: the argument of an alias, or `name` itself.
#[must_use]
pub fn resolve_alias(name: &str) -> &str {
    ARGUMENT_ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name)
}

/// Returns true if a tool call has a query for the guard: an argument that selects, filters or
/// aggregates. An argument of the tool with such a name counts, too. False if `request` is not a
/// readable tool call.
///
/// # Example
///
/// ```
/// use context_guard_protocol::argument::has_query;
///
/// assert!(has_query(br#"{"params":{"arguments":{"_guard":{"grep":"x"}}}}"#));
/// assert!(!has_query(br#"{"params":{"arguments":{"city":"Rome","limit":5}}}"#));
/// ```
#[must_use]
pub fn has_query(request: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        params: CallParameters<'a>,
    }
    #[derive(Deserialize)]
    struct CallParameters<'a> {
        #[serde(borrow)]
        arguments: Arguments<'a>,
    }
    type Arguments<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

    fn is_query(name: &str) -> bool {
        QUERY_NAMES.contains(&resolve_alias(name.strip_prefix(ARGUMENT_PREFIX).unwrap_or(name)))
    }
    let Ok(Call { params }) = serde_json::from_slice(request) else { return false };
    params.arguments.iter().any(|(name, value)| {
        let in_object = |json: &str| {
            serde_json::from_str::<Arguments<'_>>(json)
                .is_ok_and(|members| members.keys().any(|name| is_query(name)))
        };
        let in_text =
            || serde_json::from_str::<String>(value.get()).is_ok_and(|text| in_object(&text));
        let nested = || in_object(value.get()) || in_text();
        is_query(name) || (name == ARGUMENTS_OBJECT && nested())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_callers_are_recognized() {
        let call = |arguments: &str| {
            has_query(
                format!(r#"{{"id":1,"params":{{"name":"t","arguments":{arguments}}}}}"#).as_bytes(),
            )
        };
        for query in [
            r#"{"cursor":"c","where":"a=1"}"#,
            r#"{"_guard_aggregate":"count"}"#,
            r#"{"a":1,"_guard":{"limit":3,"gr\u0065p":"x"}}"#,
            r#"{"a":1,"_guard":"{\"grep\":\"x\"}"}"#,
        ] {
            assert!(call(query), "{query}");
        }
        for other in [r#"{"cursor":"c","pages":3}"#, r#"{"a":{"where":"x"}}"#, "{}", "[]", "{"] {
            assert!(!call(other), "{other}");
        }
        assert!(!has_query(br#"{"id":1,"method":"ping"}"#));
    }
}
