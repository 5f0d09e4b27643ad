//! The statistics of one field.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

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
    /// A number that adds up or has a range.
    Number,
    /// A date or time that sorts as text.
    Time,
}

/// The statistics of one field over the records so far.
pub(super) struct Statistic {
    kind: Kind,
    /// The number of records with a value of this kind. `u64::MAX` if there are too many distinct
    /// values.
    count: u64,
    /// The number of records with each value, as raw JSON.
    values: BTreeMap<Vec<u8>, u64>,
    sum: f64,
    least: Option<(f64, String)>,
    greatest: Option<(f64, String)>,
    /// The number of records with the greatest value.
    holders: u64,
    /// The name of the first record with the greatest value.
    holder: Option<String>,
    /// True if the current record is the first with the greatest value.
    is_holder: bool,
}

impl Statistic {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            count: 0,
            values: BTreeMap::new(),
            sum: 0.0,
            least: None,
            greatest: None,
            holders: 0,
            holder: None,
            is_holder: false,
        }
    }

    /// Ends a record. `name` is its name as raw JSON, empty if it has none.
    pub(super) fn end_record(&mut self, name: &[u8]) {
        if std::mem::take(&mut self.is_holder) {
            self.holder = (!matches!(name, b"" | b"null" | b"\"\"")).then(|| plain(name));
        }
    }

    /// Returns true if two fields have the same statistics of numbers or times, so that one of them
    /// suffices.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.kind != Kind::Category
            && (self.kind, self.count, self.sum, &self.least, &self.greatest)
                == (other.kind, other.count, other.sum, &other.least, &other.greatest)
    }

    /// Adds the value of a record, as raw JSON. Treats values of another kind as absent.
    pub(super) fn add(&mut self, raw: &[u8]) {
        if raw == b"null" || self.count == u64::MAX {
            return;
        }
        match self.kind {
            Kind::Category => self.add_category(raw),
            Kind::Number => {
                let text = std::str::from_utf8(raw).unwrap_or_default();
                if let Ok(number) = text.parse::<f64>()
                    && number.is_finite()
                {
                    self.sum += number;
                    self.add_bounds(number, text);
                }
            }
            Kind::Time => {
                let text = std::str::from_utf8(raw).unwrap_or_default().trim_matches('"');
                // Times of equal form sort as text.
                let is_same = |(_, known): &(f64, String)| known.len() == text.len();
                if self.least.as_ref().is_none_or(is_same) {
                    self.add_time(text);
                }
            }
        }
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

    fn add_bounds(&mut self, number: f64, text: &str) {
        self.count += 1;
        if self.least.as_ref().is_none_or(|(least, _)| number < *least) {
            self.least = Some((number, text.to_owned()));
        }
        let order = self.greatest.as_ref().map(|(greatest, _)| number.total_cmp(greatest));
        self.add_greatest(order, (number, text));
    }

    fn add_time(&mut self, text: &str) {
        self.count += 1;
        if self.least.as_ref().is_none_or(|(_, least)| text < least.as_str()) {
            self.least = Some((0.0, text.to_owned()));
        }
        let order = self.greatest.as_ref().map(|(_, greatest)| text.cmp(greatest));
        self.add_greatest(order, (0.0, text));
    }

    /// Updates the greatest value with a new one. `order` compares the new value with the greatest
    /// so far, and is `None` for the first value.
    fn add_greatest(&mut self, order: Option<Ordering>, (number, text): (f64, &str)) {
        match order {
            Some(Ordering::Less) => {}
            Some(Ordering::Equal) => self.holders += 1,
            None | Some(Ordering::Greater) => {
                self.greatest = Some((number, text.to_owned()));
                (self.holders, self.holder, self.is_holder) = (1, None, true);
            }
        }
    }

    /// Returns the statistics of the field `path` over `total` records, which the field `name`
    /// identifies. `None` if fewer than half of the records have a value, if all values are equal,
    /// or if there are more values than records. Also `None` for values that are no category.
    #[allow(clippy::cast_precision_loss, reason = "a mean is rounded")]
    pub(super) fn text(&self, path: &str, name: &str, total: u64) -> Option<String> {
        // A record may have a member twice, so that nothing can be said of the number of records.
        if self.count > total || self.count * 2 < total {
            return None;
        }
        let values = match self.kind {
            Kind::Category => self.counts()?,
            Kind::Number | Kind::Time => {
                let ((_, least), (_, greatest)) = (self.least.as_ref()?, self.greatest.as_ref()?);
                if least == greatest {
                    return None;
                }
                let holder = match &self.holder {
                    Some(holder) if self.holders == 1 => format!(" ({name}: {holder})"),
                    _ => String::new(),
                };
                let range = format!("{least} to {greatest}{holder}");
                match self.kind {
                    Kind::Number if !self.is_time() => {
                        let mean = self.sum / self.count as f64;
                        format!("{range}, sum {}, mean {}", rounded(self.sum), rounded(mean))
                    }
                    _ => range,
                }
            }
        };
        let absent = total - self.count;
        let absent = if absent > 0 { format!(", absent in {absent}") } else { String::new() };
        Some(format!("{path}: {values}{absent}"))
    }

    /// Returns true if all numbers seem to be seconds or milliseconds since 1970: times of this
    /// century whose range is small compared to their distance from 1970.
    fn is_time(&self) -> bool {
        let (Some((least, _)), Some((greatest, _))) = (&self.least, &self.greatest) else {
            return false;
        };
        [1.0, 1_000.0].iter().any(|second| {
            *least >= 946_684_800.0 * second
                && *greatest <= 4_102_444_800.0 * second
                && greatest - least <= greatest / 4.0
        })
    }

    /// Returns the values of a category with their counts, the most frequent first. `None` if there
    /// are fewer than two, or if most of more than three values occur once.
    fn counts(&self) -> Option<String> {
        // Values of one record each are names or notes, not categories.
        let single = self.values.values().filter(|count| **count == 1).count();
        if self.values.len() < 2 || (self.values.len() > 3 && single * 2 > self.values.len()) {
            return None;
        }
        let mut counts: Vec<(&Vec<u8>, u64)> =
            self.values.iter().map(|(value, count)| (value, *count)).collect();
        counts.sort_by_key(|(_, count)| Reverse(*count));
        let listed =
            if counts.len() <= MAX_LISTED_VALUES + 1 { counts.len() } else { MAX_LISTED_VALUES };
        let (listed, others) = counts.split_at_checked(listed)?;
        let mut texts: Vec<String> =
            listed.iter().map(|(value, count)| format!("{} {count}", plain(value))).collect();
        if !others.is_empty() {
            let sum: u64 = others.iter().map(|(_, count)| count).sum();
            texts.push(format!("{} other values {sum}", others.len()));
        }
        Some(texts.join(", "))
    }
}

/// Returns a number with up to four decimal places.
fn rounded(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns a value without quotes, shortened. An empty string keeps its quotes.
fn plain(raw: &[u8]) -> String {
    match serde_json::from_slice::<String>(raw) {
        Ok(text) if text.is_empty() => "\"\"".to_owned(),
        Ok(text) => shorten(&text, MAX_VALUE_CHARS, &[]),
        Err(_) => String::from_utf8_lossy(raw).into_owned(),
    }
}
