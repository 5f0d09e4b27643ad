//! Chains of methods of programming languages: `flights.filter(f => f.stops == 0).length`,
//! `tickets.filter { it.open }.sortedBy { it.age }`, `db.orders.find({open: true}).limit(5)`.

use serde_json::{Map, Value};

use super::{QueryStage, Stages, is_list_name};
use crate::query::code::{end_of_group, parts, unquoted};
use crate::query::condition::{closure, lambda, without_table};
use crate::query::objects;
use crate::query::reader::is_word_character;

/// The methods that compute a total of a field, each with the total.
const TOTALS: [(&str, &str); 15] = [
    ("sum", "sum"),
    ("sumof", "sum"),
    ("sumby", "sum"),
    ("average", "avg"),
    ("averageof", "avg"),
    ("avg", "avg"),
    ("mean", "avg"),
    ("meanby", "avg"),
    ("median", "median"),
    ("min", "min"),
    ("minof", "min"),
    ("minimum", "min"),
    ("max", "max"),
    ("maxof", "max"),
    ("maximum", "max"),
];

/// A call in a chain: its name without underscores in lower case, and its arguments. `None` for a
/// member without a call.
struct MethodCall<'t> {
    name: String,
    arguments: Option<&'t str>,
}

/// Reads a chain of at least one method that is not a condition alone. `None` if the text is no
/// such chain, or has unknown methods.
pub(super) fn read(text: &str) -> Option<Stages> {
    let text = text.trim().trim_end_matches(';');
    // `where('kind', '==', 'new')` is a method of a list that it does not name.
    let method = text.starts_with("where(").then(|| format!(".{text}"));
    let owned = functions_of_lodash(text).or(method);
    let text = owned.as_deref().unwrap_or(text);
    let start = text.find(|c: char| !is_word_character(c) && c != '.')?;
    // The last name before the arguments is the first method.
    let (list, _) = text.get(..start)?.trim_end().rsplit_once('.')?;
    let mut calls = calls(text.get(list.len()..)?)?.into_iter().peekable();
    let list = list.strip_prefix("db.").unwrap_or(list);
    // `results.values.filter(…)` reads the members of an object.
    let list = list.strip_suffix(".values").unwrap_or(list);
    let mut stages = Stages::default();
    match list {
        "" => {}
        list if is_list_name(list) => stages.list = Some(list.to_owned()),
        _ => return None,
    }
    let mut column = None;
    while let Some(call) = calls.next() {
        for stage in call.stages(&mut column, &mut calls)? {
            stages.add(stage)?;
        }
    }
    if let Some(field) = column {
        stages.add(QueryStage::Fields(field))?;
    }
    // A filter with a function alone is a condition, which may concern the elements of a list.
    let inside = text.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
    let is_plain = text.ends_with('}')
        || text.contains(".find(")
        || inside.is_some_and(|inside| compared_values(inside).is_some());
    let is_filter = stages.count < 2 && !stages.conditions.is_empty() && !is_plain;
    (!is_filter && stages.count > 0).then_some(stages)
}

/// Splits a chain, which begins with a dot, into its calls.
fn calls(mut rest: &str) -> Option<Vec<MethodCall<'_>>> {
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let inner = rest.strip_prefix('.').or_else(|| rest.strip_prefix("?."))?;
        let end = inner.find(|c| !is_word_character(c)).unwrap_or(inner.len());
        let (name, after) = inner.split_at_checked(end)?;
        let name = name.replace('_', "").to_lowercase();
        let opened = after.trim_start();
        let (arguments, after) = match opened.chars().next() {
            Some('(') => {
                let inner = opened.get(1..)?;
                let end = end_of_group(inner)?;
                (Some(inner.get(..end)?.trim()), inner.get(end + 1..)?)
            }
            // A closure of Kotlin or Ruby, with its braces.
            Some('{') => {
                let end = end_of_group(opened.get(1..)?)? + 2;
                (Some(opened.get(..end)?), opened.get(end..)?)
            }
            _ => (None, after),
        };
        (!name.is_empty()).then_some(())?;
        calls.push(MethodCall { name, arguments });
        rest = after.trim();
    }
    Some(calls)
}

impl MethodCall<'_> {
    /// Returns the stages of this call. `column` is the field of an earlier `map`, of which a total
    /// may follow.
    fn stages<'t>(
        &self,
        column: &mut Option<String>,
        next: &mut std::iter::Peekable<impl Iterator<Item = MethodCall<'t>>>,
    ) -> Option<Vec<QueryStage>> {
        let arguments = self.arguments.unwrap_or_default();
        let is_closure = arguments.starts_with('{') && closure(arguments).is_some();
        if let Some(field) = column.take() {
            let is_sum = self.name == "reduce" && summed_field(arguments).as_deref() == Some("");
            let total = TOTALS.iter().find(|(name, _)| *name == self.name && arguments.is_empty());
            return match total {
                Some((_, total)) => Some(vec![QueryStage::Totals(format!("{total}({field})"))]),
                None if is_sum => Some(vec![QueryStage::Totals(format!("sum({field})"))]),
                None if self.is_list() => {
                    *column = Some(field);
                    Some(Vec::new())
                }
                None => None,
            };
        }
        let total = TOTALS.iter().find(|(name, _)| *name == self.name);
        if let Some((_, total)) = total {
            return Some(vec![QueryStage::Totals(format!("{total}({})", key(arguments)?.0))]);
        }
        Some(match self.name.as_str() {
            "filter" | "where" | "findall" => vec![QueryStage::Filter(condition(arguments)?)],
            // In Ruby a filter, in C# the fields.
            "select" if is_closure => vec![QueryStage::Filter(condition(arguments)?)],
            "find" if arguments.starts_with('{') => vec![QueryStage::Filter(condition(arguments)?)],
            "reject" => vec![QueryStage::Filter(format!("NOT ({})", condition(arguments)?))],
            "orderby" | "sortby" | "sortedby" => {
                vec![QueryStage::Order(ordered(arguments, false)?)]
            }
            "orderbydescending" | "sortedbydescending" => {
                vec![QueryStage::Order(ordered(arguments, true)?)]
            }
            "thenby" => vec![QueryStage::ThenBy(ordered(arguments, false)?)],
            "thenbydescending" => vec![QueryStage::ThenBy(ordered(arguments, true)?)],
            "sort" if arguments.starts_with('{') => {
                vec![QueryStage::Order(document_order(arguments)?)]
            }
            "sort" => vec![QueryStage::Order(compared(arguments)?)],
            "reverse" | "reversed" if arguments.is_empty() => vec![QueryStage::Reverse],
            "take" | "limit" | "first" | "head" => vec![QueryStage::Limit(number(arguments)?)],
            "skip" | "drop" | "offset" => vec![QueryStage::Skip(number(arguments)?)],
            "slice" => match parts(arguments, ",").as_slice() {
                ["0", count] => vec![QueryStage::Limit(number(count)?)],
                _ => return None,
            },
            "map" | "select" | "pluck" | "collect" if !arguments.is_empty() => {
                *column = Some(key(arguments)?.0);
                Vec::new()
            }
            "count" | "length" | "size" | "len" | "countdocuments" => {
                let count = QueryStage::Totals("count".to_owned());
                match arguments {
                    "" => vec![count],
                    _ => vec![QueryStage::Filter(condition(arguments)?), count],
                }
            }
            "reduce" => vec![QueryStage::Totals(format!("sum({})", summed_field(arguments)?))],
            "maxby" => vec![QueryStage::Totals(format!("argmax({})", key(arguments)?.0))],
            "minby" => vec![QueryStage::Totals(format!("argmin({})", key(arguments)?.0))],
            "countby" => vec![QueryStage::Totals(format!("count by {}", key(arguments)?.0))],
            "groupby" | "groupingby" => {
                let by = key(arguments)?.0;
                if let Some(selected) = next.next_if(|call| call.name == "select") {
                    let totals = totals_of_group(selected.arguments?)?;
                    return Some(vec![QueryStage::Totals(format!("{totals} by {by}"))]);
                }
                let counted = next.next_if(MethodCall::counts_groups)?;
                drop(counted);
                vec![QueryStage::Totals(format!("count by {by}"))]
            }
            _ if self.is_list() => Vec::new(),
            _ => return None,
        })
    }

    /// Returns true for a call that only makes a list of its elements.
    fn is_list(&self) -> bool {
        let names = ["tolist", "toarray", "toa", "tovector", "collect", "all", "values"];
        names.contains(&self.name.as_str()) && self.arguments.is_none_or(str::is_empty)
    }

    /// Returns true for a call after a group that counts the records of each.
    fn counts_groups(&self) -> bool {
        let arguments: String =
            self.arguments.unwrap_or_default().chars().filter(|c| !c.is_whitespace()).collect();
        match self.name.as_str() {
            "eachcount" => arguments.is_empty(),
            "transformvalues" => ["&:count", "&:size", "&:length"].contains(&arguments.as_str()),
            "mapvalues" => ["{it.value.size}", "_.size", "_.length"].contains(&arguments.as_str()),
            _ => false,
        }
    }
}

/// Converts what C# selects of a group: `g => new { g.Key, N = g.Count(), A = g.Sum(t => t.x) }`.
fn totals_of_group(text: &str) -> Option<String> {
    let (group, body) = text.split_once("=>")?;
    let group = format!("{}.", group.trim());
    let members = body.trim().strip_prefix("new")?.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut totals = Vec::new();
    for member in parts(members, ",").into_iter().filter(|member| !member.is_empty()) {
        let sign =
            member.find('=').filter(|at| member.get(at + 1..).is_some_and(|v| !v.starts_with('>')));
        let (name, value) =
            match sign.filter(|at| member.get(..*at).is_some_and(|name| is_word(name.trim()))) {
                Some(at) => (member.get(..at)?.trim(), member.get(at + 1..)?.trim()),
                None => ("", member),
            };
        let value = value.strip_prefix(&group)?;
        if value == "Key" {
            continue;
        }
        let (method, argument) = value.strip_suffix(')')?.split_once('(')?;
        let method = method.to_lowercase();
        let total = match (method.as_str(), argument) {
            ("count", "") => "count".to_owned(),
            ("sum" | "average" | "min" | "max", _) => {
                let total = TOTALS.iter().find(|(known, _)| *known == method)?.1;
                format!("{total}({})", key(argument)?.0)
            }
            _ => return None,
        };
        totals.push(if name.is_empty() { total } else { format!("{total} as {name}") });
    }
    (!totals.is_empty()).then(|| totals.join(", "))
}

/// Returns the condition of a function, a closure or a filter object. `None` for other arguments.
fn condition(text: &str) -> Option<String> {
    // A negation has the meaning that it has in the language of the function.
    if text.contains("=>") && text.contains('!') && lambda(text).is_some() {
        return Some(text.to_owned());
    }
    if let Some(object) = objects::json(text) {
        return objects::condition(&object).ok();
    }
    lambda(text)
        .or_else(|| closure(text))
        .or_else(|| without_table(text, "_"))
        .or_else(|| compared_values(text))
}

/// Converts the arguments of a comparison: `'status', '==', 'open'` and `'status', 'open'`.
fn compared_values(text: &str) -> Option<String> {
    let arguments = parts(text, ",");
    let (name, arguments) = arguments.split_first()?;
    let name = unquoted(name)?;
    match arguments {
        [value] => Some(format!("{name} = {value}")),
        [operator, value] => match unquoted(operator)? {
            // An element of a list equals the value.
            "array-contains" => Some(format!("{name} = {value}")),
            operator @ ("=" | "==" | "===" | "!=" | "<" | "<=" | ">" | ">=" | "like") => {
                Some(format!("{name} {operator} {value}"))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the field that a function returns, and true if it is negated: `f => f.price`, `{ it.a
/// }`, `&:price`, `_.price`, `'price'`.
fn key(text: &str) -> Option<(String, bool)> {
    let symbol = text.strip_prefix("&:").or_else(|| text.strip_prefix(':'));
    if let Some(name) = unquoted(text).or(symbol) {
        return Some((name.to_owned(), false));
    }
    let body = lambda(text).or_else(|| closure(text)).or_else(|| without_table(text, "_"))?;
    let body = body.trim();
    let (name, is_negated) = match body.strip_prefix('-') {
        Some(name) => (name, true),
        None => (body, false),
    };
    let is_field = !name.is_empty()
        && name.chars().all(|c| is_word_character(c) || ".[]'\"- ".contains(c))
        && !name.contains(" -");
    is_field.then(|| (name.to_owned(), is_negated))
}

fn ordered(text: &str, is_descending: bool) -> Option<String> {
    let keys = text.strip_prefix('{').map_or_else(|| parts(text, ","), |_| vec![text]);
    // `_.orderBy('price', 'desc')`
    if let [key_text, direction] = keys.as_slice() {
        let direction = direction.trim_matches(['[', ']', '\'', '"', ' ']);
        let is_known = ["asc", "desc"].contains(&direction);
        let field = key(key_text.trim_matches(['[', ']']))?.0;
        return is_known.then(|| format!("{field} {direction}"));
    }
    let (field, is_negated) = key(text)?;
    Some(if is_negated == is_descending { field } else { format!("{field} desc") })
}

/// Converts the order of a document database: `{price: -1, name: 1}` in JSON.
fn document_order(text: &str) -> Option<String> {
    let members: Map<String, Value> = serde_json::from_str(&objects::json(text)?).ok()?;
    let keys = members.iter().map(|(name, direction)| match direction.as_i64() {
        Some(1) => Some(name.clone()),
        Some(-1) => Some(format!("{name} desc")),
        _ => None,
    });
    let keys: Option<Vec<String>> = keys.collect();
    keys.map(|keys| keys.join(", "))
}

/// Converts a comparison of two records: `(a, b) => b.price - a.price` to `price desc`.
fn compared(text: &str) -> Option<String> {
    let (names, body) = text.split_once("=>")?;
    let (first, second) = names.trim().strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    let (first, second) = (first.trim(), second.trim());
    let body = body.trim();
    let (left, right) =
        match body.strip_suffix(')').and_then(|body| body.split_once(".localeCompare(")) {
            Some(pair) => pair,
            None => body.split_once(" - ")?,
        };
    let member = |text: &str, name: &str| {
        let member = text.trim().strip_prefix(name)?.strip_prefix('.')?.to_owned();
        is_list_name(&member).then_some(member)
    };
    let ascending = member(left, first).filter(|name| member(right, second).as_ref() == Some(name));
    let descending =
        member(left, second).filter(|name| member(right, first).as_ref() == Some(name));
    ascending.or_else(|| descending.map(|name| format!("{name} desc")))
}

/// Returns the field that a reduction adds: `price` of `(sum, r) => sum + r.price, 0`. Empty if it
/// adds the elements themselves. `None` for other reductions.
fn summed_field(text: &str) -> Option<String> {
    let (names, body) = text.split_once("=>")?;
    let (sum, record) = names.trim().strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    let (body, start) = body.rsplit_once(',')?;
    (start.trim().parse::<f64>() == Ok(0.0)).then_some(())?;
    let (left, right) = body.split_once('+')?;
    (left.trim() == sum.trim()).then_some(())?;
    let field = right.trim().strip_prefix(record.trim())?;
    match field.strip_prefix('.') {
        Some(field) => is_list_name(field).then(|| field.to_owned()),
        None => field.is_empty().then(String::new),
    }
}

fn number(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.to_owned())
}

/// Converts functions of Lodash to methods: `_.sumBy(_.filter(a, f), 'x')` to
/// `a.filter(f).sumBy('x')`. `None` for other texts.
fn functions_of_lodash(text: &str) -> Option<String> {
    let (name, rest) = text.strip_prefix("_.")?.split_once('(')?;
    let inner = rest.get(..end_of_group(rest)?)?;
    let after = rest.get(inner.len() + 1..)?;
    let arguments = parts(inner, ",");
    let (list, others) = arguments.split_first()?;
    // `_.countBy('kind')` names no list.
    let (list, arguments) = match unquoted(list) {
        Some(_) => (String::new(), arguments.as_slice()),
        None => (functions_of_lodash(list).unwrap_or_else(|| (*list).to_owned()), others),
    };
    is_word(name).then(|| format!("{list}.{name}({}){after}", arguments.join(", ")))
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_word_character)
}
