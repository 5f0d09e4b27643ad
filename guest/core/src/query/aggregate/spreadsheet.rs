//! Totals with a condition, in the syntax of spreadsheets and log searches: `SUMIF(status, "open",
//! subtotal)`, `COUNTIFS(status, "open", qty, ">5")`, `sumif(qty, a == 'x')`.

use crate::query::code::{end_of_group, outside_quotes, parts};
use crate::query::value::quote;

/// The spreadsheet functions, each with the total that it computes.
const FUNCTIONS: [(&str, &str); 8] = [
    ("sumif", "sum"),
    ("averageif", "avg"),
    ("avgif", "avg"),
    ("meanif", "avg"),
    ("minif", "min"),
    ("maxif", "max"),
    ("countif", "count"),
    ("distinctif", "distinct"),
];

/// Returns true if `word` is the name of such a function.
pub(super) fn is_function(word: &str) -> bool {
    let name = plain(word);
    let single = name.strip_suffix('s').filter(|name| name.ends_with("if")).unwrap_or(&name);
    FUNCTIONS.iter().any(|(known, _)| *known == single)
}

/// Returns the name of a function in lower case, without underscores.
fn plain(word: &str) -> String {
    word.trim().to_lowercase().replace('_', "")
}

/// Returns the condition and the total of such a call. `None` for other texts.
pub(super) fn split(text: &str) -> Option<(String, String)> {
    let (function, inner) = text.split_once('(')?;
    let end = end_of_group(inner)?;
    let (arguments, rest) = (parts(inner.get(..end)?, ","), inner.get(end + 1..)?);
    let name = plain(function);
    let several = name.strip_suffix('s').filter(|name| name.ends_with("if"));
    let name = several.unwrap_or(&name);
    let (_, total) = FUNCTIONS.iter().find(|(known, _)| *known == name)?;
    let is_count = *total == "count";
    let (field, conditions) = match (several, arguments.as_slice()) {
        // `SUMIFS(total, range, criterion, …)`
        (Some(_), [field, pairs @ ..]) if !is_count => (*field, pairs),
        (Some(_), pairs) => ("", pairs),
        (None, [condition]) if is_count => return found(condition, "", total, rest),
        (None, [first, second]) if is_count && is_condition(first) && is_condition(second) => {
            return found(&format!("({first}) AND ({second})"), "", total, rest);
        }
        (None, pair @ [_, criterion]) if is_count && !is_condition(criterion) => ("", pair),
        (None, [field, ..]) if !is_count && is_condition(field) => return None,
        (None, [field, condition]) if !is_count && is_condition(condition) => {
            return found(condition, field, total, rest);
        }
        // `SUMIF(qty, ">5")` adds what it tests.
        (None, [range, _]) if !is_count => (*range, arguments.as_slice()),
        (None, [range, criterion, field]) if !is_count => {
            return found(&test(range, criterion)?, field, total, rest);
        }
        _ => return None,
    };
    let tests: Option<Vec<String>> = conditions
        .chunks(2)
        .map(|pair| match pair {
            [range, criterion] => test(range, criterion),
            _ => None,
        })
        .collect();
    let tests = tests.filter(|tests| !tests.is_empty())?;
    found(&tests.join(" AND "), field, total, rest)
}

fn found(condition: &str, field: &str, total: &str, rest: &str) -> Option<(String, String)> {
    let total = match total {
        "count" => format!("count{rest}"),
        _ => format!("{total}({field}){rest}"),
    };
    (!condition.is_empty()).then(|| (condition.to_owned(), total))
}

/// Returns true if a text is a comparison by itself: it has an operator outside of quotes.
pub(super) fn is_condition(text: &str) -> bool {
    let words = [" in ", " like ", " contains ", " is ", " has "];
    let plain: String = outside_quotes(text).map(|(_, sign)| sign).collect();
    let plain = plain.to_lowercase();
    plain.contains(['=', '<', '>', '~']) || words.iter().any(|word| plain.contains(word))
}

/// Returns the comparison of the field `range` with a criterion such as `">5"`, `"<>x"`, `"a*"` or
/// `5`. `None` if it has another form.
fn test(range: &str, criterion: &str) -> Option<String> {
    let inner = ['"', '\'']
        .iter()
        .find_map(|mark| criterion.strip_prefix(*mark).and_then(|inner| inner.strip_suffix(*mark)));
    let plain = inner.unwrap_or(criterion).trim();
    let signs = ["<>", ">=", "<=", "=", ">", "<"];
    let sign = signs.into_iter().find(|sign| plain.starts_with(sign));
    let value = plain.get(sign.map_or(0, str::len)..)?.trim();
    let literal = if value.parse::<f64>().is_ok() { value.to_owned() } else { quote(value) };
    (!range.is_empty()).then(|| format!("{range} {} {literal}", sign.unwrap_or("=")))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn conditions_of_spreadsheets_are_separated() {
        for (text, expected) in [
            ("SUMIF(status, \"open\", n)", Some(("status = 'open'", "sum(n)"))),
            ("SUMIF(n, \">5\")", Some(("n > 5", "sum(n)"))),
            ("AVERAGEIF(a, 3, n) by b", Some(("a = 3", "avg(n) by b"))),
            ("COUNTIF(a, \"<>x, y\")", Some(("a <> 'x, y'", "count"))),
            ("COUNTIFS(a, \"x\", n, \">=5\")", Some(("a = 'x' AND n >= 5", "count"))),
            ("SUMIFS(n, a, \"x*\", b, 2)", Some(("a = 'x*' AND b = 2", "sum(n)"))),
            ("sumif(n, a == 'x') by b", Some(("a == 'x'", "sum(n) by b"))),
            ("count_if(a > 5)", Some(("a > 5", "count"))),
            ("SUMIFS(n, a)", None),
            ("sum(n)", None),
        ] {
            let expected = expected.map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned()));
            assert_eq!(split(text), expected, "{text}");
        }
    }
}
