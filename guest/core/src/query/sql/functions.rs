//! Functions of SQL dialects that have another form in this language: tests of elements with a
//! lambda, dates by their format, and numbers inside texts.

use super::converted_by;
use crate::query::code::{end_of_group, keyword, parts, replaced};
use crate::query::reader::is_word_character;

/// The functions that test the elements of a list with a lambda, each with the method of this
/// language.
const TESTS: [(&str, &str); 8] = [
    ("arrayexists", "some"),
    ("arrayall", "every"),
    ("any_match", "some"),
    ("all_match", "every"),
    ("exists", "some"),
    ("forall", "every"),
    ("array_any", "some"),
    ("array_all", "every"),
];
/// The functions of one date and perhaps its format, whose value is the date.
const DATES: [&str; 20] = [
    "to_date",
    "to_timestamp",
    "str_to_date",
    "strptime",
    "parse_date",
    "parse_datetime",
    "parse_timestamp",
    "try_to_date",
    "todate",
    "todatetime",
    "parsedatetimebesteffort",
    "from_unixtime",
    "timestamp_seconds",
    "fromunixtimestamp",
    "epoch_ms",
    "timestamp",
    "datetime",
    "cast",
    "try_cast",
    "safe_cast",
];
/// The functions of which a date is an argument.
const OF_DATES: [&str; 18] = [
    "extract",
    "date_part",
    "date_trunc",
    "strftime",
    "format_date",
    "to_char",
    "date_format",
    "year",
    "quarter",
    "month",
    "week",
    "day",
    "hour",
    "minute",
    "weekday",
    "dayofweek",
    "dayname",
    "date",
];
/// Types of dates and times.
const DATE_TYPES: [&str; 6] =
    ["date", "timestamp", "timestamptz", "datetime", "timestamp without time zone", "time"];
/// Types of numbers.
const NUMBER_TYPES: [&str; 14] = [
    "int", "integer", "bigint", "smallint", "int64", "float", "float64", "real", "double",
    "decimal", "numeric", "number", "signed", "unsigned",
];
/// Divisors of a difference in seconds, and the factors that convert days to their unit.
const PERIODS: [(&str, &str); 3] = [("3600", " * 24"), ("60", " * 1440"), ("86400", "")];

/// Converts the functions in a text. `None` if there are none.
pub(super) fn converted(text: &str) -> Option<String> {
    converted_by(&[elements, epochs, truncated, dates, numbers], text)
}

/// A call at the start of a text.
struct FunctionCall<'t> {
    /// The name in lower case.
    name: String,
    arguments: &'t str,
    /// The text after the closing parenthesis.
    after: &'t str,
}

impl<'t> FunctionCall<'t> {
    fn read(before: &str, rest: &'t str) -> Option<Self> {
        let end = rest.find(|c| !is_word_character(c)).filter(|end| *end > 0)?;
        let inner = rest.get(end..)?.strip_prefix('(')?;
        let close = end_of_group(inner)?;
        let is_start = !before.ends_with(|c| is_word_character(c) || c == '.');
        is_start.then_some(())?;
        Some(Self {
            name: rest.get(..end)?.to_lowercase(),
            arguments: inner.get(..close)?.trim(),
            after: inner.get(close + 1..)?,
        })
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&self.name.as_str())
    }

    /// Returns the length of the call in `rest`, at whose start it was read.
    fn length(&self, rest: &str) -> usize {
        rest.len() - self.after.len()
    }
}

fn is_path(text: &str) -> bool {
    let is_part = |c: char| is_word_character(c) || ".[]\"`".contains(c);
    text.starts_with(|c: char| c.is_alphabetic() || "_\"`".contains(c)) && text.chars().all(is_part)
}

/// Converts `arrayExists(a -> a.n > 1, list)` and `any_match(list, a -> a.n > 1)` to
/// `list.some(a => a.n > 1)`.
fn elements(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let call = FunctionCall::read(before, rest)?;
        let (_, method) = TESTS.iter().find(|(name, _)| *name == call.name)?;
        let [first, second] = parts(call.arguments, ",").try_into().ok()?;
        let (list, lambda) = if is_path(first) { (first, second) } else { (second, first) };
        let (name, body) = lambda.split_once("->")?;
        let name = name.trim();
        let is_name = !name.is_empty() && name.chars().all(is_word_character);
        (is_name && is_path(list))
            .then(|| (call.length(rest), format!("{list}.{method}({name} => {})", body.trim())))
    })
}

/// Shortens the literal after a truncated date: `date_trunc('month', a) = '2024-05-01'` to
/// `date_trunc('month', a) = '2024-05'`, because the parts of dates are written without a day.
fn truncated(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let call = FunctionCall::read(before, rest).filter(|call| call.name == "date_trunc")?;
        let arguments = call.arguments.to_lowercase();
        let length = ["year", "month"].iter().zip([4, 7]).find_map(|(unit, length)| {
            let is_unit =
                parts(&arguments, ",").iter().any(|part| part.trim_matches('\'') == *unit);
            is_unit.then_some(length)
        })?;
        let operand = call.after.trim_start();
        let sign = [">=", "<=", "!=", "<>", "==", "=", ">", "<"];
        let sign = sign.into_iter().find(|sign| operand.starts_with(sign))?;
        let literal = operand.get(sign.len()..)?.trim_start();
        let type_name = literal.get(..4).filter(|word| word.eq_ignore_ascii_case("date"));
        let literal = type_name.map_or(literal, |_| literal.get(4..).unwrap_or("").trim_start());
        let (day, after) = literal.strip_prefix('\'')?.split_once('\'')?;
        let is_first = day.get(length..).is_some_and(|rest| {
            ["-01", "-01-01"].contains(&rest.split([' ', 'T']).next().unwrap_or_default())
        });
        let plain = day.get(..length).filter(|_| is_first)?;
        let called = rest.get(..call.length(rest))?;
        Some((rest.len() - after.len(), format!("{called} {sign} '{plain}'")))
    })
}

/// Converts `EXTRACT(EPOCH FROM (a - b)) / 3600` to `((julianday(a) - julianday(b)) * 24)`.
fn epochs(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let call = FunctionCall::read(before, rest)?;
        let from = keyword(call.arguments, 0, "from").filter(|_| call.name == "extract")?;
        let (part, difference) = call.arguments.split_at_checked(from)?;
        let difference = difference.get("from".len()..)?.trim();
        let inner = difference.strip_prefix('(').and_then(|inner| inner.strip_suffix(')'));
        let [later, earlier] = parts(inner.unwrap_or(difference), "-").try_into().ok()?;
        let (later, earlier) = (date_inside(later)?, date_inside(earlier)?);
        if !part.trim().eq_ignore_ascii_case("epoch") {
            return None;
        }
        // A difference of dates is a number of days.
        let days = format!("(julianday({later}) - julianday({earlier}))");
        let divided = call.after.trim_start().strip_prefix('/').map(str::trim_start);
        let found = divided.and_then(|divided| {
            let end = divided.find(|c: char| !c.is_ascii_digit() && c != '.');
            let (number, after) = divided.split_at_checked(end.unwrap_or(divided.len()))?;
            let number = number.strip_suffix(".0").unwrap_or(number);
            let (_, factor) = PERIODS.iter().find(|(seconds, _)| *seconds == number)?;
            Some((rest.len() - after.len(), format!("({days}{factor})")))
        });
        Some(found.unwrap_or_else(|| (call.length(rest), format!("({days} * 86400)"))))
    })
}

/// Converts dates that are read by their format, and dates inside functions of dates.
fn dates(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let call = FunctionCall::read(before, rest)?;
        if call.is_one_of(&OF_DATES) {
            return of_date(&call).map(|converted| (call.length(rest), converted));
        }
        let date = date_inside(rest.get(..call.length(rest))?)?;
        // The cast to a day removes the time.
        let is_day =
            matches!(call.name.as_str(), "to_date" | "todate" | "str_to_date" | "parse_date")
                || (call.name.ends_with("cast")
                    && call.arguments.to_lowercase().ends_with(" date"));
        let arguments = parts(call.arguments, ",");
        let mut formats = arguments.iter().filter(|it| it.starts_with(['\'', '"']));
        let is_day = is_day && formats.all(|format| is_day_format(format));
        let converted = if is_day { format!("date({date})") } else { date.to_owned() };
        Some((call.length(rest), converted))
    })
}

/// Returns a function of a date whose date is converted. `None` if nothing changes.
fn of_date(call: &FunctionCall<'_>) -> Option<String> {
    let from = keyword(call.arguments, 1, "from").filter(|_| call.name == "extract");
    if let Some(from) = from {
        let (part, date) = call.arguments.split_at_checked(from)?;
        let date = date.get("from".len()..)?.trim();
        let inside = date_inside(date).filter(|inside| *inside != date)?;
        let is_time = ["hour", "minute", "second"].contains(&part.trim().to_lowercase().as_str());
        return (!is_time || !is_day(date)).then(|| format!("extract({part}from {inside})"));
    }
    // `date(x, 'unixepoch')`
    let is_option = |argument: &&str| is_epoch(argument);
    let all = parts(call.arguments, ",");
    if matches!(call.name.as_str(), "hour" | "minute")
        && all.iter().any(|argument| is_day(argument))
    {
        return None;
    }
    let inside: Vec<&str> = all
        .iter()
        .copied()
        .filter(|argument| !is_option(argument))
        .map(|argument| date_inside(argument).unwrap_or(argument))
        .collect();
    (inside != all).then(|| format!("{}({})", call.name, inside.join(", ")))
}

/// Returns true if a date is cast to a day, so that it has no time.
fn is_day(text: &str) -> bool {
    let lower = text.to_lowercase();
    let lower = lower.trim_end_matches(')').trim_end();
    let is_call = ["date(", "to_date(", "todate(", "str_to_date(", "parse_date("]
        .iter()
        .any(|call| lower.starts_with(call));
    lower.ends_with("::date") || lower.ends_with(" date") || is_call
}

/// The maximum number of functions and parentheses around a date. Each position of a text is tried.
const MAX_NESTED_DATES: usize = 8;

/// Returns the path of the date in a text such as `a.b`, `(a.b::timestamp)`, `to_date(a.b, 'x')` or
/// `CAST(a.b AS date)`. `None` for other texts.
fn date_inside(text: &str) -> Option<&str> {
    date_within(text, MAX_NESTED_DATES)
}

/// Returns the path as [`date_inside`] does, in at most `depth` functions and parentheses.
fn date_within(text: &str, depth: usize) -> Option<&str> {
    let depth = depth.checked_sub(1)?;
    let text = text.trim();
    if is_path(text) {
        return Some(text);
    }
    if let Some((inner, kind)) = text.rsplit_once("::") {
        let is_date = DATE_TYPES.contains(&kind.trim().to_lowercase().as_str());
        return if is_date { date_within(inner, depth) } else { None };
    }
    if let Some(inner) = text.strip_prefix('(') {
        let end = end_of_group(inner)?;
        let is_whole = inner.get(end + 1..)?.is_empty();
        return if is_whole { date_within(inner.get(..end)?, depth) } else { None };
    }
    let call = FunctionCall::read("", text).filter(|call| call.after.trim().is_empty())?;
    if call.name.ends_with("cast") {
        let at = keyword(call.arguments, 1, "as")?;
        let (inner, kind) = call.arguments.split_at_checked(at)?;
        let kind = kind.get("as".len()..)?.trim().to_lowercase();
        return if DATE_TYPES.contains(&kind.as_str()) { date_within(inner, depth) } else { None };
    }
    if !call.is_one_of(&DATES) && call.name != "date" {
        return None;
    }
    let is_format = |argument: &&str| argument.starts_with(['\'', '"']);
    let has_modifier = matches!(call.name.as_str(), "datetime" | "timestamp" | "date")
        || parts(call.arguments, ",").iter().any(|it| is_format(it) && !is_date_format(it));
    if has_modifier && parts(call.arguments, ",").iter().any(|it| is_format(it) && !is_epoch(it)) {
        return None;
    }
    let (formats, dates): (Vec<&str>, Vec<&str>) =
        parts(call.arguments, ",").into_iter().partition(|argument| is_format(argument));
    let [date] = dates.try_into().ok()?;
    (formats.len() <= 1).then(|| date_within(date, depth)).flatten()
}

/// Returns true for the modifiers of SQLite that only tell how a number is read.
fn is_epoch(argument: &str) -> bool {
    ["'unixepoch'", "'auto'", "'utc'"].contains(&argument.to_lowercase().as_str())
}

/// Returns true if a quoted text is a format of dates: `'%Y-%m-%d'` or `'MM/DD/YYYY'`.
fn is_date_format(argument: &str) -> bool {
    let text = argument.trim_matches(['\'', '"']);
    let is_letters = |c: char| "YyMmDdHhISsTZXFRpbBaAe%/-.:, ".contains(c);
    text.contains(['%', 'Y', 'y']) && text.chars().all(is_letters)
}

/// Returns true if a format of dates has no time of day.
fn is_day_format(argument: &str) -> bool {
    !argument.contains(['H', 'h', 'I', 'T', 'R', 'X'])
}

/// Converts texts from which signs of money are removed, so that they are numbers:
/// `REPLACE(REPLACE(price, '$', ''), ',', '')::numeric` and `CAST(REGEXP_REPLACE(price, '[$,]', '')
/// AS decimal)`. Amounts compare by their numbers.
fn numbers(text: &str) -> Option<String> {
    replaced(text, |before, rest| {
        let call = FunctionCall::read(before, rest)?;
        if call.name.ends_with("cast") {
            let at = keyword(call.arguments, 1, "as")?;
            let (inner, kind) = call.arguments.split_at_checked(at)?;
            let kind = kind.get("as".len()..)?.trim().to_lowercase();
            let inside = without_signs(inner.trim())?;
            return is_number_type(&kind).then(|| (call.length(rest), inside.to_owned()));
        }
        let kind = call.after.strip_prefix("::")?;
        let end = kind.find(|c| !is_word_character(c)).unwrap_or(kind.len());
        let (kind, _) = kind.split_at_checked(end)?;
        let inside = without_signs(rest.get(..call.length(rest))?)?;
        is_number_type(&kind.to_lowercase())
            .then(|| (call.length(rest) + "::".len() + kind.len(), inside.to_owned()))
    })
}

fn is_number_type(kind: &str) -> bool {
    let kind = kind.split('(').next().unwrap_or_default().trim();
    NUMBER_TYPES.contains(&kind)
}

/// Returns the path in calls that remove signs of money from it. `None` for other texts.
fn without_signs(text: &str) -> Option<&str> {
    let call = FunctionCall::read("", text).filter(|call| call.after.trim().is_empty())?;
    let arguments = parts(call.arguments, ",");
    let (inner, [sign, replacement, options @ ..]) = arguments.split_first()? else { return None };
    let text_in = |text: &str| Some(text.strip_prefix('\'')?.strip_suffix('\'')?.to_owned());
    let sign = text_in(sign)?;
    let is_sign = |c: char| "$\u{20ac}\u{a3}\u{a5},' %".contains(c);
    // A comma alone may be that of decimals.
    let is_grouping = sign == "," && is_path(inner);
    let is_removed = match call.name.as_str() {
        "replace" => sign.chars().all(is_sign) && options.is_empty() && !is_grouping,
        "regexp_replace" => {
            let inside = sign.trim_end_matches('+').strip_prefix('[')?.strip_suffix(']')?;
            inside == "^0-9.-"
                || inside == "^\\d.-"
                || inside.replace("\\$", "$").replace("\\s", " ").chars().all(is_sign)
        }
        _ => false,
    };
    let is_empty = text_in(replacement)?.is_empty();
    (is_removed && is_empty).then_some(())?;
    if is_path(inner) { Some(inner) } else { without_signs(inner) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_converted() {
        for (text, expected) in [
            (
                "arrayExists(a -> a.s = 'x, y', h.list) AND b = 1",
                Some("h.list.some(a => a.s = 'x, y') AND b = 1"),
            ),
            ("any_match(list, v -> v > 1)", Some("list.some(v => v > 1)")),
            ("exists(list)", None),
            (
                "SUM(EXTRACT(EPOCH FROM (b::timestamp - a::timestamp)) / 3600) AS h",
                Some("SUM(((julianday(b) - julianday(a)) * 24)) AS h"),
            ),
            ("extract(epoch from b - a) > 5", Some("((julianday(b) - julianday(a)) * 86400) > 5")),
            ("EXTRACT(YEAR FROM d::date) = 2014", Some("extract(YEAR from d) = 2014")),
            ("EXTRACT(HOUR FROM d::date) = 2", None),
            ("EXTRACT(HOUR FROM CAST(d AS timestamp)) = 2", Some("extract(HOUR from d) = 2")),
            ("EXTRACT(YEAR FROM d) = 2014", None),
            ("date(aos, 'unixepoch') AS day", Some("date(aos) AS day")),
            ("strftime('%H', datetime(aos, 'unixepoch'))", Some("strftime('%H', aos)")),
            ("TO_DATE(d, 'MM/DD/YYYY') < '2024-01-08'", Some("date(d) < '2024-01-08'")),
            ("TO_TIMESTAMP(d, 'YYYY-MM-DD HH:mm') < 'x'", Some("d < 'x'")),
            ("datetime(d, '-1 day') < 'x'", None),
            ("hour(timestamp(d, 'America/New_York')) = 5", None),
            ("hour(date(d)) = 5", None),
            ("CAST(d AS date) = '2024-01-08'", Some("date(d) = '2024-01-08'")),
            ("CAST(n AS int) = 5", None),
            ("REGEXP_REPLACE(p, '[$,]', '', 'g')::numeric > 5", Some("p > 5")),
            ("CAST(REPLACE(REPLACE(p, '$', ''), ',', '') AS DECIMAL(10,2)) > 5", Some("p > 5")),
            ("REPLACE(p, 'a', '')::int > 5", None),
            ("REGEXP_REPLACE(p, '[^0-9.]', '')::int > 5", None),
        ] {
            assert_eq!(converted(text).as_deref(), expected, "{text}");
        }
    }
}
