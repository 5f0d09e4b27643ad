//! Comparisons that begin with their value: `60 < age`, `10 <= x < 20`, `'bug' in labels`.

use super::build::{numbered, single};
use super::literal::read_literal;
use super::operator::{Sign, parse_operator};
use super::parse::{Names, Parser};
use super::pattern::TextPattern;
use super::{Check, Operator, Test};
use crate::query::date::{DateTime, DayOrder};
use crate::query::literal::Literal;
use crate::query::operand::Operand;
use crate::query::reader::Reader;
use crate::query::value::Number;

impl Parser {
    /// Reads a comparison that begins with its value: `60 < age`, `1 <= x <= 5`, `'bug' in labels`,
    /// `2020-01-01 <= day < 2021-01-01`. `None` if no such comparison is next.
    pub(super) fn reversed(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        let start = reader.position();
        let literal = if let Some(text) = reader.quoted()? {
            let is_member =
                reader.keyword(&["in"]).is_some() && !reader.rest().trim_start().starts_with('(');
            if is_member {
                let operand = self.operand(reader)?;
                // An element of a list, or a part of a text.
                let mut test = Test::leaf(operand, Check::Matches(TextPattern::contains(&text)));
                if let Test::Leaf(leaf) = &mut test {
                    leaf.member = Some(Literal::new(text, true));
                }
                return Ok(Some(test));
            }
            is_date(&text).then(|| Literal::new(text, true))
        } else {
            let is_part = |c: char| c.is_alphanumeric() || ".-_:/".contains(c);
            let rest = reader.rest().trim_start();
            let word = rest.get(..rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
            let word = word.unwrap_or_default().to_owned();
            let is_value = Number::parse_plain(&word).is_some() || is_date(&word);
            (is_value && reader.eat(&word)).then(|| Literal::new(word, false))
        };
        let sign = if literal.is_some() { parse_operator(reader) } else { None };
        let (Some(literal), Some((Sign::Compare(operator), false))) = (literal, sign) else {
            reader.reset(start);
            return Ok(None);
        };
        let next = reader.rest().trim_start();
        let is_ordered = operator != Operator::Equal;
        let names_field =
            !next.starts_with(['\'', '"']) && !next.starts_with(|c: char| c.is_ascii_digit());
        if !names_field || (literal.number().is_none() && !is_ordered) {
            // A field whose name is a number or a date.
            reader.reset(start);
            return Ok(None);
        }
        let computed = if self.names == Names::Fields { Operand::computed(reader) } else { None };
        let operand = match computed {
            Some(operand) => operand,
            None => self.operand(reader)?,
        };
        let upper = match parse_operator(reader) {
            Some((Sign::Compare(operator), false)) => {
                Some((operator, read_literal(reader, false)?))
            }
            Some(_) => return Err(reader.error("write a <= x AND x <= b")),
            None => None,
        };
        let mut bounds = vec![&literal];
        bounds.extend(upper.as_ref().map(|(_, literal)| literal));
        let operand = numbered(operand, &bounds);
        let first = Check::Compare(operator.flipped(), literal);
        let mut tests = vec![Test::leaf(operand.clone(), first)];
        if let Some((operator, literal)) = upper {
            tests.push(Test::leaf(operand, Check::Compare(operator, literal)));
        }
        Ok(Some(single(tests, Test::All)))
    }
}

/// Returns true if a text is a date that begins with its year.
fn is_date(text: &str) -> bool {
    let is_year = text.len() >= 7 && text.bytes().take(4).all(|byte| byte.is_ascii_digit());
    is_year && DateTime::read(text, DayOrder::Unknown).is_some()
}
