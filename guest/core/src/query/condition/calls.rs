//! Tests that are written as calls: `any(labels; name=bug)`, `tags.some(t => t.name == 'x')` and
//! `/^new/i.test(kind)`.

use super::arrays;
use super::build::{check_bounds, empty, equal, negate, pattern};
use super::literal::{read_literal, regex_literal};
use super::member::{SoughtElement, with_member};
use super::operator::{Sign, parse_operator};
use super::parse::{Names, Parser, expect_end};
use super::pattern::TextPattern;
use super::presence::presence;
use super::{Check, Test, wrapper};
use crate::query::code::end_of_group;
use crate::query::field::FieldName;
use crate::query::literal::Literal;
use crate::query::operand::Operand;
use crate::query::reader::Reader;

impl Parser {
    /// Reads a test in the form of a call. `None` if no such test is next.
    pub(super) fn call(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        let forms = [
            Self::filtered,
            Self::list_first,
            Self::question,
            Self::with_default,
            Self::expression_first,
            Self::function,
            Self::chained,
            Self::method,
            Self::regex_test,
        ];
        for read in forms {
            if let Some(test) = read(self, reader)? {
                return Ok(Some(test));
            }
        }
        Ok(None)
    }

    /// Reads a test in the form of a function, such as `any(labels; name=bug)` or `exists(x)`.
    /// `None` if no such test is next.
    fn function(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        let start = reader.position();
        // XPath has names with hyphens.
        let hyphened = ["starts-with", "ends-with"].into_iter().find(|name| {
            let rest = reader.rest().trim_start();
            rest.strip_prefix(name).is_some_and(|after| after.starts_with('('))
        });
        let verbatim = hyphened.unwrap_or_else(|| reader.peek_word());
        // R has `is.na(x)`.
        let rest = reader.rest().trim_start();
        let verbatim = if rest.starts_with("is.na(") { "is.na" } else { verbatim };
        let word = verbatim.to_lowercase().replace('-', "_").replace("is.na", "isnull");
        reader.eat(verbatim);
        let has_parenthesis = reader.eat("(");
        // Lucene writes `_exists_:field`.
        if !has_parenthesis && matches!(word.as_str(), "_exists_" | "_missing_") && reader.eat(":")
        {
            let test = presence(self.operand(reader)?);
            return Ok(Some(if word == "_exists_" { test } else { negate(test) }));
        }
        let names_field = !has_parenthesis
            && word == "exists"
            && parse_operator(&mut reader.clone()).is_none()
            && !reader.is_at_end();
        if names_field {
            let operand = self.operand(reader)?;
            return Ok(Some(presence(operand)));
        }
        let known = [
            "any",
            "some",
            "all",
            "every",
            "none",
            "exists",
            "has",
            "isnull",
            "isnotnull",
            "notnull",
            "isempty",
            "isnotempty",
            "notempty",
            "contains",
            "icontains",
            "startswith",
            "starts_with",
            "endswith",
            "ends_with",
            "str_starts",
            "str_ends",
            "regexp_like",
            "regexp_matches",
            "regexp_contains",
            "str_detect",
            "matches",
            "like",
        ];
        let is_known = |word: &str| known.contains(&word) || arrays::FUNCTIONS.contains(&word);
        if !has_parenthesis || self.names == Names::Totals || !is_known(&word) {
            reader.reset(start);
            return Ok(None);
        }
        if matches!(word.as_str(), "any" | "some" | "all" | "every" | "none") {
            let test = self.elements(&word, reader)?;
            reader.close()?;
            return Ok(Some(test));
        }
        let operand = self.operand(reader)?;
        let test = match word.as_str() {
            word if arrays::FUNCTIONS.contains(&word) && reader.eat(",") => match word {
                "json_contains" | "hasall" | "array_has_all" | "list_has_all" => {
                    arrays::containing(reader, &operand, false)?
                }
                "hasany" | "array_has_any" | "list_has_any" | "arrays_overlap" => {
                    arrays::containing(reader, &operand, true)?
                }
                _ => equal(operand, read_literal(reader, false)?)?,
            },
            "exists" | "has" => presence(operand),
            "isnull" => Test::leaf(operand, Check::IsNull),
            "isnotnull" | "notnull" => negate(Test::leaf(operand, Check::IsNull)),
            "isempty" => empty(operand),
            "isnotempty" | "notempty" => negate(empty(operand)),
            _ => {
                if !reader.eat(",") {
                    return Err(reader.error(&format!("write {word}(field, 'text')")));
                }
                let literal = read_literal(reader, false)?;
                let sign = match word.as_str() {
                    "regexp_like" | "regexp_matches" | "regexp_contains" | "str_detect"
                    | "matches" => Sign::Regex,
                    "like" => Sign::Like,
                    word => text_method(word).unwrap_or(Sign::Contains),
                };
                let member = match word.as_str() {
                    "contains" => Some(SoughtElement::Element(literal.clone())),
                    "icontains" => Some(SoughtElement::Unclear(literal.clone())),
                    _ => None,
                };
                let literal = Literal::new(literal.text, true);
                let test = Test::leaf(operand, Check::Matches(pattern(sign, &literal)?));
                with_member(test, member)
            }
        };
        reader.close()?;
        Ok(Some(test))
    }

    /// Reads a list, and the test that its elements must pass, in any supported syntax.
    fn elements(&mut self, word: &str, reader: &mut Reader<'_>) -> Result<Test, String> {
        let inside = end_of_group(reader.rest()).and_then(|end| reader.rest().get(..end));
        if let Some(inside) = inside
            && let Some((list, condition)) = wrapper::generator(inside)
        {
            let mut list = reader.inner(list);
            let operand = self.operand(&mut list)?;
            expect_end(&mut list)?;
            let test = self.function_test(&condition, reader)?;
            reader.eat(inside);
            return Ok(quantified(word, operand, test));
        }
        let operand = self.operand(reader)?;
        if !reader.eat(";") && !reader.eat(",") {
            return Err(reader.error(&format!(
                "{word} takes a list and a condition: any(conditions; type=Ready, status=False)"
            )));
        }
        self.element_test(word, operand, reader)
    }

    /// Reads the test of the elements of a list, which may be a function of an element.
    fn element_test(
        &mut self,
        word: &str,
        operand: Operand,
        reader: &mut Reader<'_>,
    ) -> Result<Test, String> {
        let rest = reader.rest();
        let inside = rest.get(..end_of_group(rest).unwrap_or(rest.len()));
        let function = inside.and_then(|inside| Some((inside, wrapper::element_function(inside)?)));
        let test = if let Some((inside, body)) = function {
            let test = self.function_test(&body, reader)?;
            reader.eat(inside.trim_start());
            test
        } else {
            reader.enter()?;
            let test = self.list(reader)?;
            reader.leave();
            test
        };
        Ok(quantified(word, operand, test))
    }

    /// Reads the body of a function of an element.
    fn function_test(&mut self, body: &str, reader: &mut Reader<'_>) -> Result<Test, String> {
        reader.enter()?;
        let mut inner = reader.function(body);
        let test = self.list(&mut inner)?;
        expect_end(&mut inner)?;
        reader.leave();
        Ok(test)
    }

    /// Reads a test in the form of a method: `tags.some(t => t.name == 'x')`. `None` if no such
    /// test is next.
    fn method(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        let mut rest = reader.clone();
        let name = FieldName::read(&mut rest).ok().filter(|_| rest.rest().starts_with('('));
        let Some((mut list, word)) = name.and_then(FieldName::split_last) else { return Ok(None) };
        let word = word.to_lowercase();
        if matches!(word.as_str(), "in_" | "isin" | "is_in" | "not_in" | "notin_") {
            *reader = rest;
            reader.eat("(");
            let is_bare = !reader.rest().trim_start().starts_with(['[', '(']);
            let inside = end_of_group(reader.rest()).and_then(|end| reader.rest().get(..end));
            let Some(inside) = inside else {
                return Err(reader.error("a closing parenthesis is missing here"));
            };
            let text = if is_bare { format!("({inside})") } else { inside.to_owned() };
            let mut inner = reader.inner(&text);
            let test = self.membership(&mut inner, Operand::new(list))?;
            expect_end(&mut inner)?;
            reader.eat(inside.trim_start());
            reader.close()?;
            return Ok(Some(if word.starts_with("not") { negate(test) } else { test }));
        }
        if matches!(word.as_str(), "between" | "is_between") {
            *reader = rest;
            reader.eat("(");
            let low = read_literal(reader, false)?;
            if !reader.eat(",") {
                return Err(reader.error("between takes two values: between(1, 5)"));
            }
            let high = read_literal(reader, false)?;
            reader.close()?;
            let operand = Operand::new(list);
            check_bounds(reader, &operand, &low, &high)?;
            return Ok(Some(Test::leaf(operand, Check::Between(low, high))));
        }
        if let Some((is_null, arguments)) = null_method(&word, rest.rest()) {
            *reader = rest;
            reader.eat(arguments);
            let test = Test::leaf(Operand::new(list), Check::IsNull);
            return Ok(Some(if is_null { test } else { negate(test) }));
        }
        let text_sign = text_method(&word);
        if text_sign.is_none() && !matches!(word.as_str(), "any" | "some" | "all" | "every") {
            return Ok(None);
        }
        // Tables have their methods of texts in `str`.
        let (mut start, mut is_column) = ("", false);
        if text_sign.is_some()
            && let Some((column, last)) = list.clone().split_last()
            && last == "str"
        {
            (list, is_column) = (column, true);
            // There, a match begins at the start of the text.
            start = if word == "match" { "^" } else { "" };
        }
        let operand = Operand::new(list);
        *reader = rest;
        reader.eat("(");
        if let Some(sign) = text_sign {
            let is_member = matches!(word.as_str(), "includes" | "contains") && !is_column;
            let member =
                if is_member { read_literal(&mut reader.clone(), false).ok() } else { None };
            let member = member.map(SoughtElement::Element);
            let test = text_test(reader, operand, sign, start)?;
            return Ok(Some(with_member(test, member)));
        }
        let test = self.element_test(&word, operand, reader)?;
        reader.close()?;
        Ok(Some(test))
    }

    /// Reads a test by a method of a converted text: `name.lower().startswith('x')`. `None` if no
    /// such test is next.
    fn chained(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        use crate::query::operand::FieldFunction::{Lower, Trim, Upper};
        let mut rest = reader.clone();
        let operand = Operand::read(&mut rest).ok();
        let operand = operand.filter(|it| matches!(it.function, Some(Lower | Trim | Upper)));
        let Some(operand) = operand.filter(|_| rest.rest().starts_with('.') && rest.eat("."))
        else {
            return Ok(None);
        };
        let word = rest.peek_word();
        let sign = text_method(&word.to_lowercase()).filter(|_| rest.eat(word) && rest.eat("("));
        let Some(sign) = sign else { return Ok(None) };
        *reader = rest;
        text_test(reader, operand, sign, "").map(Some)
    }

    /// Reads a call whose first argument is a regular expression: `grepl('^new', kind)`. `None` if
    /// no such call is next.
    fn expression_first(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        let calls = [("grepl(", ""), ("re.search(", ""), ("re.match(", "^")];
        let mut rest = reader.clone();
        let Some((_, start)) = calls.iter().find(|(call, _)| rest.eat(call)) else {
            return Ok(None);
        };
        let Some(text) = rest.quoted()?.filter(|_| rest.eat(",")) else { return Ok(None) };
        let operand = self.operand(&mut rest)?;
        let (_, ignore_case) = options(&mut rest)?;
        rest.close()?;
        *reader = rest;
        let text = if start.is_empty() { text } else { format!("{start}(?:{text})") };
        let check = TextPattern::regex(&text, ignore_case.then_some(true))?;
        Ok(Some(Test::leaf(operand, Check::Matches(check))))
    }

    /// Reads a test by a regular expression: `/^new/i.test(kind)`. `None` if no such test is next.
    fn regex_test(&mut self, reader: &mut Reader<'_>) -> Result<Option<Test>, String> {
        let start = reader.position();
        let Some((text, ignore_case)) = regex_literal(reader, Sign::Regex) else { return Ok(None) };
        if !reader.eat(".test(") {
            reader.reset(start);
            return Ok(None);
        }
        let operand = self.operand(reader)?;
        let test = Test::leaf(operand, Check::Matches(TextPattern::regex(&text, ignore_case)?));
        reader.close()?;
        Ok(Some(test))
    }
}

/// Returns the test that the quantifier `word` makes of a test of elements.
fn quantified(word: &str, list: Operand, test: Test) -> Test {
    match word {
        "any" | "some" => Test::Element(list, Box::new(test)),
        "none" => negate(Test::Element(list, Box::new(test))),
        _ => negate(Test::Element(list, Box::new(negate(test)))),
    }
}

/// Reads the argument of a method of texts, after its opening parenthesis. `start` is the start of
/// the regular expression that it completes.
fn text_test(
    reader: &mut Reader<'_>,
    operand: Operand,
    sign: Sign,
    start: &str,
) -> Result<Test, String> {
    let check = match regex_literal(reader, sign) {
        Some((text, ignore_case)) => TextPattern::regex(&text, ignore_case)?,
        None => {
            let text = read_literal(reader, false)?.text;
            let (is_plain, ignore_case) = options(reader)?;
            let text = if start.is_empty() { text } else { format!("{start}(?:{text})") };
            let is_regex = sign == Sign::Regex || ignore_case;
            match (is_plain, is_regex) {
                (true, _) => TextPattern::contains(&text),
                (false, true) if matches!(sign, Sign::Regex | Sign::Contains) => {
                    TextPattern::regex(&text, ignore_case.then_some(true))?
                }
                _ => pattern(sign, &Literal::new(text, true))?,
            }
        }
    };
    reader.close()?;
    Ok(Test::leaf(operand, Check::Matches(check)))
}

/// Reads the options of a method of texts in pandas, such as `, case=False, na=False`, and the flag
/// of a regular expression in Python, `, re.I`. Returns two values: true if the pattern is plain
/// text, and true if case is ignored.
fn options(reader: &mut Reader<'_>) -> Result<(bool, bool), String> {
    let (mut is_plain, mut ignore_case) = (false, false);
    while reader.eat(",") {
        let found = OPTIONS.iter().find(|(text, _)| reader.eat(text));
        match found {
            Some((_, TextOption::Plain)) => is_plain = true,
            Some((_, TextOption::AnyCase)) => ignore_case = true,
            Some((_, TextOption::NoEffect)) => {}
            None => {
                return Err(reader.error(
                    "of the options, case=False, na=False, regex=False and re.I are known",
                ));
            }
        }
    }
    Ok((is_plain, ignore_case))
}

/// The effect of an option of a method of texts.
enum TextOption {
    Plain,
    AnyCase,
    NoEffect,
}

const OPTIONS: [(&str, TextOption); 8] = [
    ("case=False", TextOption::AnyCase),
    ("flags=re.IGNORECASE", TextOption::AnyCase),
    ("flags=re.I", TextOption::AnyCase),
    ("re.IGNORECASE", TextOption::AnyCase),
    ("re.I", TextOption::AnyCase),
    ("na=False", TextOption::NoEffect),
    ("regex=True", TextOption::NoEffect),
    ("regex=False", TextOption::Plain),
];

/// Returns true for a method that tests for null, and false for one that tests for a value. Also
/// returns its arguments, with which `text` begins. `None` for other methods.
fn null_method(word: &str, text: &str) -> Option<(bool, &'static str)> {
    let (is_null, arguments): (bool, &[&str]) = match word {
        "isna" | "isnull" | "is_null" => (true, &["()"]),
        "notna" | "notnull" | "is_not_null" => (false, &["()"]),
        // The methods of SQLAlchemy.
        "is_" => (true, &["(None)", "(null())", "(None,)"]),
        "isnot" | "is_not" => (false, &["(None)", "(null())", "(None,)"]),
        _ => return None,
    };
    let arguments = arguments.iter().find(|arguments| text.starts_with(**arguments))?;
    Some((is_null, arguments))
}

/// Returns the comparison that a text method makes. `None` if the method is unknown.
fn text_method(word: &str) -> Option<Sign> {
    match word {
        "contains" | "icontains" | "includes" => Some(Sign::Contains),
        "startswith" | "starts_with" | "str_starts" => Some(Sign::StartsWith),
        "endswith" | "ends_with" | "str_ends" => Some(Sign::EndsWith),
        "match" | "regexp_match" => Some(Sign::Regex),
        "like" | "ilike" => Some(Sign::Like),
        _ => None,
    }
}
