//! Totals that contain the condition on their records: `SELECT count(*) FROM t WHERE a > 5`,
//! `filter(a > 5) %>% count(b)`, `df[df.a > 5].groupby('b').size()`.

use super::unnest;
use crate::query::code::{end_of_group, keyword, parts};
use crate::query::objects;
use crate::query::reader::is_word_character;

/// The clauses of SQL that may follow a condition.
const CLAUSES: [&str; 7] =
    ["group by", "grouped by", "by", "having", "order by", "sort by", "limit"];

/// Splits an expression into its condition and its totals. `None` if it contains no condition.
/// O(text).
#[must_use]
pub(crate) fn split(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    pipeline(text).or_else(|| piped(text)).or_else(|| indexed(text)).or_else(|| sql(text))
}

/// Reads a pipeline of a document database that begins with `$match`. Returns the condition and the
/// other stages.
fn pipeline(text: &str) -> Option<(String, String)> {
    if !objects::is_pipeline(text) {
        return None;
    }
    let mut stages: Vec<serde_json::Value> = serde_json::from_str(text).ok()?;
    let filter = stages.first()?.as_object().filter(|stage| stage.len() == 1)?.get("$match")?;
    let condition = objects::condition(&filter.to_string()).ok()?;
    stages.remove(0);
    (!stages.is_empty()).then(|| (condition, serde_json::Value::Array(stages).to_string()))
}

/// Reads `rows %>% filter(a > 5, b == 'x') %>% count(c)`. Returns the condition and the totals.
fn piped(text: &str) -> Option<(String, String)> {
    let pipe = ["%>%", "|>"].into_iter().find(|pipe| parts(text, pipe).len() > 1)?;
    let steps = parts(text, pipe);
    let at = steps.iter().take(2).position(|step| step.starts_with("filter("))?;
    let inner = steps.get(at)?.strip_prefix("filter(")?.strip_suffix(')')?;
    let rest = steps.get(at + 1..).filter(|rest| !rest.is_empty())?;
    end_of_group(inner).is_none().then(|| ((*inner).to_owned(), rest.join(&format!(" {pipe} "))))
}

/// Reads `df[df.a > 5].groupby('b').size()`. Returns the condition and the totals.
fn indexed(text: &str) -> Option<(String, String)> {
    let (table, rest) = text.split_at_checked(text.find(|c| !is_word_character(c))?)?;
    let inner = rest.strip_prefix(".loc").unwrap_or(rest).strip_prefix('[')?;
    let end = end_of_group(inner)?;
    let condition = inner.get(..end)?;
    let (condition, columns) = match parts(condition, ",").as_slice() {
        [condition] => (*condition, String::new()),
        // `df.loc[df.a > 5, 'b'].sum()`
        [condition, column] if rest.starts_with(".loc") => (*condition, format!("[{column}]")),
        _ => return None,
    };
    let names_table =
        condition.contains(&format!("{table}.")) || condition.contains(&format!("{table}["));
    let after = inner.get(end + 1..)?;
    (names_table && !table.is_empty() && !(after.is_empty() && columns.is_empty()))
        .then(|| (format!("{table}[{condition}]"), format!("{table}{columns}{after}")))
}

/// Reads `count by b where a > 5` and SQL statements. Returns the condition and the totals.
fn sql(text: &str) -> Option<(String, String)> {
    let start = keyword(text, 0, "where").filter(|_| parts(text, " | ").len() == 1)?;
    let condition = start + "where".len();
    let end = CLAUSES.iter().filter_map(|clause| keyword(text, condition, clause)).min();
    let end = end.unwrap_or(text.len());
    let (before, after) = (text.get(..start)?.trim(), text.get(end..)?.trim());
    let condition = text.get(condition..end)?.trim();
    let is_whole = !before.is_empty()
        && !condition.is_empty()
        && !unnest::concerns_element(&format!("{before} {after}"), condition);
    is_whole.then(|| (condition.to_owned(), format!("{before} {after}").trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn conditions_are_split_off() {
        for (text, expected) in [
            (
                "SELECT city, count(*) FROM t WHERE a > 5 AND b = 'x by y' GROUP BY city LIMIT 3",
                Some((
                    "a > 5 AND b = 'x by y'",
                    "SELECT city, count(*) FROM t GROUP BY city LIMIT 3",
                )),
            ),
            ("count by b where (a > 5)", Some(("(a > 5)", "count by b"))),
            ("filter(a == 1, b > 2) %>% count(c)", Some(("a == 1, b > 2", "count(c)"))),
            (
                "t |> filter(a == 1) |> group_by(b) |> summarise(n = n())",
                Some(("a == 1", "group_by(b) |> summarise(n = n())")),
            ),
            (
                "df[df['a'] > 5].groupby('b').size()",
                Some(("df[df['a'] > 5]", "df.groupby('b').size()")),
            ),
            ("df.loc[df.a > 5, 'b'].sum()", Some(("df[df.a > 5]", "df['b'].sum()"))),
            (
                r#"[{"$match":{"a":1}},{"$group":{"_id":"$b"}}]"#,
                Some(("a = 1", r#"[{"$group":{"_id":"$b"}}]"#)),
            ),
            (r#"[{"$group":{"_id":"$b"}},{"$match":{"a":1}}]"#, None),
            (
                "SELECT l.n, count(*) FROM t, UNNEST(ls) l WHERE a = 1 GROUP BY l.n",
                Some(("a = 1", "SELECT l.n, count(*) FROM t, UNNEST(ls) l GROUP BY l.n")),
            ),
            ("SELECT l.n, count(*) FROM t, UNNEST(ls) l WHERE l.c = 1 GROUP BY l.n", None),
            ("df['a'].value_counts()", None),
            ("df[['a', 'b']].mean()", None),
            ("count(where)", None),
            ("where a > 5", None),
            ("sum(x) by 'where'", None),
        ] {
            let found = split(text);
            let found = found.as_ref().map(|(a, b)| (a.as_str(), b.as_str()));
            assert_eq!(found, expected, "{text}");
        }
    }
}
