//! The statistics of one field.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use crate::decimal::{Number, Sum};
use crate::query::date::instant;
use crate::text::line_breaks::without_line_breaks;
use crate::text::shorten::shorten;

/// The maximum number of distinct values, in all records, of a field that is a category.
pub(super) const MAX_VALUES: usize = 256;
/// The maximum number of values of a category that are listed with their counts.
const MAX_LISTED_VALUES: usize = 6;
/// The maximum length of a listed value, in characters.
const MAX_VALUE_CHARS: usize = 40;

/// The kind of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A value of a small set, such as a state.
    Category,
    /// A value that all records of the sample share, or none has. Reported if others differ.
    Deviation,
    /// A number that adds up or has a range.
    Number,
    /// A date or time.
    Time,
}

/// A value with its position among the values of its field.
#[derive(Clone, PartialEq)]
struct Bound {
    position: BoundPosition,
    /// The value as it is written.
    text: String,
}

#[derive(Clone, Copy, PartialEq)]
enum BoundPosition {
    Number(Number),
    /// The seconds and nanoseconds of a time, and true if it has a zone.
    Time((i64, i64), bool),
    /// A time that is compared as text with others of its length.
    Text,
}

impl BoundPosition {
    /// Reads a value of a kind. Returns its position, and the value as it is written. `None` for
    /// values of another kind.
    fn read(kind: Kind, raw: &str) -> Option<(Self, &str)> {
        match kind {
            Kind::Category | Kind::Deviation => None,
            Kind::Number => {
                // `inf` and `NaN` are no numbers of JSON, and a large exponent is one.
                let is_number = raw.starts_with(|c: char| c.is_ascii_digit() || c == '-');
                let number = Number::parse(raw).filter(|_| is_number)?;
                Some((BoundPosition::Number(number), raw))
            }
            Kind::Time => {
                let text = raw.strip_prefix('"')?.strip_suffix('"')?;
                let time =
                    instant(text).map(|(time, has_zone)| BoundPosition::Time(time, has_zone));
                Some((time.unwrap_or(BoundPosition::Text), text))
            }
        }
    }
}

impl Bound {
    /// Returns the value in the form of [`BoundPosition::read`].
    fn as_read(&self) -> (BoundPosition, &str) {
        (self.position, &self.text)
    }
}

/// Compares two values. `None` for times of different forms.
fn compare(
    (position, text): (BoundPosition, &str),
    (other, other_text): (BoundPosition, &str),
) -> Option<Ordering> {
    match (position, other) {
        (BoundPosition::Number(left), BoundPosition::Number(right)) => {
            Some(left.total_compare(right))
        }
        (BoundPosition::Time(left, zone), BoundPosition::Time(right, other)) if zone == other => {
            Some(left.cmp(&right))
        }
        (BoundPosition::Text, BoundPosition::Text) if text.len() == other_text.len() => {
            Some(text.cmp(other_text))
        }
        _ => None,
    }
}

/// The statistics of one field over the records so far.
pub(super) struct Statistic {
    kind: Kind,
    /// The number of records with a value of this kind. `u64::MAX` if there are too many distinct
    /// values.
    count: u64,
    /// The number of records with a value of another kind, which is not null.
    others: u64,
    /// The number of records with each value, as raw JSON.
    values: BTreeMap<Vec<u8>, u64>,
    sum: Sum,
    least: Option<Bound>,
    greatest: Option<Bound>,
    /// The number of records with the greatest value.
    holders: u64,
    /// The name of the first record with the greatest value, as raw JSON. Empty if it has none.
    holder: Vec<u8>,
    /// True if the current record is the first with the greatest value.
    is_holder: bool,
}

impl Statistic {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            count: 0,
            others: 0,
            values: BTreeMap::new(),
            sum: Sum::default(),
            least: None,
            greatest: None,
            holders: 0,
            holder: Vec::new(),
            is_holder: false,
        }
    }

    /// Ends a record. `name` is its name as raw JSON, empty if it has none.
    pub(super) fn end_record(&mut self, name: &[u8]) {
        if std::mem::take(&mut self.is_holder) {
            self.holder.clear();
            self.holder.extend_from_slice(name);
        }
    }

    /// Returns true if two fields have the same statistics of numbers or times, so that one of them
    /// suffices.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        !self.is_category()
            && (self.kind, self.count, self.others, self.sum)
                == (other.kind, other.count, other.others, other.sum)
            && (&self.least, &self.greatest) == (&other.least, &other.greatest)
    }

    /// Adds the value of a record, as raw JSON. Null is no value.
    pub(super) fn add(&mut self, raw: &[u8]) {
        if raw == b"null" || self.count == u64::MAX {
            return;
        }
        if self.is_category() {
            return self.add_category(raw);
        }
        let text = std::str::from_utf8(raw).unwrap_or_default();
        let found = BoundPosition::read(self.kind, text).and_then(|bound| {
            let least = self.least.as_ref().map(|least| compare(bound, least.as_read()));
            let greatest = self.greatest.as_ref().map(|most| compare(bound, most.as_read()));
            // Times of another form have no place among these.
            (least != Some(None) && greatest != Some(None))
                .then(|| (bound, least.flatten(), greatest.flatten()))
        });
        let Some((bound, least, greatest)) = found else {
            self.others += 1;
            return;
        };
        let (position, text) = bound;
        if let BoundPosition::Number(number) = position {
            self.sum.add_number(number);
        }
        self.count += 1;
        let bound = || Bound { position, text: text.to_owned() };
        if least.is_none_or(Ordering::is_lt) {
            self.least = Some(bound());
        }
        match greatest {
            Some(Ordering::Less) => {}
            Some(Ordering::Equal) => self.holders += 1,
            None | Some(Ordering::Greater) => {
                self.greatest = Some(bound());
                self.holder.clear();
                (self.holders, self.is_holder) = (1, true);
            }
        }
    }

    fn is_category(&self) -> bool {
        matches!(self.kind, Kind::Category | Kind::Deviation)
    }

    fn add_category(&mut self, raw: &[u8]) {
        self.count += 1;
        if let Some(count) = self.values.get_mut(raw) {
            *count += 1;
        } else if self.values.len() < MAX_VALUES {
            self.values.insert(raw.to_vec(), 1);
        } else {
            self.count = u64::MAX;
        }
    }

    /// Returns the statistics of the field `path` over `total` records, which the field `name`
    /// identifies. `None` if fewer than half of the records have a value, if all values are equal,
    /// or if there are more values than records. Also `None` for values that are no category.
    pub(super) fn text(&self, path: &str, name: &str, total: u64) -> Option<String> {
        // A record may have a member twice, so that nothing can be said of the number of records.
        let present = self.count.saturating_add(self.others);
        if present > total || (self.count * 2 < total && self.kind != Kind::Deviation) {
            return None;
        }
        let values = match self.kind {
            Kind::Category | Kind::Deviation => self.counts(total)?,
            Kind::Number | Kind::Time => {
                let (least, greatest) = (self.least.as_ref()?, self.greatest.as_ref()?);
                if compare(least.as_read(), greatest.as_read()) == Some(Ordering::Equal) {
                    return None;
                }
                let (least, greatest) = (&least.text, &greatest.text);
                let holder = match self.holder.as_slice() {
                    b"" | b"null" | b"\"\"" => String::new(),
                    holder if self.holders == 1 => format!(" ({name}: {})", plain(holder)),
                    _ => String::new(),
                };
                let range = format!("{least} to {greatest}{holder}");
                match self.kind {
                    Kind::Number if !self.is_time() => {
                        let mean = self.sum.mean(self.count);
                        // A number beyond those of a double has no sum.
                        match self.sum.float().is_finite() {
                            true => {
                                format!("{range}, sum {}, mean {}", self.sum.short(), mean.short())
                            }
                            false => range,
                        }
                    }
                    _ => range,
                }
            }
        };
        let part = |what: &str, count: u64| match count {
            0 => String::new(),
            count => format!(", {what} in {count}"),
        };
        let others = part("of another form", self.others);
        let absent = part("absent", total - present);
        // No name or value begins a line of the notice.
        Some(without_line_breaks(format!("{path}: {values}{others}{absent}")))
    }

    /// Returns true if all numbers seem to be seconds or milliseconds since 1970: times of this
    /// century whose range is small compared to their distance from 1970.
    fn is_time(&self) -> bool {
        let number = |bound: &Option<Bound>| match bound {
            Some(Bound { position: BoundPosition::Number(number), .. }) => Some(number.float),
            _ => None,
        };
        let (Some(least), Some(greatest)) = (number(&self.least), number(&self.greatest)) else {
            return false;
        };
        [1.0, 1_000.0].iter().any(|second| {
            least >= 946_684_800.0 * second
                && greatest <= 4_102_444_800.0 * second
                && greatest - least <= greatest / 4.0
        })
    }

    /// Returns the values of a category with their counts, the most frequent first. `None` if there
    /// are fewer than two, or if most of more than three values occur once. A value that few of the
    /// `total` records have, and others not, is returned, too.
    fn counts(&self, total: u64) -> Option<String> {
        // Values of one record each are names or notes, not categories.
        let single = self.values.values().filter(|count| **count == 1).count();
        let are_names = self.values.len() > 3 && single * 2 > self.values.len();
        let is_rare = self.kind == Kind::Deviation && self.count > 0 && self.count * 2 < total;
        if !is_rare && (self.values.len() < 2 || are_names) {
            return None;
        }
        let mut counts: Vec<(&Vec<u8>, u64)> =
            self.values.iter().map(|(value, count)| (value, *count)).collect();
        counts.sort_by_key(|(_, count)| Reverse(*count));
        let listed =
            if counts.len() <= MAX_LISTED_VALUES + 1 { counts.len() } else { MAX_LISTED_VALUES };
        let (listed, others) = counts.split_at_checked(listed)?;
        // `true` and `"true"` are different values.
        let shown = |value: &[u8]| {
            let text = plain(value);
            match value.starts_with(b"\"") && self.values.contains_key(text.as_bytes()) {
                true => String::from_utf8_lossy(value).into_owned(),
                false => text,
            }
        };
        let mut texts: Vec<String> =
            listed.iter().map(|(value, count)| format!("{} {count}", shown(value))).collect();
        if !others.is_empty() {
            let sum: u64 = others.iter().map(|(_, count)| count).sum();
            texts.push(format!("{} other values {sum}", others.len()));
        }
        Some(texts.join(", "))
    }
}

/// Returns a value without quotes, shortened. An empty string keeps its quotes.
fn plain(raw: &[u8]) -> String {
    match serde_json::from_slice::<String>(raw) {
        Ok(text) if text.is_empty() => "\"\"".to_owned(),
        Ok(text) => shorten(&text, MAX_VALUE_CHARS, &[]),
        Err(_) => String::from_utf8_lossy(raw).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: Kind, values: &[&str]) -> Option<String> {
        let mut statistic = Statistic::new(kind);
        for value in values {
            statistic.add(value.as_bytes());
            statistic.end_record(b"");
        }
        statistic.text("x", "", values.len() as u64)
    }

    #[test]
    fn numbers_are_compared_and_added_exactly() {
        for (values, expected) in [
            (
                &["100000000000000000", "100000000000000499"][..],
                "100000000000000000 to 100000000000000499, sum 200000000000000499, mean 100000000000000249.5",
            ),
            (&["1e-09", "3e-07"], "1e-09 to 3e-07, sum 0.000000301, mean 0.0000001505"),
            (&["1", "\"7\"", "2"], "1 to 2, sum 3, mean 1.5, of another form in 1"),
            (&["1", "null", "2"], "1 to 2, sum 3, mean 1.5, absent in 1"),
            (&["1", "1e400", "2"], "1 to 1e400"),
        ] {
            let expected = Some(format!("x: {expected}"));
            assert_eq!(text(Kind::Number, values), expected, "{values:?}");
        }
    }

    #[test]
    fn times_are_compared_as_instants() {
        for (values, expected) in [
            (
                &["\"2024-05-05T23:00:00+09:00\"", "\"2024-05-05T22:00:00-05:00\""][..],
                "2024-05-05T23:00:00+09:00 to 2024-05-05T22:00:00-05:00",
            ),
            (
                &["\"2024-05-01T10:00:00Z\"", "\"2024-05-01T10:00:00.250Z\""],
                "2024-05-01T10:00:00Z to 2024-05-01T10:00:00.250Z",
            ),
            (
                &[
                    "\"2024-05-01T10:00:00Z\"",
                    "\"2024-05-02T10:00:00\"",
                    "\"2024-05-03T10:00:00Z\"",
                ],
                "2024-05-01T10:00:00Z to 2024-05-03T10:00:00Z, of another form in 1",
            ),
        ] {
            let expected = Some(format!("x: {expected}"));
            assert_eq!(text(Kind::Time, values), expected, "{values:?}");
        }
    }

    #[test]
    fn values_of_different_types_are_told_apart() {
        let values = ["true", "\"true\"", "true", "\"a\\nb\"", "\"a\\nb\""];
        let expected = "x: a\\nb 2, true 2, \"true\" 1";
        assert_eq!(text(Kind::Category, &values).as_deref(), Some(expected));
    }

    #[test]
    fn rare_values_outside_of_the_sample_are_reported() {
        let rest = ["true"; 20];
        let values: Vec<&str> = rest.into_iter().chain(["false"]).collect();
        assert_eq!(text(Kind::Deviation, &values).as_deref(), Some("x: true 20, false 1"));
        let rest = ["null"; 20];
        let values: Vec<&str> = rest.into_iter().chain(["\"disk full\""]).collect();
        assert_eq!(text(Kind::Deviation, &values).as_deref(), Some("x: disk full 1, absent in 20"));
        for same in [["true"; 20], ["null"; 20]] {
            assert_eq!(text(Kind::Deviation, &same), None);
        }
    }
}
