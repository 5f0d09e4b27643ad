//! Members of JSON columns: `a->'b'->>'c'`, `a #>> '{b,c}'`, `json_extract(a, '$.b')`,
//! `(a->>'b')::int`, `a:b::varchar`.

use crate::query::code::{end_of_group, outside_quotes, parts, replaced};
use crate::query::reader::is_word_character;

/// The functions that return the member of a column at a path.
const FUNCTIONS: [&str; 8] = [
    "json_extract",
    "json_value",
    "json_query",
    "json_extract_string",
    "json_extract_scalar",
    "get_json_object",
    "jsonextract",
    "json_extract_path_text",
];
/// The functions that return the text of a value. Texts compare as the values do.
const UNQUOTING: [&str; 2] = ["json_unquote", "json_scalar"];

/// Converts members of JSON columns to paths. `None` if there are none.
pub(super) fn converted(text: &str) -> Option<String> {
    let extracted = calls(text);
    let unquoted = unquoted(extracted.as_deref().unwrap_or(text)).or(extracted);
    let paths = arrows(unquoted.as_deref().unwrap_or(text)).or(unquoted);
    let paths = colons(paths.as_deref().unwrap_or(text)).or(paths);
    groups(paths.as_deref().unwrap_or(text)).or(paths)
}

/// Returns the name at the start of a text if a call of it follows: its length and the text after
/// the parenthesis.
fn call(before: &str, rest: &str, names: &[&str]) -> Option<usize> {
    let end = rest.find(|c| !is_word_character(c))?;
    let is_start = !before.ends_with(|c| is_word_character(c) || c == '.');
    let is_known = names
        .iter()
        .any(|name| rest.get(..end).is_some_and(|word| word.eq_ignore_ascii_case(name)));
    (is_start && is_known && rest.get(end..)?.starts_with('(')).then_some(end + 1)
}

/// Converts `json_extract(a, '$.b[0].c')` to `a.b[0].c`.
fn calls(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let start = call(before, rest, &FUNCTIONS)?;
        let inner = rest.get(start..)?;
        let end = end_of_group(inner)?;
        let arguments = parts(inner.get(..end)?, ",");
        let (column, keys) = arguments.split_first()?;
        let column = is_path(column).then_some(*column)?;
        let path: Option<String> = keys.iter().map(|key| path(unquote(key)?)).collect();
        let path = path.filter(|path| !path.is_empty())?;
        Some((start + end + 1, format!("{column}{path}")))
    })
}

/// Removes calls that return the text of a value: `JSON_UNQUOTE(a)`.
fn unquoted(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let start = call(before, rest, &UNQUOTING)?;
        let inner = rest.get(start..)?;
        let end = end_of_group(inner)?;
        Some((start + end + 1, inner.get(..end)?.trim().to_owned()))
    })
}

/// Converts `a->'b'->>'c'` and `a #>> '{b,c}'` to `a.b.c`.
fn arrows(text: &str) -> Option<String> {
    let mut is_member = false;
    replaced(text, |before, rest| {
        // A member follows a name, a member or a closing bracket.
        let owner = if is_member { Some('a') } else { before.trim_end().chars().next_back() };
        is_member = false;
        if !owner.is_some_and(|last| is_word_character(last) || "\"`])".contains(last)) {
            return None;
        }
        let trimmed = rest.trim_start();
        let signs = ["->>", "->", "#>>", "#>"];
        let sign = signs.into_iter().find(|sign| trimmed.starts_with(sign))?;
        let key = trimmed.get(sign.len()..)?.trim_start();
        let (path, after) = match key.strip_prefix('\'') {
            Some(key) => {
                let (key, after) = key.split_once('\'')?;
                let keys = key.strip_prefix('{').and_then(|keys| keys.strip_suffix('}'));
                let path = match keys {
                    Some(keys) if sign.starts_with('#') => keys.split(',').map(member).collect(),
                    None if sign.starts_with('#') => return None,
                    _ => path(key)?,
                };
                (path, after)
            }
            None => {
                let end = key.find(|c: char| !c.is_ascii_digit()).unwrap_or(key.len());
                let (index, after) = key.split_at_checked(end).filter(|_| end > 0)?;
                (format!("[{index}]"), after)
            }
        };
        is_member = true;
        Some((rest.len() - after.len(), path))
    })
}

/// Converts `a:b.c::varchar` of Snowflake to `a.b.c`. Without a cast, `a:b` may be a name or a
/// comparison.
fn colons(text: &str) -> Option<String> {
    const TEXT_TYPES: [&str; 4] = ["::varchar", "::string", "::text", "::char"];
    let is_part = |c: char| is_word_character(c) || c == '.';
    replaced(text, |before, rest| {
        let member = rest.strip_prefix(':').filter(|_| before.ends_with(is_word_character))?;
        let end = member.find(|c| !is_part(c))?;
        let (path, after) = member.split_at_checked(end).filter(|_| end > 0)?;
        let is_name = path.starts_with(|c: char| c.is_alphabetic() || c == '_');
        let lower = after.to_lowercase();
        let cast = TEXT_TYPES.iter().find(|cast| lower.starts_with(**cast));
        let rest_after = after.get(cast.map_or(0, |cast| cast.len())..)?;
        (is_name && after.starts_with("::"))
            .then(|| (rest.len() - rest_after.len(), format!(".{path}")))
    })
}

/// Removes the parentheses of `(a.b)::int` and `(a.b) AS n`.
fn groups(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let inner = rest.strip_prefix('(')?;
        let end = end_of_group(inner)?;
        let (path, after) = (inner.get(..end)?.trim(), inner.get(end + 1..)?);
        let is_group = !before.ends_with(is_word_character);
        (is_group && is_path(path) && after.starts_with("::")).then(|| (end + 2, path.to_owned()))
    })
}

/// Returns true if a text is a name or a path of names. Names in quotes may have any letters.
fn is_path(text: &str) -> bool {
    let is_part = |(_, c): (usize, char)| is_word_character(c) || ".[]\"`".contains(c);
    text.starts_with(|c: char| c.is_alphabetic() || "_\"`".contains(c))
        && outside_quotes(text).all(is_part)
        && !text.contains('\'')
}

fn unquote(text: &str) -> Option<&str> {
    let mark = text.chars().next().filter(|mark| matches!(mark, '\'' | '"'))?;
    text.get(1..)?.strip_suffix(mark)
}

/// Returns the steps of a key, or of a JSONPath such as `$.b[0]."c d"`.
fn path(key: &str) -> Option<String> {
    match key.strip_prefix('$') {
        Some(path) => {
            let is_plain = !path.contains(['*', '?', '@', '\'']) && !path.contains("..");
            (is_plain && path.starts_with(['.', '['])).then(|| path.to_owned())
        }
        None => Some(member(key)),
    }
}

/// Returns the step to a member.
fn member(key: &str) -> String {
    let key = key.trim();
    let is_index = !key.is_empty() && key.chars().all(|c| c.is_ascii_digit());
    let is_word = key.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && key.chars().all(is_word_character);
    match (is_index, is_word) {
        (true, _) => format!("[{key}]"),
        (_, true) => format!(".{key}"),
        _ => format!(".\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_become_paths() {
        for (text, expected) in [
            ("a->'b'->>'c' = 'x->y'", Some("a.b.c = 'x->y'")),
            ("SUM((a ->> 'b c')::int)", Some("SUM(a.\"b c\"::int)")),
            ("a->0->>'b' > 5", Some("a[0].b > 5")),
            ("a #>> '{b,c}' = 1", Some("a.b.c = 1")),
            ("a->>'$.b.c' = 1", Some("a.b.c = 1")),
            ("JSON_UNQUOTE(JSON_EXTRACT(a, '$.b[0]')) = 1", Some("a.b[0] = 1")),
            ("json_extract_path_text(a, 'b', 'c') = 1", Some("a.b.c = 1")),
            ("x -> x.a = 1", None),
            ("json_extract(a, '$..b') = 1", None),
            ("(a) AND (b)", None),
        ] {
            assert_eq!(converted(text).as_deref(), expected, "{text}");
        }
    }
}
