//! Statistics over all records of a list: counts of categories, ranges and sums of numbers, and
//! ranges of times. A page shows some records, but questions are often about all.

use std::collections::BTreeMap;

use super::records::{RecordCondenser, SelectedFields};
use super::schema::{Field, FieldId, Schema};
use crate::fields::priority::{FieldPriority, is_quantity};
use crate::json::outline::Outline;
use crate::text::shorten::shorten;

/// The maximum number of different values of a category in the sample.
const MAX_CATEGORIES: usize = 9;
/// The number of different values in all records from which a field is no category.
const MAX_VALUES: usize = 64;
/// The maximum number of values of a category that are listed with their counts.
const MAX_LISTED_VALUES: usize = 6;
/// The maximum length of a listed value, in characters.
const MAX_VALUE_CHARS: usize = 40;
/// The maximum number of keys between a record and a field.
const MAX_LEVEL: u32 = 3;
/// The kinds of fields in the order in which they are reported, with the maximum number of each.
const ORDER: [(Kind, usize); 4] =
    [(Kind::Category, 4), (Kind::Time, 1), (Kind::Number, 3), (Kind::Time, 1)];

/// The kind of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A value of a small set, such as a state.
    Category,
    /// A number that adds up or has a range.
    Number,
    /// A date or time that sorts as text.
    Time,
}

/// The statistics of one field over the records so far.
struct Statistic {
    kind: Kind,
    /// The number of records that have a value of the kind. `u64::MAX` if there are too many
    /// different values.
    count: u64,
    /// The number of records by value, as raw JSON.
    values: BTreeMap<Vec<u8>, u64>,
    sum: f64,
    least: Option<(f64, String)>,
    greatest: Option<(f64, String)>,
}

/// Returns the statistics of the most telling fields of all `items`, each as text, the most useful
/// first. `None` if an item is invalid JSON. O(n).
#[must_use]
pub fn statistics<'i>(
    records: &RecordCondenser<'_>,
    items: impl Iterator<Item = &'i [u8]>,
) -> Option<Vec<String>> {
    let schema = records.schema();
    let fields = chosen_fields(schema);
    if fields.is_empty() {
        return Some(Vec::new());
    }
    let mut read = vec![false; schema.fields.len()];
    for (field, _) in &fields {
        schema.mark_with_containers(&mut read, *field);
    }
    let root = schema.child(0, b"[]")?;
    let enough = schema.members(root, &read);
    let form = records.form();
    let mut filter = SelectedFields { schema, read: &read, form, unknown: None, enough };
    let mut all = vec![None; schema.fields.len()];
    let mut found: Vec<Statistic> = fields.iter().map(|(_, kind)| Statistic::new(*kind)).collect();
    for (number, (field, _)) in fields.iter().enumerate() {
        if let Some(place) = all.get_mut(*field) {
            *place = Some(number);
        }
    }
    let path = u32::try_from(root).ok()?;
    let (mut total, mut scratch) = (0, Vec::new());
    for item in items {
        total += 1;
        let outline =
            Outline::parse_filtered(item, form, &(0..item.len()), path, &mut filter).ok()?;
        for node in (0..outline.len()).filter_map(|id| outline.node(id)) {
            let at = usize::try_from(node.path).ok().and_then(|at| all.get(at).copied().flatten());
            if let Some(statistic) = at.and_then(|at| found.get_mut(at)) {
                statistic.add(outline.raw_in(&mut scratch, node));
            }
        }
    }
    let texts = fields.iter().zip(&found);
    Some(texts.filter_map(|((at, _), found)| found.text(&schema.path(*at), total)).collect())
}

/// Returns the fields that tell most about all records, in the order of their report.
fn chosen_fields(schema: &Schema) -> Vec<(FieldId, Kind)> {
    let mut candidates: Vec<(Kind, FieldPriority, u32, FieldId)> = schema
        .fields
        .iter()
        .enumerate()
        .filter_map(|(at, field)| {
            let level = schema.level_in_record(at);
            let is_plain = !field.container && !field.nested && field.values > 0;
            let is_frequent = is_plain && field.values * 2 >= schema.sampled();
            let kind = kind(schema, at, field).filter(|_| is_frequent && level <= MAX_LEVEL)?;
            Some((kind, field.priority, level, at))
        })
        .collect();
    candidates.sort_by_key(|(_, priority, level, at)| (*level, *priority, *at));
    let mut chosen = Vec::new();
    for (kind, most) in ORDER {
        for _ in 0..most {
            let next = candidates.iter().position(|candidate| candidate.0 == kind);
            let Some(next) = next else { break };
            let (_, _, _, at) = candidates.remove(next);
            chosen.push((at, kind));
        }
    }
    chosen
}

/// Returns the kind of a field's values in the sample. `None` if they have no statistics.
fn kind(schema: &Schema, at: FieldId, field: &Field) -> Option<Kind> {
    let distinct = field.distinct_values();
    let is_mostly = |count: u64| count * 10 >= field.values * 9;
    let keys = schema.keys(at);
    let name = keys.last().copied().unwrap_or_default();
    if is_mostly(field.dates) {
        return (distinct > 1).then_some(Kind::Time);
    }
    if is_mostly(field.numbers) && distinct > MAX_CATEGORIES {
        return (is_quantity(name) && field.priority != FieldPriority::Identity)
            .then_some(Kind::Number);
    }
    let is_short = field.strings == 0 || field.characters / field.strings <= 32;
    let is_state = field.priority == FieldPriority::State;
    let recurs = distinct * 3 <= usize::try_from(field.values).unwrap_or(usize::MAX);
    let is_category =
        is_short && distinct <= MAX_CATEGORIES && recurs && (distinct > 1 || is_state);
    is_category.then_some(Kind::Category)
}

impl Statistic {
    fn new(kind: Kind) -> Self {
        let values = BTreeMap::new();
        Self { kind, count: 0, values, sum: 0.0, least: None, greatest: None }
    }

    /// Adds the value of a record, as raw JSON. Values of another kind count as absent.
    fn add(&mut self, raw: &[u8]) {
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
        if self.greatest.as_ref().is_none_or(|(greatest, _)| number > *greatest) {
            self.greatest = Some((number, text.to_owned()));
        }
    }

    fn add_time(&mut self, text: &str) {
        self.count += 1;
        if self.least.as_ref().is_none_or(|(_, least)| text < least.as_str()) {
            self.least = Some((0.0, text.to_owned()));
        }
        if self.greatest.as_ref().is_none_or(|(_, greatest)| text > greatest.as_str()) {
            self.greatest = Some((0.0, text.to_owned()));
        }
    }

    /// Returns the statistics of the field `path` over `total` records. `None` if the records have
    /// too few values in common, or one value only.
    #[allow(clippy::cast_precision_loss, reason = "a mean is rounded")]
    fn text(&self, path: &str, total: u64) -> Option<String> {
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
                let range = format!("{least} to {greatest}");
                match self.kind {
                    Kind::Number => {
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

    /// Returns the values of a category with their counts, the most frequent first.
    fn counts(&self) -> Option<String> {
        // Values of one record each are names or notes, not categories.
        let single = self.values.values().filter(|count| **count == 1).count();
        if self.values.len() < 2 || (self.values.len() > 3 && single * 2 > self.values.len()) {
            return None;
        }
        let mut counts: Vec<(&Vec<u8>, u64)> =
            self.values.iter().map(|(value, count)| (value, *count)).collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
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
