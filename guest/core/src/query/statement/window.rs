//! The best record of each group in SQL: `QUALIFY ROW_NUMBER() OVER (PARTITION BY city ORDER BY
//! price DESC) = 1`.

use crate::query::code::{end_of_group, keyword, parts};

/// The condition of a statement, if it has one, and the totals that it becomes.
type BestRecords = (Option<String>, String);

/// Converts a statement, or its last clause alone, that chooses the first record of each group.
/// `None` for other texts.
///
/// # Errors
/// Returns a message for the caller if a text has another function of a window.
pub(super) fn best_records(text: &str) -> Result<Option<BestRecords>, String> {
    let lower = text.to_ascii_lowercase();
    let is_window = ["row_number", "rank", "dense_rank"].iter().any(|function| {
        let after = keyword(&lower, 0, function).and_then(|at| lower.get(at + function.len()..));
        after.is_some_and(|after| after.trim_start().starts_with("()"))
    });
    if !is_window {
        return Ok(None);
    }
    read(text).map(Some).ok_or_else(|| {
        "of functions over windows, QUALIFY ROW_NUMBER() OVER (PARTITION BY city ORDER BY price DESC) = 1 is read; for the best record of each group write aggregate: argmax(price) by city, and for several records of each group a program with jq".to_owned()
    })
}

fn read(text: &str) -> Option<BestRecords> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let at = keyword(text, 0, "row_number")?;
    let (before, rest) = (text.get(..at)?.trim(), text.get(at + "row_number".len()..)?);
    let rest = rest.trim_start().strip_prefix("()")?;
    let over = keyword(rest, 0, "over").filter(|at| rest.get(..*at).is_some_and(is_space))?;
    let window = rest.get(over + "over".len()..)?.trim_start().strip_prefix('(')?;
    let end = end_of_group(window)?;
    let (window, after) = (window.get(..end)?, window.get(end + 1..)?);
    let after = after.trim().strip_prefix("<=").or_else(|| after.trim().strip_prefix('='))?;
    if after.trim() != "1" {
        return None;
    }
    let order = keyword(window, 0, "order by")?;
    let groups = window.get(..order)?.trim();
    let groups = groups
        .get("partition by".len()..)
        .filter(|_| keyword(groups, 0, "partition by") == Some(0))?;
    let key = window.get(order + "order by".len()..)?.trim();
    let key = match keyword(key, 0, "nulls last") {
        Some(at) => key.get(..at)?.trim(),
        None => key,
    };
    let (key, is_descending) = match key.rsplit_once(char::is_whitespace) {
        Some((name, word)) if word.eq_ignore_ascii_case("desc") => (name.trim(), true),
        Some((name, word)) if word.eq_ignore_ascii_case("asc") => (name.trim(), false),
        _ => (key, false),
    };
    if parts(key, ",").len() > 1 || key.is_empty() || groups.trim().is_empty() {
        return None;
    }
    let function = if is_descending { "argmax" } else { "argmin" };
    let (condition, table) = condition(before)?;
    let totals = match table {
        Some(table) => format!("SELECT {function}({key}) FROM {table} GROUP BY {}", groups.trim()),
        None => format!("{function}({key}) by {}", groups.trim()),
    };
    Some((condition, totals))
}

/// Returns the condition and the table of the statement before the clause. `None` for other texts.
fn condition(before: &str) -> Option<(Option<String>, Option<&str>)> {
    let statement = match keyword(before, 0, "qualify") {
        Some(at) => before.get(..at).filter(|_| at + "qualify".len() == before.len())?.trim(),
        None => before,
    };
    if statement.is_empty() {
        return Some((None, None));
    }
    let from = keyword(statement, 0, "from").filter(|_| keyword(statement, 0, "select") == Some(0));
    let table = statement.get(from? + "from".len()..)?.trim();
    let (table, condition) = match keyword(table, 0, "where") {
        Some(at) => (table.get(..at)?, Some(table.get(at + "where".len()..)?.trim().to_owned())),
        None => (table, None),
    };
    let is_table = table.split_whitespace().count() == 1 && !table.contains([',', '(']);
    is_table.then(|| (condition, Some(table.trim())))
}

fn is_space(text: &str) -> bool {
    text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_records_are_totals() {
        let owned = |text: &str| Some(text.to_owned());
        for (text, condition, totals) in [
            (
                "SELECT * FROM t WHERE a > 5 QUALIFY ROW_NUMBER() OVER (PARTITION BY b, c ORDER BY d DESC) = 1;",
                owned("a > 5"),
                "SELECT argmax(d) FROM t GROUP BY b, c",
            ),
            (
                "qualify row_number() over(partition by b order by d asc nulls last) <= 1",
                None,
                "argmin(d) by b",
            ),
            ("ROW_NUMBER() OVER (PARTITION BY b ORDER BY d) = 1", None, "argmin(d) by b"),
        ] {
            assert_eq!(best_records(text), Ok(Some((condition, totals.to_owned()))), "{text}");
        }
        for text in [
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY b ORDER BY d) <= 3",
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY b ORDER BY d, e) = 1",
            "QUALIFY RANK() OVER (PARTITION BY b ORDER BY d) = 1",
            "SELECT *, ROW_NUMBER() OVER (PARTITION BY b ORDER BY d) AS rn FROM t",
        ] {
            assert!(best_records(text).unwrap_err().contains("argmax(price) by city"), "{text}");
        }
        for text in ["rank > 5", "a = 'ROW_NUMBER()'", "row_number = 1"] {
            assert_eq!(best_records(text), Ok(None), "{text}");
        }
    }
}
