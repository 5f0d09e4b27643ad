//! Condensing: retains every record, with fewer fields and shorter values (FR-015, FR-016).
//!
//! Fields are removed from all records alike, the least important first. Values are shortened
//! before they are removed.

pub mod long_text;
pub mod records;
pub mod schema;
pub mod select;
pub mod statistics;
mod write;

use self::long_text::LongText;
use self::schema::{Field, FieldId, Schema};
use self::select::{SelectableField, Selection, WORTHY_ROUNDS, select};
use self::statistics::{ListStatistics, document_statistics};
use self::write::{FieldLookup, Writer};
use crate::fields::Mask;
use crate::fields::priority::FieldPriority;
use crate::json::key_cache::KeyCache;
use crate::json::outline::Outline;
use crate::tokens::{COST_SCALE, Estimator};

/// The order in which removed fields are listed: first those that a reader most likely requests.
const NAMING_ORDER: [FieldPriority; 7] = [
    FieldPriority::Identity,
    FieldPriority::State,
    FieldPriority::Prose,
    FieldPriority::Key,
    FieldPriority::Plain,
    FieldPriority::Detail,
    FieldPriority::Noise,
];
/// The maximum depth of fields that are listed before deeper ones of the same priority. A record in
/// a list of a document has level 1, its members level 2.
const MAX_SHALLOW_LEVEL: u32 = 2;

/// Maximum number of field selections that are tried to fill a token limit.
const MAX_FIT_ITERATIONS: usize = 8;

/// The options for condensing JSON records or documents: removing fields and shortening values.
#[derive(Clone, Copy, Debug)]
pub struct CondenseOptions<'a> {
    /// The token estimator.
    pub estimator: &'a Estimator,
    /// The fields that policy selects. If given, all other fields are removed.
    pub map: Option<&'a Mask>,
    /// Words of interest to the caller. Shortened texts keep the sentences that contain them.
    pub keywords: &'a [String],
}

impl CondenseOptions<'_> {
    /// Returns the fields from which to select: those of policy, or all if policy selects none that
    /// this document has.
    fn leaves(&self, schema: &Schema) -> Vec<SelectableField> {
        let wanted = self.map.and_then(|map| {
            let wanted: Vec<bool> =
                (0..schema.fields.len()).map(|at| map.holds(&schema.keys(at))).collect();
            wanted.iter().skip(1).any(|wanted| *wanted).then_some(wanted)
        });
        SelectableField::all(schema, wanted.as_deref())
    }
}

/// Condenses a JSON document to a token limit.
pub struct DocumentCondenser<'c, 'a> {
    outline: &'c Outline<'a>,
    schema: Schema,
    leaves: Vec<SelectableField>,
    options: CondenseOptions<'c>,
    /// The long texts in the document, which are replaced by excerpts.
    texts: &'c [LongText<'c>],
    /// The renderings so far, reused for other token limits that select the same fields.
    rendered: Vec<RenderedDocument>,
}

/// A rendering of a document under one selection of fields.
struct RenderedDocument {
    /// The fields in the rendering, with the maximum lengths of their values.
    selection: Selection,
    value: Vec<u8>,
    written: WriteStats,
    /// The JSON Pointer to the first long text that was replaced by an excerpt. `None` if there is
    /// none.
    long_text: Option<String>,
}

/// The maximum number of iterations that search for the number of records that fits a document.
const MAX_RECORD_ITERATIONS: usize = 4;

/// Condensed records or a condensed document, with the losses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condensed {
    /// The condensed records of a list, or the condensed document alone, each as unescaped JSON.
    pub values: Vec<Vec<u8>>,
    /// The number of fields before condensing.
    pub total_fields: u64,
    /// The paths of the fields that were kept, from the root of a document or from the records of a
    /// list.
    pub kept: Vec<String>,
    /// The paths of the fields that were removed, from the same place. Those that a reader most
    /// likely requests come first.
    pub dropped: Vec<String>,
    /// The path and value of each field that is left out of the records, because it has the same
    /// value in all.
    pub constants: Vec<(String, String)>,
    /// The number of values that were shortened.
    pub shortened: u64,
    /// The number of elements left out of lists inside records or, in a document, out of any list.
    pub omitted: u64,
    /// The JSON Pointer to the first long text that was replaced by an excerpt. `None` if there is
    /// none.
    pub long_text: Option<String>,
    /// The number of removed key fields, which identify or describe a record. Fields of lists
    /// inside records do not count.
    pub missing_keys: usize,
}

impl<'c, 'a> DocumentCondenser<'c, 'a> {
    /// Creates a condenser for the document in `outline`, and collects the document's fields.
    /// `texts` are the long texts in it. `None` if the document has too many distinct fields to
    /// select from. O(n log fields).
    #[must_use]
    pub fn new(
        outline: &'c Outline<'a>,
        options: CondenseOptions<'c>,
        texts: &'c [LongText<'c>],
    ) -> Option<Self> {
        let schema = Schema::new(outline, options.estimator, false)?;
        let leaves = options.leaves(&schema);
        Some(Self { outline, schema, leaves, options, texts, rendered: Vec::new() })
    }

    /// Returns the number of records and statistics of the largest lists in the document. O(n).
    #[must_use]
    pub fn statistics(&self) -> Vec<ListStatistics> {
        document_statistics(&self.schema, self.outline)
    }

    /// Returns the document, condensed to about `token_limit` tokens. `None` if no field fits.
    ///
    /// Lists of records lose elements if they do not all fit, or if that makes room for fields that
    /// identify records.
    #[must_use]
    pub fn condense(&mut self, token_limit: u64) -> Option<Condensed> {
        // The least important fields get what is left, so that they take the place of no record.
        let found = match self.most_records(token_limit, WORTHY_ROUNDS) {
            Some((found, records)) => {
                Some(self.within(token_limit, records, usize::MAX).unwrap_or(found))
            }
            None => self.most_records(token_limit, usize::MAX).map(|(found, _)| found),
        };
        found.map(|found| found.condensed)
    }

    /// Returns the document with the fields of the first `rounds` selection rounds, and the maximum
    /// number of records in it. That number is the largest that leaves room for the fields that
    /// identify the records. `None` if no field fits.
    fn most_records(&mut self, token_limit: u64, rounds: usize) -> Option<(FittedDocument, usize)> {
        let mut best: Option<FittedDocument> = None;
        // The least number of records that is known to be too many, and the greatest that is not.
        let (mut too_many, mut enough) = (self.schema.most_elements().saturating_add(1), 0);
        for records in [usize::MAX, 256, 64, 24, 10, 5, 3, 2, 1] {
            let found = self.within(token_limit, records, rounds);
            let is_complete = found.as_ref().is_some_and(|found| found.missing == (0, 0));
            if let Some(found) = found
                && best.as_ref().is_none_or(|best| found.missing < best.missing)
            {
                (best, enough) = (Some(found), records);
            }
            if is_complete {
                break;
            }
            too_many = too_many.min(records);
        }
        // The steps are coarse: a number between the last two may fill the budget.
        for _ in 0..MAX_RECORD_ITERATIONS {
            let records = enough.midpoint(too_many);
            let Some(known) = best.as_ref().filter(|known| !known.is_full(token_limit)) else {
                break;
            };
            if records <= enough {
                break;
            }
            let found = self.within(token_limit, records, rounds);
            match found.filter(|found| found.missing <= known.missing) {
                Some(found) => (best, enough) = (Some(found), records),
                None => too_many = records,
            }
        }
        Some((best?, enough))
    }

    /// Returns the document with at most `records` elements of each list of records, and the fields
    /// of the first `rounds` selection rounds. `None` if no field fits.
    fn within(
        &mut self,
        token_limit: u64,
        records: usize,
        rounds: usize,
    ) -> Option<FittedDocument> {
        let Self { outline, schema, leaves, options, texts, rendered } = self;
        let choose = |target| select(schema, leaves, target, records, rounds);
        let (written, selection) = fit_to_budget(token_limit, choose, |selection| {
            if let Some(known) = rendered.iter().find(|known| known.selection == *selection) {
                return Some(known.written);
            }
            let mut writer = Writer {
                outline,
                schema,
                fields: FieldLookup::ByNode(schema),
                selection,
                options,
                texts,
                shortened: 0,
                omitted: 0,
                long_text: None,
            };
            let mut value = Vec::new();
            writer.root(&mut value, 0, false);
            let long_text = writer.long_text.map(str::to_owned);
            let written = WriteStats {
                shortened: writer.shortened,
                omitted: writer.omitted,
                cost: options.estimator.scaled_cost(&value) + SEPARATOR_COST,
            };
            let selection = selection.clone();
            rendered.push(RenderedDocument { selection, value, written, long_text });
            Some(written)
        })?;
        let known = rendered.iter().find(|known| known.selection == selection)?;
        let condensed = Condensed {
            long_text: known.long_text.clone(),
            ..report(schema, vec![known.value.clone()], written, &selection)
        };
        let missing = (selection.emptied_lists, selection.missing_identity);
        Some(FittedDocument { condensed, missing, cost: written.cost })
    }
}

/// A document condensed to a token limit, with its lists of records cut to a maximum length.
struct FittedDocument {
    condensed: Condensed,
    /// The numbers of emptied lists and of removed identifying fields.
    missing: (usize, usize),
    /// The cost of the document, in 1/[`COST_SCALE`] token.
    cost: u64,
}

impl FittedDocument {
    /// Returns true if the document uses at least nine tenths of `token_limit`.
    fn is_full(&self, token_limit: u64) -> bool {
        self.cost * 10 >= token_limit.saturating_mul(COST_SCALE * 9)
    }
}

/// The cost and the losses of a rendering: numbers of shortened values and omitted list elements.
#[derive(Clone, Copy, Debug, Default)]
struct WriteStats {
    shortened: u64,
    omitted: u64,
    /// The cost of the condensed values, in 1/[`COST_SCALE`] token.
    cost: u64,
}

/// The cost of the separator after a value, in 1/[`COST_SCALE`] token.
const SEPARATOR_COST: u64 = COST_SCALE / 4;

/// Returns the selection whose rendering fills `token_limit` best, with its statistics. `None` if
/// none of those tried fits. `choose` selects fields for a target cost. `write` renders a
/// selection, and may get the same one twice.
fn fit_to_budget(
    token_limit: u64,
    choose: impl Fn(u64) -> Option<Selection>,
    mut write: impl FnMut(&Selection) -> Option<WriteStats>,
) -> Option<(WriteStats, Selection)> {
    let mut target = token_limit;
    let mut best: Option<((WriteStats, Selection), u64)> = None;
    // The greatest target whose rendering does not exceed the limit, and the least one whose
    // rendering does.
    let (mut fitting, mut exceeding) = (0, u64::MAX);
    for _ in 0..MAX_FIT_ITERATIONS {
        let Some(selection) = choose(target) else {
            // Nothing is selected for so little. A target between the two may have a selection.
            if exceeding == u64::MAX || exceeding.saturating_sub(target) < 2 {
                break;
            }
            fitting = target;
            target += (exceeding - target) / 2;
            continue;
        };
        let whole = selection.whole;
        let missing = (selection.missing_identity, selection.missing);
        let written = write(&selection)?;
        let cost = written.cost.div_ceil(COST_SCALE).max(1);
        let fits = cost <= token_limit;
        // A long field may take the place of several key fields, at a higher cost.
        let is_better = |((_, other), most): &((WriteStats, Selection), u64)| {
            let others = (other.missing_identity, other.missing);
            (missing, u64::MAX - cost) < (others, u64::MAX - most)
        };
        if fits && best.as_ref().is_none_or(is_better) {
            best = Some(((written, selection), cost));
        }
        // While key fields are missing, short fields of less importance may have taken their place.
        if fits && (whole || (missing == (0, 0) && cost * 20 >= token_limit * 19)) {
            break;
        }
        if fits {
            fitting = target;
        } else {
            exceeding = target;
        }
        target = if fitting > 0 && exceeding < u64::MAX {
            // Selections change in steps, which a proportional correction may skip.
            fitting + exceeding.saturating_sub(fitting) / 2
        } else {
            // Parts cost less together than one by one, so the next target is corrected by the
            // error of this one.
            let next = target.saturating_mul(token_limit) / cost;
            if fits { next.min(target * 2) } else { next.min(target.saturating_sub(1)) }
        };
        // Targets that differ by so little rarely select other fields.
        let is_close = exceeding.saturating_sub(fitting) <= token_limit / 32;
        if target <= fitting || is_close {
            break;
        }
    }
    best.map(|(best, _)| best)
}

/// Returns the ids and paths of the fields that have plain values (no objects or lists) and for
/// which `asked` returns true.
fn paths(
    schema: &Schema,
    asked: impl Fn(FieldId) -> bool,
) -> impl Iterator<Item = (FieldId, String)> {
    let fields = schema.fields.iter().enumerate().skip(1);
    fields
        .filter(move |(at, field)| {
            asked(*at) && field.values > 0 && field.costs.iter().any(|cost| *cost > 0)
        })
        .map(|(at, _)| (at, schema.path(at)))
        .filter(|(_, path)| !path.is_empty())
}

/// Returns the distinct `paths` that are not in `known`, and adds them to `known`.
fn distinct(known: &mut KeyCache<usize>, paths: impl Iterator<Item = String>) -> Vec<String> {
    let mut new = Vec::new();
    for path in paths {
        if known.find(path.as_bytes()).is_none() {
            known.add(path.as_bytes(), 0);
            new.push(path);
        }
    }
    new
}

/// Returns the condensed `values` with the paths of the fields that `selection` keeps and removes.
/// O(fields log fields).
fn report(
    schema: &Schema,
    values: Vec<Vec<u8>>,
    written: WriteStats,
    selection: &Selection,
) -> Condensed {
    let mut known = KeyCache::default();
    let is_kept = |at: FieldId| selection.cap(at).is_some();
    let kept = distinct(&mut known, paths(schema, is_kept).map(|(_, path)| path));
    let order = NAMING_ORDER.iter().flat_map(|priority| [(*priority, true), (*priority, false)]);
    let omitted = order.flat_map(|(priority, is_shallow)| {
        paths(schema, move |at| {
            let of_order = |field: &Field| {
                field.priority == priority && (field.level <= MAX_SHALLOW_LEVEL) == is_shallow
            };
            !is_kept(at) && schema.fields.get(at).is_some_and(of_order)
        })
    });
    let dropped = distinct(&mut known, omitted.map(|(_, path)| path));
    Condensed {
        values,
        total_fields: (kept.len() + dropped.len()) as u64,
        kept,
        dropped,
        constants: Vec::new(),
        shortened: written.shortened,
        omitted: written.omitted,
        long_text: None,
        missing_keys: selection.missing,
    }
}
