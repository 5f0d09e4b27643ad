//! Statements that read the groups of another one: `WITH g AS (SELECT … GROUP BY …) SELECT … FROM g
//! WHERE …`, and `SELECT … FROM (SELECT … GROUP BY …) g WHERE …`.

use super::CLAUSES;
use crate::query::code::{end_of_group, keyword, parts};
use crate::query::reader::is_word_character;

/// Words of statements that compute more, or read another table.
const OTHERS: [&str; 9] =
    ["group", "having", "join", "union", "intersect", "except", "fetch", "qualify", "window"];

/// Converts a statement over the groups of another one to one statement, in which the outer
/// condition is one on the groups. `None` for other texts, and if the outer statement computes
/// anything.
pub(super) fn converted(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let (inner, outer) = named(text).or_else(|| nested(text))?;
    let (columns, rest) = (outer.columns, outer.rest);
    let first = CLAUSES.iter().filter_map(|name| keyword(rest, 0, name)).min();
    let before = rest.get(..first.unwrap_or(rest.len())).unwrap_or_default();
    let has_other =
        OTHERS.iter().any(|word| keyword(rest, 0, word).is_some()) || !before.trim().is_empty();
    let is_column = |column: &str| {
        column == "*" || column.chars().all(|c| is_word_character(c) || "._\"".contains(c))
    };
    if has_other || !parts(columns, ",").into_iter().all(is_column) {
        return None;
    }
    let clause = |text: &'_ str, name: &str| -> Option<(usize, usize)> {
        let start = keyword(text, 0, name)?;
        let from = start + name.len();
        let ends = CLAUSES.iter().filter_map(|next| keyword(text, from, next));
        Some((start, ends.min().unwrap_or(text.len())))
    };
    let body = |text: &str, name: &str| {
        let (start, end) = clause(text, name)?;
        text.get(start + name.len()..end).map(|body| body.trim().to_owned())
    };
    keyword(inner, 0, "group by")?;
    // The inner order and limit choose the groups, and the outer condition filters those.
    if ["order by", "limit", "offset"].iter().any(|word| keyword(inner, 0, word).is_some()) {
        return None;
    }
    let (wanted, having) = (body(rest, "where"), body(inner, "having"));
    let before =
        clause(inner, "having").map_or(inner, |(start, _)| inner.get(..start).unwrap_or_default());
    let mut flat = before.trim().to_owned();
    let having = match (having, wanted.map(|wanted| without_name(&wanted, outer.name))) {
        (Some(having), Some(wanted)) => Some(format!("({having}) AND ({wanted})")),
        (having, wanted) => having.or(wanted),
    };
    if let Some(having) = having {
        flat.push_str(&format!(" HAVING {having}"));
    }
    for name in ["order by", "limit", "offset"] {
        if let Some(body) = body(rest, name) {
            // The number of a column would be that of the inner statement.
            let mut keys = body.split(',').map(str::trim_start);
            if name == "order by" && keys.any(|key| key.starts_with(|c: char| c.is_ascii_digit())) {
                return None;
            }
            flat.push_str(&format!(" {name} {}", without_name(&body, outer.name)));
        }
    }
    Some(flat)
}

/// The statement that reads the groups of another one.
struct Outer<'t> {
    columns: &'t str,
    /// The name of the groups.
    name: &'t str,
    /// The clauses.
    rest: &'t str,
}

/// Splits `WITH g AS (inner) SELECT columns FROM g rest`.
fn named(text: &str) -> Option<(&str, Outer<'_>)> {
    let rest = (keyword(text, 0, "with") == Some(0)).then(|| text.get("with".len()..))??.trim();
    let at = keyword(rest, 1, "as")?;
    let (name, rest) = rest.split_at_checked(at)?;
    let name = name.trim();
    let inner = rest.get("as".len()..)?.trim_start().strip_prefix('(')?;
    let end = end_of_group(inner)?;
    let (inner, outer) = (inner.get(..end)?.trim(), inner.get(end + 1..)?.trim());
    let columns =
        (keyword(outer, 0, "select") == Some(0)).then(|| outer.get("select".len()..))??;
    let from = keyword(columns, 0, "from")?;
    let (columns, rest) = columns.split_at_checked(from)?;
    let rest = rest.get("from".len()..)?.trim_start();
    let after = rest.get(name.len()..)?;
    let is_own =
        rest.get(..name.len())?.eq_ignore_ascii_case(name) && !after.starts_with(is_word_character);
    is_own.then_some((inner, Outer { columns: columns.trim(), name, rest: after }))
}

/// Splits `SELECT columns FROM (inner) g rest`.
fn nested(text: &str) -> Option<(&str, Outer<'_>)> {
    let columns = (keyword(text, 0, "select") == Some(0)).then(|| text.get("select".len()..))??;
    let from = keyword(columns, 0, "from")?;
    let (columns, rest) = columns.split_at_checked(from)?;
    let inner = rest.get("from".len()..)?.trim_start().strip_prefix('(')?;
    let end = end_of_group(inner)?;
    let (inner, rest) = (inner.get(..end)?.trim(), inner.get(end + 1..)?.trim());
    let rest = if keyword(rest, 0, "as") == Some(0) { rest.get(2..)?.trim_start() } else { rest };
    let is_clause = CLAUSES.iter().any(|clause| keyword(rest, 0, clause) == Some(0));
    let end = rest.find(|c| !is_word_character(c)).unwrap_or(rest.len());
    let (name, rest) = rest.split_at_checked(if is_clause { 0 } else { end })?;
    (keyword(inner, 0, "select") == Some(0))
        .then_some((inner, Outer { columns: columns.trim(), name, rest }))
}

/// Removes the name of the groups before their columns.
fn without_name(text: &str, name: &str) -> String {
    if name.is_empty() {
        return text.to_owned();
    }
    let prefix = format!("{name}.");
    crate::query::code::replaced(text, |before, rest| {
        let is_start = !before.ends_with(|c| is_word_character(c) || c == '.');
        (is_start && rest.starts_with(&prefix)).then(|| (prefix.len(), String::new()))
    })
    .unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_conditions_are_those_of_groups() {
        for (text, expected) in [
            (
                "WITH s AS (SELECT v, COUNT(*) AS n FROM d WHERE a = 1 GROUP BY v) SELECT v FROM s WHERE s.n < 5 ORDER BY v LIMIT 2",
                Some(
                    "SELECT v, COUNT(*) AS n FROM d WHERE a = 1 GROUP BY v HAVING n < 5 order by v limit 2",
                ),
            ),
            (
                "SELECT * FROM (SELECT v, SUM(x) t FROM d GROUP BY v HAVING SUM(x) > 1) q WHERE t > 5",
                Some("SELECT v, SUM(x) t FROM d GROUP BY v HAVING (SUM(x) > 1) AND (t > 5)"),
            ),
            ("SELECT v FROM (SELECT v, COUNT(*) n FROM d GROUP BY v) q UNION SELECT 9", None),
            ("SELECT n FROM (SELECT v, COUNT(*) n FROM d GROUP BY v) q ORDER BY 1", None),
            ("SELECT AVG(n) FROM (SELECT v, COUNT(*) n FROM d GROUP BY v) q", None),
            ("SELECT v FROM (SELECT v, x FROM d) q WHERE x > 5", None),
            (
                "SELECT v FROM (SELECT v, COUNT(*) n FROM d GROUP BY v ORDER BY n LIMIT 3) q WHERE n > 5",
                None,
            ),
            ("SELECT v FROM d WHERE x > 5", None),
        ] {
            assert_eq!(converted(text).as_deref(), expected, "{text}");
        }
    }
}
