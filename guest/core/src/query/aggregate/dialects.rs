//! Totals in the syntax of programs and web services: `Counter(t['kind'] for t in tickets)`,
//! `.values('kind').annotate(n=Count('id'))`, `groupby((kind),aggregate(price with sum as t))` and
//! `|> group(columns: ["kind"]) |> max(column: "price")`.

use crate::query::code::{end_of_group, parts, unquoted};
use crate::query::condition::lambda;
use crate::query::reader::is_word_character;
use crate::query::value::quote;

/// Converts totals to the syntax of this language. `None` if the text is in none of these dialects.
pub(super) fn totals(text: &str) -> Option<String> {
    let text = text.trim();
    counter(text)
        .or_else(|| generator(text))
        .or_else(|| django(text))
        .or_else(|| odata(text))
        .or_else(|| flux(text))
}

/// Converts a total of Python's generators and lists: `sum(t['a'] for t in x if t['b'] > 5)`,
/// `len([t for t in x if t['b'] > 5])`.
fn generator(text: &str) -> Option<String> {
    let (function, inner) = text.strip_suffix(')')?.split_once('(')?;
    end_of_group(inner).is_none().then_some(())?;
    let (value, name, source) = iteration(inner)?;
    let (list, condition) = match source.split_once(" if ") {
        Some((list, condition)) => (list, Some(lambda(&format!("lambda {name}: {condition}"))?)),
        None => (source, None),
    };
    is_list(list).then_some(())?;
    let field = || keys(value.strip_prefix(name)?);
    let total = match function {
        "len" if value == name => "count".to_owned(),
        "len" | "sum" if value == "1" => "count".to_owned(),
        "len" => format!("count({})", field()?),
        "sum" | "min" | "max" => format!("{function}({})", field()?),
        "mean" | "statistics.mean" | "fmean" | "statistics.fmean" => format!("avg({})", field()?),
        "median" | "statistics.median" => format!("median({})", field()?),
        "stdev" | "statistics.stdev" => format!("stddev_samp({})", field()?),
        "pstdev" | "statistics.pstdev" => format!("stddev_pop({})", field()?),
        _ => return None,
    };
    Some(match condition {
        Some(condition) if total == "count" => format!("count(*) FILTER (WHERE {condition})"),
        Some(condition) => format!("{total} FILTER (WHERE {condition})"),
        None => total,
    })
}

/// Splits a generator or a list of Python, `t['a'] for t in x`, into the value, the name of a
/// record, and what follows `in`.
fn iteration(text: &str) -> Option<(&str, &str, &str)> {
    let list = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let (value, source) = list.unwrap_or(text).split_once(" for ")?;
    let (name, source) = source.split_once(" in ")?;
    Some((value.trim(), name.trim(), source))
}

/// Returns true for the name of a list in a program, such as `data['items']`.
fn is_list(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.chars().all(|c| is_word_character(c) || ".[]'\"".contains(c))
}

/// Converts Python's `Counter(t['kind'] for t in tickets).most_common(3)`.
fn counter(text: &str) -> Option<String> {
    let inner = text.strip_prefix("collections.").unwrap_or(text).strip_prefix("Counter(")?;
    let end = end_of_group(inner)?;
    let (inner, rest) = (inner.get(..end)?, inner.get(end + 1..)?.trim());
    let (key, name, list) = iteration(inner)?;
    let field = keys(key.strip_prefix(name)?)?;
    let top = match rest.strip_prefix(".most_common(").and_then(|rest| rest.strip_suffix(')')) {
        Some("") => " order by count desc".to_owned(),
        Some(count) => format!(" order by count desc limit {}", count.parse::<u64>().ok()?),
        None => rest.is_empty().then(String::new)?,
    };
    is_list(list).then(|| format!("count by {field}{top}"))
}

/// Converts the keys after the name of a record: `['a']["b"]`, `.a.b`, `.get('a')`.
fn keys(text: &str) -> Option<String> {
    let mut names = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = if let Some(inner) = rest.strip_prefix('[') {
            let (name, after) = inner.split_once(']')?;
            (unquoted(name.trim())?, after)
        } else if let Some(inner) = rest.strip_prefix(".get(") {
            let (name, after) = inner.split_once(')')?;
            (unquoted(name.trim())?, after)
        } else {
            let inner = rest.strip_prefix('.')?;
            inner.split_at(inner.find(|c| !is_word_character(c)).unwrap_or(inner.len()))
        };
        (!name.is_empty()).then_some(())?;
        names.push(name.to_owned());
        rest = after;
    }
    (!names.is_empty()).then(|| names.join("."))
}

/// Converts calls of Django: `T.objects.values('kind').annotate(n=Count('id')).order_by('-n')[:5]`
/// and `.aggregate(Avg('price'))`.
fn django(text: &str) -> Option<String> {
    let start = text.find(".values(").or_else(|| text.find(".aggregate("))?;
    let (model, mut rest) = text.split_at_checked(start)?;
    let is_model = model.chars().all(|c| is_word_character(c) || ".()".contains(c));
    is_model.then_some(())?;
    let (mut by, mut items, mut page) = (Vec::new(), Vec::new(), String::new());
    while !rest.is_empty() {
        if let Some(count) = rest.strip_prefix("[:").and_then(|rest| rest.strip_suffix(']')) {
            page.push_str(&format!(" limit {}", count.parse::<u64>().ok()?));
            break;
        }
        let (name, inner) = rest.strip_prefix('.')?.split_once('(')?;
        let end = end_of_group(inner)?;
        let arguments: Vec<&str> =
            parts(inner.get(..end)?, ",").into_iter().filter(|part| !part.is_empty()).collect();
        rest = inner.get(end + 1..)?.trim();
        match name {
            "values" if items.is_empty() => {
                for argument in arguments {
                    by.push(path(unquoted(argument)?));
                }
            }
            "annotate" | "aggregate" => {
                for argument in arguments {
                    items.push(django_total(argument)?);
                }
            }
            "order_by" if arguments.len() == 1 => {
                let key = unquoted(arguments.first()?)?;
                page = match key.strip_prefix('-') {
                    Some(key) => format!(" order by {} desc", path(key)),
                    None => format!(" order by {}", path(key)),
                };
            }
            _ => return None,
        }
    }
    let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
    (!items.is_empty()).then(|| format!("{}{by}{page}", items.join(", ")))
}

/// Converts `n=Count('id')`, `Sum('order__price')` and `Count('a', distinct=True)`.
fn django_total(text: &str) -> Option<String> {
    let call = text.find('(').and_then(|at| text.get(..at))?;
    let (name, function) = call.split_once('=').unwrap_or(("", call));
    let inner = text.strip_suffix(')')?.get(call.len() + 1..)?;
    let function = match function.trim().trim_start_matches("models.") {
        "Count" => "count",
        "Sum" => "sum",
        "Avg" => "avg",
        "Min" => "min",
        "Max" => "max",
        _ => return None,
    };
    let total = match parts(inner, ",").as_slice() {
        ["'*'" | "\"*\""] => function.to_owned(),
        [field] => format!("{function}({})", path(unquoted(field)?)),
        [field, distinct]
            if function == "count" && distinct.replace(' ', "") == "distinct=True" =>
        {
            format!("count(distinct {})", path(unquoted(field)?))
        }
        _ => return None,
    };
    let name = name.trim();
    Some(if name.is_empty() { total } else { format!("{total} as {}", quote(name)) })
}

/// Converts the separators of paths in Django and OData.
fn path(name: &str) -> String {
    name.trim().replace("__", ".").replace('/', ".")
}

/// Converts `$apply` of OData: `groupby((kind,a/b),aggregate(price with sum as t,$count as n))`.
fn odata(text: &str) -> Option<String> {
    let text = text.strip_prefix("$apply=").unwrap_or(text);
    let whole = |text: &str, name: &str| {
        let inner = text.strip_prefix(name)?.strip_prefix('(')?;
        let end = end_of_group(inner)?;
        inner.get(..end).filter(|_| end + 1 == inner.len()).map(str::to_owned)
    };
    if let Some(inner) = whole(text, "aggregate") {
        let item = |item: &str| {
            let words: Vec<&str> = item.split_whitespace().collect();
            let function = |name: &str| match name {
                "sum" | "min" | "max" | "average" => Some(name.replace("average", "avg")),
                "countdistinct" => Some("count_distinct".to_owned()),
                _ => None,
            };
            Some(match words.as_slice() {
                ["$count", "as", name] => format!("count as {}", quote(name)),
                [field, "with", total, "as", name] => {
                    format!("{}({}) as {}", function(total)?, path(field), quote(name))
                }
                _ => return None,
            })
        };
        let items: Option<Vec<String>> = parts(&inner, ",").into_iter().map(item).collect();
        return items.map(|items| items.join(", "));
    }
    let inner = whole(text, "groupby")?;
    let (by, totals) = match parts(&inner, ",").as_slice() {
        [by] => (*by, "count".to_owned()),
        [by, totals] => (*by, odata(totals)?),
        _ => return None,
    };
    let by = by.strip_prefix('(')?.strip_suffix(')')?;
    let by: Vec<String> = parts(by, ",").into_iter().map(path).collect();
    Some(format!("{totals} by {}", by.join(", ")))
}

/// Converts steps of Flux: `|> group(columns: ["kind"]) |> max(column: "price")`.
fn flux(text: &str) -> Option<String> {
    let (mut by, mut total) = (String::new(), None);
    for step in parts(text, "|>").into_iter().filter(|step| !step.is_empty()) {
        let (name, inner) = step.strip_suffix(')')?.split_once('(')?;
        let argument = |name: &str| inner.strip_prefix(name)?.trim_start().strip_prefix(':');
        match name {
            "group" if total.is_none() => {
                let list = argument("columns")?.trim().strip_prefix('[')?.strip_suffix(']')?;
                let names: Option<Vec<&str>> = parts(list, ",").into_iter().map(unquoted).collect();
                by = names?.into_iter().map(quote).collect::<Vec<String>>().join(", ");
            }
            "count" if total.is_none() => total = Some("count".to_owned()),
            "sum" | "min" | "max" | "mean" | "median" if total.is_none() => {
                total = Some(format!("{name}({})", quote(unquoted(argument("column")?.trim())?)));
            }
            _ => return None,
        }
    }
    let total = total.filter(|_| text.contains("|>") && text.contains("columns:"))?;
    Some(if by.is_empty() { total } else { format!("{total} by {by}") })
}

#[cfg(test)]
mod tests {
    use super::totals;

    #[test]
    fn totals_of_programs_are_rewritten() {
        for (text, expected) in [
            ("Counter(t['a']['b'] for t in x)", Some("count by a.b")),
            (
                "collections.Counter([t.get(\"a\") for t in data['x']]).most_common(3)",
                Some("count by a order by count desc limit 3"),
            ),
            ("Counter(t['a'] for u in x)", None),
            ("Counter(f(t) for t in x)", None),
            ("sum(t['a'] for t in x if t['b'] > 5)", Some("sum(a) FILTER (WHERE ['b'] > 5)")),
            ("sum(1 for t in x if t.b == 'y')", Some("count(*) FILTER (WHERE b == 'y')")),
            ("len([t for t in data['x']])", Some("count")),
            ("statistics.mean([t.get('a') for t in x])", Some("avg(a)")),
            ("sum(f(t) for t in x)", None),
            (
                ".values('type').annotate(n=Count('key'), w=Sum('a__b')).order_by('-n')[:5]",
                Some("count(key) as 'n', sum(a.b) as 'w' by type order by n desc limit 5"),
            ),
            ("T.objects.aggregate(Avg('price'))", Some("avg(price)")),
            ("T.objects.values('a').annotate(n=F('b'))", None),
            (
                "groupby((a/b, c),aggregate(d with sum as t,$count as n))",
                Some("sum(d) as 't', count as 'n' by a.b, c"),
            ),
            ("groupby((a))", Some("count by a")),
            ("groupby(a)", None),
            (
                "|> group(columns: [\"a\", \"b\"]) |> max(column: \"c\")",
                Some("max('c') by 'a', 'b'"),
            ),
            ("|> group(columns: [\"a\"]) |> window(every: 5m)", None),
            ("count by a", None),
        ] {
            assert_eq!(totals(text).as_deref(), expected, "{text}");
        }
    }
}
