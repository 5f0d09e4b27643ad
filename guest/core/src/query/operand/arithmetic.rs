//! Numbers that are computed from fields: `price * quantity`, `(high - low) / 2`.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = factor { ("*" | "/" | "%") factor }
//! factor  = number | "(" sum ")" | operand
//! ```
//!
//! `-`, `/` and `%` need white space on both sides, because names, dates and patterns contain them.

use super::date_unit::DateUnit;
use super::text_part::JoinedText;
use super::{FieldFunction, Operand};
use crate::json::outline::{NodeId, Outline};
use crate::query::date::{DatePart, DateTime};
use crate::query::field::FieldName;
use crate::query::reader::Reader;
use crate::query::records::RecordSet;
use crate::query::value::{Number, Value};

/// An expression whose value is a number.
#[derive(Clone, Debug)]
pub(in crate::query) enum Expression {
    Number(Number),
    Field(Box<Operand>),
    Binary(char, Box<Expression>, Box<Expression>),
    /// The time from the second date to the first, in this unit.
    Difference(Box<Operand>, Box<Operand>, DateUnit),
    /// A text that is joined from parts, and no number.
    Text(JoinedText),
}

impl Expression {
    /// Reads an expression with at least one operation. `None`, with nothing read, if no such
    /// expression is next.
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let mut rest = reader.clone();
        let expression = Self::sum(&mut rest).ok()?;
        let is_computed = matches!(expression, Expression::Binary(..)) && expression.has_field();
        if is_computed {
            *reader = rest;
        }
        is_computed.then_some(expression)
    }

    fn has_field(&self) -> bool {
        match self {
            Expression::Number(_) => false,
            Expression::Field(_) | Expression::Difference(..) | Expression::Text(_) => true,
            Expression::Binary(_, left, right) => left.has_field() || right.has_field(),
        }
    }

    fn sum(reader: &mut Reader<'_>) -> Result<Self, String> {
        Self::chain(reader, &['+', '-'], Self::product)
    }

    fn product(reader: &mut Reader<'_>) -> Result<Self, String> {
        Self::chain(reader, &['*', '/', '%'], Self::factor)
    }

    fn chain(
        reader: &mut Reader<'_>,
        operators: &[char],
        part: fn(&mut Reader<'_>) -> Result<Self, String>,
    ) -> Result<Self, String> {
        let mut left = part(reader)?;
        while let Some(operator) = operator(reader, operators) {
            reader.count_part()?;
            left = Expression::Binary(operator, Box::new(left), Box::new(part(reader)?));
        }
        Ok(left)
    }

    fn factor(reader: &mut Reader<'_>) -> Result<Self, String> {
        reader.skip_space();
        if reader.eat("(") {
            reader.enter()?;
            let inner = Self::sum(reader)?;
            reader.leave();
            reader.close()?;
            return Ok(inner);
        }
        let rest = reader.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let is_end = |c: char| c.is_whitespace() || "+*%),;<>=!".contains(c);
        let digits = rest.get(..end).unwrap_or_default();
        if rest.get(end..).is_some_and(|after| after.is_empty() || after.starts_with(is_end))
            && let Some(number) = Number::parse_plain(digits)
        {
            reader.eat(digits);
            return Ok(Expression::Number(number));
        }
        Operand::read(reader).map(|operand| Expression::Field(Box::new(operand)))
    }

    /// Returns the unit of a difference of dates in the expression. `None` if it has none.
    pub(in crate::query) fn date_unit(&self) -> Option<DateUnit> {
        match self {
            Expression::Number(_) | Expression::Field(_) | Expression::Text(_) => None,
            Expression::Difference(_, _, unit) => Some(*unit),
            // A product or a quotient has another unit.
            Expression::Binary('+' | '-', left, right) => {
                left.date_unit().or_else(|| right.date_unit())
            }
            Expression::Binary(..) => None,
        }
    }

    /// Returns a note on joined parts that are null. `None` if there are none.
    pub(in crate::query) fn null_note(&self) -> Option<String> {
        if let Expression::Text(text) = self { text.null_note() } else { None }
    }

    /// Finds the paths of the fields in the records. A difference of fields becomes a number of
    /// days if their first values are dates.
    ///
    /// # Errors
    /// Returns a message for the caller if no record has a field.
    pub(super) fn bind(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        match self {
            Expression::Number(_) => Ok(()),
            Expression::Text(text) => text.bind(records, all),
            Expression::Field(operand) => {
                operand.bind(records, all)?;
                operand.bind_unit(records, all)
            }
            Expression::Difference(left, right, _) => {
                left.bind(records, all)?;
                right.bind(records, all)?;
                for operand in [left, right] {
                    if let Some(dated) = dated(operand, records, all) {
                        *operand = dated;
                    }
                }
                Ok(())
            }
            Expression::Binary(operator, left, right) => {
                left.bind(records, all)?;
                right.bind(records, all)?;
                let difference = match (left.as_ref(), right.as_ref()) {
                    (Expression::Field(left), Expression::Field(right)) if *operator == '-' => {
                        let (left, right) = (dated(left, records, all), dated(right, records, all));
                        left.zip(right).map(|(left, right)| {
                            Expression::Difference(left, right, DateUnit::EXACT_DAYS)
                        })
                    }
                    _ => None,
                };
                match difference {
                    Some(difference) => *self = difference,
                    None => drop(self.unit()?),
                }
                Ok(())
            }
        }
    }

    /// Calls `visit` with each field.
    pub(super) fn each_field<'e>(&'e self, visit: &mut impl FnMut(&'e Operand)) {
        match self {
            Expression::Number(_) => {}
            Expression::Text(text) => text.each_field(visit),
            Expression::Field(operand) => visit(operand),
            Expression::Difference(left, right, _) => {
                visit(left);
                visit(right);
            }
            Expression::Binary(_, left, right) => {
                left.each_field(visit);
                right.each_field(visit);
            }
        }
    }

    /// Removes the first `depth` steps of the paths of all fields.
    pub(super) fn strip(&mut self, depth: usize) {
        match self {
            Expression::Number(_) => {}
            Expression::Text(text) => text.strip(depth),
            Expression::Field(operand) => operand.strip(depth),
            Expression::Difference(left, right, _) => {
                left.strip(depth);
                right.strip(depth);
            }
            Expression::Binary(_, left, right) => {
                left.strip(depth);
                right.strip(depth);
            }
        }
    }

    /// Calls `visit` with the name of each field.
    pub(super) fn each_name(&self, visit: &mut impl FnMut(&FieldName)) {
        match self {
            Expression::Number(_) => {}
            Expression::Text(text) => text.each_field(|field| field.each_name(visit)),
            Expression::Field(operand) => visit(&operand.name),
            Expression::Difference(left, right, _) => {
                visit(&left.name);
                visit(&right.name);
            }
            Expression::Binary(_, left, right) => {
                left.each_name(visit);
                right.each_name(visit);
            }
        }
    }

    /// Returns the number for the node `id`. `None` if a field is not a single number, or if the
    /// result is not finite.
    pub(super) fn evaluate(&self, outline: &Outline<'_>, id: NodeId) -> Option<Number> {
        match self {
            Expression::Number(number) => Some(*number),
            Expression::Text(_) => None,
            Expression::Field(operand) => {
                let (mut number, mut count) = (None, 0);
                operand.visit(outline, id, &mut |value: Value<'_>| {
                    number = operand.number_of(&value);
                    count += 1;
                });
                number.filter(|_| count == 1)
            }
            Expression::Difference(left, right, unit) => {
                let date = |operand: &Operand| {
                    DateTime::read(&text_of(operand, outline, id)?, operand.order)
                };
                Some(Number::of_float(unit.between(&date(left)?, &date(right)?)))
            }
            Expression::Binary(operator, left, right) => {
                left.evaluate(outline, id)?.computed(*operator, right.evaluate(outline, id)?)
            }
        }
    }
}

impl Operand {
    /// Reads a field that is divided by a number without white space, as in `floor(year/100)`.
    /// Elsewhere, a slash may be a part of a name. `None`, with nothing read, if something else is
    /// next.
    pub(super) fn quotient(reader: &mut Reader<'_>) -> Option<Self> {
        let rest = reader.rest();
        let inside = rest.get(..rest.find(')')?)?;
        let (name, number) = inside.split_once('/')?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let text = format!("{name} / {number}");
        let mut inner = reader.inner(&text);
        let operand = Self::computed(&mut inner).filter(|_| is_number && inner.is_at_end())?;
        reader.eat(inside);
        Some(operand)
    }
}

/// Returns a field of dates with the order of day and month in them. `None` if most values are no
/// dates, or if the operand is a part of one, such as its month.
fn dated(operand: &Operand, records: &RecordSet<'_>, all: &[NodeId]) -> Option<Box<Operand>> {
    let is_whole = matches!(operand.function, None | Some(FieldFunction::Date(DatePart::Day)));
    if !is_whole || operand.is_computed() {
        return None;
    }
    let order = operand.day_order(records, all)?;
    Some(Box::new(Operand { order, ..operand.clone() }))
}

/// Returns the only value of an operand in the node `id`, as text. `None` if it has none or
/// several.
fn text_of(operand: &Operand, outline: &Outline<'_>, id: NodeId) -> Option<String> {
    let mut values = Vec::new();
    operand.visit(outline, id, &mut |value: Value<'_>| {
        values.push(value.text().map(str::to_owned));
    });
    values.pop().flatten().filter(|_| values.is_empty())
}

/// Reads one of `operators`. `None` if none of them is next.
fn operator(reader: &mut Reader<'_>, operators: &[char]) -> Option<char> {
    let rest = reader.rest();
    let trimmed = rest.trim_start();
    let operator = trimmed.chars().next().filter(|next| operators.contains(next))?;
    let after = trimmed.get(operator.len_utf8()..)?;
    let has_space = trimmed.len() < rest.len() && after.starts_with(char::is_whitespace);
    // Other operators begin so: `*=`, `%>%`, `->`.
    let is_other = after.starts_with(['=', '>', operator]);
    let is_operator = !is_other && (has_space || matches!(operator, '*' | '+'));
    if is_operator {
        reader.skip_space();
        reader.next();
    }
    is_operator.then_some(operator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::text::Form;

    /// Returns the value of an expression, and the text after it.
    fn value(text: &str) -> (Option<f64>, String) {
        let json = br#"{"a":7,"b":"2","c-d":3,"e":{"f":10},"l":[1,2],"t":"x"}"#;
        let outline = Outline::parse(json, Form::Raw, &(0..json.len())).unwrap();
        let mut reader = Reader::new("where", text).unwrap();
        let expression = Expression::read(&mut reader);
        fn bound(expression: &mut Expression) {
            match expression {
                Expression::Number(_) | Expression::Difference(..) | Expression::Text(_) => {}
                Expression::Field(operand) => {
                    let keys = operand.name.keys().map(|key| key.to_owned());
                    operand.field = crate::query::field::FieldPath::of_keys(keys);
                }
                Expression::Binary(_, left, right) => {
                    bound(left);
                    bound(right);
                }
            }
        }
        let value = expression.and_then(|mut expression| {
            bound(&mut expression);
            expression.evaluate(&outline, 0).map(|number| number.float)
        });
        (value, reader.rest().to_owned())
    }

    #[test]
    fn expressions_have_the_usual_precedence() {
        for (text, expected, rest) in [
            ("a - b > 1", Some(5.0), " > 1"),
            ("a + b*2", Some(11.0), ""),
            ("(a + b) * 2 = 18", Some(18.0), " = 18"),
            ("a - b - 1", Some(4.0), ""),
            ("0.5 * e.f", Some(5.0), ""),
            ("a % 4", Some(3.0), ""),
            ("e.f / c-d", Some(10.0 / 3.0), ""),
            ("a / 0", None, ""),
            ("a + t", None, ""),
            ("a + l", None, ""),
        ] {
            assert_eq!(value(text), (expected, rest.to_owned()), "{text}");
        }
        for text in ["a", "a > 5", "a-b", "2020-01-01", "2012/01/01", "1 + 2", "a *= 5", "a %>% b"]
        {
            assert_eq!(value(text), (None, text.to_owned()), "{text}");
        }
    }
}
