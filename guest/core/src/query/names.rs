//! Lists of names for messages.

/// Joins the first `max` names with commas, and adds the number of the others.
#[must_use]
pub fn join_names(names: &[String], max: usize) -> String {
    let shown: Vec<&str> = names.iter().take(max).map(String::as_str).collect();
    let rest = names.len().saturating_sub(max);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
