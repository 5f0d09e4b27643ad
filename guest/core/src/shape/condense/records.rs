//! Condenses the records of a list: removes the same fields from all.
//!
//! A sample determines the fields and their costs. From the other records, only the selected fields
//! are read.

use std::collections::BTreeSet;

use super::schema::{FieldId, Schema};
use super::select::{SelectableField, Selection, select};
use super::write::{FieldLookup, Writer};
use super::{
    CondenseOptions, Condensed, SEPARATOR_COST, WriteStats, distinct, fit_to_budget, paths, report,
};
use crate::json::Span;
use crate::json::key_cache::KeyCache;
use crate::json::outline::{Outline, PathFilter};
use crate::json::scan::Kind;
use crate::json::text::{Form, visible};
use crate::shape::item::Item;
use crate::tokens::{CostModel, WordCache};

/// The number of records in the sample that determines the fields of a list and their costs.
const SAMPLE_RECORDS: usize = 32;

/// The number of leading records that are all priced.
const PRICED_RECORDS: usize = 4;
/// Of the later records, one of this number is priced, and the cost of the rest is estimated.
const PRICED_DISTANCE: usize = 8;

/// Returns the index in the list of the sampled record number `at`. The sample has `count` of
/// `total` records.
///
/// The sample includes the first and the last record. The others are at irregular distances, one in
/// each section of equal length, because values often repeat at regular distances.
fn sampled_record(at: usize, count: usize, total: usize) -> usize {
    let last = count.saturating_sub(1).max(1);
    if count >= total || at == 0 || at == last {
        return at * total.saturating_sub(1) / last;
    }
    let (start, end) = (at * (total - 1) / last, (at + 1) * (total - 1) / last);
    let random = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    start + usize::try_from(random).unwrap_or(0) % (end - start).max(1)
}

/// Condenses the records of a list to a token limit.
pub struct RecordCondenser<'r> {
    schema: Schema,
    leaves: Vec<SelectableField>,
    /// The fields that have the same value in all records of the sample.
    constants: Vec<FieldId>,
    /// The number of records in the sample.
    sampled: usize,
    form: Form,
    options: CondenseOptions<'r>,
}

impl<'r> RecordCondenser<'r> {
    /// Creates a condenser from a spread sample of the list `items`. `None` if a sampled record is
    /// invalid JSON, or if the sample has too many distinct fields to select from. O(32 records).
    #[must_use]
    pub fn new(items: &[Item<'_>], options: CondenseOptions<'r>) -> Option<Self> {
        let form = items.first().map_or(Form::Raw, |item| item.read().1);
        let count = items.len().min(SAMPLE_RECORDS);
        let (mut buffer, mut spans): (Vec<u8>, Vec<Span>) = (Vec::new(), Vec::new());
        for at in 0..count {
            let item = items.get(sampled_record(at, count, items.len()))?.read().0;
            spans.push(buffer.len()..buffer.len() + item.len());
            buffer.extend_from_slice(item);
            buffer.push(b' ');
        }
        let outline = Outline::parse_all(&buffer, form, &spans).ok()?;
        let mut schema = Schema::new(&outline, options.estimator, true)?;
        let leaves = options.leaves(&schema);
        let constants = std::mem::take(&mut schema.constants);
        Some(Self { schema, leaves, constants, sampled: count.max(1), form, options })
    }

    /// Returns the fields of the list.
    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns all `items`, condensed to about `token_limit` tokens. `None` if no field fits, or a
    /// record is invalid JSON. O(n) for each of at most eight iterations, or sixteen if the records
    /// have no constant of the sample in common.
    #[must_use]
    pub fn condense(&self, items: &[Item<'_>], token_limit: u64) -> Option<Condensed> {
        let mut cache = RecordCache { constants: self.constants.clone(), ..RecordCache::default() };
        let mut found = self.within(items, token_limit, usize::MAX, &mut cache);
        let mut constants = self.verified_constants(&cache, items.len());
        // A constant of the sample may be none: a record that differs is what a reader looks for.
        if found.is_none() || constants.len() < cache.constants.len() {
            constants.retain(|_| found.is_some());
            cache.constants = constants.iter().map(|(at, _)| *at).collect();
            found = self.within(items, token_limit, usize::MAX, &mut cache);
        }
        let (values, written, selection) = found?;
        let mut condensed = report(&self.schema, values, written, &selection);
        // Fields that no record of the sample has are removed too.
        let mut known = KeyCache::default();
        for path in condensed.kept.iter().chain(&condensed.dropped) {
            known.add(path.as_bytes(), 0);
        }
        let unknown = cache.unknown.iter().filter(|(at, _)| selection.is_kept(*at));
        let paths = unknown.map(|(at, name)| self.schema.path_of(*at, name));
        let new = distinct(&mut known, paths);
        condensed.total_fields += new.len() as u64;
        condensed.dropped.extend(new);
        let constants = constants.into_iter().map(|(at, value)| (self.schema.path(at), value));
        condensed.constants = constants.collect();
        condensed.dropped.retain(|path| condensed.constants.iter().all(|(known, _)| known != path));
        Some(condensed)
    }

    /// Returns those constants of `cache` that all of `count` records have, each as path and value.
    fn verified_constants(&self, cache: &RecordCache<'_>, count: usize) -> Vec<(FieldId, String)> {
        let Some(outlines) = cache.outlines.get(..count) else { return Vec::new() };
        let value = |outline: &Outline<'_>, at: FieldId| {
            let nodes = (0..outline.len()).filter_map(|id| outline.node(id));
            let mut nodes = nodes.filter(|node| usize::try_from(node.path) == Ok(at));
            let node = nodes.next().filter(|node| node.children == 0)?;
            // The text `true` differs from the value.
            let is_text = node.kind == Kind::String;
            nodes.next().is_none().then(|| (is_text, outline.decoded(&node.span)))
        };
        let constant = |at: &FieldId| {
            let first = outlines.first().and_then(|outline| value(outline, *at))?;
            let same = outlines.iter().all(|outline| value(outline, *at).as_ref() == Some(&first));
            same.then_some((*at, first.1))
        };
        cache.constants.iter().filter_map(constant).collect()
    }

    /// Scales a limit of `tokens` for `count` records to the size of the sample, because the costs
    /// in the schema are those of the sample.
    fn sample_share(&self, tokens: u64, count: usize) -> u64 {
        let share = u128::from(tokens) * self.sampled as u128 / count.max(1) as u128;
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Returns true if all key fields of `count` records fit `token_limit` tokens, estimated from
    /// the sample. O(fields).
    #[must_use]
    pub fn keeps_key_fields(&self, count: usize, token_limit: u64) -> bool {
        // Fields cost less together than one by one.
        let share = self.sample_share(token_limit.saturating_mul(2), count);
        let selection = select(&self.schema, &self.leaves, share, usize::MAX, usize::MAX);
        selection.is_some_and(|selection| selection.missing == 0)
    }

    /// Returns a summarizer that reduces `items` to the fields that identify them.
    #[must_use]
    pub fn identity_summarizer<'s>(&'s self, items: &'s [Item<'s>]) -> IdentitySummarizer<'s, 'r> {
        IdentitySummarizer {
            records: self,
            items,
            cache: RecordCache {
                known_only: true,
                constants: self.constants.clone(),
                ..RecordCache::default()
            },
        }
    }

    /// Renders `items` within `token_limit`, with the fields that the first `rounds` rounds of
    /// [`select`] choose. `cache` has the results of earlier calls for the same list. `None` if no
    /// field fits.
    fn within<'i>(
        &self,
        items: &'i [Item<'i>],
        token_limit: u64,
        rounds: usize,
        cache: &mut RecordCache<'i>,
    ) -> Option<(Vec<Vec<u8>>, WriteStats, Selection)> {
        let mut leaves = self.leaves.clone();
        leaves.retain(|leaf| !cache.constants.contains(&leaf.field));
        let choose = |target| {
            let share = self.sample_share(target, items.len());
            select(&self.schema, &leaves, share, usize::MAX, rounds)
        };
        // Fields cost less together than one by one, so more will be selected in the end. All that
        // are likely are read at once: with those of a higher limit, fields that cost no more, and
        // for which a lower one may have room.
        if cache.read.is_empty()
            && !cache.known_only
            && let Some(more) = choose(token_limit.saturating_mul(2))
        {
            cache.read = (0..self.schema.fields.len()).map(|at| more.is_kept(at)).collect();
            let chosen = leaves.iter().filter(|leaf| more.is_kept(leaf.field));
            let most = chosen.map(|leaf| (leaf.priority, leaf.cost));
            let most = most.reduce(|one, other| (one.0.max(other.0), one.1.max(other.1)));
            let is_likely = |leaf: &&SelectableField| {
                most.is_some_and(|(priority, cost)| leaf.priority <= priority && leaf.cost <= cost)
            };
            for leaf in leaves.iter().filter(is_likely) {
                self.schema.mark_with_containers(&mut cache.read, leaf.field);
            }
            for constant in &self.constants {
                self.schema.mark_with_containers(&mut cache.read, *constant);
            }
        }
        let (written, selection) = fit_to_budget(token_limit, choose, |selection| {
            self.render_records(items, selection, cache)
        })?;
        let chosen = cache.rendered.iter().find(|rendered| rendered.selection == selection)?;
        let values = chosen.all.iter().take(items.len()).map(|(value, _)| value.clone()).collect();
        Some((values, written, selection))
    }

    /// Parses the selected fields of `items` into `cache`, unless the cache has them. `None` if a
    /// record is invalid JSON.
    fn read_fields<'i>(
        &self,
        items: &'i [Item<'i>],
        selection: &Selection,
        cache: &mut RecordCache<'i>,
    ) -> Option<()> {
        if !cache.holds(selection) {
            let fields = 0..self.schema.fields.len();
            let stays = |at: usize| selection.is_kept(at) || cache.read.get(at) == Some(&true);
            let rendered = std::mem::take(&mut cache.rendered);
            let read = fields.map(stays).collect();
            *cache = RecordCache {
                read,
                rendered,
                known_only: cache.known_only,
                constants: std::mem::take(&mut cache.constants),
                words: std::mem::take(&mut cache.words),
                ..RecordCache::default()
            };
        }
        let RecordCache { read, outlines, unknown, known_only, .. } = cache;
        let root = self.schema.child(0, b"[]")?;
        let enough = known_only.then(|| self.schema.members(root, read)).flatten();
        let unknown = Some(unknown);
        let mut lens =
            SelectedFields { schema: &self.schema, read, form: self.form, unknown, enough };
        let root = u32::try_from(root).ok()?;
        for item in items.get(outlines.len()..).unwrap_or_default() {
            let item = item.read().0;
            let read = Outline::parse_filtered(item, self.form, &(0..item.len()), root, &mut lens);
            outlines.push(read.ok()?);
        }
        Some(())
    }

    /// Renders the selected fields of `items`, and returns their total cost and losses. Reuses
    /// records that `cache` has with the same selection. `None` if a record is invalid JSON.
    fn render_records<'i>(
        &self,
        items: &'i [Item<'i>],
        selection: &Selection,
        cache: &mut RecordCache<'i>,
    ) -> Option<WriteStats> {
        let known = cache.rendered.iter().position(|rendered| rendered.selection == *selection);
        let mut rendered = known.map_or_else(
            || RenderedRecords {
                selection: selection.clone(),
                all: Vec::new(),
                cost_model: CostModel::default(),
            },
            |at| cache.rendered.remove(at),
        );
        if rendered.all.len() < items.len() {
            self.read_fields(items, selection, cache)?;
            let rest = items.iter().zip(&cache.outlines).skip(rendered.all.len());
            for (item, outline) in rest {
                let item = item.read().0;
                let record = self.render_record(item, outline, &mut rendered, &mut cache.words)?;
                rendered.all.push(record);
            }
        }
        let mut all = WriteStats::default();
        for (_, written) in rendered.all.iter().take(items.len()) {
            all.shortened += written.shortened;
            all.omitted += written.omitted;
            all.cost += written.cost;
        }
        cache.rendered.push(rendered);
        Some(all)
    }

    /// Returns one record, rendered with the selection of `rendered`. `item` is its JSON, `outline`
    /// has its parsed fields, and `words` the costs of words in other records.
    fn render_record(
        &self,
        item: &[u8],
        outline: &Outline<'_>,
        rendered: &mut RenderedRecords,
        words: &mut WordCache,
    ) -> Option<RenderedRecord> {
        let RenderedRecords { selection, all, cost_model } = rendered;
        let mut value = Vec::with_capacity(item.len().min(128));
        let mut writer = self.writer(outline, selection);
        writer.root(&mut value, 0, true);
        let (shortened, mut omitted) = (writer.shortened, writer.omitted);
        if value == b"{}" {
            let whole = Outline::parse(item, self.form, &(0..item.len())).ok()?;
            let mut writer = self.writer(&whole, selection);
            if whole.node(0).is_some_and(|node| node.kind == Kind::Array) {
                // A list among records that are objects.
                value.clear();
                writer.elements(&mut value, 0);
                omitted += writer.omitted;
            } else {
                value.truncate(1);
                writer.plain(&mut value, 0);
                value.push(b'}');
            }
        }
        let each = all.len() < PRICED_RECORDS || all.len().is_multiple_of(PRICED_DISTANCE);
        let price = || self.options.estimator.scaled_cost_in(words, &value) + SEPARATOR_COST;
        let cost = cost_model.estimate_cost(value.len(), each, price);
        Some((value, WriteStats { shortened, omitted, cost }))
    }

    fn writer<'w, 'a>(
        &'w self,
        outline: &'w Outline<'a>,
        selection: &'w Selection,
    ) -> Writer<'w, 'a> {
        Writer {
            outline,
            schema: &self.schema,
            fields: FieldLookup::InOutline,
            selection,
            options: &self.options,
            texts: &[],
            shortened: 0,
            omitted: 0,
            long_text: None,
        }
    }
}

/// Summarizes the records of a list by the fields that identify them, such as ids and names.
pub struct IdentitySummarizer<'s, 'r> {
    records: &'s RecordCondenser<'r>,
    items: &'s [Item<'s>],
    cache: RecordCache<'s>,
}

impl IdentitySummarizer<'_, '_> {
    /// Returns summaries of the first `count` records that cost about `token_limit` tokens
    /// together. `None` if they do not fit. O(n); reuses records that earlier calls parsed.
    #[must_use]
    pub fn summarize(&mut self, count: usize, token_limit: u64) -> Option<IdentitySummary> {
        let items = self.items.get(..count)?;
        let (values, _, selection) = self.records.within(items, token_limit, 1, &mut self.cache)?;
        let kept = paths(&self.records.schema, |at| selection.cap(at).is_some());
        Some(IdentitySummary { values, fields: kept.map(|(_, path)| path).collect() })
    }
}

/// Records, reduced to the fields that identify them.
pub struct IdentitySummary {
    /// The summary of each record, as unescaped JSON.
    pub values: Vec<Vec<u8>>,
    /// The paths of the fields that the summaries show.
    pub fields: Vec<String>,
}

/// The parsed fields of records and their renderings, for reuse by later iterations.
#[derive(Default)]
struct RecordCache<'i> {
    /// For each field of the schema, by its [`FieldId`], true if it was parsed.
    read: Vec<bool>,
    outlines: Vec<Outline<'i>>,
    /// Names of members that no sampled record has, each with the id of the field that contains it.
    unknown: BTreeSet<(usize, String)>,
    /// The fields that are left out of records, because their values are stated once for all.
    constants: Vec<FieldId>,
    /// True if parsing of a record may stop once all needed fields of the schema are found.
    known_only: bool,
    /// The rendered records, for each selection of fields so far.
    rendered: Vec<RenderedRecords>,
    /// The costs of words in rendered records.
    words: WordCache,
}

/// Records, rendered with one selection.
struct RenderedRecords {
    /// The fields in the rendered records, with the maximum lengths of their values.
    selection: Selection,
    all: Vec<RenderedRecord>,
    /// Cost samples of rendered records, which determine the estimates for unpriced records.
    cost_model: CostModel,
}

/// A rendered record as JSON, with its cost and the number of shortened values and omitted
/// elements.
type RenderedRecord = (Vec<u8>, WriteStats);

impl RecordCache<'_> {
    /// Returns true if all fields of `selection` were parsed.
    fn holds(&self, selection: &Selection) -> bool {
        !self.read.is_empty()
            && (0..self.read.len())
                .all(|at| self.read.get(at) == Some(&true) || !selection.is_kept(at))
    }
}

/// A filter with which the parser skips all but the selected fields of a record.
pub(super) struct SelectedFields<'s> {
    pub(super) schema: &'s Schema,
    /// For each field of the schema, true if it is selected.
    pub(super) read: &'s [bool],
    pub(super) form: Form,
    /// Names of members that are not in the schema, each with the id of the field that contains it.
    /// The filter adds to them while it reads. `None` to collect no names.
    pub(super) unknown: Option<&'s mut BTreeSet<(usize, String)>>,
    /// The number of selected members after which the rest of a record is skipped. `None` to parse
    /// whole records.
    pub(super) enough: Option<u32>,
}

impl PathFilter for SelectedFields<'_> {
    fn expected_count(&self) -> Option<u32> {
        self.enough
    }

    fn child(&mut self, place: u32, key: Option<&[u8]>) -> Option<u32> {
        let at = usize::try_from(place).ok()?;
        let field = match key {
            None => self.schema.child(at, b"[]"),
            Some(key) => {
                let key = visible(key, self.form);
                let known = self.schema.child(at, &key).or_else(|| self.schema.child(at, b"*"));
                if let (None, Some(unknown)) = (known, &mut self.unknown) {
                    let name = visible(&key, Form::Escaped);
                    unknown.insert((at, String::from_utf8_lossy(&name).into_owned()));
                }
                known
            }
        };
        let stays = field.filter(|field| self.read.get(*field) == Some(&true))?;
        u32::try_from(stays).ok()
    }
}
