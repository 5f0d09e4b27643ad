//! Condensing: every record stays, the fields that carry least go first and for all records alike, values are shortened before they go (FR-015, FR-016).

pub mod names;
pub mod schema;
pub mod select;
mod write;

use self::schema::Schema;
use self::select::{Selection, select};
use self::write::Writer;
use crate::json::outline::Outline;
use crate::shape::project::Mask;
use crate::tokens::Estimator;

/// How often a size is tried to be met.
const TRIES: usize = 5;

/// What decides how a document is condensed.
#[derive(Clone, Copy, Debug)]
pub struct Taste<'a> {
    /// How tokens are counted.
    pub estimator: &'a Estimator,
    /// The fields that policy maps, if it does: no others stay.
    pub map: Option<&'a Mask>,
    /// Words that matter in long texts.
    pub keywords: &'a [String],
}

/// A document, ready to be condensed to any size.
pub struct Condenser<'c, 'a> {
    outline: &'c Outline<'a>,
    schema: Schema,
    wanted: Option<Vec<bool>>,
    taste: Taste<'c>,
}

/// A condensed document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Condensed {
    /// The elements of its root where that is a list, else the root alone, each as JSON that is not escaped.
    pub values: Vec<Vec<u8>>,
    /// Fields of the document.
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

impl<'c, 'a> Condenser<'c, 'a> {
    /// Reads what a document consists of. O(n).
    #[must_use]
    pub fn new(outline: &'c Outline<'a>, taste: Taste<'c>) -> Self {
        let schema = Schema::of(outline, taste.estimator);
        let wanted = taste.map.map(|map| {
            (0..schema.fields.len()).map(|at| map.holds(&schema.keys(at))).collect::<Vec<_>>()
        });
        // A map that names nothing of this document is for another.
        let wanted = wanted.filter(|wanted| wanted.iter().skip(1).any(|wanted| *wanted));
        Self { outline, schema, wanted, taste }
    }

    /// The document in at most about `allowance` tokens, every record of it; none where that leaves nothing of them. O(n).
    #[must_use]
    pub fn all(&self, allowance: u64) -> Option<Condensed> {
        self.within(allowance, usize::MAX, usize::MAX).map(|(condensed, _)| condensed)
    }

    /// What tells the records apart, and nothing else, in at most about `allowance` tokens; none where that is too much.
    #[must_use]
    pub fn identities(&self, allowance: u64) -> Option<Condensed> {
        self.within(allowance, usize::MAX, 1).map(|(condensed, _)| condensed)
    }

    /// The same, with lists cut where that leaves room for more fields that matter, or where all of their elements do not fit.
    #[must_use]
    pub fn some(&self, allowance: u64) -> Option<Condensed> {
        let mut best: Option<(Condensed, usize)> = None;
        for records in [usize::MAX, 256, 64, 24, 10, 5, 3, 2, 1] {
            let Some((condensed, unknown)) = self.within(allowance, records, usize::MAX) else {
                continue;
            };
            if best.as_ref().is_none_or(|(_, least)| unknown < *least) {
                best = Some((condensed, unknown));
            }
            if unknown == 0 {
                break;
            }
        }
        best.map(|(condensed, _)| condensed)
    }

    /// The document in so many tokens, lists of records cut to `records`, by so many rounds of choosing; and how many fields that tell records apart had to go.
    fn within(&self, allowance: u64, records: usize, rounds: usize) -> Option<(Condensed, usize)> {
        let mut aim = allowance;
        let mut best: Option<(Condensed, usize, u64)> = None;
        for _ in 0..TRIES {
            let Some(selection) =
                select(&self.schema, aim, self.wanted.as_deref(), records, rounds)
            else {
                break;
            };
            let (values, lost) = self.write(&selection);
            let weight: u64 = values
                .iter()
                .map(|value| self.taste.estimator.weigh(value) + crate::tokens::FINE / 4)
                .sum();
            let cost = weight.div_ceil(crate::tokens::FINE).max(1);
            let fits = cost <= allowance;
            if fits && best.as_ref().is_none_or(|(_, _, most)| cost > *most) {
                best = Some((self.report(values, lost, &selection), selection.unknown, cost));
            }
            // What the parts cost one by one is not what the whole costs: the aim is set by how far it was off.
            let next = aim.saturating_mul(allowance) / cost;
            let close = fits && (selection.whole || cost * 20 >= allowance * 19);
            if close || next == aim {
                break;
            }
            aim = if fits { next.min(aim * 2) } else { next.min(aim.saturating_sub(1)) };
            if aim == 0 {
                break;
            }
        }
        best.map(|(condensed, unknown, _)| (condensed, unknown))
    }

    /// Writes what was selected; and how many values were shortened, and elements left out.
    fn write(&self, selection: &Selection) -> (Vec<Vec<u8>>, (u64, u64)) {
        let mut writer = Writer {
            outline: self.outline,
            schema: &self.schema,
            selection,
            keywords: self.taste.keywords,
            shortened: 0,
            omitted: 0,
        };
        let roots: Vec<_> = if self.is_list() {
            self.outline.children(0).map(|(id, _)| id).collect()
        } else {
            vec![0]
        };
        let mut values = Vec::with_capacity(roots.len());
        for id in roots {
            let mut value = Vec::new();
            writer.root(&mut value, id, self.is_list());
            values.push(value);
        }
        (values, (writer.shortened, writer.omitted))
    }

    /// Whether the outline is of several values.
    fn is_list(&self) -> bool {
        self.outline.node(0).is_some_and(|root| {
            root.span.is_empty()
                && root.span.start == 0
                && root.kind == crate::json::scan::Kind::Array
        })
    }

    fn report(
        &self,
        values: Vec<Vec<u8>>,
        (shortened, omitted): (u64, u64),
        selection: &Selection,
    ) -> Condensed {
        let (mut kept, mut dropped) = (Vec::new(), Vec::new());
        for (at, field) in self.schema.fields.iter().enumerate().skip(1) {
            if field.count == 0 || field.weights.iter().all(|weight| *weight == 0) {
                continue;
            }
            let path = self.schema.path(at);
            if path.is_empty() {
                continue;
            }
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
            shortened,
            omitted,
        }
    }
}
