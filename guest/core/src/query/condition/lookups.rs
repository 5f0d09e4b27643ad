//! Conditions whose operators are parts of names or values: `price__gte=5` of Django,
//! `kind=in=(a,b);price=lt=5` of RSQL, `kind=eq.new&price=lt.5` of PostgREST, and the modifiers of
//! NSPredicate, as in `name CONTAINS[cd] "x"`.

use crate::query::code::{parts, replaced};
use crate::query::reader::is_word_character;
use crate::query::value::quote;

/// The lookups of Django, each with the operator of this language.
const DJANGO: [(&str, &str); 19] = [
    ("exact", "="),
    ("iexact", "==*"),
    ("ne", "!="),
    ("gt", ">"),
    ("gte", ">="),
    ("lt", "<"),
    ("lte", "<="),
    ("in", "IN"),
    ("contains", "CONTAINS"),
    ("icontains", "~"),
    ("startswith", "^="),
    ("istartswith", "^="),
    ("endswith", "$="),
    ("iendswith", "$="),
    ("regex", "=~"),
    ("iregex", "~*"),
    ("range", "BETWEEN"),
    ("isnull", "IS NULL"),
    ("date", "="),
];

/// The operators of RSQL, each with the operator of this language.
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

/// The operators of PostgREST for numbers and dates, each with the operator of this language.
const ORDERED: [(&str, &str); 4] = [("gte", ">="), ("gt", ">"), ("lte", "<="), ("lt", "<")];

/// Converts a condition to the syntax of this language. `None` if the text is in none of these
/// notations.
pub(super) fn condition(text: &str) -> Option<String> {
    django(text).or_else(|| rsql(text)).or_else(|| postgrest(text)).or_else(|| predicate(text))
}

/// Converts `price__gte=5, owner__name__in=['a', 'b']`, also inside `Q(…)`.
fn django(text: &str) -> Option<String> {
    let condition = replaced(text, |before, rest| {
        let end = rest.find(|c| !is_word_character(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at_checked(end)?;
        let (name, word) = name.rsplit_once("__")?;
        let value = after.trim_start().strip_prefix('=').filter(|rest| !rest.starts_with('='))?;
        let (_, operator) = DJANGO.iter().find(|(lookup, _)| *lookup == word)?;
        if name.is_empty() || before.ends_with(is_word_character) {
            return None;
        }
        if word != "isnull" {
            return Some((rest.len() - value.len(), format!("{name} {operator} ")));
        }
        let value = value.trim_start();
        let is_one_of =
            |words: [&str; 3]| words.into_iter().find_map(|word| value.strip_prefix(word));
        let null = is_one_of(["True", "true", "1"]).map(|after| ("IS NULL", after));
        let other = || is_one_of(["False", "false", "0"]).map(|after| ("IS NOT NULL", after));
        let (test, after) = null.or_else(other)?;
        Some((rest.len() - after.len(), format!("{name} {test}")))
    })?;
    // `Q(a=1) | ~Q(b=2)`
    let plain = replaced(&condition, |before, rest| {
        let found = [("~Q(", "NOT ("), ("Q(", "(")];
        let (call, start) = found.into_iter().find(|(call, _)| rest.starts_with(call))?;
        (!before.ends_with(is_word_character)).then(|| (call.len(), start.to_owned()))
    });
    Some(plain.unwrap_or(condition))
}

/// Converts `kind=in=(a,b);price=lt=5`, where a comma is an OR.
fn rsql(text: &str) -> Option<String> {
    // The depth of brackets, and the one around the list that is being read.
    let (mut depth, mut list, mut has_operator) = (0usize, None, false);
    let condition = replaced(text, |_, rest| {
        if let Some((sign, operator)) = RSQL.iter().find(|(sign, _)| rest.starts_with(sign)) {
            has_operator = true;
            if rest.get(sign.len()..)?.starts_with('(') {
                list = Some(depth);
            }
            return Some((sign.len(), (*operator).to_owned()));
        }
        match rest.chars().next()? {
            '(' => depth += 1,
            ')' => {
                depth = depth.saturating_sub(1);
                list = list.filter(|outer| *outer < depth);
            }
            ';' => return Some((1, " AND ".to_owned())),
            ',' if list.is_none() => return Some((1, " OR ".to_owned())),
            _ => {}
        }
        None
    });
    condition.filter(|_| has_operator)
}

/// Converts `kind=eq.new&price=lt.5`.
fn postgrest(text: &str) -> Option<String> {
    let conditions: Option<Vec<String>> = parts(text.trim(), "&").into_iter().map(filter).collect();
    Some(conditions?.join(" AND "))
}

/// Converts one filter of PostgREST, such as `price=not.lt.5`.
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

/// Converts `name CONTAINS[cd] "x" AND ANY kind == "y"`.
fn predicate(text: &str) -> Option<String> {
    const MODIFIED: [&str; 9] =
        ["CONTAINS", "BEGINSWITH", "ENDSWITH", "LIKE", "MATCHES", "IN", "==", "!=", "="];
    const MODIFIERS: [&str; 5] = ["[c]", "[d]", "[cd]", "[dc]", "[n]"];
    const JOINS: [&str; 6] = ["(", " AND", " OR", " NOT", "&&", "||"];
    replaced(text, |before, rest| {
        let is_modified = || MODIFIED.iter().any(|operator| before.ends_with(operator));
        if let Some(modifier) = MODIFIERS.iter().find(|modifier| rest.starts_with(**modifier)) {
            let ignores_case = modifier.contains('c');
            // Equality regards case here.
            let any_case = match () {
                () if !ignores_case || before.ends_with("!=") => "",
                () if before.ends_with("==") => "* ",
                () if before.ends_with('=') => "=* ",
                () => "",
            };
            return is_modified().then(|| (modifier.len(), any_case.to_owned()));
        }
        // A condition holds for a list if any of its elements meets it.
        let quantifier = ["ANY ", "SOME "].into_iter().find(|word| rest.starts_with(word))?;
        let name = rest.get(quantifier.len()..)?.trim_start();
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let start = before.trim_end();
        let is_start =
            start.is_empty() || start == "NOT" || JOINS.iter().any(|join| start.ends_with(join));
        let is_word = !before.ends_with(is_word_character);
        (is_name && is_start && is_word).then(|| (rest.len() - name.len(), String::new()))
    })
}

#[cfg(test)]
mod tests {
    use super::condition;

    #[test]
    fn operators_in_names_and_values_are_separated() {
        for (text, expected) in [
            ("a__in=['x', 'y'], b__gte=4.5", Some("a IN ['x', 'y'], b >= 4.5")),
            ("Q(a__b__lt=5) | ~Q(c='d__gt=1')", Some("(a__b < 5) | NOT (c='d__gt=1')")),
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
