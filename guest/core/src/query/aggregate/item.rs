//! One total: a function of the values of a field, perhaps with a condition on its records.

use super::Aggregate;
use super::distinct::distinct_words;
use super::functions::function;
use super::spreadsheet;
use super::total::AggregateFunction;
use crate::query::code::{end_of_group, keyword, outside_quotes, parts};
use crate::query::condition::Condition;
use crate::query::operand::Operand;
use crate::query::order::read_direction;
use crate::query::reader::{Reader, is_word_character};
use crate::query::value::Number;

/// Words that follow the items of a segment.
pub(super) const CLAUSES: [&str; 12] = [
    "by",
    "group by",
    "grouped by",
    "per",
    "as",
    "unnest",
    "having",
    "order by",
    "sort by",
    "limit",
    "from",
    "each record",
];

/// The syntax of totals, as errors show it.
pub(super) const SYNTAX: &str = "write \"count\", \"count by status\", \"sum(price.total) by city order by sum desc limit 3\", \"distinct(city)\", \"min(x)\", \"max(x)\", \"avg(x)\", \"median(x)\", \"percentile(x, 95)\" or \"argmax(x)\" for the record, separated by commas";

/// A total as it was written.
pub(super) enum Reading {
    /// The total.
    Total(Aggregate),
    /// The total, or 0 if no value exists: `sum(CASE WHEN a > 5 THEN b ELSE 0 END)`.
    OrZero(Aggregate),
    /// This number times the share of the counted records in all: `avg(CASE WHEN a > 5 THEN 1 ELSE
    /// 0 END)`.
    Share(f64, Aggregate),
}

/// Reads a total. It may have a condition on its records, as in `count(*) FILTER (WHERE a > 5)`,
/// `sum(a = 5)` and `countif(a > 5)`.
///
/// # Errors
/// Returns a message for the caller that shows the position and the reason.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Reading, String> {
    reader.skip_space();
    let start = reader.position();
    let mut reading = match with_criteria(reader)? {
        Some(total) => Reading::Total(total),
        None => plain(reader)?,
    };
    let filter = filter(reader)?;
    let (Reading::Total(total) | Reading::OrZero(total) | Reading::Share(_, total)) = &mut reading;
    if filter.is_some() && total.condition.is_some() {
        return Err(reader.error("a total has one condition: join both with AND"));
    }
    total.condition = filter.or(total.condition.take());
    total.verbatim = reader.since(start).to_owned();
    Ok(reading)
}

/// Reads a function of the values of a field.
fn plain(reader: &mut Reader<'_>) -> Result<Reading, String> {
    if let Some(function) = distinct_words(reader) {
        return Ok(Reading::Total(Aggregate::new(function, Some(field(reader)?))));
    }
    let word = reader.peek_word();
    let Some(mut function) = function(word) else {
        return Err(syntax(&reader.error("the name of a total is expected here")));
    };
    reader.eat(word);
    let mut operand = None;
    if reader.eat("(") {
        if reader.keyword(&["distinct"]).is_some() {
            if function != AggregateFunction::Count {
                return Err(reader.error("distinct is accepted in count(distinct x) only"));
            }
            function = AggregateFunction::CountDistinct;
        }
        let inside = end_of_group(reader.rest()).and_then(|end| reader.rest().get(..end));
        if let Some(inside) = inside
            && let Some(branches) =
                Branches::read(inside).map_err(|reason| reader.error(&reason))?
        {
            let reading = branches.total(function, reader)?;
            reader.eat(inside.trim());
            reader.close()?;
            return Ok(reading);
        }
        if reader.eat("*") || reader.clone().eat(")") {
            if function != AggregateFunction::Count {
                return Err(syntax(&reader.error(&format!("{word} takes a field"))));
            }
        } else if let Some(share) = within_group(reader, function, word)? {
            (function, operand) = (AggregateFunction::Percentile(share.0), Some(share.1));
        } else {
            operand = Some(argument(reader, function)?);
        }
        if matches!(function, AggregateFunction::Percentile(share) if share.is_nan()) {
            function = AggregateFunction::Percentile(share(reader, word)?);
        }
        if !reader.eat(")") {
            return Err(reader
                .error("a closing parenthesis is expected here; for other expressions use jq"));
        }
    }
    if function != AggregateFunction::Count && operand.is_none() {
        return Err(syntax(&reader.error(&format!("{word} takes a field: {word}(x)"))));
    }
    Ok(Reading::Total(Aggregate::new(function, operand)))
}

fn argument(reader: &mut Reader<'_>, function: AggregateFunction) -> Result<Operand, String> {
    if let Some(operand) = present(reader, function)? {
        return Ok(operand);
    }
    match Operand::computed(reader) {
        Some(operand) => Ok(operand),
        None => field(reader),
    }
}

/// Reads `0.9) WITHIN GROUP (ORDER BY x`, the arguments of a percentile in SQL. Returns the share
/// and the field. `None` if something else is next.
fn within_group(
    reader: &mut Reader<'_>,
    function: AggregateFunction,
    word: &str,
) -> Result<Option<(f64, Operand)>, String> {
    let is_open = matches!(function, AggregateFunction::Percentile(share) if share.is_nan());
    let mut rest = reader.clone();
    let number = number(&mut rest);
    let follows = rest.eat(")") && rest.keyword(&["within group"]).is_some() && rest.eat("(");
    if !is_open || !follows || rest.keyword(&["order by"]).is_none() {
        return Ok(None);
    }
    let share = as_share(&number, word).ok_or_else(|| reader.error(&share_reason(word)))?;
    let operand = Operand::read(&mut rest)?;
    let is_descending = read_direction(&mut rest);
    *reader = rest;
    Ok(Some((if is_descending { 1.0 - share } else { share }, operand)))
}

/// Reads a total with criteria, such as `countif(a > 5)` and `SUMIF(a, ">5", b)`. `None` if no such
/// total is next.
fn with_criteria(reader: &mut Reader<'_>) -> Result<Option<Aggregate>, String> {
    let mut rest = reader.clone();
    let word = rest.peek_word();
    if !spreadsheet::is_function(word) || !rest.eat(word) || !rest.eat("(") {
        return Ok(None);
    }
    let inside = end_of_group(rest.rest()).and_then(|end| rest.rest().get(..end));
    let call = inside.and_then(|inside| spreadsheet::split(&format!("{word}({inside})")));
    let (Some(inside), Some((condition, total))) = (inside, call) else {
        return Err(reader.error(&format!(
            "{word} takes a condition, such as countif(status = 'open') or sumif(price, city = 'Oslo')"
        )));
    };
    rest.eat(inside.trim());
    rest.close()?;
    let condition = read_condition(&condition, &mut rest)?;
    let Reading::Total(total) = plain(&mut rest.inner(&total))? else { return Ok(None) };
    if total.condition.is_some() {
        return Err(rest.error("a total has one condition: join both with AND"));
    }
    *reader = rest;
    Ok(Some(Aggregate { condition: Some(condition), ..total }))
}

/// Reads `FILTER (WHERE a > 5)`. `None` if no such clause is next.
fn filter(reader: &mut Reader<'_>) -> Result<Option<Condition>, String> {
    let mut rest = reader.clone();
    if rest.keyword(&["filter"]).is_none() || !rest.eat("(") {
        return Ok(None);
    }
    let _ = rest.keyword(&["where"]);
    let inside = end_of_group(rest.rest()).and_then(|end| rest.rest().get(..end));
    let Some(inside) = inside else {
        return Err(rest.error("a closing parenthesis is missing after FILTER"));
    };
    // SQL takes the name of a field with true and false alone.
    let is_flag = inside.trim().chars().all(|c| is_word_character(c) || c == '.');
    let condition = match is_flag {
        true => read_condition(&format!("{} = true", inside.trim()), &mut rest)?,
        false => read_condition(inside.trim(), &mut rest)?,
    };
    rest.eat(inside.trim());
    rest.close()?;
    *reader = rest;
    Ok(Some(condition))
}

/// Parses the condition of a total, whose comparisons count as parts of the expression of `reader`.
fn read_condition(text: &str, reader: &mut Reader<'_>) -> Result<Condition, String> {
    let condition = Condition::parse(text)?;
    if !condition.is_plain() {
        return Err(reader.error("the condition of a total has no order, limit or list of its own"));
    }
    (0..condition.comparisons()).try_for_each(|_| reader.count_part())?;
    Ok(condition)
}

/// A value for the records that meet a condition, and a value for the others: `CASE WHEN a > 5 THEN
/// b ELSE 0 END`, `IF(a > 5, b, 0)`. The value of `a > 5` is 1 or 0.
struct Branches<'t> {
    condition: String,
    value: &'t str,
    other: &'t str,
}

impl<'t> Branches<'t> {
    /// Reads the whole argument of a total. `None` if it has another form.
    fn read(text: &'t str) -> Result<Option<Self>, String> {
        let text = text.trim();
        if keyword(text, 0, "case") == Some(0) && keyword(text, 0, "when").is_some() {
            return Self::case(text).map(Some).ok_or_else(|| {
                "write CASE WHEN condition THEN value ELSE 0 END, with one WHEN; for several conditions write one total each".to_owned()
            });
        }
        let call = ["if(", "iif(", "IF(", "IIF("].iter().find_map(|name| text.strip_prefix(name));
        if let Some(inner) = call
            && end_of_group(inner).is_some_and(|end| end + 1 == inner.len())
        {
            let arguments = parts(inner.get(..inner.len() - 1).unwrap_or_default(), ",");
            return match arguments.as_slice() {
                [condition, value, rest @ ..] if rest.len() < 2 => {
                    let other = rest.first().copied().unwrap_or("null");
                    Ok(Some(Self { condition: (*condition).to_owned(), value, other }))
                }
                _ => Err("write if(condition, value, 0)".to_owned()),
            };
        }
        // `Time in minutes` is a name, and so is anything in quotes.
        let plain: String = outside_quotes(text).map(|(_, sign)| sign).collect();
        let plain = plain.to_lowercase();
        let words = [" is null", " is not null", " in (", " like '"];
        let is_condition = (plain.contains(['=', '<', '>', '~'])
            || words.iter().any(|word| plain.contains(word)))
            && Condition::parse(text).is_ok();
        let condition = text.to_owned();
        Ok(is_condition.then_some(Self { condition, value: "1", other: "0" }))
    }

    fn case(text: &'t str) -> Option<Self> {
        let when = keyword(text, 0, "when")?;
        let then = keyword(text, when, "then")?;
        let end = keyword(text, then, "end").filter(|end| end + "end".len() == text.len())?;
        let otherwise = keyword(text, then, "else");
        if keyword(text, then, "when").is_some() {
            return None;
        }
        let subject = text.get("case".len()..when)?.trim();
        let tested = text.get(when + "when".len()..then)?.trim();
        let condition = match subject {
            // A name alone is a flag.
            "" if tested.chars().all(|c| is_word_character(c) || c == '.') => {
                format!("{tested} = true")
            }
            "" => tested.to_owned(),
            subject => format!("{subject} = {tested}"),
        };
        let value = text.get(then + "then".len()..otherwise.unwrap_or(end))?.trim();
        let other = match otherwise {
            Some(at) => text.get(at + "else".len()..end)?.trim(),
            None => "null",
        };
        Some(Self { condition, value, other })
    }

    /// Returns the total of a function over these values.
    fn total(
        &self,
        function: AggregateFunction,
        reader: &mut Reader<'_>,
    ) -> Result<Reading, String> {
        let condition = read_condition(&self.condition, reader)?;
        let counted = Aggregate {
            condition: Some(condition),
            ..Aggregate::new(AggregateFunction::Count, None)
        };
        let number = Number::parse_plain(self.value).map(|number| number.float);
        let is_null = self.other.eq_ignore_ascii_case("null");
        let is_zero = Number::parse_plain(self.other).is_some_and(|number| number.float == 0.0);
        match (function, number) {
            (AggregateFunction::Sum, Some(1.0)) if is_null || is_zero => {
                return Ok(Reading::Total(counted));
            }
            (AggregateFunction::Count, Some(_)) if is_null => return Ok(Reading::Total(counted)),
            (AggregateFunction::Average, Some(factor)) if is_zero => {
                return Ok(Reading::Share(factor, counted));
            }
            (AggregateFunction::Sum, None) if is_null || is_zero => {}
            (_, None) if is_null => {}
            _ => {
                return Err(reader.error(
                    "this total of a condition has no clear meaning: write count(*) FILTER (WHERE status = 'open'), or sum(price) FILTER (WHERE …)",
                ));
            }
        }
        let mut inner = reader.inner(self.value);
        let operand = argument(&mut inner, function)?;
        if !inner.is_at_end() {
            return Err(inner.error("the end of the value is expected here"));
        }
        let total = Aggregate { operand: Some(operand), function, ..counted };
        Ok(if is_zero { Reading::OrZero(total) } else { Reading::Total(total) })
    }
}

/// Reads the field of `coalesce(x, 0)` in `sum(coalesce(x, 0))`, which is valid because sums ignore
/// absent values. `None` if no such function is next.
fn present(
    reader: &mut Reader<'_>,
    function: AggregateFunction,
) -> Result<Option<Operand>, String> {
    let mut rest = reader.clone();
    if rest.keyword(&["coalesce", "ifnull", "nvl"]).is_none() || !rest.eat("(") {
        return Ok(None);
    }
    let operand = field(&mut rest)?;
    let is_zero = rest.eat(",") && rest.eat("0") && rest.eat(")");
    if function != AggregateFunction::Sum || !is_zero || !rest.rest().trim_start().starts_with(')')
    {
        return Ok(None);
    }
    *reader = rest;
    Ok(Some(operand))
}

/// Reads the name after `as`. `None` if no `as` is next.
pub(super) fn alias(reader: &mut Reader<'_>) -> Result<Option<String>, String> {
    if reader.keyword(&["as"]).is_none() {
        return Ok(None);
    }
    if let Some(name) = reader.quoted()? {
        return Ok(Some(name));
    }
    let name = reader.peek_word();
    if name.is_empty() || !reader.eat(name) {
        return Err(reader.error("a name is expected after as"));
    }
    Ok(Some(name.to_owned()))
}

/// Reads the second argument of a percentile, `95` or `0.95`. Returns the share, from 0 to 1.
/// `word` is the function, for errors.
fn share(reader: &mut Reader<'_>, word: &str) -> Result<f64, String> {
    if !reader.eat(",") {
        return Err(reader.error(&share_reason(word)));
    }
    let number = number(reader);
    as_share(&number, word).ok_or_else(|| reader.error(&share_reason(word)))
}

fn share_reason(word: &str) -> String {
    format!(
        "{word} takes a field and a number from 0 to 100: {word}(x, 95); 1 may be a share or a percentage: write p1(x) or max(x)"
    )
}

/// Reads the digits of a number. Empty if none is next.
fn number(reader: &mut Reader<'_>) -> String {
    reader.skip_space();
    let mut text = String::new();
    while let Some(next) = reader.peek().filter(|next| next.is_ascii_digit() || *next == '.') {
        text.push(next);
        reader.next();
    }
    text
}

/// Returns the share, from 0 to 1, of a percentile such as `95` or `0.95`. `None` for other
/// numbers. `word` is the function.
fn as_share(text: &str, word: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    let word = word.to_lowercase();
    let takes_share = word.starts_with('q') || word.contains("_cont") || word.contains("_disc");
    if number == 1.0 && !takes_share && !text.contains('.') {
        return None;
    }
    let is_share = number <= 1.0;
    let share = if is_share { number } else { number / 100.0 };
    (share <= 1.0).then_some(share)
}

/// Reads a field. Its name may have several words and a unit: `Body Mass (g)`.
pub(super) fn field(reader: &mut Reader<'_>) -> Result<Operand, String> {
    let mut operand = Operand::read(reader).map_err(|reason| syntax(&reason))?;
    let ends = |rest: &mut Reader<'_>| {
        rest.is_at_end()
            || rest.rest().starts_with([',', ';', ')'])
            || rest.keyword(&CLAUSES).is_some()
            || rest.keyword(&["and", "where", "asc", "desc"]).is_some()
    };
    while operand.function.is_none() && !ends(&mut reader.clone()) {
        let unit = reader.unit(|rest| ends(&mut rest.clone()) || !rest.peek_word().is_empty());
        let word = reader.peek_word();
        let Some(part) = unit.or_else(|| Some(word).filter(|word| reader.eat(word))) else { break };
        if part.is_empty() {
            break;
        }
        operand.name = operand.name.with_word(part);
    }
    Ok(operand)
}

/// Returns an error with the syntax of totals.
pub(super) fn syntax(reason: &str) -> String {
    if reason.contains(SYNTAX) { reason.to_owned() } else { format!("{reason}; {SYNTAX}") }
}
