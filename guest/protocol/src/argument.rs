//! The names of the guard's own arguments, in tool calls and in the queries of REST requests.

/// The names of the guard's own arguments. Each is accepted with [`ARGUMENT_PREFIX`] before it.
///
/// The order is part of the stored information about tools: add names at the end.
pub const ARGUMENT_NAMES: [&str; 14] = [
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
