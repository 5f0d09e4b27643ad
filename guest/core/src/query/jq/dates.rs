//! Functions of jq for dates and times, in UTC.

use std::ops::RangeInclusive;

use jaq_core::native::{Fun, bome, run, v};
use jaq_core::{Error, RunPtr, ValR};
use jaq_json::Val;
use jaq_std::ValT as _;

use super::limits::{JqData, normalized};
use super::natives::text;
use crate::query::date::{
    DateTime, DayOrder, READ_DIRECTIVES, WRITTEN_DIRECTIVES, unknown_directive,
};

/// Returns the jq functions for dates and times.
pub(super) fn functions() -> impl Iterator<Item = Fun<JqData>> {
    let plain: [(&str, RunPtr<JqData>); 6] = [
        ("mktime", |cv| bome(date(&cv.1).map(|date| seconds(&date)))),
        ("gmtime", |cv| bome(date(&cv.1).map(|date| parts(&date)))),
        ("fromdate", |cv| bome(from_date(&cv.1))),
        ("fromdateiso8601", |cv| bome(from_date(&cv.1))),
        ("todate", |cv| bome(written(&cv.1, ISO))),
        ("todateiso8601", |cv| bome(written(&cv.1, ISO))),
    ];
    let with_format: [(&str, RunPtr<JqData>); 2] = [
        ("strptime", |mut cv| {
            let format = cv.0.pop_var();
            bome(text(&format).and_then(|format| {
                let value = text(&cv.1)?;
                let date = DateTime::read_format(value, format);
                date.map(|date| parts(&date)).ok_or_else(|| {
                    if let Some(directive) = unknown_directive(format, READ_DIRECTIVES) {
                        return no_directive("strptime", &directive, READ_DIRECTIVES);
                    }
                    Error::str(format_args!("date \"{value}\" does not match format \"{format}\""))
                })
            }))
        }),
        ("strftime", |mut cv| {
            let format = cv.0.pop_var();
            bome(text(&format).and_then(|format| written(&cv.1, format)))
        }),
    ];
    let plain = plain.into_iter().map(|(name, function)| run::<JqData>((name, v(0), function)));
    let with_format = with_format.into_iter();
    plain.chain(with_format.map(|(name, function)| run::<JqData>((name, v(1), function))))
}

const ISO: &str = "%Y-%m-%dT%H:%M:%SZ";
/// The valid range of seconds since 1970: from the first day of the year 0 to the last one of the
/// year 9999.
const SECONDS: RangeInclusive<f64> = -62_167_219_200.0..=253_402_300_799.999;

fn no_directive(function: &str, directive: &str, known: &str) -> Error<Val> {
    let known: Vec<String> = known.chars().map(|known| format!("%{known}")).collect();
    Error::str(format_args!("{function} has no {directive}; it takes {}", known.join(", ")))
}

/// Converts a number of seconds since 1970, or a list of the parts of a date.
#[allow(clippy::cast_possible_truncation, reason = "the parts are checked")]
fn date(value: &Val) -> Result<DateTime, Error<Val>> {
    if let Some(seconds) = value.as_f64() {
        if !SECONDS.contains(&seconds) {
            return Err(Error::str(format_args!(
                "{value} seconds are no date of the years 0 to 9999: divide milliseconds by 1000"
            )));
        }
        return Ok(DateTime::of_seconds(seconds.floor() as i64));
    }
    let fail = || {
        Error::str(format_args!(
            "{value} is neither a number of seconds nor a list of the parts of a date"
        ))
    };
    let list: Vec<Val> = value.clone().into_seq().map_err(|_| fail())?;
    let mut own = [0; 6];
    for (part, value) in own.iter_mut().zip(&list) {
        *part = value.as_f64().ok_or_else(fail)?.floor() as i64;
    }
    let [year, month, day, hour, minute, second] = own;
    let date = DateTime::of_parts([year, month + 1, day, hour, minute, second]);
    date.filter(|_| list.len() >= own.len()).ok_or_else(fail)
}

fn from_date(value: &Val) -> ValR<Val> {
    let date = text(value)?;
    let found = DateTime::read(date, DayOrder::Unknown);
    let found = found.ok_or_else(|| Error::str(format_args!("\"{date}\" is no date")))?;
    Ok(number(found.instant(true).0))
}

fn written(value: &Val, format: &str) -> ValR<Val> {
    let unknown = || {
        let directive = unknown_directive(format, WRITTEN_DIRECTIVES).unwrap_or_default();
        no_directive("strftime", &directive, WRITTEN_DIRECTIVES)
    };
    date(value)?.write_format(format).map(Val::from).ok_or_else(unknown)
}

fn seconds(date: &DateTime) -> Val {
    number(date.instant(false).0)
}

fn parts(date: &DateTime) -> Val {
    date.parts().into_iter().map(number).collect()
}

#[allow(clippy::cast_precision_loss, reason = "dates have few seconds")]
fn number(number: i64) -> Val {
    normalized(Val::from(number as f64))
}
