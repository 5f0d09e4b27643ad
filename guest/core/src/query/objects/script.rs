//! Objects in the syntax of scripts, which differs from JSON: `{price: {$gt: 5}, kind: 'new'}`.

use crate::query::code::regex_literal;
use crate::query::reader::is_word_character;

/// Converts an object or a list of a script to JSON: names without quotes, texts in single quotes,
/// commas before a closing bracket, and regular expressions. Returns JSON unchanged. `None` for
/// other texts. O(text).
pub(in crate::query) fn json(text: &str) -> Option<String> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let is_json = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if is_json(text) {
        return Some(text.to_owned());
    }
    let (mut out, mut rest) = (String::with_capacity(text.len() + 16), text);
    while let Some(c) = rest.chars().next() {
        let (written, after) = token(&out, c, rest)?;
        if matches!(c, '}' | ']') && out.ends_with(',') {
            out.pop();
        }
        out.push_str(&written);
        rest = after;
    }
    is_json(&out).then_some(out)
}

/// Returns the JSON of the next token, and the text after it. `before` is the JSON so far.
fn token<'t>(before: &str, first: char, rest: &'t str) -> Option<(String, &'t str)> {
    match first {
        '"' | '\'' | '`' => quoted(first, rest),
        '/' if before.ends_with([':', ',', '[']) => {
            let (pattern, ignores_case, after) = regex_literal(rest)?;
            let pattern = serde_json::Value::from(pattern);
            let options = if ignores_case { ",\"$options\":\"i\"" } else { "" };
            Some((format!("{{\"$regex\":{pattern}{options}}}"), after))
        }
        c if c.is_whitespace() => Some((String::new(), rest.trim_start())),
        c if c.is_alphabetic() || c == '_' || c == '$' => {
            let is_part = |c: char| is_word_character(c) || c == '$';
            let (word, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
            let is_name = after.trim_start().starts_with(':');
            let constructor =
                ["ISODate", "Date", "ObjectId", "NumberInt", "NumberLong", "NumberDecimal"];
            match word {
                _ if is_name => Some((format!("\"{word}\""), after)),
                "true" | "false" | "null" => Some((word.to_owned(), after)),
                "True" | "False" => Some((word.to_lowercase(), after)),
                "None" | "undefined" => Some(("null".to_owned(), after)),
                "new" => Some((String::new(), after)),
                _ if constructor.contains(&word) => {
                    // The value inside, which is compared as a text or number.
                    let (value, after) = after.strip_prefix('(')?.split_once(')')?;
                    let value = match value.trim().chars().next()? {
                        mark @ ('"' | '\'') => quoted(mark, value.trim())?.0,
                        _ => value.trim().to_owned(),
                    };
                    Some((value, after))
                }
                _ => None,
            }
        }
        c => Some((c.to_string(), rest.get(c.len_utf8()..)?)),
    }
}

/// Returns the JSON text of a quoted text at the start of `rest`, and the text after it.
fn quoted(mark: char, rest: &str) -> Option<(String, &str)> {
    let inner = rest.get(1..)?;
    let (mut value, mut characters) = (String::new(), inner.char_indices());
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'u' => {
                    let code = inner.get(at + 2..at + 6)?;
                    value.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
                    characters.nth(3)?;
                }
                // In a pattern, the sign remains.
                other @ ('d' | 'w' | 's' | 'b' | '.' | 'D' | 'W' | 'S') => {
                    value.push('\\');
                    value.push(other);
                }
                other => value.push(other),
            },
            c if c == mark => {
                let json = serde_json::Value::from(value).to_string();
                return Some((json, inner.get(at + 1..)?));
            }
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::json;

    #[test]
    fn objects_of_scripts_become_json() {
        for (text, expected) in [
            (r#"{"a": 5}"#, Some(r#"{"a": 5}"#)),
            ("{a: {$gt: 5}, 'b.c': 'x\\'y', }", Some(r#"{"a":{"$gt":5},"b.c":"x'y"}"#)),
            ("[{$match: {ok: true}}]", Some(r#"[{"$match":{"ok":true}}]"#)),
            ("{a: /^x\\d/i}", Some(r#"{"a":{"$regex":"^x\\d","$options":"i"}}"#)),
            ("{a: {$gte: ISODate('2024-05-01')}}", Some(r#"{"a":{"$gte":"2024-05-01"}}"#)),
            ("{a: new Date(\"2024-05-01\"), b: None}", Some(r#"{"a":"2024-05-01","b":null}"#)),
            ("{a: 'tab\\t\\u00e9'}", Some(r#"{"a":"tab\té"}"#)),
            ("{ it.a > 5 }", None),
            ("{a=\"x\"}", None),
            ("{Due Date} > 5", None),
            ("{a: b}", None),
            ("{a: 'x}", None),
            ("a: 5", None),
        ] {
            assert_eq!(json(text).as_deref(), expected, "{text}");
        }
    }
}
