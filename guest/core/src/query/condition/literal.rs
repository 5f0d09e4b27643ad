//! The values of comparisons, with or without quotes.

use super::operator::{Sign, is_comparison};
use crate::query::code;
use crate::query::field::FieldName;
use crate::query::literal::Literal;
use crate::query::operand::Operand;
use crate::query::order::stage_follows;
use crate::query::reader::{ELEMENTS_WITH_RECORD, Position, Reader};
use crate::query::value::Number;

/// Words that end an unquoted value.
pub(super) const ENDS: [&str; 7] = ["and", "or", "order by", "sort by", "limit", "offset", "skip"];

/// Reads a quoted or unquoted value. `is_pattern` is true for the value of a pattern operator.
pub(super) fn read_literal(reader: &mut Reader<'_>, is_pattern: bool) -> Result<Literal, String> {
    let start = reader.position();
    if let Some(literal) = typed(reader)? {
        return Ok(literal);
    }
    if let Some(text) = reader.quoted()? {
        if reader.rest().starts_with("::") {
            let mut rest = reader.clone();
            rest.eat("::");
            let word = rest.peek_word();
            if rest.eat(word) && TYPES.iter().any(|known| known.eq_ignore_ascii_case(word)) {
                *reader = rest;
            }
        }
        reader.skip_space();
        let is_end = reader.peek().is_none_or(|next| ",;)]}&|".contains(next))
            || qualifier_follows(reader)
            || reader.clone().keyword(&ENDS).is_some();
        if !is_end {
            return Err(reader.error("AND, OR or a comma is expected after a quoted value"));
        }
        return Ok(Literal::new(text, true));
    }
    // `kind:new`, `stars:>5`
    let is_qualifier = [":", ":>", ":<", ":>=", ":<="].iter().any(|symbol| reader.is_after(symbol));
    reader.skip_space();
    let mut depth = 0usize;
    let begin = reader.position();
    if let Some(number) = grouped_number(reader) {
        return Ok(Literal::new(number, false));
    }
    while let Some(next) = reader.peek() {
        match next {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth > 0 => depth -= 1,
            ',' | ';' if depth == 0 || !is_pattern => break,
            ')' | ']' | '}' => break,
            '=' | '<' | '>' if !is_pattern => {
                reader.reset(start);
                return Err(reader.error(
                    "a value without quotes contains an operator: put AND, OR or a comma between comparisons, or the value in quotes",
                ));
            }
            '&' | '|' if is_boundary(reader, next, is_pattern) => break,
            next if next.is_whitespace() && is_end_word(reader) => break,
            next if is_qualifier && next.is_whitespace() && qualifier_follows(reader) => break,
            _ => {}
        }
        reader.next();
    }
    let text = reader.since(begin).to_owned();
    if text.is_empty() {
        return Err(reader.error("a value is missing here; an empty text is ''"));
    }
    if text.starts_with('!') && !is_pattern {
        reader.reset(start);
        return Err(reader.error("write != before the value, or the value in quotes"));
    }
    // Functions are code, whose words for null are known.
    if reader.is_function() && ["None", "nil", "undefined"].contains(&text.as_str()) {
        return Ok(Literal::new("null".to_owned(), false));
    }
    let is_name = reader.is_function() && names_variable(&text);
    if is_name {
        check_function_value(reader, start, &text, is_pattern)?;
    }
    if !is_name && has_quoted_part(&text) {
        reader.reset(start);
        return Err(reader.error(
            "a value without quotes contains a quoted text: put AND, OR or a comma between comparisons, or the whole value in quotes",
        ));
    }
    Ok(Literal::new(text, false))
}

/// The types of texts and dates, which have no effect after a quoted value.
const TYPES: [&str; 6] = ["date", "timestamp", "timestamptz", "datetime", "text", "varchar"];

/// Functions that read a date from a text.
const DATES: [&str; 12] = [
    "date(",
    "datetime(",
    "timestamp(",
    "todate(",
    "to_date(",
    "todatetime(",
    "isodate(",
    "new date(",
    "pd.timestamp(",
    "pd.to_datetime(",
    "date.parse(",
    "datetime.fromisoformat(",
];

/// Reads a date with its type: `DATE '2024-05-01'`, `date('2024-05-01')`, `new Date("2024-05-01")`.
/// `None`, with nothing read, if something else is next.
fn typed(reader: &mut Reader<'_>) -> Result<Option<Literal>, String> {
    let mut rest = reader.clone();
    rest.skip_space();
    let is_call = DATES.iter().any(|call| {
        let found = rest.rest().get(..call.len()).unwrap_or_default().to_owned();
        found.eq_ignore_ascii_case(call) && rest.eat(&found)
    });
    let is_type = !is_call && rest.keyword(&["date", "timestamp"]).is_some();
    if !is_call && !is_type {
        return Ok(None);
    }
    let text = rest.quoted().ok().flatten();
    let Some(text) = text.filter(|_| !is_call || rest.eat(")")) else { return Ok(None) };
    *reader = rest;
    Ok(Some(Literal::new(text, true)))
}

/// Returns true if a value without quotes may be the name of a variable.
fn names_variable(text: &str) -> bool {
    let literal = Literal::new(text.to_owned(), false);
    let is_value = literal.number().is_some() || literal.boolean().is_some() || literal.is_null();
    !is_value && text.contains(|c: char| c.is_alphabetic() || c == '@')
}

/// Checks a value without quotes in the function of an element: it is a part of the element, after
/// `=`, `<` or `>`.
///
/// # Errors
/// Returns a message for the caller if it is not.
fn check_function_value(
    reader: &mut Reader<'_>,
    start: Position,
    text: &str,
    is_pattern: bool,
) -> Result<(), String> {
    reader.check_variable(text)?;
    let is_operand = operand_named_by(&Literal::new(text.to_owned(), false)).is_some();
    reader.reset(start);
    let is_compared = ["=", "<", ">"].iter().any(|sign| reader.is_after(sign));
    if is_pattern || !is_compared || !is_operand {
        return Err(reader.error(&format!(
            "a part of an element is compared by =, !=, <, <=, > or >=; {ELEMENTS_WITH_RECORD}"
        )));
    }
    // The value was read already.
    reader.skip_space();
    let _ = reader.eat(text);
    Ok(())
}

/// Reads a number with separators that is the whole value after an operator, such as `1,000,000`.
/// Returns it without separators. `None`, with nothing read, if no such number is next.
fn grouped_number(reader: &mut Reader<'_>) -> Option<String> {
    let mut rest = reader.clone();
    // In a list, commas separate its values.
    let is_compared = ["=", "<", ">", "= ", "< ", "> "].iter().any(|sign| rest.is_after(sign));
    let start = rest.position();
    while rest.peek().is_some_and(|c| c.is_ascii_digit() || c == ',') {
        rest.next();
    }
    let number = rest.since(start);
    let mut groups = number.split(',');
    let is_first = groups.next().is_some_and(|first| (1..=3).contains(&first.len()));
    let is_grouped = number.contains(',') && is_first && groups.all(|group| group.len() == 3);
    let is_end = rest.is_at_end()
        || rest.peek().is_some_and(|next| ")&|".contains(next))
        || rest.clone().keyword(&ENDS).is_some();
    if !is_compared || !is_grouped || !is_end {
        return None;
    }
    let number = number.replace(',', "");
    *reader = rest;
    Some(number)
}

/// Reads a list of values in brackets.
pub(super) fn read_literals(
    reader: &mut Reader<'_>,
    operand: &Operand,
) -> Result<Vec<Literal>, String> {
    let close = [("(", ")"), ("[", "]"), ("{", "}")].iter().find(|(open, _)| reader.eat(open));
    let Some((_, close)) = close else {
        return Err(reader.error(&format!(
            "IN takes a list in parentheses: {} IN ('a', 'b'); for an element of a list write labels='bug'",
            operand.name.verbatim
        )));
    };
    let mut list = Vec::new();
    while !reader.eat(close) {
        reader.count_part()?;
        list.push(read_literal(reader, false)?);
        if !reader.eat(",") && !reader.rest().trim_start().starts_with(close) {
            return Err(reader.error(&format!("a comma or {close} is expected here")));
        }
    }
    if list.is_empty() {
        return Err(reader.error("the list of IN is empty"));
    }
    Ok(list)
}

/// Returns true if a value has a quoted text inside, after white space or a bracket.
fn has_quoted_part(text: &str) -> bool {
    let is_start =
        |at: usize| text.get(..at).is_some_and(|before| before.ends_with([' ', ']', '[', '(']));
    ['"', '\''].into_iter().any(|mark| {
        let mut marks = text.match_indices(mark);
        marks.next().is_some_and(|(at, _)| is_start(at)) && marks.next().is_some()
    })
}

/// Returns true if `sign`, a `&` or `|`, ends a value here.
fn is_boundary(reader: &Reader<'_>, sign: char, is_pattern: bool) -> bool {
    let mut rest = reader.clone();
    rest.next();
    // In a pattern, `|` without white space is between alternatives.
    let is_apart = rest.is_after(" |") || rest.peek().is_some_and(char::is_whitespace);
    if rest.peek() == Some(sign) || (is_apart && stage_follows(reader)) {
        return true;
    }
    if sign == '|' && !is_pattern {
        return true;
    }
    is_comparison(&mut rest)
}

/// Returns true if another qualifier of a search is next, such as `kind:new` or `-kind:new`.
pub(super) fn qualifier_follows(reader: &Reader<'_>) -> bool {
    let mut rest = reader.clone();
    let _ = rest.eat("-");
    rest.skip_space();
    let name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '@');
    let is_start = rest.peek().is_some_and(|first| first.is_alphabetic() || first == '@');
    while rest.peek().is_some_and(name) {
        rest.next();
    }
    // A colon before a slash is part of an address.
    is_start
        && rest.eat(":")
        && rest.peek().is_some_and(|next| !next.is_whitespace() && next != '/')
}

/// Returns true if a word that ends a value is next.
fn is_end_word(reader: &Reader<'_>) -> bool {
    let mut rest = reader.clone();
    match rest.keyword(&ENDS) {
        Some("limit" | "offset" | "skip") => rest.peek_word().parse::<u64>().is_ok(),
        found => found.is_some(),
    }
}

/// Reads a regular expression between slashes, such as `/^ne/i`, with true if it ignores case.
/// `None` if no such expression is next, or if the operator `sign` does not accept one.
pub(super) fn regex_literal(reader: &mut Reader<'_>, sign: Sign) -> Option<(String, Option<bool>)> {
    if !matches!(sign, Sign::Contains | Sign::Regex) {
        return None;
    }
    let text = reader.rest().trim_start();
    let (pattern, ignore_case, rest) = code::regex_literal(text)?;
    let literal = text.strip_suffix(rest)?.to_owned();
    reader.eat(&literal).then_some((pattern, Some(ignore_case)))
}

/// Returns true if a quoted text, a number, or a word that is a value is next.
pub(super) fn is_value(reader: &Reader<'_>) -> bool {
    let mut rest = reader.clone();
    rest.skip_space();
    let is_quoted = rest.peek().is_some_and(|next| "'\"\u{201c}\u{2018}".contains(next));
    let word: String = rest.rest().chars().take_while(|c| !",) ".contains(*c)).collect();
    is_quoted
        || Number::parse_plain(&word).is_some()
        || ["true", "false"].iter().any(|known| known.eq_ignore_ascii_case(&word))
}

/// Returns the field that an unquoted literal may name, or the expression over fields that it may
/// be. `None` if it can only be a value.
pub(super) fn operand_named_by(literal: &Literal) -> Option<Operand> {
    let is_text = !literal.is_quoted && literal.number().is_none() && literal.boolean().is_none();
    let mut reader = Reader::new("where", &literal.text).ok().filter(|_| is_text)?;
    let computed = Operand::computed(&mut reader);
    let field = || FieldName::read(&mut reader).ok().map(Operand::new);
    computed.or_else(field).filter(|_| reader.is_at_end())
}
