//! Lists of names for messages.

/// Joins the first `max` names with commas, and adds the number of the others.
#[must_use]
pub fn join_names(names: &[String], max: usize) -> String {
    let shown: Vec<&str> = names.iter().take(max).map(String::as_str).collect();
    let rest = names.len().saturating_sub(max);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Returns a phrase with the number of omitted lines. `one` or `many` describes them. Empty for 0.
pub(super) fn left_out(lines: usize, one: &str, many: &str) -> String {
    match lines {
        0 => String::new(),
        1 => format!(", without the line {one}"),
        lines => format!(", without the {lines} lines {many}"),
    }
}
