//! Lists of names in sentences.

/// Joins at most `max` names for a sentence, and counts the rest.
#[must_use]
pub fn join_names(names: &[String], max: usize) -> String {
    let shown: Vec<&str> = names.iter().take(max).map(String::as_str).collect();
    let rest = names.len().saturating_sub(max);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
