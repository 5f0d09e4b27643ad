//! TOML documents as JSON.
//!
//! Dates, times, and numbers that JSON does not know (`inf`, `nan`) are texts. Members keep the
//! order of the text.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::json::scan::is_json;
use crate::json::text::{Form, quoted};
use crate::text::kind::Kind;
use crate::text::lines::IndexedText;

/// The maximum size of a text, in bytes.
const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// The minimum number of members of a document without tables.
const MIN_MEMBERS: usize = 2;

/// Returns a TOML text as JSON. None if the text is no TOML, or could be anything else, or is too
/// large. O(text). The parser bounds the depth.
pub(super) fn to_json(text: &str) -> Option<Vec<u8>> {
    let indexed = IndexedText::new(text.as_bytes(), Form::Raw);
    // Most other texts are no TOML from their first lines on.
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.find(|line| !line.starts_with('#'))?;
    let begins = first.starts_with('[') || first.contains('=');
    if !begins
        || text.len() > MAX_TEXT_BYTES
        || matches!(Kind::detect(&indexed), Kind::Log | Kind::Diff | Kind::Markup)
    {
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
    write_table(table, &mut out);
    Some(out)
}

fn write_table(table: &DeTable<'_>, out: &mut Vec<u8>) {
    let mut members: Vec<_> = table.iter().collect();
    members.sort_by_key(|(name, _)| name.span().start);
    out.push(b'{');
    for (at, (name, value)) in members.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend(quoted(name.get_ref()));
        out.push(b':');
        write(value.get_ref(), out);
    }
    out.push(b'}');
}

fn write(value: &DeValue<'_>, out: &mut Vec<u8>) {
    match value {
        DeValue::String(text) => out.extend(quoted(text)),
        DeValue::Integer(number) => match decimal(number) {
            Some(number) => out.extend_from_slice(number.as_bytes()),
            None => out.extend(quoted(&number.to_string())),
        },
        DeValue::Float(number) => {
            let number = number.as_str();
            let digits = number.strip_prefix('+').unwrap_or(number);
            match is_json(digits.as_bytes(), Form::Raw) {
                true => out.extend_from_slice(digits.as_bytes()),
                false => out.extend(quoted(number)),
            }
        }
        DeValue::Boolean(true) => out.extend_from_slice(b"true"),
        DeValue::Boolean(false) => out.extend_from_slice(b"false"),
        DeValue::Datetime(time) => out.extend(quoted(&time.to_string())),
        DeValue::Array(values) => {
            out.push(b'[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                write(value.get_ref(), out);
            }
            out.push(b']');
        }
        DeValue::Table(table) => write_table(table, out),
    }
}

/// Returns an integer in decimal digits, or none if it is too large.
fn decimal(number: &DeInteger<'_>) -> Option<String> {
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
        assert_eq!(json(&format!("a = {}1{}", "[".repeat(5_000), "]".repeat(5_000))), "");
    }
}
