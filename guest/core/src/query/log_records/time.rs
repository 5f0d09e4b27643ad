//! The times of log entries. Only texts in ISO 8601 sort by time, so times with a year are
//! converted to that form. Times without a year become members with other names.

use std::borrow::Cow;

use crate::query::date::{is_weekday, month_number};

/// The time of a log entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogTime<'l> {
    /// A time with a year, in ISO 8601 if possible, or a number of seconds.
    Full(Cow<'l, str>),
    /// Month, day and time of day: `06-14T15:16:01`. The boolean is true for the syslog format.
    OfYear(Cow<'l, str>, bool),
    /// A time of day, or a time in another form.
    OfDay(&'l str),
}

impl<'l> LogTime<'l> {
    /// Reads a time in any log format. O(1).
    pub(super) fn read(text: &'l str) -> Self {
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let words = match words.first() {
            Some(day) if is_weekday(short(day)) => words.get(1..).unwrap_or_default(),
            _ => words.as_slice(),
        };
        let month = |name: &str| month_number(short(name));
        match *words {
            // `Jun 14 15:16:01`, `Dec 04 04:47:44 2005`
            [name, day, clock, ref year @ ..] if is_digits(day) && month(name).is_some() => {
                let month = month(name).unwrap_or_default();
                match year {
                    [year] if year.len() == 4 && is_digits(year) => {
                        Self::Full(format!("{year}-{month:02}-{day:0>2}T{clock}").into())
                    }
                    _ => Self::OfYear(format!("{month:02}-{day:0>2}T{clock}").into(), true),
                }
            }
            // `10/Oct/2000:13:55:36 -0700`
            [first, ref zone @ ..] if first.contains('/') => {
                let parts: Vec<&str> = first.splitn(3, '/').collect();
                let known = match parts.as_slice() {
                    [day, name, rest] => month(name).map(|month| {
                        let mut more = zone.iter().copied();
                        let clock = rest.split_once(':');
                        // `01/May/2024 10:00:00`
                        let (year, clock) =
                            clock.unwrap_or_else(|| (rest, more.next().unwrap_or_default()));
                        let zone = more.next().unwrap_or_default();
                        format!("{year}-{month:02}-{day:0>2}T{clock}{zone}")
                    }),
                    _ => None,
                };
                known.map_or_else(|| Self::other(text), |time| Self::Full(time.into()))
            }
            _ => Self::other(text),
        }
    }

    fn other(text: &'l str) -> Self {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let separator = text.as_bytes().get(digits).copied().unwrap_or(b' ');
        match digits {
            // `2024-05-01 10:00:00`
            4 if matches!(separator, b'-' | b'/' | b'.') => Self::Full(text.into()),
            // `20240501T100000`, and seconds since 1970 or since the start.
            _ if is_number || digits == 8 => Self::Full(text.into()),
            // `03-17 16:13:38.811`
            2 if separator == b'-' => Self::OfYear(text.replacen(' ', "T", 1).into(), false),
            _ => Self::OfDay(text),
        }
    }

    /// Returns the name of the record's member for the time.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Full(_) => "time",
            Self::OfYear(..) => "timeOfYear",
            Self::OfDay(_) => "timeOfDay",
        }
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Full(text) | Self::OfYear(text, _) => text,
            Self::OfDay(text) => text,
        }
    }

    /// Returns true if the time has the syslog format, which the host name follows.
    pub(super) fn is_of_syslog(&self) -> bool {
        matches!(self, Self::OfYear(_, true))
    }
}

/// Returns the abbreviated name of a month or weekday: three letters, the first a capital. Empty
/// for other words.
fn short(name: &str) -> &str {
    let is_short = name.len() == 3 && name.starts_with(|first: char| first.is_ascii_uppercase());
    if is_short { name } else { "" }
}

/// Returns the byte offset at which the time at the end of `prefix` begins. That is 0, unless an
/// open bracket or other words precede it.
pub(super) fn start(prefix: &str) -> usize {
    let open = prefix.trim_end_matches([']', ')']).rfind(['[', '(', ']', ')']);
    if let Some(at) = open.filter(|at| matches!(prefix.as_bytes().get(*at), Some(b'[' | b'('))) {
        return at + 1;
    }
    let is_date = |text: &str| {
        let name = text.split(' ').next().unwrap_or_default();
        text.starts_with(|sign: char| sign.is_ascii_digit())
            || month_number(short(name)).is_some()
            || is_weekday(short(name))
    };
    let from = open.map_or(0, |at| at + 1);
    let next = prefix.get(from..).unwrap_or_default();
    let starts = next.match_indices([' ', '=', '"']).map(|(at, _)| from + at + 1);
    let mut starts = std::iter::once(from).chain(starts);
    starts.find(|at| prefix.get(*at..).is_some_and(is_date)).unwrap_or(from)
}

/// Returns the length, in bytes, of the zone (` -0700`) or year (` 2005]`) after a time of day. 0
/// if there is neither.
pub(super) fn zone_length(text: &str) -> usize {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let zone = text.get(..6).and_then(|zone| zone.strip_prefix([' ']));
    let digits = zone.and_then(|zone| zone.strip_prefix(['+', '-']));
    if digits.is_some_and(is_digits) {
        return 6;
    }
    let year = text.get(..6).and_then(|year| year.strip_prefix(' ')?.strip_suffix(']'));
    if year.is_some_and(is_digits) { 5 } else { 0 }
}
