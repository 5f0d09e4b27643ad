//! Dates in the forms that programs and people use: ISO 8601, RFC 2822, access logs, and names of
//! months.

use super::{DateTime, WEEKDAYS};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The offsets of named zones, in minutes.
const ZONES: [(&str, i64); 16] = [
    ("z", 0),
    ("utc", 0),
    ("gmt", 0),
    ("est", -300),
    ("edt", -240),
    ("cst", -360),
    ("cdt", -300),
    ("mst", -420),
    ("mdt", -360),
    ("pst", -480),
    ("pdt", -420),
    ("bst", 60),
    ("cet", 60),
    ("cest", 120),
    ("ist", 330),
    ("jst", 540),
];
/// The maximum length of a text that is read as a date, in bytes.
const MAX_BYTES: usize = 48;

/// The order of day and month in dates such as `04/05/2024`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) enum DayOrder {
    DayFirst,
    MonthFirst,
    /// Both numbers may be a month.
    Unknown,
}

impl DateTime {
    /// Reads a text that is a date, or a date with a time. `order` is the order of day and month if
    /// the year comes last. `None` for other texts, and if the order is needed but unknown. O(1).
    pub(in crate::query) fn read(text: &str, order: DayOrder) -> Option<Self> {
        let text = text.trim();
        if text.len() > MAX_BYTES || !text.contains(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let found = year_first(text)
            .or_else(|| year_last(text, order))
            .or_else(|| month_alone(text))
            .or_else(|| named(text))?;
        let is_valid = (1..=12).contains(&found.month) && (1..=31).contains(&found.day);
        is_valid.then_some(found)
    }
}

/// Returns the number of a month, from 1, by its name or the first three or four letters of the
/// name. Ignores case. `None` for other words.
pub(in crate::query) fn month_number(name: &str) -> Option<usize> {
    position(&MONTHS, name).map(|at| at + 1)
}

/// Returns true if a text is a month without a day: `2024-05`, `05/2024`, `May 2024`. O(1).
pub(in crate::query) fn is_month(text: &str) -> bool {
    if text.len() == 7 && text.matches(['-', '/']).count() == 1 {
        return true;
    }
    named_month(text).is_some()
}

/// Returns the year and the number of the month in `May 2024` and `2024 Sept`.
fn named_month(text: &str) -> Option<(i64, i64)> {
    let (first, second) = text.trim().split_once(' ')?;
    let (name, year) = if first.len() == 4 && is_digits(first) {
        (second.trim_start(), first)
    } else {
        (first, second.trim_start())
    };
    let month = month_number(name.trim_end_matches(['.', ',']))?;
    let year = Some(year).filter(|year| year.len() == 4 && is_digits(year))?;
    Some((year.parse().ok()?, i64::try_from(month).ok()?))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true if a word is the name of a weekday, or the first letters of one.
pub(in crate::query) fn is_weekday(name: &str) -> bool {
    position(&WEEKDAYS, name).is_some()
}

fn position(names: &[&str], name: &str) -> Option<usize> {
    let is_named = |known: &&str| {
        let start = known.get(..name.len());
        (name.len() == known.len() || (3..=4).contains(&name.len()))
            && start.is_some_and(|start| start.eq_ignore_ascii_case(name))
    };
    names.iter().position(is_named)
}

/// Returns the order of day and month in a date whose year comes last. `None` for other texts, and
/// for dates with dots, in which the day comes first.
pub(in crate::query) fn day_order(text: &str) -> Option<DayOrder> {
    let (first, second, ..) = numbers(text.trim()).filter(|(_, _, sign, ..)| *sign != '.')?;
    Some(match (first > 12, second > 12) {
        (true, false) => DayOrder::DayFirst,
        (false, true) => DayOrder::MonthFirst,
        (true, true) => return None,
        (false, false) => DayOrder::Unknown,
    })
}

/// Reads a number of `least` to `most` digits at the start of a text. Returns it with the rest of
/// the text.
fn number(text: &str, least: usize, most: usize) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    (least..=most).contains(&end).then_some((digits.parse().ok()?, rest))
}

/// Reads `2024-05-01T10:00:00Z`, `2024/05/01 10:00` and `2024-05`.
fn year_first(text: &str) -> Option<DateTime> {
    let (year, rest) = number(text, 4, 4)?;
    let sign = rest.chars().next().filter(|sign| "-/.".contains(*sign))?;
    let (month, rest) = number(rest.get(1..)?, 1, 2)?;
    let date = DateTime { year, month, ..DateTime::default() };
    if rest.is_empty() {
        return (sign != '.' && text.len() == 7).then_some(DateTime { day: 1, ..date });
    }
    let (day, rest) = number(rest.strip_prefix(sign)?, 1, 2)?;
    with_time(DateTime { day, ..date }, rest)
}

/// Reads the three numbers of `04/25/2013`. Returns the first two, the separator, the third, and
/// the rest of the text.
fn numbers(text: &str) -> Option<(i64, i64, char, i64, &str)> {
    let (first, rest) = number(text, 1, 2)?;
    let sign = rest.chars().next().filter(|sign| "-/.".contains(*sign))?;
    let (second, rest) = number(rest.get(1..)?, 1, 2)?;
    let (year, after) = number(rest.strip_prefix(sign)?, 2, 4)?;
    let digits = rest.len() - after.len() - 1;
    let year = match digits {
        4 => year,
        // Two digits are years from 1969 to 2068, as in POSIX.
        2 if sign == '/' => year + if year < 69 { 2_000 } else { 1_900 },
        _ => return None,
    };
    // A number of a build such as 1.2.1043 is no year.
    if sign == '.' && !(1_900..2_200).contains(&year) {
        return None;
    }
    let is_end = after.is_empty() || after.starts_with(['T', ' ', ',']);
    is_end.then_some((first, second, sign, year, after))
}

fn year_last(text: &str, order: DayOrder) -> Option<DateTime> {
    let (first, second, sign, year, rest) = numbers(text)?;
    let order = match order {
        // Only languages in which the day comes first write dots.
        _ if sign == '.' => DayOrder::DayFirst,
        DayOrder::Unknown => day_order(text)?,
        known => known,
    };
    let (day, month) = match order {
        DayOrder::DayFirst => (first, second),
        DayOrder::MonthFirst => (second, first),
        DayOrder::Unknown => return None,
    };
    let date = DateTime { year, month, day, ..DateTime::default() };
    with_time(date, rest.trim_start_matches(','))
}

/// Reads `May 2024`, as the first day of the month.
fn month_alone(text: &str) -> Option<DateTime> {
    let (year, month) = named_month(text)?;
    Some(DateTime { year, month, day: 1, ..DateTime::default() })
}

/// Reads `Wed, 01 May 2024 10:00:00 GMT`, `May 1, 2024`, `Wed May  1 10:00:00 UTC 2024` and
/// `10/Oct/2000:13:55:36 -0700`.
fn named(text: &str) -> Option<DateTime> {
    let (mut year, mut month, mut day, mut clock) = (None, None, None, String::new());
    let words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let parts = words.flat_map(|word| {
        let has_name = word.contains(|c: char| c.is_ascii_alphabetic())
            && word.starts_with(|c: char| c.is_ascii_digit());
        // `10/Oct/2000:13:55:36` and `02-Jan-2024`, but not `13:55:36-0700`.
        let signs: &[char] = if has_name { &['/', '-'] } else { &[] };
        word.split(signs)
    });
    for part in parts {
        let lower = part.trim_end_matches('.').to_lowercase();
        let ordinal = ["st", "nd", "rd", "th"].iter().find_map(|end| lower.strip_suffix(end));
        let digits = ordinal.unwrap_or(&lower);
        let is_digits = is_digits(digits);
        if is_weekday(&lower) || lower == "at" {
            continue;
        } else if let Some(number) = month_number(&lower).filter(|_| month.is_none()) {
            month = Some(i64::try_from(number).ok()?);
        } else if is_digits && digits.len() == 4 && year.is_none() {
            year = digits.parse().ok();
        } else if is_digits && digits.len() <= 2 && day.is_none() {
            day = digits.parse().ok();
        } else if let Some((head, rest)) = part.split_once(':').filter(|_| clock.is_empty()) {
            let is_year = head.len() == 4 && year.is_none();
            if is_year {
                year = Some(head.parse().ok()?);
            }
            clock = if is_year { rest.to_owned() } else { part.to_owned() };
        } else if !clock.is_empty() {
            clock = format!("{clock} {part}");
        } else {
            return None;
        }
    }
    let date = DateTime { year: year?, month: month?, day: day?, ..DateTime::default() };
    if clock.is_empty() { Some(date) } else { with_time(date, &format!(" {clock}")) }
}

/// Reads the time after a date, with its zone. `None` if `rest` is neither empty nor a time.
fn with_time(date: DateTime, rest: &str) -> Option<DateTime> {
    if rest.is_empty() {
        return Some(date);
    }
    let rest = rest.strip_prefix(['T', 't', ' ', '_'])?.trim_start();
    let (mut hour, rest) = number(rest, 1, 2)?;
    let (mut minute, mut second, mut nanosecond) = (0, 0, 0);
    let mut rest = rest;
    if let Some(after) = rest.strip_prefix(':') {
        (minute, rest) = number(after, 2, 2)?;
        if let Some(after) = rest.strip_prefix(':') {
            (second, rest) = number(after, 2, 2)?;
            if let Some(after) = rest.strip_prefix(['.', ',']) {
                let fraction;
                (fraction, rest) = number(after, 1, 12)?;
                let places = u32::try_from(after.len() - rest.len()).ok()?;
                nanosecond = match places {
                    0..=9 => fraction.checked_mul(10i64.pow(9 - places))?,
                    _ => fraction / 10i64.pow(places - 9),
                };
            }
        }
    }
    rest = rest.trim_start();
    let half = rest.get(..2).map(str::to_lowercase).filter(|half| half == "am" || half == "pm");
    if let Some(half) = half {
        rest = rest.get(2..)?.trim_start();
        hour = hour % 12 + if half == "pm" { 12 } else { 0 };
    }
    let is_valid = hour <= 24 && minute < 60 && second <= 60;
    let zone = zone(rest)?;
    is_valid.then_some(DateTime { hour, minute, second, nanosecond, zone, ..date })
}

/// Reads a zone: `Z`, `+02:00`, `-0700`, `PST`, `+0000 (UTC)`. Returns its UTC offset in seconds,
/// or `Some(None)` if the text is empty. `None` for other texts.
fn zone(text: &str) -> Option<Option<i64>> {
    let plain = text.split(['[', '(']).next().unwrap_or_default().trim();
    let name = if plain.is_empty() { text.trim_matches(['[', '(', ')', ']']) } else { plain };
    if name.is_empty() {
        return Some(None);
    }
    let lower = name.to_lowercase();
    if let Some((_, minutes)) = ZONES.iter().find(|(known, _)| *known == lower) {
        return Some(Some(minutes * 60));
    }
    let digits = name.strip_prefix(['+', '-'])?.replace(':', "");
    let (hours, minutes) = match digits.len() {
        2 => (digits.as_str(), "0"),
        4 => digits.split_at_checked(2)?,
        _ => return None,
    };
    let seconds = hours.parse::<i64>().ok()? * 3_600 + minutes.parse::<i64>().ok()? * 60;
    Some(Some(if name.starts_with('-') { -seconds } else { seconds }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_many_forms_are_one_time() {
        for text in [
            "2024-05-01T10:00:00Z",
            "2024-05-01 10:00:00.000",
            "2024/05/01 10:00",
            "2024-5-1T12:00:00+02:00",
            "Wed, 01 May 2024 10:00:00 GMT",
            "1 May 2024 10:00:00 +0000 (UTC)",
            "Wed May  1 10:00:00 UTC 2024",
            "May 1, 2024 10:00 AM",
            "May 1st, 2024 at 10:00am",
            "01/May/2024:03:00:00 -0700",
            "01.05.2024 10:00",
        ] {
            let found = DateTime::read(text, DayOrder::Unknown);
            let expected = DateTime::read("2024-05-01T10:00:00", DayOrder::Unknown).unwrap();
            let found = found.unwrap_or_else(|| panic!("{text}"));
            assert_eq!(found.instant(true), expected.instant(true), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_dates() {
        for text in [
            "yesterday",
            "May 24",
            "May 1 2",
            "30 days ago",
            "now() - 7d",
            "04/05/2024",
            "1.2.3",
            "2024-13-01",
            "2024-05-01x",
            "10:00",
            "2024",
            "31 May",
            "may 1 2 2024",
            "",
        ] {
            assert_eq!(DateTime::read(text, DayOrder::Unknown), None, "{text}");
        }
    }

    #[test]
    fn months_begin_with_their_first_day() {
        for text in ["May 2024", "Sept. 2024", "2024 june", "JUL, 2024"] {
            let found = DateTime::read(text, DayOrder::Unknown);
            assert_eq!(found.map(|date| (date.year, date.day)), Some((2024, 1)), "{text}");
            assert!(is_month(text), "{text}");
        }
        assert!(!is_month("May 1, 2024"));
    }

    #[test]
    fn days_and_months_have_an_order() {
        assert_eq!(day_order("04/25/2013"), Some(DayOrder::MonthFirst));
        assert_eq!(day_order("25-04-2013"), Some(DayOrder::DayFirst));
        assert_eq!(day_order("04/05/2013"), Some(DayOrder::Unknown));
        assert_eq!(day_order("25.04.2013"), None);
        let read = |order| DateTime::read("04/05/13 9:00 PM", order).unwrap();
        assert_eq!((read(DayOrder::DayFirst).day, read(DayOrder::MonthFirst).day), (4, 5));
        assert_eq!(read(DayOrder::DayFirst).hour, 21);
    }
}
