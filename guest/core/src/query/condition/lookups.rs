//! Conditions whose operators are parts of names or values: `price__gte=5` of Django,
//! `kind=in=(a,b);price=lt=5` of RSQL, `kind=eq.new&price=lt.5` of PostgREST, and the modifiers of
//! NSPredicate, as in `name CONTAINS[cd] "x"`.

use regex_lite::Regex;

use crate::query::code::{outside_quotes, parts};
use crate::query::reader::is_word_character;
use crate::query::value::quote;

/// The lookups of Django, and the operators here.
const DJANGO: [(&str, &str); 19] = [
    ("exact", "="),
    ("iexact", "="),
    ("ne", "!="),
    ("gt", ">"),
    ("gte", ">="),
    ("lt", "<"),
    ("lte", "<="),
    ("in", "IN"),
    ("contains", "~"),
    ("icontains", "~"),
    ("startswith", "^="),
    ("istartswith", "^="),
    ("endswith", "$="),
    ("iendswith", "$="),
    ("regex", "=~"),
    ("iregex", "=~"),
    ("range", "BETWEEN"),
    ("isnull", "IS NULL"),
    ("date", "="),
];

/// The operators of RSQL, and the operators here.
const RSQL: [(&str, &str); 8] = [
    ("=in=", " IN "),
    ("=out=", " NOT IN "),
    ("=gt=", " > "),
    ("=ge=", " >= "),
    ("=lt=", " < "),
    ("=le=", " <= "),
    ("=like=", " ~ "),
    ("=ilike=", " ~ "),
];

/// The operators of PostgREST whose values are numbers or dates, and the operators here.
const ORDERED: [(&str, &str); 4] = [("gte", ">="), ("gt", ">"), ("lte", "<="), ("lt", "<")];

/// Returns the condition in the notation of this language. None if the text is of no such notation.
pub(super) fn condition(text: &str) -> Option<String> {
    django(text).or_else(|| rsql(text)).or_else(|| postgrest(text)).or_else(|| predicate(text))
}

/// Returns the positions of `signs` outside of quotes.
fn positions<'t>(text: &'t str, sign: &'t str) -> impl Iterator<Item = usize> + 't {
    let starts = move |at: &usize| text.get(*at..).is_some_and(|rest| rest.starts_with(sign));
    outside_quotes(text).map(|(at, _)| at).filter(starts)
}

/// Reads `price__gte=5, owner__name__in=['a', 'b']`, also inside `Q(…)`.
fn django(text: &str) -> Option<String> {
    let (mut out, mut copied) = (String::new(), 0);
    for at in positions(text, "__").collect::<Vec<_>>() {
        let rest = text.get(at + 2..)?;
        let end = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let value = after.trim_start().strip_prefix('=').filter(|rest| !rest.starts_with('='));
        let lookup = DJANGO.iter().find(|(name, _)| *name == word);
        let (Some((_, operator)), Some(value), true) = (lookup, value, at >= copied) else {
            continue;
        };
        let before = text.get(copied..at)?;
        let name = before.rfind(|c: char| !is_word_character(c)).map_or(0, |last| last + 1);
        let (before, name) = before.split_at_checked(name)?;
        out.push_str(before);
        out.push_str(&name.replace("__", "."));
        copied = text.len() - value.len();
        if word == "isnull" {
            let value = value.trim_start();
            let is_null = ["True", "true", "1"].iter().find(|word| value.starts_with(**word));
            let not = ["False", "false", "0"].iter().find(|word| value.starts_with(**word));
            out.push_str(if is_null.is_some() { " IS NULL" } else { " IS NOT NULL" });
            copied = text.len() - value.len() + is_null.or(not)?.len();
        } else {
            out.push_str(&format!(" {operator} "));
        }
    }
    out.push_str(text.get(copied..)?);
    (copied > 0).then(|| without_q(&out))
}

/// Removes the `Q` before the parentheses of Django's conditions. `~` negates.
fn without_q(text: &str) -> String {
    let (mut out, mut copied) = (String::new(), 0);
    for at in positions(text, "Q(").collect::<Vec<_>>() {
        let before = text.get(copied..at).unwrap_or_default();
        if before.ends_with(is_word_character) {
            continue;
        }
        match before.strip_suffix('~') {
            Some(before) => out.push_str(&format!("{before}NOT ")),
            None => out.push_str(before),
        }
        copied = at + 1;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    out
}

/// Reads `kind=in=(a,b);price=lt=5`, in which a comma means OR.
fn rsql(text: &str) -> Option<String> {
    if !RSQL.iter().any(|(sign, _)| positions(text, sign).next().is_some()) {
        return None;
    }
    let (mut out, mut copied, mut list) = (String::new(), 0, None);
    let mut depth = 0usize;
    for (at, c) in outside_quotes(text).filter(|(at, _)| *at < text.len()) {
        if at < copied {
            continue;
        }
        let rest = text.get(at..)?;
        if let Some((sign, operator)) = RSQL.iter().find(|(sign, _)| rest.starts_with(sign)) {
            out.push_str(text.get(copied..at)?);
            out.push_str(operator);
            copied = at + sign.len();
            if text.get(copied..)?.starts_with('(') {
                list = Some(depth);
            }
            continue;
        }
        let word = match c {
            '(' => {
                depth += 1;
                continue;
            }
            ')' => {
                depth = depth.saturating_sub(1);
                list = list.filter(|outer| *outer < depth);
                continue;
            }
            ';' => " AND ",
            ',' if list.is_none() => " OR ",
            _ => continue,
        };
        out.push_str(text.get(copied..at)?);
        out.push_str(word);
        copied = at + 1;
    }
    out.push_str(text.get(copied..)?);
    Some(out)
}

/// Reads `kind=eq.new&price=lt.5`.
fn postgrest(text: &str) -> Option<String> {
    let conditions: Option<Vec<String>> = parts(text.trim(), "&").into_iter().map(filter).collect();
    Some(conditions?.join(" AND "))
}

/// Reads `price=not.lt.5`.
fn filter(text: &str) -> Option<String> {
    let (name, value) = text.split_once('=')?;
    let is_name = !name.is_empty() && name.chars().all(|c| is_word_character(c) || c == '.');
    let (not, value) = match value.strip_prefix("not.") {
        Some(value) => ("NOT ", value),
        None => ("", value),
    };
    let (operator, value) = value.split_once('.')?;
    let is_number = value.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let ordered = ORDERED.iter().find(|(name, _)| *name == operator && is_number);
    let literal = if value.parse::<f64>().is_ok() { value.to_owned() } else { quote(value) };
    let condition = match (operator, ordered) {
        (_, Some((_, sign))) => format!("{name} {sign} {literal}"),
        ("eq", _) => format!("{name} = {literal}"),
        ("neq", _) => format!("{name} != {literal}"),
        ("like" | "ilike", _) => format!("{name} LIKE {}", quote(&value.replace('*', "%"))),
        ("is", _) if ["null", "true", "false"].contains(&value) => format!("{name} IS {value}"),
        ("in", _) if value.starts_with('(') && value.ends_with(')') => format!("{name} IN {value}"),
        _ => return None,
    };
    is_name.then(|| format!("{not}{condition}"))
}

/// Reads `name CONTAINS[cd] "x" AND ANY kind == "y"`.
fn predicate(text: &str) -> Option<String> {
    const MODIFIED: &str =
        r"(?:CONTAINS|BEGINSWITH|ENDSWITH|LIKE|MATCHES|IN|==|!=|=)(\[(?:c|d|cd|dc|n)\])";
    const QUANTIFIER: &str =
        r"(?:^|\(\s*|\b(?:AND|OR|NOT)\s+|(?:&&|\|\|)\s*)((?:ANY|SOME)\s+)[A-Za-z_]";
    let is_code = |at: usize| outside_quotes(text).any(|(outside, _)| outside == at);
    let mut removed: Vec<(usize, usize)> = Vec::new();
    for expression in [MODIFIED, QUANTIFIER] {
        let expression = Regex::new(expression).ok()?;
        let found = expression.captures_iter(text).filter_map(|found| found.get(1));
        let found = found.filter(|found| is_code(found.start()));
        removed.extend(found.map(|found| (found.start(), found.end())));
    }
    removed.sort_unstable();
    let (mut out, mut copied) = (String::new(), 0);
    for (start, end) in &removed {
        out.push_str(text.get(copied..*start)?);
        copied = *end;
    }
    out.push_str(text.get(copied..)?);
    (!removed.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn operators_in_names_and_values_are_separated() {
        for (text, expected) in [
            ("a__in=['x', 'y'], b__gte=4.5", Some("a IN ['x', 'y'], b >= 4.5")),
            ("Q(a__b__lt=5) | ~Q(c='d__gt=1')", Some("(a.b < 5) | NOT (c='d__gt=1')")),
            ("a__isnull=False, b__range=(1, 2)", Some("a IS NOT NULL, b BETWEEN (1, 2)")),
            ("a__b = 5", None),
            ("a__gte == 5", None),
            ("a=in=(x,y);b=lt=40", Some("a IN (x,y) AND b < 40")),
            ("(a==1,b=ge=2);c=out=(3,4)", Some("(a==1 OR b >= 2) AND c NOT IN (3,4)")),
            ("a='=lt='", None),
            ("a=eq.x y&b=lt.1972", Some("a = 'x y' AND b < 1972")),
            ("a=not.in.(1,2)&b=is.null", Some("NOT a IN (1,2) AND b IS null")),
            ("a=ilike.*x*", Some("a LIKE '%x%'")),
            ("a=lt.col", None),
            ("a=x.y", None),
            ("a=eq.x&b=5", None),
            ("a CONTAINS[cd] \"b\" AND ANY c == 'd'", Some("a CONTAINS \"b\" AND c == 'd'")),
            ("ANY (a, b)", None),
            ("a = 'CONTAINS[c]'", None),
        ] {
            assert_eq!(condition(text).as_deref(), expected, "{text}");
        }
    }
}
