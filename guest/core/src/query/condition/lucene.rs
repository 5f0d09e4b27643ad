//! Values in the syntax of search engines, after a colon: `kind:(new OR old)`, `price:[5 TO 10}`.

use super::build::{equal, of_day, single};
use super::literal::read_literal;
use super::{Check, Operator, Test};
use crate::query::literal::Literal;
use crate::query::operand::Operand;
use crate::query::reader::Reader;

/// Returns true if a group of values or a range is next.
pub(super) fn follows(reader: &Reader<'_>) -> bool {
    let rest = reader.rest().trim_start();
    let inside = rest.get(1..).and_then(|inside| inside.split([')', ']', '}']).next());
    let inside = inside.unwrap_or_default();
    match rest.chars().next() {
        Some('(') => [" OR ", " or ", " || "].iter().any(|word| inside.contains(word)),
        Some('[' | '{') => inside.contains(" TO "),
        _ => false,
    }
}

/// Reads a group of values or a range.
pub(super) fn read(reader: &mut Reader<'_>, operand: &Operand) -> Result<Test, String> {
    if reader.eat("(") {
        let mut tests = Vec::new();
        loop {
            tests.push(equal(operand.clone(), read_literal(reader, false)?)?);
            if reader.eat(")") {
                return Ok(single(tests, Test::Any));
            }
            reader.count_part()?;
            if reader.keyword(&["or"]).is_none() && !reader.eat("||") {
                return Err(reader.error("OR or a closing parenthesis is expected here"));
            }
        }
    }
    let from = if reader.eat("[") { Operator::AtLeast } else { Operator::More };
    let _ = reader.eat("{");
    let low = bound(reader);
    if reader.keyword(&["to"]).is_none() {
        return Err(reader.error("a range is written as [1 TO 5]"));
    }
    let high = bound(reader);
    let until = if reader.eat("]") { Operator::AtMost } else { Operator::Less };
    if until == Operator::Less && !reader.eat("}") {
        return Err(reader.error("a range is written as [1 TO 5], with quotes around spaces"));
    }
    let mut tests = Vec::new();
    for (operator, text) in [(from, low), (until, high)] {
        if text != "*" {
            let literal = Literal::new(text, false);
            // The last day of a range belongs to it, and the day before it does not.
            let operand = match operator {
                Operator::AtMost | Operator::More => of_day(operand.clone(), &literal),
                _ => operand.clone(),
            };
            tests.push(Test::leaf(operand, Check::Compare(operator, literal)));
        }
    }
    if tests.is_empty() {
        return Ok(super::build::negate(Test::leaf(operand.clone(), Check::IsNull)));
    }
    Ok(single(tests, Test::All))
}

/// Reads a bound of a range. `*` means no bound.
fn bound(reader: &mut Reader<'_>) -> String {
    if let Ok(Some(text)) = reader.quoted() {
        return text;
    }
    reader.skip_space();
    let mut text = String::new();
    while let Some(next) = reader.peek().filter(|c| !c.is_whitespace() && !"]}".contains(*c)) {
        text.push(next);
        reader.next();
    }
    text
}
