//! Periods of dates by their format: `strftime('%Y-%m', created)`, `to_char(created, 'YYYY-MM')`.

use super::names::part_named;
use super::{FieldFunction, Operand};
use crate::query::field::FieldName;
use crate::query::reader::Reader;

/// The functions of a date and a period or format. Those of the second part begin with the date.
pub(super) const FUNCTIONS: [&str; 6] =
    ["date_trunc", "strftime", "format_date", "to_char", "date_format", "format_datetime"];

/// Formats, each with the period that it writes.
const FORMATS: [(&str, &str); 9] = [
    ("%Y", "year"),
    ("%Y-%m", "month"),
    ("%Y-%m-%d", "day"),
    ("%Y-%m-%dT%H", "hour"),
    ("%Y-%m-%d %H", "hour"),
    ("YYYY", "year"),
    ("YYYY-MM", "month"),
    ("YYYY-MM-DD", "day"),
    ("yyyy-MM", "month"),
];

impl Operand {
    /// Reads the arguments of `strftime('%Y-%m', created)` or `to_char(created, 'YYYY-MM')`, after
    /// the opening parenthesis.
    pub(super) fn formatted(reader: &mut Reader<'_>, word: &str) -> Result<Self, String> {
        let is_first = matches!(word, "date_trunc" | "strftime" | "format_date");
        let mut name = if is_first { None } else { Some(FieldName::read(reader)?) };
        let has_comma = is_first || reader.eat(",");
        let Some(format) = reader.quoted()?.filter(|_| has_comma) else {
            return Err(reader.error(&format!("{word} takes a format in quotes, such as '%Y-%m'")));
        };
        let known = FORMATS.iter().find(|(known, _)| *known == format);
        // `to_char(x, 'day')` is the name of the weekday.
        let own = Some(format.as_str()).filter(|_| is_first);
        let period = known.map(|(_, period)| *period).or(own);
        let part = period.and_then(part_named).filter(|_| !is_first || reader.eat(","));
        let Some(part) = part else {
            return Err(
                reader.error(&format!("{word} takes a period such as 'month', and a field"))
            );
        };
        if is_first {
            name = Some(FieldName::read(reader)?);
        }
        reader.close()?;
        let name = name.unwrap_or_else(|| FieldName::of_key(word));
        Ok(Self { function: Some(FieldFunction::Date(part)), ..Self::new(name) })
    }
}
