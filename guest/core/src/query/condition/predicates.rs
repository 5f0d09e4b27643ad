//! Tests in the form of methods and functions of other languages: `['a', 'b'].includes(kind)`,
//! `due.nil?`, `tags.any? { |tag| tag == 'x' }`, `isnotempty(kind)`.

use super::build::empty;
use super::parse::{Parser, expect_end};
use super::{Check, Test};
use crate::query::code::{end_of_group, parts};
use crate::query::field::FieldName;
use crate::query::operand::Operand;
use crate::query::reader::Reader;

/// The methods of a list that test for an element.
const MEMBERSHIP: [&str; 4] = [".includes(", ".include?(", ".contains(", ".Contains("];

impl Parser {
    /// Reads `['a', 'b'].includes(kind)`. `None` if no such test is next.
    pub(super) fn list_first(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        let text = reader.rest().trim_start();
        let end = text.strip_prefix('[').and_then(end_of_group).map(|end| end + 2);
        let Some((list, after)) = end.and_then(|end| text.split_at_checked(end)) else {
            return Ok(None);
        };
        let Some(call) = MEMBERSHIP.iter().find(|call| after.starts_with(**call)) else {
            return Ok(None);
        };
        let argument = after.get(call.len()..).unwrap_or_default().trim_start();
        // `['labels'].includes('bug')` names a field.
        let is_key = parts(list.trim_matches(['[', ']']), ",").len() < 2;
        if argument.starts_with(['\'', '"', '`']) || (is_key && !list.contains(['\'', '"'])) {
            return Ok(None);
        }
        reader.eat(list);
        reader.eat(call);
        let operand = self.operand(reader)?;
        reader.close()?;
        let mut inner = reader.inner(list);
        let test = self.membership(&mut inner, operand)?;
        expect_end(&mut inner)?;
        Ok(Some(test))
    }

    /// Reads a call of a Ruby method that returns true or false: `due.nil?`,
    /// `name.start_with?('x')`, `tags.any? { |t| t == 'x' }`. `None` if no such test is next.
    pub(super) fn question(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        let mut rest = reader.clone();
        let name = FieldName::read(&mut rest).ok().filter(|_| rest.rest().starts_with('?'));
        let Some((field, word)) = name.and_then(FieldName::split_last) else { return Ok(None) };
        rest.next();
        let operand = Operand::new(field);
        let test = match word.as_str() {
            "nil" => Test::leaf(operand, Check::IsNull),
            "empty" => empty(operand),
            "include" | "start_with" | "end_with" | "match" | "between" => {
                if !rest.rest().starts_with('(') {
                    return Err(rest.error(&format!("{word}? takes a value in parentheses")));
                }
                let method = match word.as_str() {
                    "include" => "includes",
                    "start_with" => "startswith",
                    "end_with" => "endswith",
                    word => word,
                };
                return self.converted(reader, &operand.name.verbatim, method, rest);
            }
            "any" | "all" | "none" => {
                let block = rest.rest().trim_start();
                let inside = block.strip_prefix('{').and_then(|inner| {
                    let end = end_of_group(inner)?;
                    inner.get(..end).filter(|inner| inner.trim_start().starts_with('|'))
                });
                let Some(inside) = inside else {
                    return Err(rest.error(&format!("write {word}? {{ |x| x.a == 1 }}")));
                };
                let text = format!("{word}({}; {})", operand.name.verbatim, inside.trim());
                let mut inner = reader.inner(&text);
                let test = self.call(&mut inner)?;
                expect_end(&mut inner)?;
                rest.eat("{");
                rest.eat(inside.trim_start());
                if !rest.eat("}") {
                    return Err(rest.error("a closing brace is missing here"));
                }
                *reader = rest;
                return Ok(test);
            }
            _ => return Ok(None),
        };
        // A method without arguments may have empty parentheses.
        let _ = rest.eat("()");
        *reader = rest;
        Ok(Some(test))
    }

    /// Reads the arguments of a method that another name of this language denotes, as in
    /// `name.start_with?('x')`.
    fn converted<'t>(
        &mut self,
        reader: &mut Reader<'t>,
        field: &str,
        method: &str,
        mut rest: Reader<'t>,
    ) -> Result<Option<Test>, String> {
        let inside = rest.rest().get(1..).unwrap_or_default();
        let Some(inside) = end_of_group(inside).and_then(|end| inside.get(..end)) else {
            return Err(rest.error("a closing parenthesis is missing here"));
        };
        let text = format!("{field}.{method}({inside})");
        let mut inner = reader.inner(&text);
        let test = self.call(&mut inner)?;
        expect_end(&mut inner)?;
        let length = inside.len() + "()".len();
        let whole = rest.rest().get(..length).unwrap_or_default().to_owned();
        rest.eat(&whole);
        *reader = rest;
        Ok(test)
    }
}
