//! The construction of tests from their parts.

use super::operator::Sign;
use super::pattern::TextPattern;
use super::{Check, Operator, Test};
use crate::query::literal::Literal;
use crate::query::operand::{FieldFunction, Operand};
use crate::query::value::quote;

/// Creates the pattern of an operator and its value.
pub(super) fn pattern(sign: Sign, literal: &Literal) -> Result<TextPattern, String> {
    let text = &literal.text;
    let is_regex = text.starts_with('^')
        || (text.ends_with('$') && text.len() > 1)
        || [".*", ".+", "\\", "|", "[^"].iter().any(|part| text.contains(part));
    let has_set = ["[0-9", "[a-z", "[A-Z", "(?"].iter().any(|part| text.contains(part));
    Ok(match sign {
        Sign::Contains if is_regex && !literal.is_quoted => TextPattern::regex(text, Some(true))?,
        Sign::Contains if is_regex || has_set => TextPattern::contains(text).or_regex(text),
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
    let operand = numbered(operand, &[&literal]);
    let wildcards = ['*', '%'];
    if !literal.is_quoted
        && (text.starts_with(wildcards) || text.ends_with(wildcards))
        && text.parse::<f64>().is_err()
    {
        let name = &operand.name.verbatim;
        let like = text.replace('*', "%");
        if like.trim_matches('%').is_empty() {
            return Err(format!(
                "where: {name}={text} is not a comparison; write {name} IS NOT NULL"
            ));
        }
        let is_percent = text.trim_end_matches('%').parse::<f64>().is_ok();
        if !is_percent {
            return Err(format!(
                "where: = takes no wildcards; write {name} LIKE {}, or for the text itself {name}={}",
                quote(&like),
                quote(text)
            ));
        }
    }
    Ok(Test::leaf(operand, Check::Compare(Operator::Equal, literal)))
}

/// Returns the operand of a comparison with `literals`: of a date compared with small numbers, the
/// number of the period, as in `month(x) IN (6, 7)`.
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

/// Creates a test for null, an empty text or an empty list.
pub(super) fn empty(operand: Operand) -> Test {
    let text = Check::Compare(Operator::Equal, Literal::new(String::new(), true));
    let zero = Check::Compare(Operator::Equal, Literal::new("0".to_owned(), false));
    let length = Operand { function: Some(FieldFunction::Length), ..operand.clone() };
    Test::Any(vec![
        Test::leaf(operand.clone(), Check::IsNull),
        Test::leaf(operand, text),
        Test::leaf(length, zero),
    ])
}

pub(super) fn negate(test: Test) -> Test {
    match test {
        Test::Not(test) => *test,
        test => Test::Not(Box::new(test)),
    }
}

/// Returns the only test, or a test of several.
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
