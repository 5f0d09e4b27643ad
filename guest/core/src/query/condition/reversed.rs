//! Comparisons that begin with their value: `60 < age`, `10 <= x < 20`, `'bug' in labels`.

use super::build::{equal, negate, numbered, single};
use super::literal::read_literal;
use super::member::{SoughtElement, with_member};
use super::operator::{Sign, parse_operator};
use super::parse::{Names, Parser};
use super::pattern::TextPattern;
use super::{Check, Leaf, Operator, Test};
use crate::json::outline::NodeId;
use crate::query::date::{DateTime, DayOrder};
use crate::query::field::FieldName;
use crate::query::literal::Literal;
use crate::query::operand::Operand;
use crate::query::reader::Reader;
use crate::query::records::RecordSet;
use crate::query::value::Number;

impl Parser {
    /// Reads a test that begins with an element: `'a' = ANY(tags)`, `'a' <> ALL(tags)`, `5 <
    /// ANY(scores)`, `'a' MEMBER OF (tags)`. `None` if no such test is next.
    pub(super) fn element_first(
        &mut self,
        reader: &mut Reader<'_>,
    ) -> Result<Option<Test>, String> {
        let mut rest = reader.clone();
        let literal = match rest.quoted() {
            Ok(Some(text)) => Literal::new(text, true),
            _ => {
                let word = rest.peek_word();
                rest.eat(word);
                Literal::new(word.to_owned(), false)
            }
        };
        let is_value = literal.is_quoted || literal.number().is_some();
        let is_member = rest.keyword(&["member of"]).is_some();
        let sign = if is_member { None } else { parse_operator(&mut rest) };
        let word = if is_member { Some("any") } else { rest.keyword(&["any", "some", "all"]) };
        let Some(word) = word.filter(|_| is_value && rest.eat("(")) else { return Ok(None) };
        let operand = self.operand(&mut rest)?;
        rest.close()?;
        let test = match (sign, word) {
            (None, _) | (Some((Sign::Compare(Operator::Equal), false)), "any" | "some") => {
                equal(operand, literal)?
            }
            (Some((Sign::Unequal, false)), "all") => negate(equal(operand, literal)?),
            (Some((Sign::Compare(operator), false)), "any" | "some") => {
                Test::leaf(operand, Check::Compare(operator.flipped(), literal))
            }
            _ => {
                return Err(reader.error(&format!(
                    "for one element write {0} = {literal}, and for all of them all({0}; @ = {literal})",
                    operand.name.verbatim
                )));
            }
        };
        *reader = rest;
        Ok(Some(test))
    }

    /// Reads a comparison that begins with its value: `60 < age`, `1 <= x <= 5`, `'bug' in labels`,
    /// `2020-01-01 <= day < 2021-01-01`. `None` if no such comparison is next.
    pub(super) fn reversed(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        if let Some(test) = self.element_first(reader)? {
            return Ok(Some(test));
        }
        let start = reader.position();
        let literal = if let Some(text) = reader.quoted()? {
            let is_member =
                reader.keyword(&["in"]).is_some() && !reader.rest().trim_start().starts_with('(');
            if is_member {
                let operand = self.operand(reader)?;
                // An element of a list, or a part of a text.
                let test = Test::leaf(operand, Check::Matches(TextPattern::contains(&text)));
                return Ok(Some(with_member(
                    test,
                    Some(SoughtElement::Element(Literal::new(text, true))),
                )));
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
        if upper.as_ref().is_some_and(|(_, literal)| literal.is_null()) {
            return Err(reader.error("null has no order: write IS NULL or IS NOT NULL"));
        }
        let mut bounds = vec![&literal];
        bounds.extend(upper.as_ref().map(|(_, literal)| literal));
        let operand = numbered(operand, &bounds);
        let name = (!literal.is_quoted).then(|| FieldName::of_key(&literal.text));
        let first = Check::Compare(operator.flipped(), literal);
        let mut test = Test::leaf(operand.clone(), first);
        if let Test::Leaf(leaf) = &mut test {
            leaf.first = name;
        }
        let mut tests = vec![test];
        if let Some((operator, literal)) = upper {
            tests.push(Test::leaf(operand, Check::Compare(operator, literal)));
        }
        Ok(Some(single(tests, Test::All)))
    }
}

impl Leaf {
    /// Checks that the number before the operand is not also the name of a field: `2019 < total`.
    ///
    /// # Errors
    /// Returns a message for the caller if it is.
    pub(super) fn check_first(
        &self,
        records: &RecordSet<'_>,
        all: &[NodeId],
    ) -> Result<(), String> {
        let Some(name) = self.first.as_ref().filter(|name| name.find(records, all).is_some())
        else {
            return Ok(());
        };
        let Check::Compare(operator, literal) = &self.check else { return Ok(()) };
        let (field, sign) = (&self.operand.name.verbatim, operator.sign());
        Err(format!(
            "where: {literal} is a number, and the name of a field: write {field} {sign} {literal} for the number, or \"{}\" for the field",
            name.verbatim
        ))
    }
}

/// Returns true if a text is a date that begins with its year.
fn is_date(text: &str) -> bool {
    let is_year = text.len() >= 7 && text.bytes().take(4).all(|byte| byte.is_ascii_digit());
    is_year && DateTime::read(text, DayOrder::Unknown).is_some()
}
