//! The grammar of totals.
//!
//! ```text
//! totals  = segment { "," segment }
//! segment = item { "," item } [ "by" field { "," field } ] [ "having" condition ]
//!           [ "order by" total [ "desc" ] { "," … } ] [ "limit" number ]
//! item    = "count" | function "(" field ")" [ "as" name ]
//! ```

use super::total::AggregateFunction;
use super::{Aggregate, GroupedTotals, SortKey};
use crate::query::condition::TotalsCondition;
use crate::query::operand::Operand;
use crate::query::order::{Order, read_direction};
use crate::query::reader::{Position, Reader};
use crate::query::scale::{Scale, ScaleSurvey};

/// The names of functions. Several names may denote one function.
const FUNCTIONS: [(&str, AggregateFunction); 24] = [
    ("count", AggregateFunction::Count),
    ("sum", AggregateFunction::Sum),
    ("avg", AggregateFunction::Average),
    ("average", AggregateFunction::Average),
    ("mean", AggregateFunction::Average),
    ("min", AggregateFunction::Min),
    ("minimum", AggregateFunction::Min),
    ("max", AggregateFunction::Max),
    ("maximum", AggregateFunction::Max),
    ("median", AggregateFunction::Percentile(0.5)),
    ("percentile", AggregateFunction::Percentile(f64::NAN)),
    ("quantile", AggregateFunction::Percentile(f64::NAN)),
    ("percentile_cont", AggregateFunction::Percentile(f64::NAN)),
    ("distinct", AggregateFunction::Distinct),
    ("unique", AggregateFunction::Distinct),
    ("count_distinct", AggregateFunction::CountDistinct),
    ("nunique", AggregateFunction::CountDistinct),
    ("argmax", AggregateFunction::MaxRecord),
    ("arg_max", AggregateFunction::MaxRecord),
    ("max_by", AggregateFunction::MaxRecord),
    ("argmin", AggregateFunction::MinRecord),
    ("arg_min", AggregateFunction::MinRecord),
    ("min_by", AggregateFunction::MinRecord),
    ("values", AggregateFunction::Distinct),
];

/// Words that follow the items of a segment.
const CLAUSES: [&str; 10] =
    ["by", "group by", "grouped by", "per", "as", "having", "order by", "sort by", "limit", "from"];

/// The syntax of totals, as errors show it.
pub(super) const SYNTAX: &str = "write \"count\", \"count by status\", \"sum(price.total) by city order by sum desc limit 3\", \"distinct(city)\", \"min(x)\", \"max(x)\", \"avg(x)\", \"median(x)\", \"percentile(x, 95)\" or \"argmax(x)\" for the record, separated by commas";

/// Parses totals.
///
/// # Errors
/// Returns a message for the caller that shows the position and the reason.
pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Vec<GroupedTotals>, String> {
    let mut segments = Vec::new();
    loop {
        segments.push(segment(reader)?);
        if !reader.eat(",") && !reader.eat(";") {
            break;
        }
    }
    if reader.keyword(&["where"]).is_some() {
        return Err(
            "aggregate: put the condition into the argument where, not into aggregate".to_owned()
        );
    }
    if !reader.is_at_end() {
        return Err(
            reader.error("a comma, by, having, order by, limit or the end is expected here")
        );
    }
    Ok(segments)
}

fn segment(reader: &mut Reader<'_>) -> Result<GroupedTotals, String> {
    reader.skip_space();
    let start = reader.position();
    if let Some(totals) = grouped(reader, start)? {
        return Ok(totals);
    }
    let is_distinct = reader.keyword(&["select distinct"]).is_some()
        && !reader.rest().trim_start().starts_with('(');
    if !is_distinct {
        reader.reset(start);
    }
    let _ = reader.keyword(&["select"]);
    let (mut items, mut fields) = (Vec::new(), Vec::new());
    loop {
        reader.count_part()?;
        if is_total(reader) {
            let new: Aggregate = item(reader)?;
            // A total that is asked for twice is one member of the result.
            let is_same =
                |known: &Aggregate| known.verbatim == new.verbatim && known.alias == new.alias;
            if !items.iter().any(is_same) {
                items.push(new);
            }
        } else {
            reader.skip_space();
            let at = reader.position();
            let field = Operand::read(reader).map_err(|reason| syntax(&reason))?;
            fields.push((field, at, alias(reader)?));
        }
        if !reader.eat(",") {
            break;
        }
    }
    if reader.keyword(&["from"]).is_some() {
        // The name of the table, which is this answer.
        Operand::read(reader).map_err(|reason| syntax(&reason))?;
    }
    if reader.keyword(&["where"]).is_some() {
        return Err(
            "aggregate: put the condition into the argument where, not into aggregate".to_owned()
        );
    }
    let mut by = Vec::new();
    if reader.keyword(&["by", "group by", "grouped by", "per"]).is_some() {
        let _ = reader.eat(":");
        loop {
            reader.count_part()?;
            let group = field(reader)?;
            // `substr(date, 1, 4) AS year … GROUP BY year`
            let named = |alias: &Option<String>| {
                let alias = alias.as_ref();
                alias.is_some_and(|alias| alias.eq_ignore_ascii_case(&group.name.verbatim))
            };
            let of_alias = fields.iter().find(|(.., alias)| named(alias));
            by.push(of_alias.map_or(group.clone(), |(field, ..)| field.clone()));
            let comma = reader.position();
            let more = (reader.eat(",") && !is_total(reader)) || {
                reader.reset(comma);
                reader.keyword(&["and"]).is_some()
            };
            if !more {
                break;
            }
        }
    }
    if by.is_empty() && items.is_empty() && is_distinct {
        items.push(item(&mut Reader::new("aggregate", "count")?)?);
    }
    // `city, sum(price)` has a meaning with groups only. The result has their names.
    let has_names = fields.iter().enumerate().all(|(at, (field, _, alias))| {
        let mut others = fields.iter().skip(at + 1);
        alias.is_none() && !others.any(|(other, ..)| other.name == field.name)
    });
    if by.is_empty() && !items.is_empty() && has_names {
        by.extend(fields.iter().map(|(field, ..)| field.clone()));
    }
    if let Some((field, at, _)) =
        fields.iter().find(|(field, ..)| !by.iter().any(|known| known.name == field.name))
    {
        reader.reset(*at);
        let name = &field.name.verbatim;
        let total = items.first().map_or("count", |item: &Aggregate| item.verbatim.as_str());
        return Err(syntax(
            &reader.error(&format!("{name} is not a total; for groups write {total} by {name}")),
        ));
    }
    if items.is_empty() {
        return Err(syntax(&reader.error("a total is expected before by")));
    }
    let having = match reader.keyword(&["having"]) {
        Some(_) => Some(TotalsCondition::read(reader)?),
        None => None,
    };
    let mut order = Vec::new();
    if reader.keyword(&["order by", "sort by", "sorted by", "sort"]).is_some() {
        loop {
            reader.count_part()?;
            let descending = reader.eat("-");
            let name = total_name(reader)?;
            order.push(SortKey { name, descending: read_direction(reader) || descending });
            let comma = reader.position();
            if !reader.eat(",") {
                break;
            }
            // In `count by a order by a, sum(x) desc`, the last total is a sort key too.
            if is_total(reader) && !sorts(reader) {
                reader.reset(comma);
                break;
            }
        }
    }
    let comma = reader.position();
    let limit = Order::read_limit(reader)?;
    if limit.is_none() {
        reader.reset(comma);
    }
    let verbatim = reader.since(start).to_owned();
    if by.is_empty() && (having.is_some() || !order.is_empty() || limit.is_some()) {
        return Err(format!(
            "aggregate: {verbatim:?} has no groups to sort or limit; write by and a field, such as count by status order by count desc limit 3"
        ));
    }
    let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(GroupedTotals { items, by, having, order, limit, verbatim })
}

/// Returns true if the next total is a sort key: `asc`, `desc` or `limit` follows it.
fn sorts(reader: &Reader<'_>) -> bool {
    let mut rest = reader.clone();
    total_name(&mut rest).is_ok() && rest.keyword(&["asc", "desc", "limit"]).is_some()
}

/// Reads the name of a total or of a group's field. Returns it without white space.
fn total_name(reader: &mut Reader<'_>) -> Result<String, String> {
    reader.skip_space();
    let start = reader.position();
    if is_total(reader) {
        item(reader)?;
    } else {
        Operand::read(reader)?;
    }
    Ok(reader.since(start).split_whitespace().collect())
}

/// Returns true if a total is next: a function with its parenthesis, or `count`.
fn is_total(reader: &Reader<'_>) -> bool {
    let mut rest = reader.clone();
    let word = rest.peek_word();
    if function(word).is_none() || !rest.eat(word) {
        return false;
    }
    let is_count = word.eq_ignore_ascii_case("count");
    let is_end = rest.is_at_end() || rest.rest().starts_with([',', ';', ')']);
    let clause = rest.keyword(&CLAUSES).is_some()
        || rest.keyword(&["distinct", "asc", "desc", "where"]).is_some();
    rest.eat("(") || (is_count && (is_end || clause))
}

/// Reads a field. Its name may have several words and a unit: `Body Mass (g)`.
fn field(reader: &mut Reader<'_>) -> Result<Operand, String> {
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

/// Reads totals whose groups come first: `count_by(kind)`, or `top 3 city by sum(price)`. `None` if
/// no such total is next.
fn grouped(reader: &mut Reader<'_>, start: Position) -> Result<Option<GroupedTotals>, String> {
    let count = || Aggregate {
        function: AggregateFunction::Count,
        operand: None,
        scale: Scale::Number,
        survey: ScaleSurvey::default(),
        verbatim: "count".to_owned(),
        alias: None,
    };
    let mut totals = GroupedTotals {
        items: vec![count()],
        by: Vec::new(),
        having: None,
        order: Vec::new(),
        limit: None,
        verbatim: String::new(),
    };
    let word = reader.peek_word();
    match word.to_lowercase().as_str() {
        "count_by" | "countby" | "value_counts" if reader.eat(word) && reader.eat("(") => loop {
            totals.by.push(field(reader)?);
            if reader.eat(")") {
                break;
            }
            if !reader.eat(",") {
                return Err(syntax(&reader.error("a closing parenthesis is missing here")));
            }
        },
        "top" if reader.eat(word) && reader.peek_word().parse::<usize>().is_ok() => {
            let number = reader.peek_word();
            reader.eat(number);
            let of = field(reader)?;
            let name = of.name.verbatim.clone();
            totals.by.push(of);
            totals.limit = number.parse().ok();
            if reader.keyword(&["by"]).is_none() || !is_total(reader) {
                return Err(format!(
                    "aggregate: top {number} of what? For the most frequent values write count by {name} order by count desc limit {number}; for the records with the highest {name}, where: \"order by {name} desc limit {number}\""
                ));
            }
            let total = item(reader)?;
            let name = total.verbatim.split_whitespace().collect();
            totals.order.push(SortKey { name, descending: true });
            totals.items = vec![total];
        }
        _ => {
            reader.reset(start);
            return Ok(None);
        }
    }
    totals.verbatim = reader.since(start).to_owned();
    Ok(Some(totals))
}

fn function(word: &str) -> Option<AggregateFunction> {
    let word = word.to_lowercase();
    if let Some((_, function)) = FUNCTIONS.iter().find(|(name, _)| *name == word) {
        return Some(*function);
    }
    let percent: f64 = word.strip_prefix('p')?.parse().ok()?;
    (word.len() <= 4 && percent <= 100.0).then_some(AggregateFunction::Percentile(percent / 100.0))
}

/// Reads a total.
pub(super) fn item(reader: &mut Reader<'_>) -> Result<Aggregate, String> {
    reader.skip_space();
    let start = reader.position();
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
        if reader.eat("*") || reader.clone().eat(")") {
            if function != AggregateFunction::Count {
                return Err(syntax(&reader.error(&format!("{word} takes a field"))));
            }
        } else {
            operand = Some(match (present(reader, function)?, Operand::computed(reader)) {
                (Some(operand), _) | (None, Some(operand)) => operand,
                (None, None) => field(reader)?,
            });
        }
        if matches!(function, AggregateFunction::Percentile(share) if share.is_nan()) {
            function = AggregateFunction::Percentile(share(reader, word)?);
        }
        if !reader.eat(")") {
            return Err(reader.error(
                "a closing parenthesis is expected here; for arithmetic and conditions inside totals use jq",
            ));
        }
    } else if reader.keyword(&["distinct"]).is_some() {
        function = AggregateFunction::CountDistinct;
        operand = Some(Operand::read(reader)?);
    }
    if function != AggregateFunction::Count && operand.is_none() {
        return Err(syntax(&reader.error(&format!("{word} takes a field: {word}(x)"))));
    }
    let verbatim = reader.since(start).to_owned();
    let alias = alias(reader)?;
    Ok(Aggregate {
        function,
        operand,
        scale: Scale::Number,
        survey: ScaleSurvey::default(),
        verbatim,
        alias,
    })
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
    if function != AggregateFunction::Sum || !is_zero {
        return Err(reader.error("totals ignore absent values; only sum takes coalesce(x, 0): leave it out, or compute the total with jq"));
    }
    *reader = rest;
    Ok(Some(operand))
}

/// Reads the name after `as`. `None` if no `as` is next.
fn alias(reader: &mut Reader<'_>) -> Result<Option<String>, String> {
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
    let reason = format!("{word} takes a field and a number from 0 to 100: {word}(x, 95)");
    if !reader.eat(",") {
        return Err(reader.error(&reason));
    }
    reader.skip_space();
    let mut text = String::new();
    while let Some(next) = reader.peek().filter(|next| next.is_ascii_digit() || *next == '.') {
        text.push(next);
        reader.next();
    }
    let number: f64 = text.parse().map_err(|_| reader.error(&reason))?;
    // 1 is the maximum as a share, and a percentile that nobody asks for.
    let is_share = number <= 1.0
        && (word.to_lowercase().starts_with('q') || text.contains('.') || text.len() == 1);
    let share = if is_share { number } else { number / 100.0 };
    (share <= 1.0).then_some(share).ok_or_else(|| reader.error(&reason))
}

fn syntax(reason: &str) -> String {
    if reason.contains(SYNTAX) { reason.to_owned() } else { format!("{reason}; {SYNTAX}") }
}
