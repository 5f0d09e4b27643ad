//! Errors for conditions that cannot be read.

use super::SYNTAX;
use crate::query::code::outside_quotes;

/// Words of the current time, and of periods before it.
const CLOCK: [&str; 7] =
    ["interval ", "now(", "current_date", "current_timestamp", "getdate(", "sysdate", "'now'"];
const NO_CLOCK: &str =
    "there is no clock here, and no interval: write the date itself, such as day >= '2024-05-01'";

/// Adds the syntax to the reason why a condition cannot be read, unless the reason has a proposal.
pub(super) fn with_syntax(text: &str, reason: String) -> String {
    let lower = text.to_lowercase();
    match reason.contains("cannot be read") {
        true if CLOCK.iter().any(|word| lower.contains(word)) => format!("{reason}; {NO_CLOCK}"),
        true if !reason.contains("write ") => format!("{reason}; {SYNTAX}"),
        _ => reason,
    }
}

/// Returns the error for a program of jq. `None` for other texts.
pub(super) fn as_jq(text: &str) -> Option<String> {
    is_jq(text).then(|| {
        format!(
            "where cannot be read: this is a program of jq; give it as jq, such as jq: .items[] | select({text})"
        )
    })
}

/// Returns true if a text has functions or operators that only jq has in this form.
fn is_jq(text: &str) -> bool {
    const SIGNS: [&str; 9] = [
        "[];",
        "| test(",
        "| endswith(",
        "| startswith(",
        "| contains(",
        "| length",
        "| tonumber",
        "| not)",
        " // ",
    ];
    text.contains('.')
        && outside_quotes(text).any(|(at, _)| {
            let rest = text.get(at..).unwrap_or_default();
            SIGNS.iter().any(|sign| rest.starts_with(sign))
        })
}
