//! Stages after signs `|`, as in languages of logs: `FROM flights | WHERE delay > 5 | LIMIT 3`,
//! `search ok=true | stats avg(x) by room`. PRQL writes each stage in a line of its own.

use super::{QueryStage, Stages, is_list_name};
use crate::query::code::{keyword, outside_quotes, parts, replaced};
use crate::query::reader::is_word_character;

/// Reads stages. `names_totals` is true for a text whose first stage may be totals, false for one
/// whose first stage may be a condition. `None` if the text has no stages, or unknown ones.
pub(super) fn read(text: &str, names_totals: bool) -> Option<Stages> {
    let text = text.trim();
    // `msg ~ error|warning` has alternatives.
    let is_apart = |(at, _): (usize, char)| {
        let before = text.get(..at).unwrap_or_default();
        before.is_empty() || before.ends_with(char::is_whitespace)
    };
    if !outside_quotes(text).filter(|(_, c)| *c == '|').all(is_apart) {
        return None;
    }
    let steps: Vec<String> = match parts(text, "|").as_slice() {
        // A line for each stage.
        [_] if text.starts_with("from ") && text.contains('\n') => {
            text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
        }
        steps => steps.iter().map(|step| (*step).to_owned()).collect(),
    };
    let mut steps = steps.iter().map(String::as_str).peekable();
    let mut stages = Stages::default();
    // `| where a > 5 | …`
    steps.next_if(|step| step.is_empty());
    let first = steps.next()?;
    let is_single = steps.peek().is_none();
    match stage(first) {
        Some(found) if !is_single || is_command(first) => {
            found.into_iter().try_for_each(|stage| stages.add(stage))?;
        }
        _ if is_single => return None,
        _ => match source(first) {
            Some(list) => stages.list = Some(list.to_owned()),
            None if names_totals => stages.add(QueryStage::Totals(totals(first)))?,
            None => stages.add(QueryStage::Filter(first.to_owned()))?,
        },
    }
    for step in steps {
        stage(step)?.into_iter().try_for_each(|stage| stages.add(stage))?;
    }
    Some(stages)
}

/// Returns the name of the list of a first stage such as `FROM flights` or `flights`. `None` for
/// other stages.
fn source(stage: &str) -> Option<&str> {
    let Some((word, name)) = stage.split_once([' ', '=']) else {
        return is_list_name(stage).then_some(stage);
    };
    let name = name.trim().trim_matches(['"', '`']);
    let is_source = ["from", "source"].iter().any(|it| word.eq_ignore_ascii_case(it));
    (is_source && is_list_name(name)).then_some(name)
}

/// Returns true if a stage alone is written as in a language of stages: `stats count by status`.
fn is_command(stage: &str) -> bool {
    let word = stage.split(char::is_whitespace).next().unwrap_or_default().to_lowercase();
    ["stats", "summarize", "summarise"].contains(&word.as_str())
}

/// Reads one stage. `None` if its word is unknown.
fn stage(text: &str) -> Option<Vec<QueryStage>> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let word = word.to_lowercase();
    // `limit = 5` is a comparison.
    if rest.starts_with(['=', '<', '>', '!', ':', '~']) {
        return None;
    }
    let by = rest.split_once(char::is_whitespace).filter(|(by, _)| by.eq_ignore_ascii_case("by"));
    Some(match word.as_str() {
        "where" | "filter" | "search" | "having" if !rest.is_empty() => {
            vec![QueryStage::Filter(rest.to_owned())]
        }
        "sort" | "order" | "orderby" if !rest.is_empty() => {
            vec![QueryStage::Order(keys(by.map_or(rest, |(_, keys)| keys), by.is_some())?)]
        }
        "limit" | "take" | "head" => vec![QueryStage::Limit(number(rest)?)],
        "offset" | "skip" => vec![QueryStage::Skip(number(rest)?)],
        "top" => {
            let (count, keys_by) = rest.split_once(" by ")?;
            vec![QueryStage::Order(keys(keys_by, true)?), QueryStage::Limit(number(count)?)]
        }
        "stats" | "summarize" | "summarise" if !rest.is_empty() => {
            vec![QueryStage::Totals(totals(rest))]
        }
        "aggregate" => vec![QueryStage::Totals(totals(braces(rest)?))],
        "group" => {
            // PRQL: `group city (aggregate {n = count this})`
            let (by, inner) = rest.split_once('(')?;
            let inner = inner.strip_suffix(')')?.trim().strip_prefix("aggregate")?;
            let by = by.trim();
            let by = braces(by).unwrap_or(by);
            vec![QueryStage::Totals(format!("{} by {by}", totals(braces(inner.trim())?)))]
        }
        "count" if rest.is_empty() => vec![QueryStage::Totals("count".to_owned())],
        "distinct" if !rest.is_empty() => vec![QueryStage::Totals(format!("distinct({rest})"))],
        "project" | "keep" | "fields" | "table" | "select" if !rest.is_empty() => {
            vec![QueryStage::Fields(fields(braces(rest).unwrap_or(rest))?)]
        }
        _ => return None,
    })
}

fn braces(text: &str) -> Option<&str> {
    text.strip_prefix('{')?.strip_suffix('}').map(str::trim)
}

fn number(text: &str) -> Option<String> {
    let digits = text.strip_prefix("limit=").unwrap_or(text).trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.to_owned())
}

/// Converts the keys of an order: `-price, +name` and `price desc, name`. With `is_kusto`, keys
/// without a direction are sorted from the greatest, as Kusto does after `by`.
fn keys(text: &str, is_kusto: bool) -> Option<String> {
    let text = braces(text).unwrap_or(text);
    let key = |key: &str| {
        if let Some(name) = key.strip_prefix('-') {
            return Some(format!("{} desc", name.trim()));
        }
        let name = key.strip_prefix('+').unwrap_or(key).trim();
        let last = name.rsplit(char::is_whitespace).next()?.to_lowercase();
        let has_direction = ["asc", "desc", "first", "last"].contains(&last.as_str());
        // SPL separates keys by spaces.
        let is_key = !name.is_empty()
            && (has_direction || !name.contains(' ') || name.contains(['(', '"', '`']));
        is_key.then(|| match is_kusto && !has_direction {
            true => format!("{name} desc"),
            false => name.to_owned(),
        })
    };
    let keys: Option<Vec<String>> = parts(text, ",").into_iter().map(key).collect();
    keys.map(|keys| keys.join(", "))
}

/// Converts a list of fields. `None` if one is computed, or the list names fields to leave out.
fn fields(text: &str) -> Option<String> {
    let separated =
        if text.contains(',') { parts(text, ",") } else { text.split_whitespace().collect() };
    let is_plain = |name: &&str| {
        !name.is_empty() && !name.contains(['(', '=', '+', '*', '/']) && !name.starts_with('-')
    };
    separated.iter().all(is_plain).then(|| separated.join(","))
}

/// Converts totals: `n=sum(a)` to `sum(a) as n`, and `count this` of PRQL to `count`.
fn totals(text: &str) -> String {
    // SPL separates totals by blanks: `avg(a) max(b) by c`.
    let separated = replaced(text, |before, rest| {
        let name = rest.strip_prefix(' ')?.trim_start();
        let end = name.find(|c| !is_word_character(c)).filter(|end| *end > 0)?;
        (before.ends_with(')') && name.get(end..)?.starts_with('(')).then(|| (1, ", ".to_owned()))
    });
    let text = separated.as_deref().unwrap_or(text);
    let named = |total: &str| {
        let pair = parts(total, "=");
        match pair.as_slice() {
            [name, total] if is_list_name(name) && !total.is_empty() => {
                let (call, by) = total.split_at(keyword(total, 0, "by").unwrap_or(total.len()));
                let by = if by.is_empty() { String::new() } else { format!(" {by}") };
                format!("{} as {name}{by}", applied(call.trim()))
            }
            _ => applied(total),
        }
    };
    parts(text, ",").into_iter().map(named).collect::<Vec<_>>().join(", ")
}

/// Converts a function that is applied without parentheses, as in PRQL: `sum price`.
fn applied(call: &str) -> String {
    match call.split_once(' ') {
        Some(("count", "this")) => "count".to_owned(),
        Some((function @ ("sum" | "average" | "min" | "max"), field))
            if !field.contains([' ', '(']) =>
        {
            format!("{function}({field})")
        }
        _ => call.to_owned(),
    }
}
