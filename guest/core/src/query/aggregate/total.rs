//! Totals of the values of one group of records.

use std::collections::BTreeMap;

use crate::decimal::Sum;
use crate::json::outline::NodeId;
use crate::json::text::quoted;
use crate::query::records::RecordSet;
use crate::query::scale::{Scale, SortPosition, with_currency};
use crate::query::value::{Number, Value};

/// The maximum number of distinct values that a result lists.
const MAX_LISTED_VALUES: usize = 1_000;

/// A function of the values of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum AggregateFunction {
    /// The number of records, or of values that are not null.
    #[default]
    Count,
    /// The distinct values, each with its number of occurrences.
    Distinct,
    /// The number of distinct values.
    CountDistinct,
    Sum,
    Average,
    Min,
    Max,
    /// The record with the lowest value.
    MinRecord,
    /// The record with the highest value.
    MaxRecord,
    /// The value below which this share (0 to 1) of the values lies, interpolated.
    Percentile(f64),
    /// The distance of the values from their average.
    Spread(Spread),
}

/// A measure of the distance of values from their average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    /// True for the variance, false for its root, the standard deviation.
    pub(super) is_squared: bool,
    /// True if the values are a sample, so that the squares are divided by their number less one.
    pub(super) is_sample: bool,
}

impl AggregateFunction {
    /// Returns true if the function uses only numbers.
    pub(super) fn needs_numbers(self) -> bool {
        matches!(
            self,
            AggregateFunction::Sum
                | AggregateFunction::Average
                | AggregateFunction::Percentile(_)
                | AggregateFunction::Spread(_)
        )
    }

    /// Returns true if the function needs all numbers at once.
    fn collects(self) -> bool {
        matches!(self, AggregateFunction::Percentile(_) | AggregateFunction::Spread(_))
    }

    /// Returns true if the function compares values.
    pub(super) fn compares(self) -> bool {
        matches!(
            self,
            AggregateFunction::Min
                | AggregateFunction::Max
                | AggregateFunction::MinRecord
                | AggregateFunction::MaxRecord
        )
    }
}

/// The state of a function over the values of a group.
#[derive(Debug, Default)]
pub(super) struct Total {
    /// The number of values that are not null.
    pub(super) count: u64,
    sum: Sum,
    numbers: u64,
    /// The distinct currencies of the amounts, at most two.
    currencies: Vec<String>,
    /// The numbers, collected for percentiles and spreads only.
    all: Vec<Number>,
    best: Option<Best>,
    distinct: BTreeMap<Key, u64>,
}

/// The lowest or highest value so far, with its first record and the number of records that have
/// it.
#[derive(Debug)]
struct Best {
    value: Value<'static>,
    position: SortPosition,
    record: NodeId,
    records: u64,
}

impl Total {
    /// Adds a value of the record `id`. Null is ignored, as in SQL.
    pub(super) fn add(
        &mut self,
        function: AggregateFunction,
        scale: &Scale,
        value: &Value<'_>,
        id: NodeId,
    ) {
        if *value == Value::Null {
            return;
        }
        self.count += 1;
        match function {
            AggregateFunction::Count => {}
            AggregateFunction::Distinct | AggregateFunction::CountDistinct => {
                *self.distinct.entry(Key::new(value)).or_default() += 1;
            }
            AggregateFunction::Sum
            | AggregateFunction::Average
            | AggregateFunction::Percentile(_)
            | AggregateFunction::Spread(_) => {
                let Some((number, currency)) = scale.amount_of(value) else { return };
                if function.collects() {
                    self.all.extend(Number::parse(&number));
                } else {
                    self.numbers += u64::from(self.sum.add(&number));
                }
                let is_new = !currency.is_empty() && !self.currencies.contains(&currency);
                if is_new && self.currencies.len() < 2 {
                    self.currencies.push(currency);
                }
            }
            AggregateFunction::Min | AggregateFunction::MinRecord => {
                self.keep_best(value, scale, id, false);
            }
            AggregateFunction::Max | AggregateFunction::MaxRecord => {
                self.keep_best(value, scale, id, true);
            }
        }
    }

    fn keep_best(&mut self, value: &Value<'_>, scale: &Scale, id: NodeId, highest: bool) {
        if *value == Value::Object {
            return;
        }
        let position = scale.sort_position(value);
        let best = self.best.as_mut();
        let order = best.as_ref().map(|best| position.compare(&best.position, highest));
        match (order, best) {
            (Some(std::cmp::Ordering::Greater), _) => {}
            (Some(std::cmp::Ordering::Equal), Some(best)) => best.records += 1,
            _ => {
                let value = value.clone().into_owned();
                self.best = Some(Best { value, position, record: id, records: 1 });
            }
        }
    }

    /// Returns the total as a scalar, for sorting and conditions.
    pub(super) fn value(&self, function: AggregateFunction) -> Value<'static> {
        let number = |text: String| Value::Number(text.into());
        match function {
            AggregateFunction::Count => number(self.count.to_string()),
            AggregateFunction::Distinct | AggregateFunction::CountDistinct => {
                number(self.distinct.len().to_string())
            }
            AggregateFunction::Sum | AggregateFunction::Average if self.numbers == 0 => Value::Null,
            AggregateFunction::Sum => number(self.sum.to_string()),
            AggregateFunction::Average => {
                self.sum.average(self.numbers).map_or(Value::Null, number)
            }
            AggregateFunction::Percentile(share) => {
                percentile(&self.all, share).map_or(Value::Null, Number::value)
            }
            AggregateFunction::Spread(spread) => {
                spread.measure(&self.all).map_or(Value::Null, Number::value)
            }
            _ => self.best.as_ref().map_or(Value::Null, |best| best.value.clone()),
        }
    }

    /// Returns the currency of the amounts. `None` if the values are plain numbers.
    ///
    /// # Errors
    /// Returns two currencies if there are several.
    pub(super) fn currency(&self) -> Result<Option<&str>, (&str, &str)> {
        match self.currencies.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some(only)),
            [first, second, ..] => Err((first, second)),
        }
    }

    /// Returns a note if `limit` omits distinct values.
    pub(super) fn limit_note(
        &self,
        function: AggregateFunction,
        limit: Option<usize>,
    ) -> Option<String> {
        let limit = limit.filter(|limit| *limit < self.distinct.len())?;
        let all = self.distinct.len();
        (function == AggregateFunction::Distinct)
            .then(|| format!("the first {limit} of {all} values are shown"))
    }

    /// Appends the total to `out` as JSON, with at most `limit` distinct values.
    pub(super) fn write(
        &self,
        function: AggregateFunction,
        records: &RecordSet<'_>,
        limit: Option<usize>,
        out: &mut Vec<u8>,
    ) {
        match (function, self.best.as_ref()) {
            (AggregateFunction::Distinct, _) => {
                let limit = limit.unwrap_or(usize::MAX).min(MAX_LISTED_VALUES);
                let head = format!("{{\"count\":{},\"values\":[", self.distinct.len());
                out.extend_from_slice(head.as_bytes());
                for (at, key) in self.distinct.keys().take(limit).enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    write_value(&key.value(), out);
                }
                out.extend_from_slice(b"]}");
            }
            (AggregateFunction::MinRecord | AggregateFunction::MaxRecord, Some(best)) => {
                out.extend_from_slice(b"{\"value\":");
                write_value(&best.value, out);
                if best.records > 1 {
                    out.extend_from_slice(
                        format!(",\"records with it\":{}", best.records).as_bytes(),
                    );
                }
                out.extend_from_slice(b",\"record\":");
                out.extend(records.raw(best.record));
                out.push(b'}');
            }
            _ => {
                let value = self.value(function);
                // The square of an amount is no amount.
                let is_squared =
                    matches!(function, AggregateFunction::Spread(Spread { is_squared: true, .. }));
                match (self.currencies.first().filter(|_| !is_squared), value.text()) {
                    (Some(currency), Some(number)) => {
                        out.extend(quoted(&with_currency(number, currency)));
                    }
                    _ => write_value(&value, out),
                }
            }
        }
    }
}

impl Spread {
    /// Returns the spread of numbers. `None` if there are too few.
    #[allow(clippy::cast_precision_loss, reason = "a number of records")]
    fn measure(self, numbers: &[Number]) -> Option<Number> {
        let divisor = numbers.len().checked_sub(usize::from(self.is_sample))?;
        if divisor == 0 {
            return None;
        }
        let average = numbers.iter().map(|number| number.float).sum::<f64>() / numbers.len() as f64;
        let squares: f64 = numbers.iter().map(|number| (number.float - average).powi(2)).sum();
        let variance = squares / divisor as f64;
        let spread = if self.is_squared { variance } else { variance.sqrt() };
        spread.is_finite().then(|| Number::of_float(spread))
    }
}

/// Returns the value below which `share` (0 to 1) of the numbers lie, interpolated between two of
/// them.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position in a list that is in memory"
)]
fn percentile(numbers: &[Number], share: f64) -> Option<Number> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(|left, right| left.total_compare(*right));
    let position = share * sorted.len().checked_sub(1)? as f64;
    let low = position.floor();
    let from = *sorted.get(low as usize)?;
    let to = sorted.get(low as usize + 1).copied().unwrap_or(from);
    let part = position - low;
    let is_same = part == 0.0 || from.compare(to).is_some_and(std::cmp::Ordering::is_eq);
    match part {
        _ if is_same => Some(from),
        // Half of an exact number is exact in decimal places.
        0.5 => from.computed('+', to)?.computed('*', Number::parse("0.5")?),
        _ => Some(Number::of_float(from.float + (to.float - from.float) * part)),
    }
}

/// A value that groups records. Values of different types form different groups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Bool(bool),
    /// A number, compared by its value. Holds the text of its first occurrence.
    Number(OrderedNumber),
    Text(String),
    Null,
}

/// The text of a number, ordered by its value.
#[derive(Clone, Debug)]
pub(super) struct OrderedNumber(String);

impl OrderedNumber {
    fn compare(&self, other: &Self) -> std::cmp::Ordering {
        match (Number::parse(&self.0), Number::parse(&other.0)) {
            (Some(left), Some(right)) => left.total_compare(right),
            _ => self.0.cmp(&other.0),
        }
    }
}

impl PartialEq for OrderedNumber {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other).is_eq()
    }
}

impl Eq for OrderedNumber {}

impl PartialOrd for OrderedNumber {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedNumber {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.compare(other)
    }
}

impl Key {
    pub(super) fn new(value: &Value<'_>) -> Self {
        match value {
            Value::Null | Value::Object => Key::Null,
            Value::Bool(value) => Key::Bool(*value),
            Value::Number(text) => Key::Number(OrderedNumber(text.to_string())),
            Value::Text(text) => Key::Text(text.to_string()),
        }
    }

    pub(super) fn value(&self) -> Value<'static> {
        match self {
            Key::Null => Value::Null,
            Key::Bool(value) => Value::Bool(*value),
            Key::Number(number) => Value::Number(number.0.clone().into()),
            Key::Text(text) => Value::Text(text.clone().into()),
        }
    }

    /// Returns the key as the name of an object member.
    pub(super) fn name(&self) -> String {
        self.value().text().unwrap_or("null").to_owned()
    }
}

/// Appends a value to `out` as JSON.
pub(super) fn write_value(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Text(text) => out.extend(quoted(text)),
        Value::Number(text)
            if crate::json::scan::is_json(text.as_bytes(), crate::json::text::Form::Raw) =>
        {
            out.extend_from_slice(text.as_bytes());
        }
        Value::Number(text) => out.extend(quoted(text)),
        value => out.extend_from_slice(value.text().unwrap_or("null").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_of_samples_and_of_populations() {
        let numbers = |list: &[&str]| -> Vec<Number> {
            list.iter().filter_map(|text| Number::parse(text)).collect()
        };
        for (list, is_squared, is_sample, expected) in [
            (&["2", "4", "4", "4", "5", "5", "7", "9"][..], false, false, Some("2")),
            (&["2", "4", "4", "4", "5", "5", "7", "9"], true, false, Some("4")),
            (&["1", "2", "3"], false, true, Some("1")),
            (&["1e9", "1e9"], true, true, Some("0")),
            (&["7"], false, true, None),
            (&["7"], false, false, Some("0")),
            (&["1e308", "-1e308"], true, false, None),
            (&[], false, false, None),
        ] {
            let spread = Spread { is_squared, is_sample };
            let found = spread.measure(&numbers(list)).map(Number::value);
            assert_eq!(found.as_ref().and_then(Value::text), expected, "{list:?}");
        }
    }

    #[test]
    fn percentiles_are_interpolated() {
        let numbers = |list: &[&str]| -> Vec<Number> {
            list.iter().filter_map(|text| Number::parse(text)).collect()
        };
        for (list, share, expected) in [
            (&["4", "1", "3", "2"][..], 0.5, Some("2.5")),
            (&["10", "20"], 0.95, Some("19.5")),
            (&["7"], 0.99, Some("7")),
            (&["1717171717123457", "1717171717123457"], 0.9, Some("1717171717123457")),
            (&["9007199254740993", "9007199254740993", "1"], 0.5, Some("9007199254740993")),
            (&[], 0.5, None),
        ] {
            let found = percentile(&numbers(list), share).map(Number::value);
            let found = found.as_ref().and_then(Value::text);
            assert_eq!(found, expected, "{list:?}");
        }
    }
}
