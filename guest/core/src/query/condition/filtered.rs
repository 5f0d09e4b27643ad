//! Filters of lists inside records, in the syntax of JSONPath and JMESPath: `lines[?sku == 'a']` is
//! true if an element meets the condition.

use super::build::negate;
use super::operator::{Sign, parse_operator};
use super::parse::{Parser, expect_end};
use super::wrapper::with_values;
use super::{Operator, Test};
use crate::query::code::end_of_group;
use crate::query::field::FieldName;
use crate::query::operand::Operand;
use crate::query::reader::{Reader, is_word_character};
use crate::query::records::RecordSet;

impl Parser {
    /// Reads `lines[?sku == 'a']`, `lines[?sku == 'a'].qty > 5` or `length(lines[?sku == 'a']) >
    /// 0`. `None` if no such test is next.
    pub(super) fn filtered(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        let mut rest = reader.clone();
        let word = rest.peek_word();
        let is_count = ["length", "count", "size"].contains(&word) && rest.eat(word);
        let is_count = is_count && rest.eat("(");
        if !is_count {
            rest = reader.clone();
        }
        let text = rest.rest().trim_start();
        let Some((name, after)) = text.split_once("[?") else { return Ok(None) };
        let is_name = !name.is_empty()
            && name.chars().all(|c| is_word_character(c) || ".-@$:".contains(c))
            && !name.starts_with('$');
        let inner = end_of_group(after).and_then(|end| after.get(..end)).filter(|_| is_name);
        let Some(inner) = inner else { return Ok(None) };
        let length = name.len() + inner.len() + "[?]".len();
        if !text.get(..length).is_some_and(|whole| rest.eat(whole)) {
            return Ok(None);
        }
        rest.enter()?;
        rest.count_part()?;
        let condition = with_values(inner);
        let mut inner = rest.inner(&condition);
        let mut test = self.list(&mut inner)?;
        expect_end(&mut inner)?;
        if rest.rest().starts_with('.') {
            test = Test::All(vec![test, self.comparison(&mut rest)?]);
        }
        let list = Operand::new(FieldName::of_filter(name));
        let mut test = Test::Element(list, Box::new(test));
        if is_count {
            rest.close()?;
            let found = parse_operator(&mut rest);
            let number = rest.peek_word();
            rest.eat(number);
            test = match (found, number) {
                (Some((Sign::Compare(Operator::More) | Sign::Unequal, false)), "0")
                | (Some((Sign::Compare(Operator::AtLeast), false)), "1") => test,
                (Some((Sign::Compare(Operator::Equal), false)), "0")
                | (Some((Sign::Compare(Operator::Less), false)), "1") => negate(test),
                _ => {
                    return Err(rest.error(
                        "the number of elements that meet a condition is compared with 0 only: write > 0",
                    ));
                }
            };
        }
        rest.leave();
        *reader = rest;
        Ok(Some(test))
    }
}

impl Test {
    /// Replaces a filter of the records themselves by its condition, such as `items[?price > 5]`
    /// for the records of `/items`. Also accepts usual names of records, such as `rows`.
    pub(super) fn unwrap_filters(&mut self, records: &RecordSet<'_>) {
        match self {
            Test::All(tests) | Test::Any(tests) => {
                tests.iter_mut().for_each(|test| test.unwrap_filters(records));
            }
            Test::Not(test) => test.unwrap_filters(records),
            Test::Leaf(_) => {}
            Test::Element(list, test) => {
                let keys: Vec<String> = list.name.keys().map(str::to_owned).collect();
                let is_own = !keys.is_empty() && records.list_keys().ends_with(&keys);
                if list.name.is_filter()
                    && (is_own
                        || list.name.is_of_records(records)
                            && list.name.find(records, &records.ids).is_none())
                {
                    *self = std::mem::replace(test.as_mut(), Test::All(Vec::new()));
                }
            }
        }
    }
}
