//! TOML documents as JSON.
//!
//! Dates, times, and numbers that JSON lacks (`inf`, `nan`) become texts. Members keep the order of
//! the text.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::json::scan::is_json;
use crate::json::text::{Form, quoted};
use crate::text::kind::Kind;
use crate::text::lines::IndexedText;

/// The maximum size of a text, in bytes.
const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// The maximum depth of values. Writing is recursive.
const MAX_DEPTH: usize = 60;
/// The maximum depth of braces. The parser limits it too, but inside each brace a dotted key may be
/// equally deep.
const MAX_BRACES: usize = 8;
/// The minimum number of members of a document without tables.
const MIN_MEMBERS: usize = 2;

/// Converts a TOML text to JSON. `None` if the text is not TOML, may have another format, or is too
/// large or too deep. O(text).
pub(super) fn to_json(text: &str) -> Option<Vec<u8>> {
    // Most other texts are no TOML from their first lines on.
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.find(|line| !line.starts_with('#'))?;
    let begins = first.starts_with('[') || first.contains('=');
    if !begins || text.len() > MAX_TEXT_BYTES || is_deep(text) {
        return None;
    }
    let indexed = IndexedText::new(text.as_bytes(), Form::Raw);
    if matches!(Kind::detect(&indexed), Kind::Log | Kind::Diff | Kind::Markup) {
        return None;
    }
    let document = DeTable::parse(text).ok()?;
    let table = document.get_ref();
    let is_nested = |value: &Spanned<DeValue<'_>>| {
        matches!(value.get_ref(), DeValue::Table(_) | DeValue::Array(_))
    };
    if table.len() < MIN_MEMBERS && !table.values().any(is_nested) {
        return None;
    }
    let mut out = Vec::new();
    write_table(table, &mut out, MAX_DEPTH)?;
    Some(out)
}

/// Returns true if more than [`MAX_BRACES`] braces may be open at a time. Counts all braces,
/// including those in strings and comments, so that no text can hide any.
fn is_deep(text: &str) -> bool {
    let mut depth = 0usize;
    text.bytes().any(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > MAX_BRACES
    })
}

/// Appends a table to `out` as JSON. `None` if it has more than `depth` levels.
fn write_table(table: &DeTable<'_>, out: &mut Vec<u8>, depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let mut members: Vec<_> = table.iter().collect();
    members.sort_by_key(|(name, _)| name.span().start);
    out.push(b'{');
    for (at, (name, value)) in members.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend(quoted(name.get_ref()));
        out.push(b':');
        write(value.get_ref(), out, depth)?;
    }
    out.push(b'}');
    Some(())
}

fn write(value: &DeValue<'_>, out: &mut Vec<u8>, depth: usize) -> Option<()> {
    match value {
        DeValue::String(text) => out.extend(quoted(text)),
        DeValue::Integer(number) => match decimal(number) {
            Some(number) => out.extend_from_slice(number.as_bytes()),
            None => out.extend(quoted(&number.to_string())),
        },
        DeValue::Float(number) => {
            let number = number.as_str();
            match json_number(number) {
                Some(number) => out.extend_from_slice(number.as_bytes()),
                None => out.extend(quoted(number)),
            }
        }
        DeValue::Boolean(true) => out.extend_from_slice(b"true"),
        DeValue::Boolean(false) => out.extend_from_slice(b"false"),
        DeValue::Datetime(time) => out.extend(quoted(&time.to_string())),
        DeValue::Array(values) => {
            let depth = depth.checked_sub(1)?;
            out.push(b'[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(value.get_ref(), out, depth)?;
            }
            out.push(b']');
        }
        DeValue::Table(table) => write_table(table, out, depth)?,
    }
    Some(())
}

/// Returns a number without its plus sign. `None` if it is not a JSON number.
fn json_number(number: &str) -> Option<&str> {
    let digits = number.strip_prefix('+').unwrap_or(number);
    is_json(digits.as_bytes(), Form::Raw).then_some(digits)
}

/// Returns an integer in decimal digits. `None` if it has another base and is too large.
fn decimal(number: &DeInteger<'_>) -> Option<String> {
    if let Some(digits) = json_number(number.as_str()).filter(|_| number.radix() == 10) {
        return Some(digits.to_owned());
    }
    i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        to_json(text).map_or_else(String::new, |json| String::from_utf8(json).unwrap())
    }

    #[test]
    fn documents_are_json() {
        let text = "# a file\nversion = 4\nz = 'a\"b'\n[[package]]\nname = \"b\"\nport = 0x1f\nn = 1_000\n\n[[package]]\nname = \"a\"\nat = 1979-05-27T07:32:00Z\nf = +1.5e3\ng = -inf\nok = true\n[other.deep]\nx = [1, [2]]\n";
        assert_eq!(
            json(text),
            r#"{"version":4,"z":"a\"b","package":[{"name":"b","port":31,"n":1000},{"name":"a","at":"1979-05-27T07:32:00Z","f":1.5e3,"g":"-inf","ok":true}],"other":{"deep":{"x":[1,[2]]}}}"#
        );
    }

    #[test]
    fn other_texts_are_no_toml() {
        for text in ["", "a = 1", "a: 1\nb = 2", "[section]\nkey = plain words\n", "x = 1\nx = 2"] {
            assert_eq!(json(text), "", "{text}");
        }
        for depth in [61, 5_000] {
            let nested = format!("a = {}1{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(json(&format!("b = 2\n{nested}")), "", "{depth}");
            let dotted = "a.".repeat(depth);
            assert_eq!(json(&format!("b = 2\n{dotted}a = 1")), "", "{depth}");
        }
        // Dotted keys of tables in braces multiply the depth.
        let table = format!("{{{}a = ", "a.".repeat(70));
        let deep = format!("b = 2\nc = {}1{}", table.repeat(70), "}".repeat(70));
        assert_eq!(json(&deep), "");
    }
}
