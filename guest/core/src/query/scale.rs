//! The scale on which the values of a field are compared: numbers, amounts, money, versions, times
//! or texts. `where`, `order by` and totals compare with the scale that fits most values.

mod amount;
mod currency;
mod duration;
mod survey;
mod unit;
mod version;
mod written;

use std::cmp::Ordering;

pub(super) use self::amount::duration;
use self::amount::{Units, amount, money};
pub(super) use self::currency::with_currency;
pub(super) use self::survey::{ScaleSurvey, has_no_hours};
use self::version::Version;
use super::date::{DateTime, DayOrder, day_order};
use super::value::{Number, Value};

/// The scale of a field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Scale {
    #[default]
    Number,
    /// Amounts such as `16Gi`.
    Amount(Units),
    /// Amounts of money, and numbers with thousands separators.
    Money {
        /// The symbol or code of the currency. Empty for plain numbers.
        currency: String,
        /// True if a comma is the decimal separator.
        has_comma: bool,
        /// True if parentheses denote negative amounts.
        has_parentheses: bool,
    },
    /// Amounts of money in any currency, for sums. True if a comma is the decimal separator, `None`
    /// if amounts differ in that.
    Currencies(Option<bool>),
    /// Amounts of one unit, for computations.
    Unit {
        /// The unit, as it is written.
        unit: String,
        /// True if a comma is the decimal separator.
        has_comma: bool,
    },
    Version,
    /// Dates and times.
    Time {
        order: DayOrder,
        /// True if values have a zone. A time without one is then taken as UTC.
        has_zone: bool,
    },
    /// Times of the day as written. Dates are compared by their time of the day, too.
    TimeOfDay(DayOrder),
    Text,
}

/// The position of a value on a scale.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScalePosition {
    Number(Number),
    Amount(f64),
    Version(Version),
    Time(i64, i64),
    Text(String),
}

/// The position of a value in the sort order. Values that are not on the scale come after the
/// others.
#[derive(Debug)]
pub(super) struct SortPosition {
    rank: u8,
    position: Option<ScalePosition>,
}

/// The rank of values on the scale. Values off the scale have higher ranks, and null the highest.
/// Only numbers among texts have a lower one.
const ON_SCALE: u8 = 1;
/// The rank of null.
const NULL: u8 = 9;

impl Scale {
    /// Returns the scale for a literal that is compared with values of an unknown scale.
    pub(super) fn of_literal(text: &str, is_number: bool) -> Self {
        if is_number {
            return Scale::Number;
        }
        if let Some(date) = DateTime::read(text, DayOrder::Unknown) {
            return Scale::Time { order: DayOrder::Unknown, has_zone: date.has_zone() };
        }
        if let Some(found) = read_money(text) {
            return found;
        }
        if let Some((_, unit)) = amount(text) {
            return Scale::Amount(Units::beside(&unit));
        }
        if version::is_version(text) { Scale::Version } else { Scale::Text }
    }

    /// Returns the scale for comparing times with a time of the day, such as `10:30` with
    /// `10:31:00`. `None` for other texts and scales.
    pub(super) fn of_day(&self, text: &str) -> Option<Self> {
        let order = match self {
            Scale::Time { order, .. } => *order,
            Scale::Amount(Units::Same(unit)) if unit.starts_with(':') => DayOrder::Unknown,
            _ => return None,
        };
        amount::time_of_day(text).map(|_| Scale::TimeOfDay(order))
    }

    /// Returns the scale for comparing values with the literal `text`, which may have another unit
    /// of the same kind: `90m` with `PT2H`.
    pub(super) fn beside(self, text: &str) -> Self {
        let Scale::Amount(Units::Same(own)) = &self else { return self };
        let units = amount(text).and_then(|(_, other)| {
            let names = [own.as_str(), &other];
            Units::unify(names.into_iter())
        });
        units.map_or(self, Scale::Amount)
    }

    /// Returns the position of a value on the scale. `None` if the value does not fit the scale.
    pub(super) fn position(&self, value: &Value<'_>) -> Option<ScalePosition> {
        let text = match value {
            Value::Number(text) | Value::Text(text) if *self == Scale::Text => text.as_ref(),
            Value::Number(text) | Value::Text(text) => text.trim(),
            Value::Null | Value::Bool(_) | Value::Object => return None,
        };
        let is_number = matches!(value, Value::Number(_));
        match self {
            Scale::Number => value.number().map(ScalePosition::Number),
            Scale::Amount(units) => {
                let number = || Some((text.parse().ok()?, String::new()));
                let is_plain = is_number || value.number().is_some();
                let (number, unit) = if is_plain { number()? } else { amount(text)? };
                units.scaled(number, &unit).map(ScalePosition::Amount)
            }
            Scale::Money { .. } if is_number => value.number().map(ScalePosition::Number),
            Scale::Money { currency, has_comma, has_parentheses } => {
                let found = money(text, *has_comma)?;
                let is_same = found.currency == *currency || found.currency.is_empty();
                let is_read = *has_parentheses || !found.has_parentheses;
                (is_same && is_read).then_some(ScalePosition::Number(found.number))
            }
            Scale::Currencies(_) | Scale::Unit { .. } => {
                self.amount_position(value).map(ScalePosition::Number)
            }
            Scale::Version => Version::read(text).map(ScalePosition::Version),
            _ if is_number => None,
            Scale::Time { order, has_zone } => {
                let (seconds, nanoseconds) = DateTime::read(text, *order)?.instant(*has_zone);
                Some(ScalePosition::Time(seconds, nanoseconds))
            }
            Scale::TimeOfDay(order) => {
                let of_date = || {
                    let date = DateTime::read(text, *order).filter(|_| text.contains(':'))?;
                    Some(date.seconds_of_day())
                };
                amount::time_of_day(text).or_else(of_date).map(ScalePosition::Amount)
            }
            Scale::Text => Some(ScalePosition::Text(text.to_owned())),
        }
    }

    /// Returns the position of a value in the sort order.
    pub(super) fn sort_position(&self, value: &Value<'_>) -> SortPosition {
        let number = value.number().map(ScalePosition::Number);
        let (rank, position) = match (value, self) {
            (Value::Null, _) => (NULL, None),
            // Numbers come before texts.
            (_, Scale::Text) if number.is_some() => (0, number),
            _ => match (self.position(value), value) {
                (Some(position), _) => (ON_SCALE, Some(position)),
                (None, _) if number.is_some() => (2, number),
                (None, Value::Text(text)) => (3, Some(ScalePosition::Text(text.to_string()))),
                (None, Value::Bool(false)) => (4, None),
                (None, Value::Bool(true)) => (5, None),
                (None, _) => (6, None),
            },
        };
        SortPosition { rank, position }
    }

    /// Returns the word for a value on the scale, for notes.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Scale::Number => "number",
            Scale::Amount(_) | Scale::Unit { .. } => "amount",
            Scale::Money { currency, .. } if currency.is_empty() => "number",
            Scale::Money { .. } | Scale::Currencies(_) => "amount",
            Scale::Version => "version",
            Scale::Time { .. } => "date",
            Scale::TimeOfDay(_) => "time of day",
            Scale::Text => "text",
        }
    }
}

/// Returns the scale of a text that is an amount of money. `None` for other texts.
fn read_money(text: &str) -> Option<Scale> {
    let has_comma = amount::decimal_comma(text).unwrap_or(false);
    let found = money(text, has_comma)?;
    let is_marked = !found.currency.is_empty() || text.contains(',');
    let currency = found.currency;
    is_marked.then_some(Scale::Money { currency, has_comma, has_parentheses: true })
}

impl ScalePosition {
    /// Compares two positions on one scale. `None` if one of them is `NaN`.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => left.compare(*right),
            (Self::Amount(left), Self::Amount(right)) => left.partial_cmp(right),
            (Self::Version(left), Self::Version(right)) => Some(left.compare(right)),
            (Self::Time(left, more), Self::Time(right, other)) => {
                Some((left, more).cmp(&(right, other)))
            }
            (Self::Text(left), Self::Text(right)) => Some(left.cmp(right)),
            _ => None,
        }
    }

    fn total_compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(left), Self::Number(right)) => left.total_compare(*right),
            (Self::Amount(left), Self::Amount(right)) => left.total_cmp(right),
            _ => self.compare(other).unwrap_or(Ordering::Equal),
        }
    }
}

impl SortPosition {
    /// Compares two positions in the sort order. `descending` reverses the order of values of one
    /// kind, and that of true and false. Values off the scale still come last, and null after them.
    /// Numbers still come before texts.
    pub(super) fn compare(&self, other: &Self, descending: bool) -> Ordering {
        if self.rank != other.rank {
            let (is_false, is_true) = (4, 5);
            let are_flags =
                [self.rank, other.rank].iter().all(|rank| (is_false..=is_true).contains(rank));
            let order = self.rank.cmp(&other.rank);
            return if are_flags && descending { order.reverse() } else { order };
        }
        let order = match (&self.position, &other.position) {
            (Some(left), Some(right)) => left.total_compare(right),
            _ => Ordering::Equal,
        };
        if descending { order.reverse() } else { order }
    }

    /// Returns true if the value is on the scale.
    pub(super) fn is_on_scale(&self) -> bool {
        self.rank == ON_SCALE
    }
}
