//! Builds tests from their parts.

use super::literal::read_literal;
use super::operator::Sign;
use super::pattern::TextPattern;
use super::{Check, Operator, Test};
use crate::query::date::{DatePart, is_day};
use crate::query::literal::Literal;
use crate::query::operand::{FieldFunction, Operand};
use crate::query::reader::Reader;
use crate::query::value::quote;

/// Creates the pattern for an operator and its value.
pub(super) fn pattern(sign: Sign, literal: &Literal) -> Result<TextPattern, String> {
    let text = &literal.text;
    let is_regex = text.starts_with('^')
        || (text.ends_with('$') && text.len() > 1)
        || [".*", ".+", "\\", "|", "[^"].iter().any(|part| text.contains(part));
    let has_set = ["[0-9", "[a-z", "[A-Z", "(?"].iter().any(|part| text.contains(part));
    Ok(match sign {
        Sign::Contains if is_regex && !literal.is_quoted => TextPattern::regex(text, Some(true))?,
        Sign::Contains if is_regex || has_set => TextPattern::contains(text).or_regex(text),
        Sign::Has => TextPattern::words(text),
        Sign::RegexAnyCase => TextPattern::regex(text, Some(true))?,
        Sign::EqualAnyCase => TextPattern::equals(text),
        Sign::StartsWith => TextPattern::starts_with(text),
        Sign::EndsWith => TextPattern::ends_with(text),
        Sign::Regex => TextPattern::regex(text, None)?,
        Sign::Glob => TextPattern::glob(text)?,
        Sign::Like => TextPattern::like(text)?,
        _ => TextPattern::contains(text),
    })
}

/// Creates a test for equality with a literal.
pub(super) fn equal(operand: Operand, literal: Literal) -> Result<Test, String> {
    if literal.is_null() {
        return Ok(Test::leaf(operand, Check::IsNull));
    }
    let text = &literal.text;
    if !literal.is_quoted && matches!(text.as_str(), "[]" | "{}") {
        let zero = Check::Compare(Operator::Equal, Literal::new("0".to_owned(), false));
        let length = Operand { function: Some(FieldFunction::Length), ..operand };
        return Ok(Test::leaf(length, zero));
    }
    if has_wildcards(&literal) {
        return Ok(Test::leaf(operand, Check::Matches(TextPattern::verbatim_or_search(text)?)));
    }
    let inner = text.trim_matches(['*', '%']);
    let name = &operand.name.verbatim;
    if inner.is_empty() && !text.is_empty() && !literal.is_quoted {
        return Err(format!("where: {name}={text} is not a comparison; write {name} IS NOT NULL"));
    }
    // `80%` is an amount.
    if text.starts_with('%') || (text.ends_with('%') && inner.parse::<f64>().is_err()) {
        if !literal.is_quoted {
            let like = quote(text);
            return Err(format!(
                "where: = takes no wildcards; write {name} LIKE {like}, or for the text itself {name}={like}"
            ));
        }
        let pattern = TextPattern::verbatim_or_like(text)?;
        return Ok(Test::leaf(operand, Check::Matches(pattern)));
    }
    let operand = numbered(operand, &[&literal]);
    Ok(Test::leaf(operand, Check::Compare(Operator::Equal, literal)))
}

/// Returns true if a text has the wildcard `*` beside other characters, so that `=` may compare a
/// pattern.
pub(super) fn has_wildcards(literal: &Literal) -> bool {
    // Between white space, `*` is a sign of a product, or of a text.
    let text = literal.text.replace(" * ", " ");
    text.contains('*') && text.chars().any(char::is_alphanumeric)
}

/// Returns the operand of a comparison with `literals`. For a part of a date compared with small
/// numbers, returns the number of the period, as in `month(x) IN (6, 7)`.
pub(super) fn numbered(mut operand: Operand, literals: &[&Literal]) -> Operand {
    let is_small =
        |literal: &&Literal| literal.number().is_some_and(|number| number.float.abs() < 100.0);
    if let Some(FieldFunction::Date(part)) = operand.function
        && !literals.is_empty()
        && literals.iter().all(is_small)
    {
        operand.function = Some(FieldFunction::Date(part.as_number()));
    }
    operand
}

/// Returns the day of a field that is compared with a day, which includes all its times. Returns
/// other operands unchanged.
pub(super) fn of_day(operand: Operand, literal: &Literal) -> Operand {
    let is_field = operand.function.is_none() && !operand.is_computed();
    let function = match is_field && is_day(&literal.text) {
        true => Some(FieldFunction::Date(DatePart::Day)),
        false => operand.function,
    };
    Operand { function, ..operand }
}

/// Creates a test for null, an empty text or an empty list. A list is not empty because of an
/// element that is.
pub(super) fn empty(operand: Operand) -> Test {
    let zero = Check::Compare(Operator::Equal, Literal::new("0".to_owned(), false));
    let length = Operand { function: Some(FieldFunction::Length), ..operand.clone() };
    // A number has no length, and is not empty.
    let has_length = negate(Test::leaf(length.clone(), Check::IsNull));
    Test::Any(vec![
        Test::leaf(operand, Check::IsNull),
        Test::All(vec![has_length, Test::leaf(length, zero)]),
    ])
}

/// Returns an error if a bound of `BETWEEN` is null, which has no order.
pub(super) fn check_bounds(
    reader: &Reader<'_>,
    operand: &Operand,
    low: &Literal,
    high: &Literal,
) -> Result<(), String> {
    let name = &operand.name.verbatim;
    let bound = match (low.is_null(), high.is_null()) {
        (false, false) => return Ok(()),
        (true, true) => format!("{name} IS NOT NULL"),
        (true, false) => format!("{name} <= {high}"),
        (false, true) => format!("{name} >= {low}"),
    };
    Err(reader.error(&format!("null has no order: write {bound}")))
}

pub(super) fn negate(test: Test) -> Test {
    match test {
        Test::Not(test) => *test,
        test => Test::Not(Box::new(test)),
    }
}

/// Returns the only test or, if there are several, `several` of them.
pub(super) fn single(mut tests: Vec<Test>, several: fn(Vec<Test>) -> Test) -> Test {
    match tests.pop() {
        Some(test) if tests.is_empty() => test,
        Some(test) => {
            tests.push(test);
            several(tests)
        }
        None => several(tests),
    }
}

/// Reads the value after `IS DISTINCT FROM`, a comparison in which null is a value, and returns the
/// test.
pub(super) fn distinct_from(operand: Operand, reader: &mut Reader<'_>) -> Result<Test, String> {
    let literal = read_literal(reader, false)?;
    let is_value = literal.is_quoted
        || literal.is_null()
        || literal.number().is_some()
        || literal.boolean().is_some();
    if !is_value {
        return Err(reader.error(
            "IS DISTINCT FROM takes a value, with texts in quotes; for two fields write a != b",
        ));
    }
    let is_null = literal.is_null();
    let test = equal(operand.clone(), literal)?;
    let is_known = negate(Test::leaf(operand, Check::IsNull));
    Ok(negate(if is_null { test } else { Test::All(vec![is_known, test]) }))
}
