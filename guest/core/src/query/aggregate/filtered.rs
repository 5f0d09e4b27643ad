//! Totals that contain the condition on their records: `SELECT count(*) FROM t WHERE a > 5`,
//! `filter(a > 5) %>% count(b)`, `df[df.a > 5].groupby('b').size()`.

use crate::query::code::{end_of_group, outside_quotes, parts};
use crate::query::reader::is_word_character;

/// The clauses of SQL that may follow a condition.
const CLAUSES: [&str; 7] =
    ["group by", "grouped by", "by", "having", "order by", "sort by", "limit"];

/// Returns the condition and the totals without it. None if they contain none. O(text).
#[must_use]
pub(crate) fn split(text: &str) -> Option<(String, String)> {
    let text = text.trim();
    piped(text).or_else(|| indexed(text)).or_else(|| sql(text))
}

/// Reads `rows %>% filter(a > 5, b == 'x') %>% count(c)`.
fn piped(text: &str) -> Option<(String, String)> {
    let pipe = ["%>%", "|>"].into_iter().find(|pipe| parts(text, pipe).len() > 1)?;
    let steps = parts(text, pipe);
    let at = steps.iter().take(2).position(|step| step.starts_with("filter("))?;
    let inner = steps.get(at)?.strip_prefix("filter(")?.strip_suffix(')')?;
    let rest = steps.get(at + 1..).filter(|rest| !rest.is_empty())?;
    end_of_group(inner).is_none().then(|| ((*inner).to_owned(), rest.join(&format!(" {pipe} "))))
}

/// Reads `df[df.a > 5].groupby('b').size()`.
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

/// Reads `count by b where a > 5` and the statement of SQL.
fn sql(text: &str) -> Option<(String, String)> {
    let start = keyword(text, 0, "where")?;
    let condition = start + "where".len();
    let end = CLAUSES.iter().filter_map(|clause| keyword(text, condition, clause)).min();
    let end = end.unwrap_or(text.len());
    let (before, after) = (text.get(..start)?.trim(), text.get(end..)?.trim());
    let condition = text.get(condition..end)?.trim();
    let is_whole = !before.is_empty() && !condition.is_empty();
    is_whole.then(|| (condition.to_owned(), format!("{before} {after}").trim().to_owned()))
}

/// Returns the position, from `from` on, of `word` outside of quotes and brackets.
fn keyword(text: &str, from: usize, word: &str) -> Option<usize> {
    let mut depth = 0usize;
    outside_quotes(text).find_map(|(at, c)| {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let is_start = at >= from
            && depth == 0
            && !text.get(..at).is_some_and(|before| before.ends_with(is_word_character));
        let rest = text.get(at..).unwrap_or_default();
        let (found, after) = rest.split_at_checked(word.len()).unwrap_or_default();
        let is_word = found.eq_ignore_ascii_case(word) && !after.starts_with(is_word_character);
        (is_start && is_word).then_some(at)
    })
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
