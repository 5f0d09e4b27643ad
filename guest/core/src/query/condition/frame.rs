//! Conditions in the syntax of data frame libraries: `df[df['kind'] == 'new']`.

use crate::query::code::{end_of_group, replaced};
use crate::query::reader::is_word_character;

/// Returns the condition inside an expression on a data frame. `None` if the text is not such an
/// expression.
pub(super) fn condition(text: &str) -> Option<String> {
    let text = text.trim();
    let (table, rest) = text.split_at(text.find(|c| !is_word_character(c))?);
    if table.is_empty() || table.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let query = rest.strip_prefix(".query(").and_then(|rest| rest.strip_suffix(')'));
    if let Some(query) = query {
        let quoted = ['"', '\''].iter().find_map(|quote| {
            query.trim().strip_prefix(*quote).and_then(|query| query.strip_suffix(*quote))
        });
        return quoted.map(str::to_owned);
    }
    let inner = rest.strip_prefix(".loc").unwrap_or(rest).strip_prefix('[')?.strip_suffix(']')?;
    // The bracket must close at the end.
    end_of_group(inner).is_none().then(|| without_table(inner, table)).flatten()
}

/// Removes the name of the data frame from an expression, but not from quoted values. `None` if the
/// expression does not name it.
pub(in crate::query) fn without_table(text: &str, table: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let is_start = !before.ends_with(|c| is_word_character(c) || c == '.');
        let after = rest.strip_prefix(table).filter(|after| after.starts_with(['[', '.']));
        let after = after.filter(|_| is_start)?;
        let after = after.strip_prefix('.').unwrap_or(after);
        Some((rest.len() - after.len(), String::new()))
    })
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn tables_are_stripped() {
        for (text, expected) in [
            ("df[df['a'] == 'x']", Some("['a'] == 'x'")),
            ("df.loc[(df.a > 5) & (df['b c'] < 3)]", Some("(a > 5) & (['b c'] < 3)")),
            ("df.query(\"a > 5\")", Some("a > 5")),
            ("df[df.file == 'df.csv, df[0]']", Some("file == 'df.csv, df[0]'")),
            (r"df[df.text == 'it\'s df.a']", Some(r"text == 'it\'s df.a'")),
            ("d[d.id > 1 & b.d.x == 2]", Some("id > 1 & b.d.x == 2")),
            ("tags[0] = 'x'", None),
            ("row['a'] == 'x' and 'y' in row['b']", None),
            ("df['a' == 'df.a']", None),
            ("a[*].b = [1]", None),
            ("a = 5", None),
        ] {
            assert_eq!(condition(text).as_deref(), expected, "{text}");
        }
    }
}
