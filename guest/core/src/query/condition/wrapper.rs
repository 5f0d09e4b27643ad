//! Extracts conditions from calls that filter a list in programming languages: `items.filter(x =>
//! x.price > 5)`, `[x for x in items if x.price > 5]`, `filter(price > 5)`, `//item[price > 5]`.

use std::ops::Range;

use super::frame::without_table;
use crate::query::code::{end_of_group, outside_quotes, parts, regex_literal, replaced};
use crate::query::reader::is_word_character;

/// Functions whose argument is a condition on an element.
const FILTERS: [&str; 8] =
    ["filter", "where", "Where", "find_all", "findAll", "FindAll", "subset", "select"];

/// The operators of OData.
const WORD_OPERATORS: [&str; 6] = [" eq ", " ne ", " gt ", " ge ", " lt ", " le "];

/// Returns the condition inside a call that filters a list, such as `x.price > 5` in the examples
/// above. `None` if the text is not such a call.
pub(super) fn condition(text: &str) -> Option<String> {
    let text = text.trim();
    lambda(text)
        .or_else(|| method(text))
        .or_else(|| function(text))
        .or_else(|| comprehension(text))
        .or_else(|| predicate(text))
        .or_else(|| selected(text))
        .or_else(|| paths(text))
}

/// Returns the names that lead to the list around a condition, such as `data` and `items` in
/// `data.items.filter(…)`. Empty if there are none.
pub(super) fn list(text: &str) -> Vec<String> {
    let text = text.trim();
    let generator = text.strip_prefix('[').and_then(|inner| inner.split_once(" in "));
    let path = match generator {
        Some((_, rest)) => rest.split_once(" if ").map(|(list, _)| list),
        None => text.split_once("[?").map(|(path, _)| path).or_else(|| {
            let calls = FILTERS.iter().filter_map(|name| text.split_once(&format!(".{name}(")));
            calls.map(|(path, _)| path).min_by_key(|path| path.len())
        }),
    };
    let path = path.map_or("", |path| path.trim().trim_start_matches('$'));
    let names: Vec<&str> = path
        .split(['.', '[', ']'])
        .map(|name| name.trim_matches(['"', '\'', '?']))
        .filter(|name| !name.is_empty() && *name != "*")
        .collect();
    let is_path = names.iter().all(|name| name.chars().all(|c| is_part(c) || c == '-'));
    if is_path { names.into_iter().map(str::to_owned).collect() } else { Vec::new() }
}

/// Returns the condition of an anonymous function, such as `x => x.price > 5`. `None` if the text
/// is not one.
pub(in crate::query) fn lambda(text: &str) -> Option<String> {
    let (name, body) = anonymous(text)?;
    let condition = of_element(body.trim(), name, "")?;
    let is_python = text.trim_start().starts_with("lambda ");
    Some(if is_python { with_null(&condition) } else { condition })
}

/// Replaces the constant of Python for absent values.
fn with_null(condition: &str) -> String {
    let tests = [
        ("is not None", "IS NOT NULL"),
        ("is None", "IS NULL"),
        ("!= None", "IS NOT NULL"),
        ("== None", "IS NULL"),
    ];
    let replaced = replaced(condition, |before, rest| {
        let (test, word) = tests.iter().find(|(test, _)| rest.starts_with(test))?;
        let is_end = !rest.get(test.len()..)?.starts_with(is_part);
        (is_end && before.ends_with(' ')).then(|| (test.len(), (*word).to_owned()))
    });
    replaced.unwrap_or_else(|| condition.to_owned())
}

/// Returns the condition of an anonymous function of an element. Its names begin with `@`. `None`
/// if the text is not a function.
pub(super) fn element_function(text: &str) -> Option<String> {
    let (name, body) = anonymous(text)?;
    of_element(body.trim(), name, "@.")
}

/// Returns true if a text contains a function with an arrow, such as `x => x.price > 5`. `a => 5`
/// is a comparison.
pub(super) fn has_arrow_function(text: &str) -> bool {
    let is_function = |(at, _): (usize, char)| {
        let (before, after) = text.split_at_checked(at)?;
        let body = after.strip_prefix("=>").filter(|body| !is_value_alone(body))?;
        let before = before.trim_end().trim_end_matches(')').trim_end();
        let name = before.rsplit(|c| !is_part(c)).next().filter(|name| is_name(name))?;
        body.split(|c| !is_part(c)).any(|word| word == name).then_some(())
    };
    outside_quotes(text).any(|place| is_function(place).is_some())
}

/// Returns the function with an arrow that is a condition, or that filters the records: `x => x.a >
/// 5` of `items.filter(x => x.a > 5)`. `None` if there is none.
pub(super) fn arrow_function(text: &str) -> Option<&str> {
    let text = text.trim();
    let function = lambda(text).map(|_| text).or_else(|| {
        let inner = text.strip_prefix("list(").and_then(|text| text.strip_suffix(')'));
        let first = |text| call(text).and_then(|inner| parts(inner, ",").first().copied());
        let method = || {
            let (list, rest) = text.split_at_checked(text.find(|c: char| !is_part(c))?)?;
            call(rest.trim_start().strip_prefix('.')?).filter(|_| is_name(list))
        };
        method().or_else(|| first(inner.unwrap_or(text)))
    })?;
    has_arrow_function(function).then_some(function)
}

/// Splits an anonymous function of other languages into the name of its argument and its body.
/// `None` if the text is not one.
fn anonymous(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let (name, body) = if let Some(rest) = text.strip_prefix("lambda ") {
        rest.split_once(':')?
    } else if let Some(rest) = text.strip_prefix('|') {
        rest.split_once('|')?
    } else {
        let arrows = ["=>", "->"].iter().filter_map(|arrow| Some((text.find(arrow)?, arrow)));
        let (name, body) = text.split_once(arrows.min()?.1)?;
        // `score => 5 AND score < 9` means `>=`.
        if is_value_alone(body) {
            return None;
        }
        let name = name.trim();
        (name.strip_prefix('(').and_then(|name| name.strip_suffix(')')).unwrap_or(name), body)
    };
    let name = name.trim();
    is_name(name).then_some((name, body))
}

/// Returns true if a text begins with a number or a quoted text that is a whole condition.
fn is_value_alone(text: &str) -> bool {
    let text = text.trim_start();
    let quoted = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.split_once(*quote));
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit() || ".-:".contains(c));
    let after = quoted.map_or(number, |(_, after)| after).trim_start();
    let word = after.split(|c: char| !is_part(c)).next().unwrap_or_default().to_lowercase();
    let is_end = after.is_empty() || ["&&", "||", ",", ";"].iter().any(|it| after.starts_with(it));
    (quoted.is_some() || number.len() < text.len())
        && (is_end || matches!(word.as_str(), "and" | "or"))
}

/// Returns the places of the functions inside a text. Of `x.a > 5 for x in list`, the list is not a
/// part of the function.
fn inner_functions(text: &str) -> Vec<Range<usize>> {
    let function = |(at, _): (usize, char)| {
        let start = at + 1;
        let rest = text.get(start..)?;
        let inside = rest.get(..end_of_group(rest)?)?;
        let end = start + inside.trim_end().len();
        // `any(lines, l -> l.price > 5)`
        let last = |separator: &str| parts(inside, separator).last().copied().unwrap_or_default();
        let mut functions = [inside, last(","), last(";")].into_iter();
        if let Some(function) = functions.find(|text| anonymous(text).is_some()) {
            return Some(end.saturating_sub(function.trim().len())..end);
        }
        let (body, rest) = inside.rsplit_once(" for ")?;
        rest.contains(" in ").then(|| start..start + body.len())
    };
    outside_quotes(text)
        .filter(|(_, c)| matches!(c, '(' | '[' | '{'))
        .filter_map(function)
        .collect()
}

/// Replaces the argument of a function by the element itself, whose members begin with `prefix`:
/// `t > 70` becomes `@ > 70`, and `t.a > 70` becomes `a > 70`. Functions inside the text keep it,
/// because their fields are those of other elements. `None` if the text does not name the argument.
fn of_element(text: &str, name: &str, prefix: &str) -> Option<String> {
    let (mut expression_end, inner) = (0, inner_functions(text));
    replaced(text, |before, rest| {
        let is_operand = before.trim_end().ends_with(['(', ',', '=', '~', '!', '&', '|']);
        if rest.starts_with('/')
            && (is_operand || before.trim().is_empty())
            && let Some((_, _, after)) = regex_literal(rest)
        {
            expression_end = text.len() - after.len();
        }
        let is_start = !before.ends_with(|c| is_part(c) || c == '.');
        let is_start = is_start && before.len() >= expression_end;
        let is_start = is_start && !inner.iter().any(|function| function.contains(&before.len()));
        let after = rest.strip_prefix(name).filter(|_| is_start)?;
        let after =
            after.strip_prefix(['?', '&']).filter(|it| it.starts_with('.')).unwrap_or(after);
        if after.starts_with('[') {
            return Some((name.len(), prefix.to_owned()));
        }
        let length = rest.len() - after.len();
        let Some(member) = after.strip_prefix('.') else {
            let is_end = !after.starts_with(|c| is_part(c) || "-:?(".contains(c));
            return is_end.then(|| (name.len(), "@".to_owned()));
        };
        let end = member.find(|c| !is_part(c)).unwrap_or(member.len());
        let is_method = member.get(end..).is_some_and(|after| {
            let is_question = after.starts_with('?') && !after.starts_with("?.");
            after.starts_with('(') || is_question
        });
        // A method of the element, not one of a member.
        let is_get = member.starts_with("get(");
        Some(match is_method && !is_get {
            true => (length, "['@']".to_owned()),
            false => (length + 1, prefix.to_owned()),
        })
    })
}

/// Extracts the condition of `items.filter(x => …)` and `items %>% filter(…)`.
fn method(text: &str) -> Option<String> {
    let at = text.find(|c: char| !is_part(c))?;
    let (list, rest) = text.split_at_checked(at)?;
    if !is_name(list) {
        return None;
    }
    let rest = rest.trim_start();
    if let Some(rest) = rest.strip_prefix("%>%").or_else(|| rest.strip_prefix("|>")) {
        return function(rest.trim());
    }
    lambda(call(rest.strip_prefix('.')?)?)
}

/// Extracts the condition of `filter(x -> …, items)`, `list(filter(…))` and `filter(a > 5, b ==
/// "x")`.
fn function(text: &str) -> Option<String> {
    let inner = text.strip_prefix("list(").and_then(|text| text.strip_suffix(')')).unwrap_or(text);
    let inner = call(inner)?;
    let parts = parts(inner, ",");
    if text.starts_with("select") {
        // The function of jq. In other languages it takes columns.
        let is_condition = inner.contains(['=', '<', '>']) || inner.contains('(');
        return (parts.len() == 1 && is_condition).then(|| inner.to_owned());
    }
    if let Some(condition) = parts.first().and_then(|first| lambda(first)) {
        // The second argument is the list.
        return (parts.len() <= 2).then_some(condition);
    }
    // `subset(items, a > 5)`
    let conditions = if text.starts_with("subset") { parts.get(1..)? } else { &parts };
    if conditions.is_empty() || conditions.iter().any(|part| part.is_empty()) {
        return None;
    }
    let conditions: Vec<String> =
        conditions.iter().map(|part| format!("({})", with_lists(part))).collect();
    Some(conditions.join(" AND "))
}

/// Extracts the condition of `[x for x in items if x.price > 5]`.
fn comprehension(text: &str) -> Option<String> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let (name, rest) = inner.split_once(" for ")?;
    let (again, rest) = rest.split_once(" in ")?;
    let (list, body) = rest.split_once(" if ")?;
    (name.trim() == again.trim() && is_name(list.trim())).then_some(())?;
    of_element(body.trim(), name.trim(), "")
}

/// Extracts the predicate of an XPath expression: `//item[@price > 5]`.
fn predicate(text: &str) -> Option<String> {
    let path = text.strip_prefix('/')?;
    let (path, rest) = path.split_at_checked(path.find('[')?)?;
    let is_path = path.chars().all(|c| is_part(c) || "/-:".contains(c));
    let inner = rest.strip_prefix('[')?.strip_suffix(']')?;
    let is_predicate = is_path && closes_last(rest) && !inner.is_empty();
    is_predicate.then(|| dotted(inner).unwrap_or_else(|| inner.to_owned()))
}

/// Extracts the filter of a JSONPath, `$.items[?(@.price > 5)]`, or of JMESPath, ``[?price >
/// `5`]``.
fn selected(text: &str) -> Option<String> {
    let Some(path) = text.strip_prefix('$') else {
        let inner = text.strip_prefix("[?")?.strip_suffix(']')?;
        return end_of_group(inner).is_none().then(|| with_values(inner));
    };
    let (_, rest) = path.split_at_checked(path.find("[?")?)?;
    let inner = rest.strip_prefix("[?")?.strip_suffix(']')?.trim();
    let inner = match inner.strip_prefix('(') {
        Some(rest) if closes_last(inner) => rest.strip_suffix(')')?,
        _ => inner,
    };
    closes_last(rest).then(|| without_table(inner, "@")).flatten()
}

/// Converts backquoted JSON values of JMESPath: removes the backquotes, or replaces them by quotes
/// around a text.
pub(super) fn with_values(text: &str) -> String {
    let mut parts = text.split('`');
    let mut out = parts.next().unwrap_or_default().to_owned();
    while let Some(value) = parts.next() {
        let is_value =
            value.starts_with(['"', '-']) || value.starts_with(|c: char| c.is_ascii_digit());
        match is_value || ["true", "false", "null"].contains(&value) {
            true => out.push_str(value),
            false => out.push_str(&format!("'{value}'")),
        }
        out.push_str(parts.next().unwrap_or_default());
    }
    out
}

/// Converts paths of OData: `owner/name eq 'x'`. A key with dots may contain a slash.
fn paths(text: &str) -> Option<String> {
    let is_odata = WORD_OPERATORS.iter().any(|word| text.contains(word));
    if !is_odata || text.contains(['=', '<', '>', '~', '.']) {
        return None;
    }
    dotted(text).filter(|path| path != text)
}

/// Replaces slashes between names by dots. `None` if the text has other slashes.
fn dotted(text: &str) -> Option<String> {
    let slashes: Vec<usize> =
        outside_quotes(text).filter(|(_, c)| *c == '/').map(|(at, _)| at).collect();
    let mut path = text.to_owned();
    for at in &slashes {
        let (before, after) = (text.get(..*at)?, text.get(at + 1..)?);
        let is_between =
            before.ends_with(is_part) && after.trim_start_matches('@').starts_with(is_part);
        if !is_between {
            return None;
        }
        path.replace_range(*at..=*at, ".");
    }
    Some(path)
}

/// Splits the test of the elements of a list, `x.price > 5 for x in items`, into the list and the
/// condition of an element, `@.price > 5`.
pub(super) fn generator(text: &str) -> Option<(&str, String)> {
    let text = text.trim();
    let inner = text.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let (body, rest) = inner.unwrap_or(text).rsplit_once(" for ")?;
    let (name, list) = rest.split_once(" in ")?;
    let name = Some(name.trim()).filter(|name| is_name(name))?;
    Some((list.trim(), of_element(body.trim(), name, "@.")?))
}

/// Returns the arguments of a filter call that is the whole text. `None` for other texts.
fn call(text: &str) -> Option<&str> {
    let name = FILTERS.iter().find_map(|name| text.strip_prefix(name))?;
    let inner = name.strip_prefix('(')?.strip_suffix(')')?;
    closes_last(name).then_some(inner)
}

/// Returns true if the bracket at the start of a text closes at its end.
fn closes_last(text: &str) -> bool {
    let inner = text.get(1..).unwrap_or_default();
    end_of_group(inner).is_some_and(|end| end + 1 == inner.len())
}

/// Replaces `%in% c(…)` by `IN (…)`.
fn with_lists(text: &str) -> String {
    let parts = parts(text, "%in%");
    let mut parts = parts.iter();
    let mut condition = parts.next().copied().unwrap_or_default().to_owned();
    for part in parts {
        condition.push_str(" IN ");
        condition.push_str(part.strip_prefix('c').filter(|p| p.starts_with('(')).unwrap_or(part));
    }
    condition
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '$')
        && text.chars().all(is_part)
}

fn is_part(c: char) -> bool {
    // Scripts have names with a dollar sign.
    is_word_character(c) || c == '$'
}

#[cfg(test)]
mod tests {
    use super::{condition, generator};

    #[test]
    fn conditions_are_unwrapped() {
        for (text, expected) in [
            ("items.filter(i => i.a == 'i.b')", Some("a == 'i.b'")),
            ("x => x.a > 5 && x['b c'] == 2", Some("a > 5 && ['b c'] == 2")),
            ("(m) => m.year >= 2000", Some("year >= 2000")),
            (
                "items.Where(m => m.Rating > 7 && m.Name == \"a)\")",
                Some("Rating > 7 && Name == \"a)\""),
            ),
            ("filter(lambda r: r['a'] > 5, rows)", Some("['a'] > 5")),
            ("list(filter(lambda r: r['a'] > 5, rows))", Some("['a'] > 5")),
            ("[m for m in movies if m['a'] > 5]", Some("['a'] > 5")),
            (
                "filter(`Major Genre` %in% c(\"Horror\", \"Action\"), b > 3e7)",
                Some("(`Major Genre` IN (\"Horror\", \"Action\")) AND (b > 3e7)"),
            ),
            ("rows %>% filter(a == 1)", Some("(a == 1)")),
            ("subset(rows, a > 5)", Some("(a > 5)")),
            ("select(.a < 1 and .b == \"x\")", Some(".a < 1 and .b == \"x\"")),
            ("select(a, b)", None),
            ("$.items[?(@.a.b > 5)]", Some("a.b > 5")),
            ("$.items[?@.a > 5 && (@.b == 1)]", Some("a > 5 && (b == 1)")),
            ("$.items[?(@.a > 5)].b", None),
            ("[?a >= `50` && b == `\"x\"` && c == 'y']", Some("a >= 50 && b == \"x\" && c == 'y'")),
            ("[?a > `5`].b", None),
            ("items[?a > `5`]", None),
            ("owner/name eq 'a/b' or b gt 5", Some("owner.name eq 'a/b' or b gt 5")),
            ("k8s.io/os eq 'linux'", None),
            ("//testcase[contains(@name, 'x]')]", Some("contains(@name, 'x]')")),
            ("//a[b/c/@d='x/y']", Some("b.c.@d='x/y'")),
            ("/a/b[@c='1']", Some("@c='1'")),
            // The last step is not the records.
            ("//a[@b='1']/c", None),
            ("//a[@b='1'][@c='2']", None),
            ("items.filter(i => i.a == 1).map(i => i.b)", None),
            ("x => x > 5 && x.startsWith('x')", Some("@ > 5 && ['@'].startsWith('x')")),
            ("t => /t.d/.test(t?.a)", Some("/t.d/.test(a)")),
            ("age => 60", None),
            ("age => 60 and age < 70", None),
            ("age => 'x' || age < 'b'", None),
            ("x => 5 < x.a", Some("5 < a")),
            // The variable of the record is out of reach in the function of an element.
            ("o => o.l.some(i => i.a != o.b) && o.c", Some("l.some(i => i.a != o.b) && c")),
            ("o => any(i.a != o.b for i in o.l)", Some("any(i.a != o.b for i in l)")),
            ("o => o.l.any? { |i| i.a != o.b }", Some("l.any? { |i| i.a != o.b }")),
            ("x => x.l.some(x => x.a > 1)", Some("l.some(x => x.a > 1)")),
            ("a -> 5", None),
            ("filter = 'x'", None),
            ("[x.a for x in rows if x.b > 1]", None),
            ("a > 5", None),
        ] {
            assert_eq!(condition(text).as_deref(), expected, "{text}");
        }
        for (text, list, condition) in [
            ("t['a'] == 'x' for t in leads['tech']", "leads['tech']", "@.['a'] == 'x'"),
            ("[t > 70 for t in a.temps]", "a.temps", "@ > 70"),
        ] {
            assert_eq!(generator(text), Some((list, condition.to_owned())), "{text}");
        }
    }
}
