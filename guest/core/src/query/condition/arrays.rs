//! Tests of the elements of arrays in SQL: `tags @> ARRAY['a', 'b']`, `'a' = ANY(tags)`, `'a'
//! MEMBER OF (tags)`, `kind = ANY('{a,b}')`.

use super::build::{equal, single};
use super::literal::read_literals;
use super::{Check, Test};
use crate::query::literal::Literal;
use crate::query::operand::Operand;
use crate::query::reader::Reader;

/// Functions that test for an element.
pub(super) const FUNCTIONS: [&str; 13] = [
    "array_contains",
    "list_contains",
    "array_has",
    "list_has",
    "json_contains",
    "has",
    "hasany",
    "hasall",
    "array_has_any",
    "list_has_any",
    "array_has_all",
    "list_has_all",
    "arrays_overlap",
];

/// Reads the list after `=` or `!=` in `kind = ANY(ARRAY['a', 'b'])` and `kind <> ALL('{a,b}')`,
/// and returns the test. `None`, with nothing read, if something else is next.
pub(super) fn quantified_list(
    reader: &mut Reader<'_>,
    operand: &Operand,
    word: &'static str,
) -> Result<Option<Test>, String> {
    let mut rest = reader.clone();
    let words: &[&'static str] = if word == "all" { &["all"] } else { &["any", "some"] };
    if rest.keyword(words).is_none() || !rest.eat("(") {
        return Ok(None);
    }
    let list = elements(&mut rest, operand)?;
    rest.close()?;
    *reader = rest;
    Ok(Some(Test::leaf(operand.clone(), Check::In(list))))
}

/// Reads the array after `@>` or `&&`, and returns the test that the field has all of its elements
/// or, if `is_any`, one of them.
pub(super) fn containing(
    reader: &mut Reader<'_>,
    operand: &Operand,
    is_any: bool,
) -> Result<Test, String> {
    let list = elements(reader, operand)?;
    if is_any {
        return Ok(Test::leaf(operand.clone(), Check::In(list)));
    }
    let tests: Result<Vec<Test>, String> =
        list.into_iter().map(|literal| equal(operand.clone(), literal)).collect();
    Ok(single(tests?, Test::All))
}

/// Reads the elements of an array: `ARRAY['a', 'b']`, `'["a"]'`, `'{a,b}'` or `'a'`, perhaps with a
/// type.
fn elements(reader: &mut Reader<'_>, operand: &Operand) -> Result<Vec<Literal>, String> {
    let start = reader.position();
    let is_array = reader.keyword(&["array"]).is_some();
    let list = match if is_array { None } else { reader.quoted()? } {
        Some(text) => written(&text),
        None => Some(read_literals(reader, operand)?),
    };
    // `::text[]`, `::jsonb`
    if reader.eat("::") {
        let word = reader.peek_word();
        reader.eat(word);
        reader.type_size()?;
        let _ = reader.eat("[]");
    }
    list.filter(|list| !list.is_empty()).ok_or_else(|| {
        reader.reset(start);
        reader.error("a list is expected here, such as ARRAY['a', 'b'] or '[\"a\"]'")
    })
}

/// Returns the elements of an array in a text: `["a", 5]`, `{a,b}`, or the JSON of one element.
/// `None` for other texts.
fn written(text: &str) -> Option<Vec<Literal>> {
    use serde_json::Value;
    let element = |value: &Value| match value {
        Value::String(text) => Some(Literal::new(text.clone(), true)),
        Value::Number(_) | Value::Bool(_) => Some(Literal::new(value.to_string(), false)),
        _ => None,
    };
    match serde_json::from_str(text) {
        Ok(Value::Array(list)) => list.iter().map(element).collect(),
        Ok(value) => element(&value).map(|element| vec![element]),
        Err(_) => {
            let inner = text.strip_prefix('{')?.strip_suffix('}')?;
            let plain = |part: &str| {
                let part = part.trim();
                // A comma inside quotes separates no elements.
                let is_whole = part.starts_with('"') == part.ends_with('"') && part != "\"";
                let part = part.trim_matches('"');
                (is_whole && !part.is_empty() && !part.contains(['"', '{', ':', '\\']))
                    .then(|| Literal::new(part.to_owned(), false))
            };
            inner.split(',').map(plain).collect()
        }
    }
}
