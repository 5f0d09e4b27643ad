//! Differences of dates: `DATEDIFF(closed, opened)`, `TIMESTAMPDIFF(MINUTE, opened, closed)`.

use super::Operand;
use super::arithmetic::Expression;
use super::date_unit::{DateUnit, Rounding};
use crate::query::code::{end_of_group, parts};
use crate::query::field::FieldName;
use crate::query::reader::Reader;

/// The functions that return a difference of dates.
pub(super) const FUNCTIONS: [&str; 5] =
    ["datediff", "date_diff", "timestampdiff", "timestamp_diff", "datetime_diff"];

/// The units of a difference, with their names and their seconds.
const UNITS: [(&[&str], &str, i64); 4] = [
    (&["day", "days", "d", "dd"], "days", 86_400),
    (&["hour", "hours", "h", "hh"], "hours", 3_600),
    (&["minute", "minutes", "mi", "min"], "minutes", 60),
    (&["second", "seconds", "s", "ss", "sec"], "seconds", 1),
];

impl Operand {
    /// Reads the arguments of `DATEDIFF(later, earlier)`, `DATEDIFF(day, earlier, later)` or
    /// `DATE_DIFF(later, earlier, day)`. Returns the operand for the difference.
    pub(super) fn difference(reader: &mut Reader<'_>, word: &str) -> Result<Self, String> {
        let start = reader.position();
        let inside = end_of_group(reader.rest()).and_then(|end| reader.rest().get(..end));
        // Of two arguments, the first is a field, also if it has the name of a unit.
        let has_unit = inside.is_some_and(|inside| parts(inside, ",").len() > 2);
        let unit = if has_unit { unit(reader)?.filter(|_| reader.eat(",")) } else { None };
        if unit.is_none() {
            reader.reset(start);
        }
        let first = Self::read(reader)?;
        let second = if reader.eat(",") { Some(Self::read(reader)?) } else { None };
        // The unit comes last in BigQuery.
        let is_last = unit.is_none() && reader.eat(",");
        let last = if is_last { self::unit(reader)? } else { None };
        let known = "the unit is second, minute, hour or day";
        if is_last && last.is_none() {
            return Err(reader.error(known));
        }
        if is_last && word == "datediff" {
            return Err(reader.error(
                "with the unit at the end, some languages subtract the first date, and others the second: write DATEDIFF('day', earlier, later)",
            ));
        }
        let (Some(second), true) = (second, reader.eat(")")) else {
            return Err(reader.error(&format!(
                "write {word}(later, earlier), a number of days, or {word}('day', earlier, later); {known}"
            )));
        };
        // KQL subtracts the second date, with the unit first.
        let is_reversed = unit.is_some() && word != "datetime_diff";
        let (later, earlier) = if is_reversed { (second, first) } else { (first, second) };
        let (name, seconds) = unit.or(last).unwrap_or(("days", 86_400));
        let rounding = match word {
            // BigQuery and KQL count the boundaries of units between the dates.
            "datediff" | "datetime_diff" => Rounding::Boundaries,
            "date_diff" if seconds == 86_400 => Rounding::Boundaries,
            "timestampdiff" if unit.is_none() && last.is_none() => Rounding::Boundaries,
            _ => Rounding::Complete,
        };
        let verbatim = FieldName::of_key(reader.since(start).trim_end_matches(')'));
        let unit = DateUnit { name, seconds, rounding };
        let difference = Expression::Difference(Box::new(later), Box::new(earlier), unit);
        Ok(Self { computed: Some(Box::new(difference)), ..Self::new(verbatim) })
    }
}

/// Reads the name of a unit, with or without quotes. Returns its name and its seconds. `None`, with
/// nothing read, if none is next.
fn unit(reader: &mut Reader<'_>) -> Result<Option<(&'static str, i64)>, String> {
    let mut rest = reader.clone();
    let word = match rest.quoted()? {
        Some(word) => word,
        None => {
            let word = rest.peek_word();
            rest.eat(word);
            // SQL of ODBC writes `SQL_TSI_MINUTE`.
            word.to_lowercase().trim_start_matches("sql_tsi_").to_owned()
        }
    };
    let word = word.to_lowercase();
    let found = UNITS.iter().find(|(names, ..)| names.contains(&word.as_str()));
    if found.is_some() {
        *reader = rest;
    }
    Ok(found.map(|(_, name, seconds)| (*name, *seconds)))
}
