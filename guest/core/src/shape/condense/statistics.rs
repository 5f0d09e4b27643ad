//! Statistics over all records of a list: counts of categories, ranges and sums of numbers, and
//! ranges of times. The record with the greatest number is named. An answer shows some records, but
//! questions are often about all.

mod statistic;

use std::cmp::Reverse;
use std::ops::Range;

use self::statistic::{Kind, MAX_VALUES, Statistic};
use super::records::{RecordCondenser, SelectedFields};
use super::schema::{Field, FieldId, Schema};
use crate::fields::priority::{FieldPriority, is_quantity};
use crate::json::outline::{Node, Outline};
use crate::json::text::Form;
use crate::text::line_breaks::without_line_breaks;
use crate::tokens::Estimator;

/// The maximum number of distinct values of a category in the sample. Values that recur often may
/// be more.
const MAX_CATEGORIES: usize = 16;
/// The minimum number of records of a list in a document that has statistics. A model can count
/// fewer.
const MIN_RECORDS: u64 = 12;
/// The maximum number of lists in a document that have statistics.
const MAX_LISTS: usize = 3;
/// The minimum token limit of an answer with statistics, per copy in the result.
const MIN_TOKENS: u64 = 600;
/// The share of the token limit that statistics may cost, as a divisor.
const TOKEN_SHARE: u64 = 10;
/// The maximum size, in bytes, of a list that has statistics. Counting a megabyte takes as long as
/// making its first page; callers can request totals over larger lists.
pub const MAX_COUNTED_BYTES: usize = 800_000;
/// The maximum number of keys between a record and a field.
const MAX_LEVEL: u32 = 3;
/// The kinds of fields in the order of the report, with the maximum number of fields of each.
const ORDER: [(Kind, usize); 5] = [
    (Kind::Category, 5),
    (Kind::Deviation, 4),
    (Kind::Time, 1),
    (Kind::Number, 3),
    (Kind::Time, 1),
];

/// Returns the number of tokens that statistics may cost in an answer of `token_limit` tokens.
/// `None` if the answer is too small for statistics.
#[must_use]
pub fn statistics_limit(token_limit: u64) -> Option<u64> {
    (token_limit >= MIN_TOKENS).then_some(token_limit / TOKEN_SHARE)
}

/// Returns the statistics of the most informative fields of all `items`, each as text, the most
/// useful first. `form` is the form of `items`, which may differ from that of the sampled records.
/// `None` if an item is invalid JSON, or the sample has no records. O(n).
#[must_use]
pub fn statistics<'i>(
    records: &RecordCondenser<'_>,
    items: impl Iterator<Item = &'i [u8]>,
    form: Form,
) -> Option<Vec<String>> {
    let schema = records.schema();
    let root = schema.child(0, b"[]")?;
    let mut found = FieldStatistics::new(schema, &[(root, schema.sampled())]);
    if found.fields.is_empty() {
        return Some(Vec::new());
    }
    let read = found.read_fields(schema);
    let enough = schema.members(root, &read);
    let mut filter = SelectedFields { schema, read: &read, form, unknown: None, enough };
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
    Some(found.texts(schema, root, "", total))
}

/// Returns the number of records of the largest lists and maps in a document, each with the
/// statistics of its most informative fields, as text. Omits lists of fewer than twelve records,
/// and has at most three. Empty if a record is nested too deep to be read. `schema` is that of the
/// document. O(n).
#[must_use]
pub fn document_statistics(schema: &Schema, outline: &Outline<'_>) -> Vec<ListStatistics> {
    let records = schema.fields.iter().enumerate();
    let mut lists: Vec<(u8, Reverse<u64>, FieldId)> = records
        .filter(|(_, field)| field.is_record() && field.count >= MIN_RECORDS)
        .map(|(at, field)| (field.section, Reverse(field.count), at))
        .collect();
    lists.sort_unstable();
    lists.truncate(MAX_LISTS);
    let records: Vec<_> = lists.iter().map(|(_, total, at)| (*at, total.0)).collect();
    let mut found = FieldStatistics::new(schema, &records);
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
    let mut list = |&(at, total): &(FieldId, u64)| {
        // The paths of fields are relative to the document, if that is the list.
        let path = Some(schema.path(at)).filter(|path| path != "[]" && path != "*");
        let path = path.unwrap_or_default();
        let fields = found.texts(schema, at, &path, total);
        let path = path.trim_end_matches("[]").trim_end_matches(".*").to_owned();
        ListStatistics { path: without_line_breaks(path), total, fields }
    };
    records.iter().map(&mut list).collect()
}

/// The statistics of a list in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListStatistics {
    /// The path of the list. Empty if it is the document itself.
    path: String,
    /// The number of records of the list.
    total: u64,
    /// The statistics of the records' fields, the most useful first.
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

/// The statistics of the selected fields of a schema.
struct FieldStatistics {
    fields: Vec<(FieldId, Statistic)>,
    lists: Vec<ListRecords>,
    /// For each field of the schema, the use of its values.
    uses: Vec<Use>,
    /// A buffer for unescaped values.
    scratch: Vec<u8>,
}

/// The records of one list with statistics.
struct ListRecords {
    /// The field of the schema that has the records as its values.
    record: FieldId,
    /// The statistics of the records' fields, as a range of [`FieldStatistics::fields`].
    fields: Range<usize>,
    /// The field with the name of a record, if there is one.
    name: Option<FieldId>,
    /// The name of the current record, as raw JSON. Empty if it has none.
    value: Vec<u8>,
}

/// The use of the values of a field in statistics.
#[derive(Clone, Copy)]
enum Use {
    None,
    /// Each value begins a record of the list with this index.
    Record(usize),
    /// Each value is the name of a record of the list with this index.
    Name(usize),
    /// Each value is added to the statistic with this index.
    Statistic(usize),
}

impl FieldStatistics {
    /// Creates the statistics of lists. `records` has the field of each list's records, and their
    /// number.
    fn new(schema: &Schema, records: &[(FieldId, u64)]) -> Self {
        let mut new = Self {
            fields: Vec::new(),
            lists: Vec::new(),
            uses: vec![Use::None; schema.fields.len()],
            scratch: Vec::new(),
        };
        for (list, (record, count)) in records.iter().enumerate() {
            let first = new.fields.len();
            let chosen = chosen_fields(schema, *record, *count);
            new.fields.extend(chosen.into_iter().map(|(at, kind)| (at, Statistic::new(kind))));
            let (record, fields) = (*record, first..new.fields.len());
            let name = schema.name_field(record, *count).filter(|_| !fields.is_empty());
            new.set_use(Some(record), Use::Record(list));
            new.set_use(name, Use::Name(list));
            new.lists.push(ListRecords { record, fields, name, value: Vec::new() });
        }
        for number in 0..new.fields.len() {
            let at = new.fields.get(number).map(|(at, _)| *at);
            new.set_use(at, Use::Statistic(number));
        }
        new
    }

    fn set_use(&mut self, at: Option<FieldId>, to: Use) {
        if let Some(place) = at.and_then(|at| self.uses.get_mut(at)) {
            *place = to;
        }
    }

    /// Returns, for each field of the schema, true if the statistics need its values.
    fn read_fields(&self, schema: &Schema) -> Vec<bool> {
        let mut read = vec![false; schema.fields.len()];
        let names = self.lists.iter().filter_map(|list| list.name);
        for at in self.fields.iter().map(|(at, _)| *at).chain(names) {
            schema.mark_with_containers(&mut read, at);
        }
        read
    }

    /// Adds the value `node` of the field `at`.
    fn add(&mut self, at: FieldId, outline: &Outline<'_>, node: &Node) {
        match self.uses.get(at).copied().unwrap_or(Use::None) {
            Use::None => {}
            Use::Record(list) => self.end_record(list),
            Use::Name(list) => {
                if let Some(list) = self.lists.get_mut(list).filter(|_| node.children == 0) {
                    list.value.clear();
                    list.value.extend_from_slice(outline.raw_in(&mut self.scratch, node));
                }
            }
            Use::Statistic(number) => {
                if let Some((_, statistic)) = self.fields.get_mut(number) {
                    statistic.add(outline.raw_in(&mut self.scratch, node));
                }
            }
        }
    }

    /// Ends the current record of the list with index `list`. Each statistic whose greatest value
    /// is in this record stores the name of the record.
    fn end_record(&mut self, list: usize) {
        let Some(list) = self.lists.get_mut(list) else { return };
        for (_, statistic) in self.fields.get_mut(list.fields.clone()).unwrap_or_default() {
            statistic.end_record(&list.value);
        }
        list.value.clear();
    }

    /// Returns the statistics of the fields of the records `record`, whose path is `path`. `total`
    /// is the number of records.
    fn texts(&mut self, schema: &Schema, record: FieldId, path: &str, total: u64) -> Vec<String> {
        let Some(number) = self.lists.iter().position(|list| list.record == record) else {
            return Vec::new();
        };
        self.end_record(number);
        let Some(list) = self.lists.get(number) else { return Vec::new() };
        let of_record = |at: FieldId| {
            let field = schema.path(at);
            let field = field.strip_prefix(path)?;
            Some(field.strip_prefix('.').unwrap_or(field).to_owned())
        };
        let name = list.name.and_then(of_record).unwrap_or_default();
        let fields = self.fields.get(list.fields.clone()).unwrap_or_default();
        // Numbers are often there twice, by two names.
        let is_new = |(number, (_, found)): &(usize, &(FieldId, Statistic))| {
            !fields.iter().take(*number).any(|(_, earlier)| earlier.is_same(found))
        };
        let fields = fields.iter().enumerate().filter(is_new);
        fields.filter_map(|(_, (at, found))| found.text(&of_record(*at)?, &name, total)).collect()
    }
}

/// Returns the most informative fields of the records, in the order of the report. The records are
/// the values of the field `record`, of which `count` were sampled.
fn chosen_fields(schema: &Schema, record: FieldId, count: u64) -> Vec<(FieldId, Kind)> {
    let mut candidates: Vec<(Kind, FieldPriority, u32, FieldId)> = schema
        .fields
        .iter()
        .enumerate()
        .filter_map(|(at, field)| {
            let level = schema.level_in_record(at);
            let is_plain = !field.container && !field.nested;
            let is_frequent = field.values > 0 && field.values * 2 >= count;
            let is_null = field.values == 0 && level <= 1;
            let is_read = is_plain && (is_frequent || is_null) && level <= MAX_LEVEL;
            if !is_read || schema.record_of(at) != Some(record) {
                return None;
            }
            let kind = match is_null {
                true => Some(Kind::Deviation),
                false => kind(schema, at, field),
            }?;
            // A value outside of the sample is looked for at the top of the records only.
            if kind == Kind::Deviation && level > 1 {
                return None;
            }
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

/// Returns the kind of a field's values in the sample. `None` if the field has no statistics.
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
    let is_category =
        is_short && field.links == 0 && (distinct <= MAX_CATEGORIES && recurs || recurs_often);
    // One record that differs may be what a reader looks for: one that failed.
    let kind = if distinct > 1 || is_state { Kind::Category } else { Kind::Deviation };
    is_category.then_some(kind)
}
