//! Condensing: every record stays, the fields that carry least go first and for all records alike, values are shortened before they go (FR-015, FR-016).

pub mod records;
pub mod schema;
pub mod select;
mod write;

use self::schema::{FieldId, Schema};
use self::select::{SelectableField, Selection, select};
use self::write::{FieldLookup, Writer};
use crate::fields::Mask;
use crate::json::outline::Outline;
use crate::tokens::{Estimator, FINE};

/// How often a size is tried to be met.
const MAX_FIT_ITERATIONS: usize = 5;

/// What decides how a document is condensed.
#[derive(Clone, Copy, Debug)]
pub struct CondenseOptions<'a> {
    /// How tokens are counted.
    pub estimator: &'a Estimator,
    /// The fields that policy maps, if it does: no others stay.
    pub map: Option<&'a Mask>,
    /// Words that matter in long texts.
    pub keywords: &'a [String],
}

impl CondenseOptions<'_> {
    /// The fields that may stay: those that policy maps; all, where its map names nothing of this document, and so is for another.
    fn leaves(&self, schema: &Schema) -> Vec<SelectableField> {
        let wanted = self.map.and_then(|map| {
            let wanted: Vec<bool> =
                (0..schema.fields.len()).map(|at| map.holds(&schema.keys(at))).collect();
            wanted.iter().skip(1).any(|wanted| *wanted).then_some(wanted)
        });
        SelectableField::all(schema, wanted.as_deref())
    }
}

/// A document, ready to be condensed to any size.
pub struct DocumentCondenser<'c, 'a> {
    outline: &'c Outline<'a>,
    schema: Schema,
    leaves: Vec<SelectableField>,
    condense_options: CondenseOptions<'c>,
    /// What was written of it, which another size may need again.
    drafts: Vec<RenderedDocument>,
}

/// A document as it was written.
struct RenderedDocument {
    /// What was chosen.
    selection: Selection,
    value: Vec<u8>,
    written: WriteStats,
}

/// A condensed document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condensed {
    /// The records of a list, else the document alone, each as JSON that is not escaped.
    pub values: Vec<Vec<u8>>,
    /// FieldLookup of the document.
    pub total_fields: u64,
    /// Paths of those that stayed, from the nearest record.
    pub kept: Vec<String>,
    /// Paths of those that went.
    pub dropped: Vec<String>,
    /// Values that were shortened.
    pub shortened: u64,
    /// Elements of lists inside it that were left out.
    pub omitted: u64,
}

impl<'c, 'a> DocumentCondenser<'c, 'a> {
    /// Reads what a document consists of. O(n).
    #[must_use]
    pub fn new(outline: &'c Outline<'a>, condense_options: CondenseOptions<'c>) -> Self {
        let schema = Schema::new(outline, condense_options.estimator);
        let leaves = condense_options.leaves(&schema);
        Self { outline, schema, leaves, condense_options, drafts: Vec::new() }
    }

    /// The document in at most about `allowance` tokens; lists of records are cut where that leaves room for more fields that matter, or where all of their elements
    /// do not fit. None where that leaves nothing of it.
    #[must_use]
    pub fn condense(&mut self, allowance: u64) -> Option<Condensed> {
        let mut best: Option<(Condensed, usize)> = None;
        for records in [usize::MAX, 256, 64, 24, 10, 5, 3, 2, 1] {
            let Some((condensed, unknown)) = self.within(allowance, records) else { continue };
            if best.as_ref().is_none_or(|(_, least)| unknown < *least) {
                best = Some((condensed, unknown));
            }
            if unknown == 0 {
                break;
            }
        }
        best.map(|(condensed, _)| condensed)
    }

    /// The document in so many tokens, lists of records cut to `records`; and how many fields that tell records apart had to go.
    fn within(&mut self, allowance: u64, records: usize) -> Option<(Condensed, usize)> {
        let Self { outline, schema, leaves, condense_options, drafts } = self;
        let choose = |aim| select(schema, leaves, aim, records, usize::MAX);
        let (written, selection) = fit_to_budget(allowance, choose, |selection| {
            if let Some(known) = drafts.iter().find(|draft| draft.selection == *selection) {
                return Some(known.written);
            }
            let mut writer = Writer {
                outline,
                schema,
                fields: FieldLookup::Met(schema),
                selection,
                keywords: condense_options.keywords,
                shortened: 0,
                omitted: 0,
            };
            let mut value = Vec::new();
            writer.root(&mut value, 0, false);
            let written = WriteStats {
                shortened: writer.shortened,
                omitted: writer.omitted,
                weight: weight(condense_options.estimator, &value),
            };
            drafts.push(RenderedDocument { selection: selection.clone(), value, written });
            Some(written)
        })?;
        let draft = drafts.iter().find(|draft| draft.selection == selection)?;
        let condensed = report(schema, vec![draft.value.clone()], written, &selection);
        Some((condensed, selection.unknown))
    }
}

/// What was done to values when they were written.
#[derive(Clone, Copy, Debug, Default)]
struct WriteStats {
    shortened: u64,
    omitted: u64,
    /// What they weigh, in 1/[`FINE`] token.
    weight: u64,
}

/// What a value weighs, with what stands between it and the next one.
fn weight(estimator: &Estimator, value: &[u8]) -> u64 {
    estimator.weigh(value) + FINE / 4
}

/// What is best chosen within `allowance` tokens, and what was done when it was written. `write` is asked for the same more than once.
fn fit_to_budget(
    allowance: u64,
    choose: impl Fn(u64) -> Option<Selection>,
    mut write: impl FnMut(&Selection) -> Option<WriteStats>,
) -> Option<(WriteStats, Selection)> {
    let mut aim = allowance;
    let mut best: Option<((WriteStats, Selection), u64)> = None;
    for _ in 0..MAX_FIT_ITERATIONS {
        let Some(selection) = choose(aim) else { break };
        let whole = selection.whole;
        let written = write(&selection)?;
        let cost = written.weight.div_ceil(FINE).max(1);
        let fits = cost <= allowance;
        if fits && best.as_ref().is_none_or(|(_, most)| cost > *most) {
            best = Some(((written, selection), cost));
        }
        // What the parts cost one by one is not what the whole costs: the aim is set by how far it was off.
        let next = aim.saturating_mul(allowance) / cost;
        let close = fits && (whole || cost * 20 >= allowance * 19);
        if close || next == aim {
            break;
        }
        aim = if fits { next.min(aim * 2) } else { next.min(aim.saturating_sub(1)) };
        if aim == 0 {
            break;
        }
    }
    best.map(|(best, _)| best)
}

/// The fields that have values of their own, of those that are asked for, and their paths.
fn paths(
    schema: &Schema,
    asked: impl Fn(FieldId) -> bool,
) -> impl Iterator<Item = (FieldId, String)> {
    let fields = schema.fields.iter().enumerate().skip(1);
    fields
        .filter(move |(at, field)| {
            asked(*at) && field.count > 0 && field.weights.iter().any(|weight| *weight > 0)
        })
        .map(|(at, _)| (at, schema.path(at)))
        .filter(|(_, path)| !path.is_empty())
}

fn report(
    schema: &Schema,
    values: Vec<Vec<u8>>,
    written: WriteStats,
    selection: &Selection,
) -> Condensed {
    let (mut kept, mut dropped) = (Vec::new(), Vec::new());
    for (at, path) in paths(schema, |_| true) {
        let paths = if selection.cap(at).is_some() { &mut kept } else { &mut dropped };
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    dropped.retain(|path| !kept.contains(path));
    Condensed {
        values,
        total_fields: (kept.len() + dropped.len()) as u64,
        kept,
        dropped,
        shortened: written.shortened,
        omitted: written.omitted,
    }
}
