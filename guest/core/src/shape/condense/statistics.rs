//! Statistics over all records of a list: counts of categories, ranges and sums of numbers, and
//! ranges of times. An answer shows some records, but questions are often about all.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::records::{RecordCondenser, SelectedFields};
use super::schema::{Field, FieldId, Schema};
use crate::fields::priority::{FieldPriority, is_quantity};
use crate::json::outline::{Node, Outline};
use crate::text::shorten::shorten;
use crate::tokens::Estimator;

/// The maximum number of different values of a category in the sample.
const MAX_CATEGORIES: usize = 16;
/// The number of different values in all records from which a field is no category.
const MAX_VALUES: usize = 256;
/// The minimum number of records of a list in a document that has statistics. A model can count
/// fewer.
const MIN_RECORDS: u64 = 12;
/// The maximum number of lists in a document that have statistics.
const MAX_LISTS: usize = 3;
/// The maximum number of values of a category that are listed with their counts.
const MAX_LISTED_VALUES: usize = 6;
/// The maximum length of a listed value, in characters.
const MAX_VALUE_CHARS: usize = 40;
/// The minimum token limit of an answer, per copy in the result, beside which statistics are shown.
const MIN_TOKENS: u64 = 600;
/// The share of the token limit that statistics may cost, as a divisor.
const TOKEN_SHARE: u64 = 10;
/// The maximum size of a list that has statistics, in bytes. Counting a megabyte takes as long as
/// making its first page; callers can ask for totals over larger lists.
pub const MAX_COUNTED_BYTES: usize = 800_000;
/// The maximum number of keys between a record and a field.
const MAX_LEVEL: u32 = 3;
/// The kinds of fields in the order in which they are reported, with the maximum number of each.
const ORDER: [(Kind, usize); 4] =
    [(Kind::Category, 5), (Kind::Time, 1), (Kind::Number, 3), (Kind::Time, 1)];

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

/// Returns the number of tokens that statistics may cost beside an answer of `token_limit` tokens.
/// `None` if the answer is too small for them.
#[must_use]
pub fn statistics_limit(token_limit: u64) -> Option<u64> {
    (token_limit >= MIN_TOKENS).then_some(token_limit / TOKEN_SHARE)
}

/// Returns the statistics of the most telling fields of all `items`, each as text, the most useful
/// first. `None` if an item is invalid JSON. O(n).
#[must_use]
pub fn statistics<'i>(
    records: &RecordCondenser<'_>,
    items: impl Iterator<Item = &'i [u8]>,
) -> Option<Vec<String>> {
    let schema = records.schema();
    let root = schema.child(0, b"[]")?;
    let fields = chosen_fields(schema, root, schema.sampled());
    if fields.is_empty() {
        return Some(Vec::new());
    }
    let mut read = vec![false; schema.fields.len()];
    for (field, _) in &fields {
        schema.mark_with_containers(&mut read, *field);
    }
    let enough = schema.members(root, &read);
    let form = records.form();
    let mut filter = SelectedFields { schema, read: &read, form, unknown: None, enough };
    let mut found = FieldStatistics::new(schema, fields);
    let path = u32::try_from(root).ok()?;
    let mut total = 0;
    for item in items {
        total += 1;
        let outline =
            Outline::parse_filtered(item, form, &(0..item.len()), path, &mut filter).ok()?;
        for node in (0..outline.len()).filter_map(|id| outline.node(id)) {
            if let Ok(at) = FieldId::try_from(node.path) {
                found.add(at, &outline, node);
            }
        }
    }
    Some(found.texts(schema, "", total))
}

/// Returns the number of records of the largest lists and maps in a document, each with the
/// statistics of its most telling fields, as text. Lists of fewer than twelve records are left out.
/// `schema` is that of the document. O(n).
#[must_use]
pub fn document_statistics(schema: &Schema, outline: &Outline<'_>) -> Vec<ListStatistics> {
    let records = schema.fields.iter().enumerate();
    let mut lists: Vec<(u8, Reverse<u64>, FieldId)> = records
        .filter(|(_, field)| field.is_record() && field.count >= MIN_RECORDS)
        .map(|(at, field)| (field.section, Reverse(field.count), at))
        .collect();
    lists.sort_unstable();
    lists.truncate(MAX_LISTS);
    let fields = lists.iter().flat_map(|(_, total, at)| chosen_fields(schema, *at, total.0));
    let mut found = FieldStatistics::new(schema, fields.collect());
    let nodes = (0..outline.len()).filter_map(|id| Some((schema.field_of(id), outline.node(id)?)));
    for (at, node) in nodes {
        // The members of a closed container are not in the outline.
        if node.closed && at.is_some_and(|at| schema.fields.get(at).is_some_and(Field::is_record)) {
            return Vec::new();
        }
        if let Some(at) = at {
            found.add(at, outline, node);
        }
    }
    let list = |&(_, Reverse(total), at): &(u8, Reverse<u64>, FieldId)| {
        // The paths of fields are relative to the document, if that is the list.
        let path = Some(schema.path(at)).filter(|path| path != "[]" && path != "*");
        let path = path.unwrap_or_default();
        let fields = found.texts(schema, &path, total);
        let path = path.trim_end_matches("[]").trim_end_matches(".*").to_owned();
        ListStatistics { path, total, fields }
    };
    lists.iter().map(list).collect()
}

/// The statistics of a list in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListStatistics {
    /// The path of the list. Empty if it is the document itself.
    path: String,
    /// The number of its records.
    total: u64,
    /// The statistics of its fields, the most useful first.
    fields: Vec<String>,
}

impl ListStatistics {
    /// Returns the statistics of several lists as one text within `token_limit`. `None` if nothing
    /// fits.
    #[must_use]
    pub fn text(mut lists: Vec<Self>, estimator: &Estimator, token_limit: u64) -> Option<String> {
        loop {
            let texts: Vec<String> = lists.iter().map(Self::sentence).collect();
            let text = texts.join("\n");
            if estimator.cost(text.as_bytes()) <= token_limit {
                return (!text.is_empty()).then_some(text);
            }
            // The last field of the list that has most is the least useful.
            let longest = lists.iter_mut().rev().max_by_key(|list| list.fields.len())?;
            if longest.fields.pop().is_none() {
                lists.pop();
            }
        }
    }

    fn sentence(&self) -> String {
        let Self { path, total, fields } = self;
        let of = if path.is_empty() { String::new() } else { format!(" of {path}") };
        match fields.is_empty() {
            true => format!("In all: {total} items{of}"),
            false => format!("Over all {total} items{of}: {}", fields.join("; ")),
        }
    }
}

/// The statistics of the chosen fields of a schema.
struct FieldStatistics {
    fields: Vec<(FieldId, Statistic)>,
    /// For each field of the schema, its index in `fields`.
    places: Vec<Option<usize>>,
    /// A buffer for values without escapes.
    scratch: Vec<u8>,
}

impl FieldStatistics {
    fn new(schema: &Schema, fields: Vec<(FieldId, Kind)>) -> Self {
        let mut places = vec![None; schema.fields.len()];
        for (number, (field, _)) in fields.iter().enumerate() {
            if let Some(place) = places.get_mut(*field) {
                *place = Some(number);
            }
        }
        let fields = fields.into_iter().map(|(at, kind)| (at, Statistic::new(kind)));
        Self { fields: fields.collect(), places, scratch: Vec::new() }
    }

    /// Adds the value `node` of the field `at`.
    fn add(&mut self, at: FieldId, outline: &Outline<'_>, node: &Node) {
        let place = self.places.get(at).copied().flatten();
        if let Some((_, statistic)) = place.and_then(|place| self.fields.get_mut(place)) {
            statistic.add(outline.raw_in(&mut self.scratch, node));
        }
    }

    /// Returns the statistics of the fields below the path `record`, over `total` records.
    fn texts(&self, schema: &Schema, record: &str, total: u64) -> Vec<String> {
        let text = |(at, found): &(FieldId, Statistic)| {
            let path = schema.path(*at);
            let path = path.strip_prefix(record)?;
            found.text(path.strip_prefix('.').unwrap_or(path), total)
        };
        self.fields.iter().filter_map(text).collect()
    }
}

/// Returns the fields that tell most about all records, in the order of their report. The records
/// are the values of the field `record`, of which `count` were sampled.
fn chosen_fields(schema: &Schema, record: FieldId, count: u64) -> Vec<(FieldId, Kind)> {
    let mut candidates: Vec<(Kind, FieldPriority, u32, FieldId)> = schema
        .fields
        .iter()
        .enumerate()
        .filter_map(|(at, field)| {
            let level = schema.level_in_record(at);
            let is_plain = !field.container && !field.nested && field.values > 0;
            let is_frequent = is_plain && field.values * 2 >= count;
            if !is_frequent || level > MAX_LEVEL || schema.record_of(at) != Some(record) {
                return None;
            }
            let kind = kind(schema, at, field)?;
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
    let recurs = distinct * 2 <= usize::try_from(field.values).unwrap_or(usize::MAX);
    // All records of a document are known: a category may have more values.
    let recurs_often = distinct <= MAX_VALUES
        && distinct * 8 <= usize::try_from(field.values).unwrap_or(usize::MAX);
    let is_category = is_short
        && (distinct <= MAX_CATEGORIES && recurs || recurs_often)
        && (distinct > 1 || is_state);
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
