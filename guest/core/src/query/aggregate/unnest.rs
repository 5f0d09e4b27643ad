//! Totals of the elements of a list in SQL: `SELECT l.name, COUNT(*) FROM t, UNNEST(labels) AS l
//! GROUP BY l.name` becomes `SELECT labels.name, COUNT(*) FROM t GROUP BY labels.name unnest
//! labels`.

use crate::query::code::{end_of_group, keyword, parts, replaced};
use crate::query::reader::is_word_character;

/// The functions that return the elements of a list.
const FUNCTIONS: [&str; 5] =
    ["unnest", "flatten", "explode", "json_array_elements", "jsonb_array_elements"];
/// The clauses that may follow the tables.
const CLAUSES: [&str; 5] = ["where", "group by", "having", "order by", "limit"];
/// The words between a table and such a function.
const JOINS: [&str; 8] = ["as", "cross", "inner", "join", "lateral", "view", "table", "from"];

/// The list whose elements a statement reads.
struct Unnest<'t> {
    /// The name of the list.
    list: String,
    /// The name of an element in the statement.
    element: String,
    /// The text before the tables, and after them.
    around: (&'t str, &'t str),
}

/// Converts a statement with `UNNEST`. `None` for other texts.
///
/// # Errors
/// Returns a message for the caller if the elements cannot be read in this way.
pub(super) fn rewritten(text: &str) -> Result<Option<String>, String> {
    let Some(unnest) = Unnest::read(text)? else { return Ok(None) };
    let (before, after) = unnest.around;
    if keyword(after, 0, "where").is_some() {
        return Err(format!(
            "aggregate: the condition is about elements of {0}: choose the list with path, such as path: \"$..{0}[*]\", or use jq",
            unnest.list
        ));
    }
    let named = |text: &str| unnest.with_names(text).unwrap_or_else(|| text.to_owned());
    let end = CLAUSES.iter().skip(2).filter_map(|clause| keyword(after, 0, clause)).min();
    let (by, rest) = after.split_at_checked(end.unwrap_or(after.len())).unwrap_or((after, ""));
    Ok(Some(format!(
        "{} FROM t {} unnest {} {}",
        named(before.trim()),
        named(by.trim()),
        unnest.list,
        named(rest)
    )))
}

/// Returns true if the condition of a statement is about an element of a list that the statement
/// reads with `UNNEST`.
pub(super) fn concerns_element(text: &str, condition: &str) -> bool {
    match Unnest::read(text) {
        Ok(Some(unnest)) => unnest.with_names(condition).is_some(),
        Ok(None) => false,
        Err(_) => true,
    }
}

/// Writes `AS` before the aliases of computed columns: `SELECT YEAR(d) y, COUNT(*) n`. `None` if
/// there are none.
pub(super) fn with_aliases(text: &str) -> Option<String> {
    let text = text.trim();
    let start = (keyword(text, 0, "select") == Some(0)).then_some("select".len())?;
    let ends = ["from", "group by", "by", "having", "order by", "limit", "unnest"];
    let end = ends.iter().filter_map(|word| keyword(text, start, word)).min()?;
    let (columns, rest) = (text.get(start..end)?, text.get(end..)?);
    let mut is_changed = false;
    let columns: Vec<String> = parts(columns, ",")
        .into_iter()
        .map(|column| {
            let alias = column.rsplit_once(char::is_whitespace).filter(|(total, alias)| {
                let is_name = alias.starts_with(|c: char| c.is_alphabetic() || c == '_')
                    && alias.chars().all(is_word_character);
                total.trim_end().ends_with(')') && is_name
            });
            match alias {
                Some((total, alias)) => {
                    is_changed = true;
                    format!("{} AS {alias}", total.trim_end())
                }
                None => column.to_owned(),
            }
        })
        .collect();
    is_changed.then(|| format!("SELECT {} {rest}", columns.join(", ")))
}

impl<'t> Unnest<'t> {
    fn read(text: &'t str) -> Result<Option<Self>, String> {
        let text = text.trim().trim_end_matches(';').trim_end();
        let from = keyword(text, 0, "from").filter(|_| keyword(text, 0, "select") == Some(0));
        let Some(from) = from else { return Ok(None) };
        let start = from + "from".len();
        let end = CLAUSES.iter().filter_map(|clause| keyword(text, start, clause)).min();
        let end = end.unwrap_or(text.len());
        let tables = text.get(start..end).unwrap_or_default();
        let lower = tables.to_lowercase();
        let mut found = FUNCTIONS.iter().filter_map(|name| {
            let at = keyword(&lower, 0, name)?;
            lower.get(at + name.len()..)?.trim_start().starts_with('(').then_some((at, *name))
        });
        let Some((at, function)) = found.next() else { return Ok(None) };
        let unclear = |reason: &str| {
            Err(format!(
                "aggregate: {reason}; write SELECT l.name, count(*) FROM t, UNNEST(labels) AS l GROUP BY l.name, or use jq"
            ))
        };
        // Other letters may have another length in lower case.
        if !tables.is_ascii() {
            return unclear("the names after FROM have letters beyond ASCII");
        }
        let after = tables.get(at + function.len()..).unwrap_or_default().trim_start();
        let inner = after.get(1..).unwrap_or_default();
        let Some(close) = end_of_group(inner) else {
            return unclear("a parenthesis is not closed");
        };
        let (argument, tail) = (inner.get(..close), inner.get(close + 1..));
        let (argument, tail) = (argument.unwrap_or_default(), tail.unwrap_or_default());
        let before = tables.get(..at).unwrap_or_default().replace(',', " ");
        let mut words = before.split_whitespace();
        let table = words.next().unwrap_or_default();
        let others: Vec<&str> =
            words.filter(|word| !JOINS.contains(&word.to_lowercase().as_str())).collect();
        if others
            .iter()
            .any(|word| ["left", "outer", "full"].contains(&word.to_lowercase().as_str()))
        {
            return unclear("records without elements have no groups here: write CROSS JOIN");
        }
        if others.len() > 1 || tail.contains(',') && !tail.contains('(') {
            return unclear("one table and one UNNEST are read");
        }
        let argument = argument.trim();
        let argument = match argument.split_once("=>") {
            Some((name, list)) if name.trim().eq_ignore_ascii_case("input") => list.trim(),
            Some(_) => return unclear("FLATTEN takes input"),
            None => argument,
        };
        let prefixes = [table].into_iter().chain(others.first().copied());
        let list = prefixes
            .filter_map(|prefix| argument.strip_prefix(prefix)?.strip_prefix('.'))
            .next()
            .unwrap_or(argument);
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| is_word_character(c) || "._-".contains(c))
        };
        // `AS t(l)` names the column, `t AS l` too.
        let tail = tail.trim().trim_end_matches(|c: char| c == ')' || c.is_whitespace());
        let tail = match keyword(tail, 0, "on") {
            Some(on) => {
                let condition = tail.get(on + "on".len()..).unwrap_or_default().trim();
                if !["true", "1=1", "1 = 1"].contains(&condition.to_lowercase().as_str()) {
                    return unclear("the join has a condition");
                }
                tail.get(..on).unwrap_or_default()
            }
            None => tail,
        };
        let names: Vec<&str> = tail
            .split(|c: char| c.is_whitespace() || c == '(')
            .filter(|word| !word.is_empty() && !word.eq_ignore_ascii_case("as"))
            .collect();
        let element = match names.as_slice() {
            [] => list,
            [name] | [_, name] => name,
            _ => return unclear("UNNEST has one name for its elements"),
        };
        if !is_name(list) || !is_name(element) || found.next().is_some() {
            return unclear("one list of fields is unnested at a time");
        }
        let around = (text.get(..from).unwrap_or_default(), text.get(end..).unwrap_or_default());
        Ok(Some(Self { list: list.to_owned(), element: element.to_owned(), around }))
    }

    /// Replaces the name of an element by that of the list. `None` if the text does not name it.
    fn with_names(&self, text: &str) -> Option<String> {
        replaced(text, |before, rest| {
            let is_start = !before.ends_with(|c| is_word_character(c) || c == '.');
            // SQL ignores the case of names.
            let (name, after) = rest.split_at_checked(self.element.len()).filter(|_| is_start)?;
            if !name.eq_ignore_ascii_case(&self.element) {
                return None;
            }
            if after.starts_with(is_word_character) {
                return None;
            }
            let mut name = self.list.clone();
            let mut after = after.strip_prefix(".value").unwrap_or(after);
            // `l.value:name` of Snowflake, `l->>'name'` of PostgreSQL.
            if let Some(member) = after.strip_prefix(':').filter(|rest| !rest.starts_with(':')) {
                name.push('.');
                after = member;
            } else if let Some(member) = after.strip_prefix("->") {
                let member = member.strip_prefix('>').unwrap_or(member).strip_prefix('\'')?;
                let (key, rest) = member.split_once('\'')?;
                name = format!("{name}.{key}");
                after = rest;
            }
            Some((rest.len() - after.len(), name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_become_paths() {
        let expected = "SELECT labels.name, COUNT(*) FROM t GROUP BY labels.name unnest labels";
        for text in [
            "SELECT l.name, COUNT(*) FROM issues, UNNEST(labels) AS l GROUP BY l.name",
            "SELECT l.name, COUNT(*) FROM issues i CROSS JOIN UNNEST(i.labels) AS l GROUP BY l.name",
            "SELECT l.name, COUNT(*) FROM issues CROSS JOIN UNNEST(labels) AS x(l) GROUP BY l.name",
            "SELECT l.value:name, COUNT(*) FROM issues, LATERAL FLATTEN(input => labels) l GROUP BY l.value:name",
            "SELECT l.name, COUNT(*) FROM issues LATERAL VIEW explode(labels) x AS l GROUP BY l.name",
            "SELECT L.name, COUNT(*) FROM issues, UNNEST(labels) AS l GROUP BY L.name",
            "SELECT l->>'name', COUNT(*) FROM issues JOIN jsonb_array_elements(labels) l ON true GROUP BY l->>'name'",
        ] {
            let found = rewritten(text).unwrap().unwrap();
            assert_eq!(found.trim(), expected, "{text}");
        }
        let ordered =
            rewritten("SELECT t, COUNT(*) n FROM x, UNNEST(tags) t GROUP BY t ORDER BY n");
        let expected = "SELECT tags, COUNT(*) n FROM t GROUP BY tags unnest tags ORDER BY n";
        assert_eq!(ordered.unwrap().unwrap(), expected);
        for text in [
            "SELECT l.name FROM issues LEFT JOIN UNNEST(labels) AS l ON true GROUP BY l.name",
            "SELECT l.name FROM issues, UNNEST(labels) AS l WHERE l.color = 'red' GROUP BY l.name",
            "SELECT L.name FROM issues, UNNEST(labels) AS l WHERE L.color = 'red' GROUP BY L.name",
            "SELECT a, b FROM t, UNNEST(x) AS a, UNNEST(y) AS b GROUP BY a, b",
            "SELECT a FROM t JOIN UNNEST(x) a ON a.id = t.id GROUP BY a",
        ] {
            assert!(rewritten(text).is_err(), "{text}");
        }
        for text in ["SELECT a, count(*) FROM unnest GROUP BY a", "count by unnest"] {
            assert!(rewritten(text).unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn aliases_of_computed_columns_are_marked() {
        assert_eq!(
            with_aliases("SELECT YEAR(d) y, COUNT(*) n, a b FROM t GROUP BY y").as_deref(),
            Some("SELECT YEAR(d) AS y, COUNT(*) AS n, a b FROM t GROUP BY y")
        );
        assert_eq!(with_aliases("SELECT YEAR(d) AS y, COUNT(*) FROM t GROUP BY y"), None);
        assert_eq!(with_aliases("count by First Name"), None);
    }
}
