//! Names alone as conditions: `city = 'Rome' AND open`, `not row['note']`.

use super::build::equal;
use super::literal::ENDS;
use super::operator::overlaps;
use super::parse::{Names, Parser};
use super::{Check, Leaf, Test};
use crate::json::outline::NodeId;
use crate::json::scan::Kind;
use crate::query::literal::Literal;
use crate::query::operand::Operand;
use crate::query::reader::Reader;
use crate::query::records::RecordSet;
use crate::query::value::Value;

/// Texts that mean true or false, so that a name alone does not test for a text.
const FLAGS: [&str; 13] =
    ["true", "false", "yes", "no", "y", "n", "t", "f", "on", "off", "0", "1", "x"];

impl Parser {
    /// Reads a name alone after AND or NOT, which means that the field has this value: true or
    /// false. `None` if a test of another form is next.
    pub(super) fn flag(
        &self,
        reader: &mut Reader<'_>,
        value: &str,
    ) -> Option<Result<Test, String>> {
        let mut rest = reader.clone();
        let operand = Operand::read(&mut rest).ok().filter(|operand| {
            let is_word = |sign: char| sign.is_alphanumeric() || "_.-?&".contains(sign);
            let name = without_brackets(&operand.name.verbatim);
            operand.function.is_none() && !operand.is_computed() && name.chars().all(is_word)
        });
        let is_end = rest.is_at_end()
            || rest.clone().keyword(&ENDS).is_some()
            || rest.rest().trim_start().starts_with([')', '&', '|', ',', ';']);
        let is_end = is_end && !overlaps(&rest);
        let operand = operand.filter(|_| is_end && self.names == Names::Fields)?;
        // `first || ' ' || last = 'x'` joins texts.
        if Operand::computed(&mut reader.clone()).is_some() {
            return None;
        }
        *reader = rest;
        if let Err(reason) = reader.count_part() {
            return Some(Err(reason));
        }
        let mut test = equal(operand, Literal::new(value.to_owned(), false));
        if let Ok(Test::Leaf(leaf)) = &mut test {
            leaf.is_flag = true;
        }
        Some(test)
    }

    /// Reads a name alone before the first AND, as in `open && city == 'Rome'`. `None` if a test of
    /// another form is next.
    pub(super) fn leading_flag(&self, reader: &mut Reader<'_>) -> Option<Result<Test, String>> {
        let mut rest = reader.clone();
        let test = self.flag(&mut rest, "true")?;
        let is_and = rest.clone().keyword(&["and"]).is_some() || rest.clone().eat("&&");
        // After `city = Rome OR`, a word is rather another value.
        let is_flag = is_and && self.last.is_none();
        if is_flag {
            *reader = rest;
        }
        is_flag.then_some(test)
    }
}

impl Leaf {
    /// Makes the name of a row's field, such as `row['note']`, test for a value if the field holds
    /// texts or objects only. Languages with such rows read it alike: null and an empty text are
    /// false. Numbers and lists differ, and SQL has flags only.
    pub(super) fn bind_flag(&mut self, records: &RecordSet<'_>, all: &[NodeId]) {
        let Check::Compare(_, literal) = &self.check else { return };
        let name = &self.operand.name.verbatim;
        let is_of_row = name.contains('[') || name.chars().nth(1) == Some('.');
        if !is_of_row {
            return;
        }
        let field = &self.operand.field;
        let has_list = all.iter().any(|id| field.list_depth(&records.outline, *id).is_some());
        let (mut has_other, mut has_value) = (has_list, false);
        // Languages differ in the meaning of an object without members.
        let mut add = |node: Option<NodeId>| {
            let node = node.and_then(|id| records.outline.node(id));
            has_other |= node.is_some_and(|it| it.kind == Kind::Object && it.children == 0);
        };
        all.iter().for_each(|id| field.visit_elements(&records.outline, *id, &mut add));
        for id in all {
            field.visit(&records.outline, *id, &mut |value| match value {
                Value::Null => {}
                Value::Object => has_value = true,
                Value::Text(text) if !FLAGS.contains(&text.to_lowercase().as_str()) => {
                    has_value |= !text.is_empty();
                    has_other |= crate::query::value::Number::parse_plain(&text).is_some();
                }
                _ => has_other = true,
            });
        }
        if has_value && !has_other {
            self.check = Check::HasValue(literal.boolean() == Some(true));
        }
    }
}

/// Returns a name without its keys in brackets.
fn without_brackets(name: &str) -> String {
    let mut depth = 0usize;
    let mut plain = String::new();
    for sign in name.chars() {
        match sign {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            sign if depth == 0 => plain.push(sign),
            _ => {}
        }
    }
    plain
}
