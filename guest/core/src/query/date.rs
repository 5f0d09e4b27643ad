//! Dates and their periods, such as years and months, from ISO texts or epoch numbers.

#[cfg(feature = "jq")]
mod format;
mod read;

#[cfg(feature = "jq")]
pub(super) use self::format::{READ_DIRECTIVES, WRITTEN_DIRECTIVES, unknown_directive};
pub(super) use self::read::{DayOrder, day_order, is_month, is_weekday, month_number};
use super::value::Value;

/// A period of a date, or the number of a period in a larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DatePart {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Weekday,
    /// The number of the quarter in its year, from 1.
    QuarterNumber,
    /// The number of the month in its year, from 1.
    MonthNumber,
    /// The number of the week in its year, from 1, as in ISO 8601.
    WeekNumber,
    /// The number of the day in its month, from 1.
    DayNumber,
    /// The number of the hour in its day, from 0.
    HourNumber,
    /// The number of the minute in its hour, from 0.
    MinuteNumber,
}

const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Epoch numbers of at least this absolute value are milliseconds. As seconds, this value is in the
/// year 5138.
const MIN_MILLISECONDS: f64 = 1e11;

/// Positive numbers below this value are no epoch numbers. As seconds, it is in April 1970.
const MIN_SECONDS: f64 = 1e7;

impl DatePart {
    /// Returns the function name of the period.
    pub(super) fn name(self) -> &'static str {
        match self {
            DatePart::Year => "year",
            DatePart::Quarter => "quarter",
            DatePart::Month => "month",
            DatePart::Week => "week",
            DatePart::Day => "day",
            DatePart::Hour => "hour",
            DatePart::Minute => "minute",
            DatePart::Weekday => "weekday",
            DatePart::QuarterNumber => "quarter number",
            DatePart::MonthNumber => "month number",
            DatePart::WeekNumber => "week number",
            DatePart::DayNumber => "day number",
            DatePart::HourNumber => "hour number",
            DatePart::MinuteNumber => "minute number",
        }
    }

    /// Returns the number of this period in the next larger one. A comparison with a small number
    /// uses this number: `month(x) = 5`.
    pub(super) fn as_number(self) -> Self {
        match self {
            DatePart::Quarter => DatePart::QuarterNumber,
            DatePart::Month => DatePart::MonthNumber,
            DatePart::Week => DatePart::WeekNumber,
            DatePart::Day => DatePart::DayNumber,
            DatePart::Hour => DatePart::HourNumber,
            DatePart::Minute => DatePart::MinuteNumber,
            other => other,
        }
    }
}

/// A date and time as written, in its own zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DateTime {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    nanosecond: i64,
    /// The UTC offset of its zone, in seconds. `None` if it has no zone.
    zone: Option<i64>,
}

/// Returns the period of a date, such as `2024-05`. Dates are texts, whose day and month have the
/// order `order`, or epoch numbers in seconds or milliseconds. `None` if the value is not a date.
pub(super) fn date_part(value: &Value<'_>, part: DatePart, order: DayOrder) -> Option<String> {
    let date = match value {
        Value::Text(text) => {
            // The year does not depend on the order.
            let order = match order {
                DayOrder::Unknown if part == DatePart::Year && day_order(text) == Some(order) => {
                    DayOrder::DayFirst
                }
                order => order,
            };
            DateTime::parse(text).or_else(|| DateTime::read(text, order))?
        }
        Value::Number(text) => match DateTime::of_digits(text) {
            Some(date) => date,
            None => DateTime::from_epoch(text.parse().ok()?)?,
        },
        _ => return None,
    };
    let DateTime { year, month, day, hour, minute, .. } = date;
    Some(match part {
        DatePart::Year => format!("{year:04}"),
        DatePart::Quarter => format!("{year:04}-Q{}", (month + 2) / 3),
        DatePart::Month => format!("{year:04}-{month:02}"),
        DatePart::Week => {
            let (year, week) = date.week();
            format!("{year:04}-W{week:02}")
        }
        DatePart::WeekNumber => date.week().1.to_string(),
        DatePart::Day => format!("{year:04}-{month:02}-{day:02}"),
        DatePart::Hour => format!("{year:04}-{month:02}-{day:02}T{hour:02}"),
        DatePart::Minute => format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}"),
        DatePart::Weekday => {
            let weekday = usize::try_from(days_since_monday(date.days())).ok()?;
            (*WEEKDAYS.get(weekday)?).to_owned()
        }
        DatePart::QuarterNumber => ((month + 2) / 3).to_string(),
        DatePart::MonthNumber => month.to_string(),
        DatePart::DayNumber => day.to_string(),
        DatePart::HourNumber => hour.to_string(),
        DatePart::MinuteNumber => minute.to_string(),
    })
}

/// Returns true for a day without a time in ISO 8601, such as `2024-05-01`.
pub(super) fn is_day(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    text.len() == "2024-05-01".len() && digits == 8 && text.matches('-').count() == 2
}

/// Returns the seconds since 1970 and the nanoseconds of a date or time that begins with the year,
/// and true if it has a zone. A time without one is taken as UTC. `None` for other texts. O(1).
pub(crate) fn instant(text: &str) -> Option<((i64, i64), bool)> {
    let is_year = text.get(..4)?.bytes().all(|byte| byte.is_ascii_digit());
    let date = DateTime::read(text, DayOrder::Unknown).filter(|_| is_year)?;
    Some((date.instant(true), date.has_zone()))
}

fn days_since_monday(days: i64) -> i64 {
    // 1970-01-01 was a Thursday.
    (days + 3).rem_euclid(7)
}

impl DateTime {
    /// Returns true if the date has a zone.
    pub(super) fn has_zone(&self) -> bool {
        self.zone.is_some()
    }

    /// Returns the seconds since 1970 and the nanoseconds: in UTC, or in the date's own zone if
    /// `in_zone` is false. A time without a zone is taken as UTC.
    pub(super) fn instant(&self, in_zone: bool) -> (i64, i64) {
        let zone = self.zone.filter(|_| in_zone).unwrap_or_default();
        let seconds = self.days() * 86_400 + self.hour * 3_600 + self.minute * 60 + self.second;
        (seconds - zone, self.nanosecond)
    }

    /// Returns the seconds since midnight in the date's own zone.
    #[allow(clippy::cast_precision_loss, reason = "a day has few seconds")]
    pub(super) fn seconds_of_day(&self) -> f64 {
        let (seconds, nanoseconds) = self.instant(false);
        seconds.rem_euclid(86_400) as f64 + nanoseconds as f64 / 1e9
    }

    /// Parses the beginning of a text: `2024-05-01`, `2024-05` or `2024/05/01`, and hours and
    /// minutes after it. What follows is ignored, also seconds and a zone. `None` for other texts.
    fn parse(text: &str) -> Option<Self> {
        let number = |from: usize, until: usize| text.get(from..until)?.parse::<i64>().ok();
        let is = |at: usize, signs: &str| {
            text.get(at..).and_then(|rest| rest.chars().next()).is_some_and(|c| signs.contains(c))
        };
        let (year, month) = (number(0, 4)?, number(5, 7)?);
        let day = if is(7, "-/") { number(8, 10)? } else { 1 };
        let has_time = is(10, "T ") && is(13, ":");
        let hour = if has_time { number(11, 13)? } else { 0 };
        let minute = if has_time { number(14, 16)? } else { 0 };
        let is_valid = is(4, "-/") && (1..=12).contains(&month) && (1..=31).contains(&day);
        is_valid.then_some(Self { year, month, day, hour, minute, ..Self::default() })
    }

    /// Reads a number whose digits are a date, such as `20240501`. `None` for other numbers.
    fn of_digits(text: &str) -> Option<Self> {
        let part = |from: usize, until: usize| text.get(from..until)?.parse::<i64>().ok();
        let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
        let is_date = text.len() == 8
            && (1900..2100).contains(&year)
            && (1..=12).contains(&month)
            && (1..=31).contains(&day);
        is_date.then_some(Self { year, month, day, ..Self::default() })
    }

    /// Returns the date of an epoch number. `None` for a small number, which is rather a count, and
    /// for one of a year after 9999.
    #[allow(clippy::cast_possible_truncation, reason = "the number is in range")]
    fn from_epoch(number: f64) -> Option<Self> {
        let seconds = if number.abs() >= MIN_MILLISECONDS { number / 1e3 } else { number };
        let is_small = seconds > 1.0 && seconds < MIN_SECONDS;
        if !seconds.is_finite() || is_small || seconds.abs() > 253_402_300_799.0 {
            return None;
        }
        let seconds = seconds.floor() as i64;
        let in_day = seconds.rem_euclid(86_400);
        let day = Self::from_days(seconds.div_euclid(86_400));
        Some(Self { hour: in_day / 3_600, minute: in_day / 60 % 60, ..day })
    }

    /// Returns the year and the number of the week in it, as in ISO 8601: a week belongs to the
    /// year of its Thursday.
    fn week(self) -> (i64, i64) {
        let days = self.days();
        let thursday = Self::from_days(days - days_since_monday(days) + 3);
        let first = Self { month: 1, day: 1, ..thursday };
        (thursday.year, (thursday.days() - first.days()) / 7 + 1)
    }

    /// Returns the number of days since 1970-01-01 in the Gregorian calendar.
    fn days(self) -> i64 {
        // Years begin in March, so that the leap day is the last of them.
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let day_of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year
            - 719_468
    }

    fn from_days(days: i64) -> Self {
        let days = days + 719_468;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day + 2) / 153;
        let month = (shifted + 2) % 12 + 1;
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        Self { year, month, day: day - (153 * shifted + 2) / 5 + 1, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_of_texts_and_epochs() {
        let part =
            |value: Value<'_>, part| date_part(&value, part, DayOrder::Unknown).unwrap_or_default();
        let text = |text: &'static str| Value::Text(text.into());
        assert_eq!(part(text("2024-05-31T23:59:59Z"), DatePart::Month), "2024-05");
        assert_eq!(part(text("2024-05-31 23:59"), DatePart::Hour), "2024-05-31T23");
        assert_eq!(part(text("2024-12-30"), DatePart::Week), "2025-W01");
        assert_eq!(part(text("2021-01-03"), DatePart::Week), "2020-W53");
        assert_eq!(part(text("2024-02-29"), DatePart::Weekday), "Thursday");
        assert_eq!(part(text("May 2024"), DatePart::Month), "2024-05");
        assert_eq!(part(text("04/05/2024"), DatePart::Month), "");
        assert_eq!(part(text("04/05/2024"), DatePart::Year), "2024");
        assert_eq!(part(text("2024-13-01"), DatePart::Month), "");
        assert_eq!(part(Value::Number("1717200000".into()), DatePart::Day), "2024-06-01");
        assert_eq!(part(Value::Number("1717200000000".into()), DatePart::Quarter), "2024-Q2");
        assert_eq!(part(Value::Number("-1".into()), DatePart::Day), "1969-12-31");
        assert_eq!(part(Value::Number("20240501".into()), DatePart::Month), "2024-05");
        assert_eq!(part(Value::Number("3".into()), DatePart::Month), "");
    }
}
