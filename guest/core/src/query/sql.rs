//! Converts forms of SQL dialects to the forms that this language has: members of JSON columns,
//! escaped patterns, dates by their format, and queries inside queries.

mod flatten;
mod functions;
mod members;
mod patterns;
mod rows;
mod subqueries;

pub(super) use self::subqueries::{correlated, replaced as with_results};

/// The clauses of a statement after its tables, in their order.
const CLAUSES: [&str; 6] = ["where", "group by", "having", "order by", "limit", "offset"];

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
    converted_by(&steps, text)
}

/// Applies the steps one after the other. `None` if no step converts anything.
fn converted_by(steps: &[fn(&str) -> Option<String>], text: &str) -> Option<String> {
    let mut current: Option<String> = None;
    for step in steps {
        current = step(current.as_deref().unwrap_or(text)).or(current);
    }
    current
}
