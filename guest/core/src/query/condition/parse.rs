//! The grammar of conditions.
//!
//! ```text
//! list       = or { ("," | ";") or }            all must hold
//! or         = and { ("OR" | "||" | "|") and }
//! and        = not { ("AND" | "&&" | "&") not }
//! not        = ("NOT" | "!") not | "(" list ")" | "any" "(" field ";" list ")" | comparison
//! comparison = operand operator value | number operator operand [ operator number ]
//! ```

use super::arrays;
use super::build::{
    check_bounds, distinct_from, empty, equal, has_wildcards, negate, numbered, of_day, pattern,
    single,
};
use super::literal::{
    ENDS, is_value, qualifier_follows, read_literal, read_literals, regex_literal,
};
use super::lucene;
use super::member::{SoughtElement, with_member};
use super::operator::{SYMBOLS, Sign, is_comparison, parse_operator};
use super::pattern::TextPattern;
use super::pipe::{check_pipe, eat_alternative, eat_or};
use super::presence::{presence, worded};
use super::{Check, Operator, Test};
use crate::query::code::end_of_group;
use crate::query::field::FieldName;
use crate::query::literal::Literal;
use crate::query::operand::Operand;
use crate::query::reader::Reader;
use crate::query::value::quote;

/// The kind of names in a condition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// Fields of records.
    Fields,
    /// Totals of groups, such as `sum(price)`.
    Totals,
}

/// Parses a condition, up to the end of the text or to a word that ends a condition.
///
/// # Errors
/// Returns a message for the caller that shows the position and the reason.
pub(super) fn parse(reader: &mut Reader<'_>, names: Names) -> Result<Test, String> {
    Parser { names, last: None }.list(reader)
}

pub(super) struct Parser {
    pub(super) names: Names,
    /// The operand and the value of the last `=` comparison, for suggestions in errors.
    pub(super) last: Option<(String, String)>,
}

impl Parser {
    pub(super) fn list(&mut self, reader: &mut Reader<'_>) -> Result<Test, String> {
        let mut tests = vec![self.or(reader)?];
        while self.names == Names::Fields && (reader.eat(",") || reader.eat(";")) {
            let is_end = reader.is_at_end()
                || reader
                    .clone()
                    .keyword(&["order by", "sort by", "limit", "offset", "skip"])
                    .is_some();
            if is_end {
                break;
            }
            tests.push(self.or(reader)?);
        }
        Ok(single(tests, Test::All))
    }

    fn or(&mut self, reader: &mut Reader<'_>) -> Result<Test, String> {
        let mut tests = vec![self.and(reader)?];
        while reader.keyword(&["or"]).is_some() || reader.eat("||") || eat_or(reader)? {
            tests.push(self.and(reader)?);
        }
        Ok(single(tests, Test::Any))
    }

    fn and(&mut self, reader: &mut Reader<'_>) -> Result<Test, String> {
        let first = self.leading_flag(reader);
        let mut tests = vec![first.unwrap_or_else(|| self.not(reader))?];
        while reader.keyword(&["and"]).is_some()
            || reader.eat("&&")
            || reader.eat("&")
            || qualifier_follows(reader)
        {
            let flag = self.flag(reader, "true");
            tests.push(flag.unwrap_or_else(|| self.not(reader))?);
        }
        Ok(single(tests, Test::All))
    }

    fn not(&mut self, reader: &mut Reader<'_>) -> Result<Test, String> {
        let start = reader.position();
        let is_not = reader.keyword(&["not"]).is_some()
            || reader.eat("~")
            || (!reader.rest().trim_start().starts_with("!=") && reader.eat("!"));
        if is_not {
            if SYMBOLS.iter().any(|(symbol, ..)| reader.clone().eat(symbol)) {
                // A field named `not`.
                reader.reset(start);
            } else {
                if let Some(test) = self.flag(reader, "false") {
                    return test;
                }
                reader.enter()?;
                let test = self.not(reader)?;
                reader.leave();
                return Ok(negate(test));
            }
        }
        // `-kind:new`, as search engines write it.
        let mut rest = reader.clone();
        let is_minus = rest.eat("-")
            && rest.rest().starts_with(char::is_alphabetic)
            && Operand::read(&mut rest).is_ok()
            && rest.rest().starts_with(':');
        if is_minus && reader.eat("-") {
            return self.comparison(reader).map(negate);
        }
        if let Some(test) = self.computed(reader)? {
            return Ok(test);
        }
        if reader.eat("(") {
            reader.enter()?;
            let test = self.list(reader)?;
            reader.leave();
            reader.close()?;
            return Ok(test);
        }
        reader.count_part()?;
        if let Some(test) = self.call(reader)? {
            return Ok(test);
        }
        self.comparison(reader)
    }

    /// Reads a comparison whose left side is computed: `high - low > 5`. `None` if no such
    /// comparison is next.
    fn computed(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        let mut rest = reader.clone();
        let operand = if self.names == Names::Fields { Operand::computed(&mut rest) } else { None };
        let start = rest.position();
        let found = operand.and_then(|operand| Some((operand, parse_operator(&mut rest)?)));
        let Some((operand, (sign, is_negated))) = found else { return Ok(None) };
        let is_sql = ["=", "<>"].contains(&rest.since(start));
        let is_compared = matches!(sign, Sign::Compare(_) | Sign::Unequal);
        if operand.joins_with_bars() && is_compared && !is_sql && !is_value(&rest) {
            return Err(rest.error(
                "|| is OR in some languages, and joins texts in others: write concat(a, 'b') = c for a text, or OR between two comparisons",
            ));
        }
        *reader = rest;
        let test = self.compare(reader, operand, sign)?;
        Ok(Some(if is_negated { negate(test) } else { test }))
    }

    pub(super) fn operand(&self, reader: &mut Reader<'_>) -> Result<Operand, String> {
        let start = reader.position();
        let word = reader.peek_word();
        let is_call =
            self.names == Names::Totals && !word.is_empty() && reader.eat(word) && reader.eat("(");
        if !is_call {
            reader.reset(start);
            return Operand::read(reader);
        }
        // The name of a total is its text.
        let rest = reader.rest().len();
        let inside = end_of_group(reader.rest()).map_or(rest, |end| end + 1);
        while rest - reader.rest().len() < inside && reader.next().is_some() {}
        Ok(Operand::new(FieldName::of_key(reader.since(start))))
    }

    /// Reads a total with its parenthesis. `None` if no total is next.
    fn total(&self, reader: &mut Reader<'_>) -> Option<Operand> {
        let mut rest = reader.clone();
        let word = rest.peek_word();
        let is_call = !word.is_empty() && rest.eat(word) && rest.rest().starts_with('(');
        if is_call { self.operand(reader).ok() } else { None }
    }

    pub(super) fn comparison(&mut self, reader: &mut Reader<'_>) -> Result<Test, String> {
        if let Some(test) = self.reversed(reader)? {
            return Ok(test);
        }
        let start = reader.position();
        let mut operand = self.operand(reader)?;
        let found = loop {
            if let Some(found) = parse_operator(reader) {
                break found;
            }
            let unit =
                reader.unit(|rest| parse_operator(rest).is_some() || !rest.peek_word().is_empty());
            if let Some(unit) = unit.filter(|_| operand.function.is_none()) {
                operand.name = operand.name.with_word(unit);
                continue;
            }
            let word = reader.peek_word();
            let is_name = !word.is_empty() && !ENDS.contains(&word.to_lowercase().as_str());
            if !is_name || operand.function.is_some() || !reader.eat(word) {
                let name = reader.since(start).to_owned();
                reader.reset(start);
                return Err(reader.error(&self.missing_sign(&name)));
            }
            let is_element = ["any", "some"].iter().any(|any| any.eq_ignore_ascii_case(word));
            if is_element && is_comparison(&mut reader.clone()) {
                return Ok(Test::Element(operand, Box::new(self.comparison(reader)?)));
            }
            operand.name = operand.name.with_word(word);
        };
        let (sign, is_negated) = found;
        let test = self.compare(reader, operand, sign)?;
        Ok(if is_negated { negate(test) } else { test })
    }

    /// Returns the reason for an error at the name `name`, which no operator follows.
    fn missing_sign(&self, name: &str) -> String {
        match &self.last {
            Some((field, value)) if !name.contains(['(', '[']) => format!(
                "{name} is not compared with anything; for several values write {field} IN ({}, {}), and for one text {field}={}",
                quote(value),
                quote(name),
                quote(&format!("{value} … {name}"))
            ),
            _ => format!("an operator is expected after {name}"),
        }
    }

    /// Reads the value after the operator `sign`, and returns the test.
    pub(super) fn compare(
        &mut self,
        reader: &mut Reader<'_>,
        operand: Operand,
        sign: Sign,
    ) -> Result<Test, String> {
        let leaf = |operand, check| Ok(Test::leaf(operand, check));
        match sign {
            Sign::In => self.membership(reader, operand),
            Sign::Exists => Ok(presence(operand)),
            Sign::Between => {
                let has_parenthesis = reader.eat("(");
                let low = read_literal(reader, false)?;
                if reader.keyword(&["and"]).is_none() && !reader.eat(",") {
                    return Err(reader.error("BETWEEN takes two values: BETWEEN 1 AND 5"));
                }
                let high = read_literal(reader, false)?;
                if has_parenthesis {
                    reader.close()?;
                }
                check_bounds(reader, &operand, &low, &high)?;
                leaf(numbered(operand, &[&low, &high]), Check::Between(low, high))
            }
            Sign::Is => {
                let is_not = reader.keyword(&["not"]).is_some();
                let test = if reader.keyword(&["distinct from"]).is_some() {
                    distinct_from(operand, reader)?
                } else if let Some(word) = reader.keyword(&["empty", "blank"]) {
                    worded(empty(operand), word)
                } else if let Some(word) = reader.keyword(&["present", "defined"]) {
                    worded(presence(operand), word)
                } else if let Some(word) =
                    reader.keyword(&["missing", "absent", "undefined", "unset"])
                {
                    worded(Test::leaf(operand, Check::IsNull), word)
                } else if reader.keyword(&["a number"]).is_some() {
                    Test::leaf(operand, Check::IsNumber)
                } else {
                    let literal = read_literal(reader, false)?;
                    let mut test = equal(operand, literal)?;
                    if let Test::Leaf(leaf) = &mut test {
                        leaf.is_known = true;
                    }
                    test
                };
                Ok(if is_not { negate(test) } else { test })
            }
            Sign::Superset | Sign::Overlap => {
                arrays::containing(reader, &operand, sign == Sign::Overlap)
            }
            Sign::HasAny | Sign::HasAll => {
                let texts = read_literals(reader, &operand)?;
                let words = |text: &Literal| {
                    let check = Check::Matches(pattern(Sign::Has, text)?);
                    Ok(Test::leaf(operand.clone(), check))
                };
                let tests: Result<Vec<Test>, String> = texts.iter().map(words).collect();
                let several = if sign == Sign::HasAny { Test::Any } else { Test::All };
                Ok(single(tests?, several))
            }
            Sign::Contains
            | Sign::Has
            | Sign::StartsWith
            | Sign::EndsWith
            | Sign::Regex
            | Sign::RegexAnyCase
            | Sign::EqualAnyCase
            | Sign::Glob
            | Sign::Like => {
                if let Some((text, ignore_case)) = regex_literal(reader, sign) {
                    return leaf(operand, Check::Matches(TextPattern::regex(&text, ignore_case)?));
                }
                let is_word =
                    sign == Sign::Contains && !reader.is_after("=") && !reader.is_after("~");
                let literal = read_literal(reader, true)?;
                let test = Test::leaf(operand, Check::Matches(pattern(sign, &literal)?));
                let member = is_word.then_some(SoughtElement::Unclear(literal));
                Ok(with_member(test, member))
            }
            Sign::Unequal => {
                if let Some(test) = arrays::quantified_list(reader, &operand, "all")? {
                    return Ok(negate(test));
                }
                let literal = read_literal(reader, false)?;
                self.last = None;
                equal(operand, literal).map(negate)
            }
            Sign::Compare(Operator::Equal) if lucene::follows(reader) => {
                lucene::read(reader, &operand)
            }
            Sign::Compare(operator) | Sign::Dated(operator) => {
                if operator == Operator::Equal
                    && let Some(test) = arrays::quantified_list(reader, &operand, "any")?
                {
                    return Ok(test);
                }
                let is_search = reader.is_after(":");
                // Texts contain the signs too, but have no order with numbers.
                let is_number = operand.is_computed() || operator != Operator::Equal;
                let other = match self.names {
                    Names::Totals => self.total(reader),
                    Names::Fields if is_number => Operand::computed(reader),
                    Names::Fields => None,
                };
                if let Some(other) = other {
                    return leaf(operand, Check::Field(operator, other));
                }
                let literal = read_literal(reader, false)?;
                if is_search && !literal.is_quoted && has_wildcards(&literal) {
                    // `name:*host*`, as search engines write it.
                    return leaf(operand, Check::Matches(TextPattern::search(&literal.text)?));
                }
                let operand = match sign {
                    Sign::Dated(_) => of_day(operand, &literal),
                    _ => numbered(operand, &[&literal]),
                };
                if operator != Operator::Equal {
                    if literal.is_null() {
                        return Err(reader.error("null has no order: write IS NULL or IS NOT NULL"));
                    }
                    return leaf(operand, Check::Compare(operator, literal));
                }
                self.last = Some((operand.name.verbatim.clone(), literal.text.clone()));
                if eat_alternative(reader) {
                    return self.alternatives(reader, operand, literal);
                }
                equal(operand, literal)
            }
        }
    }

    /// Reads the other values of `grade=First|Second`, after the first `|`, and returns the test.
    fn alternatives(
        &mut self,
        reader: &mut Reader<'_>,
        operand: Operand,
        first: Literal,
    ) -> Result<Test, String> {
        if is_comparison(&mut reader.clone()) {
            check_pipe(reader, Some(&operand))?;
            let left = equal(operand, first)?;
            return Ok(Test::Any(vec![left, self.and(reader)?]));
        }
        let mut list = vec![first];
        loop {
            list.push(read_literal(reader, false)?);
            if !eat_alternative(reader) {
                break;
            }
            if is_comparison(&mut reader.clone()) {
                check_pipe(reader, Some(&operand))?;
                let left = Test::leaf(operand, Check::In(list));
                return Ok(Test::Any(vec![left, self.and(reader)?]));
            }
        }
        Ok(Test::leaf(operand, Check::In(list)))
    }

    /// Reads the list after `IN`, and returns the test.
    pub(super) fn membership(
        &mut self,
        reader: &mut Reader<'_>,
        operand: Operand,
    ) -> Result<Test, String> {
        let list = read_literals(reader, &operand)?;
        let has_null = list.iter().any(Literal::is_null);
        let list: Vec<Literal> = list.into_iter().filter(|literal| !literal.is_null()).collect();
        let operand = numbered(operand, &list.iter().collect::<Vec<_>>());
        let (patterns, list): (Vec<Literal>, Vec<Literal>) =
            list.into_iter().partition(has_wildcards);
        let mut tests = Vec::new();
        if has_null {
            tests.push(Test::leaf(operand.clone(), Check::IsNull));
        }
        for pattern in patterns {
            tests.push(equal(operand.clone(), pattern)?);
        }
        if !list.is_empty() {
            tests.push(Test::leaf(operand, Check::In(list)));
        }
        Ok(single(tests, Test::Any))
    }
}

/// Returns an error if something follows the condition.
pub(super) fn expect_end(reader: &mut Reader<'_>) -> Result<(), String> {
    if reader.is_at_end() {
        return Ok(());
    }
    Err(reader.error("AND, OR or the end of the condition is expected here"))
}
