//! The grammar of totals.
//!
//! ```text
//! totals  = segment { "," segment }
//! segment = item { "," item } [ "by" field { "," field } ] [ "unnest" field ]
//!           [ "having" condition ] [ "order by" total [ "desc" ] { "," … } ] [ "limit" number ]
//! item    = expression [ "as" name ]
//! total   = "count" | function "(" field ")" [ "filter" "(" condition ")" ]
//! ```

use super::distinct::distinct_words;
use super::functions::function;
use super::item::{CLAUSES, alias, field, syntax};
use super::{Aggregate, AggregateFunction, GroupedTotals, SortKey, expression, spreadsheet};
use crate::query::code::keyword;
use crate::query::condition::TotalsCondition;
use crate::query::operand::Operand;
use crate::query::order::{Order, read_direction};
use crate::query::reader::{Position, Reader};

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
    let values = distinct_words(&mut reader.clone()) == Some(AggregateFunction::Distinct);
    // A formula of a spreadsheet: `=SUMIF(…)`.
    let _ = reader.eat("=");
    let (mut items, mut fields): (Vec<Aggregate>, Vec<_>) = (Vec::new(), Vec::new());
    // For each column, its index in `fields`, if it is a field.
    let mut columns = Vec::new();
    // For each column, its label, if it is a total.
    let mut labels = Vec::new();
    loop {
        reader.count_part()?;
        columns.push((!is_total(reader)).then_some(fields.len()));
        if is_total(reader) {
            let new = expression::read(reader, &mut items)?;
            labels.push(Some(new.label().to_owned()));
            // A total that is asked for twice is one member of the result.
            let is_same =
                |known: &Aggregate| known.verbatim == new.verbatim && known.alias == new.alias;
            if !items.iter().any(is_same) {
                items.push(new);
            }
        } else {
            labels.push(None);
            reader.skip_space();
            let at = reader.position();
            let field = match Operand::computed(reader) {
                Some(field) => field,
                None => Operand::read(reader).map_err(|reason| syntax(&reason))?,
            };
            fields.push((field, at, alias(reader)?));
        }
        if !reader.eat(",") {
            break;
        }
    }
    // The pairs of two fields in SQL, and the values of each in other languages.
    if values && items.len() + fields.len() > 1 {
        reader.reset(start);
        return Err(syntax(&reader.error(
            "distinct takes one field here: write count by a, b for pairs, or distinct(a), distinct(b)",
        )));
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
            let group = match Operand::computed(reader) {
                Some(group) => group,
                None => field(reader)?,
            };
            // `substr(date, 1, 4) AS year … GROUP BY year`
            let named = |alias: &Option<String>| {
                let alias = alias.as_ref();
                alias.is_some_and(|alias| alias.eq_ignore_ascii_case(&group.name.verbatim))
            };
            let of_alias = fields.iter().find(|(.., alias)| named(alias));
            // `SELECT city, count(*) … GROUP BY 1`
            let number = group.name.verbatim.parse::<usize>().ok().filter(|_| !fields.is_empty());
            let column = number.map(|number| columns.get(number.checked_sub(1)?).copied()?);
            let of_number = match column {
                Some(Some(at)) => fields.get(at),
                Some(None) => {
                    return Err(
                        reader.error("GROUP BY takes the number of a column without a total")
                    );
                }
                None => None,
            };
            let of_alias = of_alias.or(of_number);
            by.push(of_alias.map_or(group, |(field, ..)| field.clone()));
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
        items.push(Aggregate { verbatim: "count".to_owned(), ..Aggregate::default() });
    }
    // `city, sum(price)` has a meaning with groups only. The result has their names.
    let has_names = fields.iter().enumerate().all(|(at, (field, _, alias))| {
        let mut others = fields.iter().skip(at + 1);
        alias.is_none() && !others.any(|(other, ..)| other.name == field.name)
    });
    if by.is_empty() && !items.is_empty() && has_names {
        by.extend(fields.iter().map(|(field, ..)| field.clone()));
    }
    if let Some((field, at, _)) = fields.iter().find(|(field, ..)| {
        let is_same = |other: &&Operand| other.name == field.name;
        let mut functions: Vec<_> = Vec::new();
        for (other, ..) in fields.iter().filter(|(other, ..)| other.name == field.name) {
            if !functions.contains(&other.function) {
                functions.push(other.function);
            }
        }
        by.iter().filter(is_same).count() < functions.len()
    }) {
        reader.reset(*at);
        let name = &field.name.verbatim;
        let total = items.first().map_or("count", |item: &Aggregate| item.verbatim.as_str());
        let after = reader.rest().trim_start().strip_prefix(name.as_str()).map(str::trim_start);
        let is_list = after.is_some_and(|after| {
            after.is_empty() || after.starts_with(',') || keyword(after, 0, "by") == Some(0)
        });
        let hint = match is_list {
            true => format!("for groups write {total} by {name}"),
            false => "write the totals here, such as avg(x) by city, and the condition on records in where".to_owned(),
        };
        return Err(syntax(&reader.error(&format!("{name} is not a total; {hint}"))));
    }
    if items.is_empty() {
        return Err(syntax(&reader.error("a total is expected before by")));
    }
    let unwound = match reader.keyword(&["unnest"]) {
        Some(_) => Some(field(reader)?),
        None => None,
    };
    // A key has the name that the statement gives it.
    let names = by.iter().map(|key| {
        let is_key = |field: &Operand| field.name == key.name && field.function == key.function;
        let alias =
            fields.iter().find(|(field, ..)| is_key(field)).map(|(.., alias)| alias.clone());
        alias.flatten()
    });
    let names = names.collect();
    let having = match reader.keyword(&["having"]) {
        Some(_) => Some(TotalsCondition::read(reader)?),
        None => None,
    };
    // The number of a column counts the columns as they are written. The number in the result
    // counts the keys first.
    let number_in_result = |name: &str| -> Option<usize> {
        let at = name.parse::<usize>().ok()?.checked_sub(1)?;
        match (columns.get(at)?, labels.get(at)?) {
            (Some(field), _) => {
                let (field, ..) = fields.get(*field)?;
                by.iter().position(|key| key.name == field.name && key.function == field.function)
            }
            (None, Some(label)) => {
                let mut visible =
                    items.iter().filter(|item: &&Aggregate| item.alias.as_deref() != Some(""));
                visible.position(|item| item.label() == label).map(|total| by.len() + total)
            }
            (None, None) => None,
        }
    };
    let mut order = Vec::new();
    if reader.keyword(&["order by", "sort by", "sorted by", "sort"]).is_some() {
        loop {
            reader.count_part()?;
            let descending = reader.eat("-");
            let name = total_name(reader)?;
            let name = number_in_result(&name).map_or(name, |number| (number + 1).to_string());
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
    let has_rows = reader.keyword(&["each record"]).is_some();
    if by.is_empty() && (having.is_some() || !order.is_empty() || limit.is_some()) {
        return Err(format!(
            "aggregate: {verbatim:?} has no groups to sort or limit; write by and a field, such as count by status order by count desc limit 3"
        ));
    }
    let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(GroupedTotals { items, by, names, unwound, having, order, limit, has_rows, verbatim })
}

/// Returns true if the next total is a sort key: `asc`, `desc` or `limit` follows it.
fn sorts(reader: &Reader<'_>) -> bool {
    let mut rest = reader.clone();
    total_name(&mut rest).is_ok() && rest.keyword(&["asc", "desc", "limit"]).is_some()
}

/// Reads the name of a total or of a group's field.
fn total_name(reader: &mut Reader<'_>) -> Result<String, String> {
    reader.skip_space();
    let start = reader.position();
    if is_total(reader) {
        expression::read(reader, &mut Vec::new())?;
    } else {
        Operand::read(reader)?;
    }
    Ok(reader.since(start).to_owned())
}

/// Returns true if a total is next: a function with its parenthesis, or `count`.
fn is_total(reader: &Reader<'_>) -> bool {
    let mut rest = reader.clone();
    if distinct_words(&mut rest).is_some() {
        return true;
    }
    let word = rest.peek_word();
    let is_named = function(word).is_some() || spreadsheet::is_function(word);
    if !is_named || !rest.eat(word) {
        return expression::is_next(reader);
    }
    let is_count = word.eq_ignore_ascii_case("count");
    let is_end = rest.is_at_end() || rest.rest().starts_with([',', ';', ')']);
    let clause = rest.keyword(&CLAUSES).is_some()
        || rest.keyword(&["distinct", "asc", "desc", "where"]).is_some();
    rest.eat("(") || (is_count && (is_end || clause))
}

/// Reads totals whose groups come first: `count_by(kind)`, or `top 3 city by sum(price)`. `None` if
/// no such total is next.
fn grouped(reader: &mut Reader<'_>, start: Position) -> Result<Option<GroupedTotals>, String> {
    let mut totals = GroupedTotals {
        items: vec![Aggregate { verbatim: "count".to_owned(), ..Aggregate::default() }],
        by: Vec::new(),
        names: Vec::new(),
        unwound: None,
        having: None,
        order: Vec::new(),
        limit: None,
        has_rows: false,
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
            // `top 3 by id` of other languages.
            let _ = reader.keyword(&["by"]);
            let of = field(reader)?;
            let name = of.name.verbatim.clone();
            totals.by.push(of);
            totals.limit = number.parse().ok();
            if reader.keyword(&["by"]).is_none() || !is_total(reader) {
                return Err(format!(
                    "aggregate: top {number} of what? For the most frequent values write count by {name} order by count desc limit {number}; for the records with the highest {name}, where: \"order by {name} desc limit {number}\""
                ));
            }
            let mut items = Vec::new();
            let total = expression::read(reader, &mut items)?;
            let name = total.verbatim.clone();
            totals.order.push(SortKey { name, descending: true });
            items.push(total);
            totals.items = items;
        }
        _ => {
            reader.reset(start);
            return Ok(None);
        }
    }
    totals.verbatim = reader.since(start).to_owned();
    Ok(Some(totals))
}
