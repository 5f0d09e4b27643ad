//! Statements whose columns are computed from each record: `SELECT id, price * qty AS total FROM t
//! ORDER BY total DESC LIMIT 3`, and the best record of each group, as `DISTINCT ON` selects it.

use super::CLAUSES;
use crate::query::aggregate::is_total;
use crate::query::code::{keyword, parts, replaced};
use crate::query::reader::is_word_character;

/// Functions whose value is a text or a date, so that it is a key of a group, not a number.
const KEYS: [&str; 16] = [
    "lower",
    "upper",
    "trim",
    "substr",
    "substring",
    "left",
    "date",
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "weekday",
    "extract",
    "strftime",
];

/// Converts a statement to totals: each record is a group of its own. `None` for other texts.
pub(super) fn converted(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let limited = fetched(text).or_else(|| paged(text));
    let text = limited.as_deref().unwrap_or(text);
    let keys = without_totals(text);
    best_of_groups(text).or_else(|| computed(text)).or(keys).or(limited)
}

/// A statement in its parts.
struct SelectClauses<'t> {
    columns: &'t str,
    table: &'t str,
    /// The clauses after the table.
    rest: &'t str,
}

impl<'t> SelectClauses<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let inner =
            (keyword(text, 0, "select") == Some(0)).then(|| text.get("select".len()..))??;
        let from = keyword(inner, 0, "from")?;
        let (columns, rest) = inner.split_at_checked(from)?;
        let rest = rest.get("from".len()..)?.trim();
        let end = CLAUSES.iter().filter_map(|clause| keyword(rest, 0, clause)).min();
        let (table, rest) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
        let table = table.trim();
        let is_table = !table.is_empty() && table.chars().all(|c| is_word_character(c) || c == '.');
        is_table.then_some(Self { columns: columns.trim(), table, rest })
    }

    /// Returns the text of a clause. `None` without one.
    fn clause(&self, name: &str) -> Option<&'t str> {
        let start = keyword(self.rest, 0, name)? + name.len();
        let ends = CLAUSES.iter().filter_map(|next| keyword(self.rest, start, next));
        self.rest.get(start..ends.min().unwrap_or(self.rest.len())).map(str::trim)
    }
}

/// Converts `FETCH FIRST 3 ROWS ONLY` to `LIMIT 3`. `None` for other texts.
fn fetched(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let is_start = before.ends_with(char::is_whitespace);
        if !is_start || keyword(rest, 0, "fetch") != Some(0) {
            return None;
        }
        let mut words = rest.split_whitespace().skip(1);
        let is_first = ["first", "next"]
            .iter()
            .any(|word| words.clone().next().is_some_and(|found| found.eq_ignore_ascii_case(word)));
        words.next();
        let number = words.next().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))?;
        let rows = words.next().is_some_and(|word| word.to_lowercase().starts_with("row"));
        let only = words.next().is_some_and(|word| word.eq_ignore_ascii_case("only"));
        (is_first && rows && only && words.next().is_none())
            .then(|| (rest.len(), format!("LIMIT {number}")))
    })
}

/// Converts `LIMIT 20, 10` to `LIMIT 10 OFFSET 20`. `None` for other texts.
fn paged(text: &str) -> Option<String> {
    let at = keyword(text, 0, "limit")?;
    let numbers = text.get(at + "limit".len()..)?;
    let (skipped, limit) = numbers.split_once(',')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (skipped, limit) = (skipped.trim(), limit.trim());
    (is_number(skipped) && is_number(limit))
        .then(|| format!("{}LIMIT {limit} OFFSET {skipped}", text.split_at(at).0))
}

/// Adds a total to a statement that has groups only: `SELECT a FROM t GROUP BY a HAVING COUNT(*) >
/// 5`.
fn without_totals(text: &str) -> Option<String> {
    let statement = SelectClauses::read(text)?;
    let keys = statement.clause("group by")?;
    let columns = parts(statement.columns, ",");
    let keys = parts(keys, ",");
    columns.iter().all(|column| keys.contains(column)).then(|| {
        format!(
            "SELECT {}, COUNT(*) FROM {} {}",
            statement.columns, statement.table, statement.rest
        )
    })
}

/// Converts `SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, c DESC` to `argmax(c) by a`.
fn best_of_groups(text: &str) -> Option<String> {
    let statement = SelectClauses::read(text)?;
    let rest = statement.columns;
    let rest =
        (keyword(rest, 0, "distinct") == Some(0)).then(|| rest.get("distinct".len()..))??;
    let rest = rest.trim_start();
    let rest = (keyword(rest, 0, "on") == Some(0)).then(|| rest.get("on".len()..))??.trim_start();
    let keys = rest.strip_prefix('(')?.split_once(')')?.0.trim();
    let keys = parts(keys, ",");
    let order = parts(statement.clause("order by")?, ",");
    let (first, last) = order.split_at_checked(keys.len())?;
    let is_key = |(key, order): (&&str, &&str)| {
        order.split_whitespace().next().is_some_and(|name| name == *key)
    };
    let [last] = last else { return None };
    let others = ["group by", "having", "limit", "offset"];
    if !keys.iter().zip(first).all(is_key) || others.iter().any(|c| statement.clause(c).is_some()) {
        return None;
    }
    let (key, is_descending) = match last.rsplit_once(char::is_whitespace) {
        Some((key, word)) if word.eq_ignore_ascii_case("desc") => (key.trim(), true),
        Some((key, word)) if word.eq_ignore_ascii_case("asc") => (key.trim(), false),
        _ => (*last, false),
    };
    let function = if is_descending { "argmax" } else { "argmin" };
    let condition = statement.clause("where");
    let condition = condition.map_or(String::new(), |condition| format!(" WHERE {condition}"));
    Some(format!(
        "SELECT {function}({key}) FROM {}{condition} GROUP BY {}",
        statement.table,
        keys.join(", ")
    ))
}

/// Converts a statement with computed columns.
fn computed(text: &str) -> Option<String> {
    let statement = SelectClauses::read(text)?;
    let others = ["group by", "having", "offset"];
    if others.iter().any(|clause| statement.clause(clause).is_some())
        || keyword(statement.columns, 0, "distinct") == Some(0)
    {
        return None;
    }
    let (mut keys, mut columns, mut has_computed) = (Vec::new(), Vec::new(), false);
    for column in parts(statement.columns, ",") {
        let (value, alias) = match keyword(column, 1, "as") {
            Some(at) => (column.get(..at)?.trim(), column.get(at + "as".len()..)?.trim()),
            None => (column, ""),
        };
        let is_name = !value.contains('/')
            && value.chars().all(|c| is_word_character(c) || "._\"`".contains(c));
        let word = value.split(|c| !is_word_character(c)).next()?.to_lowercase();
        // Totals and windows are of several records.
        let is_other = is_total(&word)
            && value.trim_start_matches(is_word_character).starts_with('(')
            || keyword(value, 0, "over").is_some()
            || keyword(value, 0, "case").is_some()
            || value.contains('*') && value.len() == 1
            || value.is_empty();
        if is_other {
            return None;
        }
        let is_alias = !alias.is_empty() && alias.chars().all(is_word_character);
        if is_name && alias.is_empty() {
            keys.push(value.to_owned());
            columns.push(value.to_owned());
        } else if is_name || KEYS.contains(&word.as_str()) {
            keys.push(if is_alias { alias.to_owned() } else { return None });
            columns.push(column.to_owned());
            has_computed |= !is_name;
        } else {
            let alias = if is_alias { format!(" AS {alias}") } else { String::new() };
            columns.push(format!("max({value}){alias}"));
            has_computed = true;
        }
    }
    let has_total = columns.iter().any(|column| column.starts_with("max("));
    if !has_computed || !has_total || keys.is_empty() {
        return None;
    }
    // A key of the order that is no column becomes one.
    if let Some(order) = statement.clause("order by") {
        for key in parts(order, ",") {
            let name = key.split_whitespace().next()?;
            let is_column = keys.iter().any(|known| known == name)
                || columns.iter().any(|column| column.ends_with(&format!(" AS {name}")));
            let is_name = name.chars().all(is_word_character);
            if !is_column && is_name {
                columns.push(format!("max({name}) AS {name}"));
            }
        }
    }
    let mut out = format!("SELECT {} FROM {}", columns.join(", "), statement.table);
    if let Some(condition) = statement.clause("where") {
        out.push_str(&format!(" WHERE {condition}"));
    }
    out.push_str(&format!(" GROUP BY {}", keys.join(", ")));
    for clause in ["order by", "limit"] {
        if let Some(text) = statement.clause(clause) {
            out.push_str(&format!(" {clause} {text}"));
        }
    }
    out.push_str(" each record");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_become_totals() {
        for (text, expected) in [
            (
                "SELECT id, price * qty AS total FROM t WHERE a = 1 ORDER BY total DESC LIMIT 3;",
                Some(
                    "SELECT id, max(price * qty) AS total FROM t WHERE a = 1 GROUP BY id order by total DESC limit 3 each record",
                ),
            ),
            (
                "SELECT id, lower(name) AS n, round(a / b, 1) FROM t",
                Some(
                    "SELECT id, lower(name) AS n, max(round(a / b, 1)) FROM t GROUP BY id, n each record",
                ),
            ),
            (
                "SELECT DISTINCT ON (a) a, b FROM t WHERE c > 1 ORDER BY a, d DESC",
                Some("SELECT argmax(d) FROM t WHERE c > 1 GROUP BY a"),
            ),
            (
                "SELECT v FROM t GROUP BY v HAVING COUNT(*) > 5",
                Some("SELECT v, COUNT(*) FROM t GROUP BY v HAVING COUNT(*) > 5"),
            ),
            (
                "SELECT a FROM t ORDER BY b FETCH FIRST 3 ROWS ONLY",
                Some("SELECT a FROM t ORDER BY b LIMIT 3"),
            ),
            (
                "SELECT id, a / 2 AS h FROM t ORDER BY a DESC",
                Some(
                    "SELECT id, max(a / 2) AS h, max(a) AS a FROM t GROUP BY id order by a DESC each record",
                ),
            ),
            ("SELECT a FROM t LIMIT 20, 10", Some("SELECT a FROM t LIMIT 10 OFFSET 20")),
            ("SELECT a, b AS c FROM t", None),
            ("SELECT SUM(a) / COUNT(*) AS x FROM t", None),
            ("SELECT a, COUNT(*) FROM t GROUP BY a", None),
            ("SELECT a, ROW_NUMBER() OVER (ORDER BY b) AS n FROM t", None),
        ] {
            assert_eq!(converted(text).as_deref(), expected, "{text}");
        }
    }
}
