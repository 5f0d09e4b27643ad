//! The error for an argument that does not exist.

use context_guard_protocol::argument::ARGUMENT_NAMES;

/// Returns the error for an argument that `owner` does not have, with the argument to use instead.
pub(super) fn unknown_argument(owner: &str, name: &str) -> String {
    let lower = name.to_lowercase().replace(['_', '-'], "");
    let hint = match lower.as_str() {
        "order" | "sortorder" | "desc" | "ascending" => {
            "; to sort, write sort: \"-price\" or sort: \"price desc\"".to_owned()
        }
        "page" | "start" | "from" => {
            "; for the next page, give the nextCursor of the answer as cursor; offset skips records"
                .to_owned()
        }
        "tail" | "last" => "; for the end of a text, give startLine; for the last items of a list, path: $[-1] or jq: .[-5:]".to_owned(),
        "head" | "first" | "top" | "n" | "count" | "size" => "; for the number of items give limit; to count, aggregate: count".to_owned(),
        "lines" | "line" | "range" | "linerange" => {
            "; for lines 10 to 40, write startLine: 10, endLine: 40".to_owned()
        }
        "groupby" | "having" | "sum" | "avg" | "min" | "max" => {
            "; for totals, write aggregate: \"count by status\"".to_owned()
        }
        "query" | "q" | "sql" | "expression" | "expr" => {
            "; write where, aggregate, grep or jq".to_owned()
        }
        _ => {
            let near = ARGUMENT_NAMES.iter().max_by(|left, right| {
                let score = |known: &str| strsim::jaro_winkler(&known.to_lowercase(), &lower);
                score(left).total_cmp(&score(right))
            });
            let is_near = |near: &&&str| strsim::jaro_winkler(&near.to_lowercase(), &lower) > 0.84;
            let near = near.filter(is_near);
            near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"))
        }
    };
    format!("{owner} has no argument {name}{hint}; it takes {}", ARGUMENT_NAMES.join(", "))
}
