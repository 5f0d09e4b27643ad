//! Converts forms of SQL dialects to the forms that this language has: members of JSON columns,
//! escaped patterns, dates by their format, and queries inside queries.

mod flatten;
mod functions;
mod members;
mod patterns;
mod rows;
mod subqueries;

pub(super) use self::subqueries::{correlated, replaced as with_results};

/// Returns a condition or totals with the forms of SQL dialects converted. `None` if there are
/// none. O(text).
pub(super) fn converted(text: &str) -> Option<String> {
    // Patterns come first: the escape character may be a backslash before a quote.
    let steps = [
        patterns::escaped,
        patterns::similar,
        members::converted,
        functions::converted,
        flatten::converted,
        rows::converted,
    ];
    let mut current: Option<String> = None;
    for step in steps {
        current = step(current.as_deref().unwrap_or(text)).or(current);
    }
    current
}
