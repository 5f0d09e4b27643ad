//! Converts forms of SQL dialects to the forms that this language has: members of JSON columns,
//! escaped patterns, dates by their format, and queries inside queries.

mod flatten;
mod functions;
mod intervals;
mod members;
mod patterns;
mod rows;
mod subqueries;

use super::code::{keyword, replaced};

pub(super) use self::subqueries::{correlated, replaced as with_results};

/// The clauses of a statement after its tables, in their order.
const CLAUSES: [&str; 6] = ["where", "group by", "having", "order by", "limit", "offset"];

/// Returns a condition or totals with the forms of SQL dialects converted. `None` if there are
/// none. O(text).
pub(super) fn converted(text: &str) -> Option<String> {
    // Patterns come first: the escape character may be a backslash before a quote.
    let steps = [
        facets,
        negated,
        patterns::escaped,
        patterns::similar,
        members::converted,
        functions::converted,
        intervals::converted,
        flatten::converted,
        rows::converted,
    ];
    converted_by(&steps, text)
}

/// Converts the groups of NRQL: `SELECT average(x) FROM t FACET room`.
fn facets(text: &str) -> Option<String> {
    keyword(text, 0, "select").filter(|at| *at == 0)?;
    let start = keyword(text, keyword(text, 0, "from")?, "facet")?;
    let (before, after) = (text.get(..start)?, text.get(start + "facet".len()..)?);
    Some(format!("{before}GROUP BY{after}"))
}

/// Converts negative fields in totals, `THEN -amount` and `sum(-amount)`, to differences.
/// Elsewhere, a hyphen before a name is a negation of search languages.
fn negated(text: &str) -> Option<String> {
    const PLACES: [&str; 6] = [" then", " else", "sum(", "avg(", "min(", "max("];
    replaced(text, |before, rest| {
        let is_field = rest.strip_prefix('-')?.starts_with(|c: char| c.is_alphabetic() || c == '"');
        let before = before.trim_end().to_lowercase();
        let is_value = PLACES.iter().any(|place| before.ends_with(place));
        (is_field && is_value).then(|| (1, "0 - ".to_owned()))
    })
}

/// Applies the steps one after the other. `None` if no step converts anything.
fn converted_by(steps: &[fn(&str) -> Option<String>], text: &str) -> Option<String> {
    let mut current: Option<String> = None;
    for step in steps {
        current = step(current.as_deref().unwrap_or(text)).or(current);
    }
    current
}
