//! Conditions as libraries for tables write them: `df[df['kind'] == 'new']`.

/// Returns the condition inside an expression on a table. None if the text is no such expression.
pub(super) fn condition(text: &str) -> Option<String> {
    let text = text.trim();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let (table, rest) = text.split_at(text.find(|c| !is_part(c))?);
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
    let (item, member) = (format!("{table}["), format!("{table}."));
    let names_table = inner.contains(&item) || inner.contains(&member);
    names_table.then(|| inner.replace(&item, "[").replace(&member, ""))
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
            ("tags[0] = 'x'", None),
            ("a[*].b = [1]", None),
            ("a = 5", None),
        ] {
            assert_eq!(condition(text).as_deref(), expected, "{text}");
        }
    }
}
