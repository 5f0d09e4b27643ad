//! RecordCondenser, condensed all alike. A few of them tell what fields there are and what each costs; the others are read for the fields that stay, and no others.

use std::collections::BTreeSet;

use super::schema::Schema;
use super::select::{SelectableField, Selection, select};
use super::write::{FieldLookup, Writer};
use super::{CondenseOptions, Condensed, WriteStats, fit_to_budget, paths, report, weight};
use crate::json::Span;
use crate::json::outline::{Lens, Outline};
use crate::json::text::{Form, visible};
use crate::shape::item::Item;
use crate::tokens::Weighed;

/// RecordCondenser by which the fields of all are judged.
const SAMPLE_RECORDS: usize = 32;

/// WriteStats records of which all are weighed; of more than these, every so many-th.
const PRICED_RECORDS: usize = 8;

/// The fields of a list's records, ready to condense any of them to any size.
pub struct RecordCondenser<'r> {
    schema: Schema,
    leaves: Vec<SelectableField>,
    /// How many of them the schema knows.
    sampled: usize,
    form: Form,
    condense_options: CondenseOptions<'r>,
}

impl<'r> RecordCondenser<'r> {
    /// Reads what some of these records consist of, evenly chosen; none where one of them is broken. O(32 records).
    #[must_use]
    pub fn new(items: &[Item<'_>], condense_options: CondenseOptions<'r>) -> Option<Self> {
        let form = items.first().map_or(Form::Raw, |item| item.read().1);
        let count = items.len().min(SAMPLE_RECORDS);
        let (mut buffer, mut spans): (Vec<u8>, Vec<Span>) = (Vec::new(), Vec::new());
        for at in 0..count {
            // The first and the last are among them.
            let at = at * items.len().saturating_sub(1) / count.saturating_sub(1).max(1);
            let item = items.get(at)?.read().0;
            spans.push(buffer.len()..buffer.len() + item.len());
            buffer.extend_from_slice(item);
            buffer.push(b' ');
        }
        let outline = Outline::of_all(&buffer, form, &spans).ok()?;
        let schema = Schema::new(&outline, condense_options.estimator);
        let leaves = condense_options.leaves(&schema);
        Some(Self { schema, leaves, sampled: count.max(1), form, condense_options })
    }

    /// These records in at most about `allowance` tokens; none where that leaves nothing of them. O(n), once for each of at most five tries.
    #[must_use]
    pub fn condense(&self, items: &[Item<'_>], allowance: u64) -> Option<Condensed> {
        let mut seen = RecordCache::default();
        let (values, written, selection) = self.within(items, allowance, usize::MAX, &mut seen)?;
        let mut condensed = report(&self.schema, values, written, &selection);
        // FieldLookup that no sampled record has go with those that had to.
        for (at, name) in seen.unknown.iter().filter(|(at, _)| selection.alive(*at)) {
            let path = self.schema.path_of(*at, name);
            if !condensed.kept.contains(&path) && !condensed.dropped.contains(&path) {
                condensed.dropped.push(path);
                condensed.total_fields += 1;
            }
        }
        Some(condensed)
    }

    /// What tells these records apart, and nothing else: to be asked of the first of them.
    #[must_use]
    pub fn identity_summarizer<'s>(&'s self, items: &'s [Item<'s>]) -> IdentitySummarizer<'s, 'r> {
        IdentitySummarizer {
            records: self,
            items,
            seen: RecordCache { known: true, ..RecordCache::default() },
        }
    }

    /// `seen`: what was read of these records, or of more that begin with them.
    fn within<'i>(
        &self,
        items: &'i [Item<'i>],
        allowance: u64,
        rounds: usize,
        seen: &mut RecordCache<'i>,
    ) -> Option<(Vec<Vec<u8>>, WriteStats, Selection)> {
        // The schema knows what its own records cost: so many tokens for all are so many for them.
        let of_sample = |aim: u64| {
            let share = u128::from(aim) * self.sampled as u128 / items.len().max(1) as u128;
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        let choose = |aim| select(&self.schema, &self.leaves, of_sample(aim), usize::MAX, rounds);
        // FieldLookup cost less together than one by one, so that more of them stay in the end: what probably will is read at once.
        if seen.alive.is_empty()
            && !seen.known
            && let Some(more) = choose(allowance.saturating_mul(2))
        {
            seen.alive = (0..self.schema.fields.len()).map(|at| more.alive(at)).collect();
        }
        let (written, selection) =
            fit_to_budget(allowance, choose, |selection| self.drafts(items, selection, seen))?;
        let chosen = seen.drafts.iter().find(|drafts| drafts.selection == selection)?;
        let values = chosen.all.iter().take(items.len()).map(|(value, _)| value.clone()).collect();
        Some((values, written, selection))
    }

    /// Reads the fields that stay, as far as they were not read yet; what was read before stays.
    fn see<'i>(
        &self,
        items: &'i [Item<'i>],
        selection: &Selection,
        seen: &mut RecordCache<'i>,
    ) -> Option<()> {
        if !seen.holds(selection) {
            let fields = 0..self.schema.fields.len();
            let stays = |at: usize| selection.alive(at) || seen.alive.get(at) == Some(&true);
            let drafts = std::mem::take(&mut seen.drafts);
            let alive = fields.map(stays).collect();
            *seen = RecordCache { alive, drafts, known: seen.known, ..RecordCache::default() };
        }
        let RecordCache { alive, outlines, unknown, known, .. } = seen;
        let root = self.schema.child(0, b"[]")?;
        let enough = known.then(|| self.schema.members(root, alive)).flatten();
        let mut lens =
            SelectedFields { schema: &self.schema, alive, form: self.form, unknown, enough };
        let root = u32::try_from(root).ok()?;
        for item in items.get(outlines.len()..).unwrap_or_default() {
            let item = item.read().0;
            let read = Outline::through(item, self.form, &(0..item.len()), root, &mut lens);
            outlines.push(read.ok()?);
        }
        Some(())
    }

    /// These records as a selection has them. What was written of them before is not written again.
    fn drafts<'i>(
        &self,
        items: &'i [Item<'i>],
        selection: &Selection,
        seen: &mut RecordCache<'i>,
    ) -> Option<WriteStats> {
        let known = seen.drafts.iter().position(|drafts| drafts.selection == *selection);
        let mut drafts = known.map_or_else(
            || RenderedRecords {
                selection: selection.clone(),
                all: Vec::new(),
                weighed: Weighed::default(),
            },
            |at| seen.drafts.remove(at),
        );
        if drafts.all.len() < items.len() {
            self.see(items, selection, seen)?;
            let rest = items.iter().zip(&seen.outlines).skip(drafts.all.len());
            for (item, outline) in rest {
                let draft = self.draft(item.read().0, outline, &mut drafts)?;
                drafts.all.push(draft);
            }
        }
        let mut all = WriteStats::default();
        for (_, written) in drafts.all.iter().take(items.len()) {
            all.shortened += written.shortened;
            all.omitted += written.omitted;
            all.weight += written.weight;
        }
        seen.drafts.push(drafts);
        Some(all)
    }

    /// The next of these drafts.
    fn draft(
        &self,
        item: &[u8],
        outline: &Outline<'_>,
        drafts: &mut RenderedRecords,
    ) -> Option<RenderedRecord> {
        let RenderedRecords { selection, all, weighed } = drafts;
        let mut value = Vec::with_capacity(item.len().min(128));
        let mut writer = self.writer(outline, selection);
        writer.root(&mut value, 0, true);
        let (shortened, omitted) = (writer.shortened, writer.omitted);
        if value == b"{}" {
            let whole = Outline::of(item, self.form, &(0..item.len())).ok()?;
            value.truncate(1);
            self.writer(&whole, selection).plain(&mut value, 0);
            value.push(b'}');
        }
        let each = all.len() < PRICED_RECORDS || all.len().is_multiple_of(PRICED_RECORDS);
        let weight =
            weighed.weight(value.len(), each, || weight(self.condense_options.estimator, &value));
        Some((value, WriteStats { shortened, omitted, weight }))
    }

    fn writer<'w, 'a>(
        &'w self,
        outline: &'w Outline<'a>,
        selection: &'w Selection,
    ) -> Writer<'w, 'a> {
        Writer {
            outline,
            schema: &self.schema,
            fields: FieldLookup::Seen,
            selection,
            keywords: self.condense_options.keywords,
            shortened: 0,
            omitted: 0,
        }
    }
}

/// What tells records apart, of as many of them as are asked for.
pub struct IdentitySummarizer<'s, 'r> {
    records: &'s RecordCondenser<'r>,
    items: &'s [Item<'s>],
    seen: RecordCache<'s>,
}

impl IdentitySummarizer<'_, '_> {
    /// The first so many in at most about `allowance` tokens; none where that is too much. O(n), and what was read for one count is not read again for another.
    #[must_use]
    pub fn summarize(&mut self, count: usize, allowance: u64) -> Option<IdentitySummary> {
        let items = self.items.get(..count)?;
        let (values, _, selection) = self.records.within(items, allowance, 1, &mut self.seen)?;
        let kept = paths(&self.records.schema, |at| selection.cap(at).is_some());
        Some(IdentitySummary { values, fields: kept.map(|(_, path)| path).collect() })
    }
}

/// RecordCondenser in short.
pub struct IdentitySummary {
    /// Each as JSON that is not escaped.
    pub values: Vec<Vec<u8>>,
    /// Paths of the fields that stayed.
    pub fields: Vec<String>,
}

/// RecordCondenser as far as their fields stay in one try or another: what one has read, the next need not read again.
#[derive(Default)]
struct RecordCache<'i> {
    /// Which fields were read.
    alive: Vec<bool>,
    outlines: Vec<Outline<'i>>,
    /// Members that the schema does not know, by the field that they are in.
    unknown: BTreeSet<(usize, String)>,
    /// Whether only those are looked for that it knows.
    known: bool,
    /// What was written of them, by what was chosen: of as many as were asked for.
    drafts: Vec<RenderedRecords>,
}

/// RecordCondenser as they were written.
struct RenderedRecords {
    /// What was chosen.
    selection: Selection,
    all: Vec<RenderedRecord>,
    /// Those of them that were weighed.
    weighed: Weighed,
}

/// A record as it was written, and what was done to it.
type RenderedRecord = (Vec<u8>, WriteStats);

impl RecordCache<'_> {
    /// Whether everything that stays was read.
    fn holds(&self, selection: &Selection) -> bool {
        !self.alive.is_empty()
            && (0..self.alive.len())
                .all(|at| self.alive.get(at) == Some(&true) || !selection.alive(at))
    }
}

/// Sees the fields that are read.
struct SelectedFields<'s> {
    schema: &'s Schema,
    alive: &'s [bool],
    form: Form,
    /// Members that the schema does not know, by the field that they are in.
    unknown: &'s mut BTreeSet<(usize, String)>,
    /// Members of a record after which it is not read on.
    enough: Option<u32>,
}

impl Lens for SelectedFields<'_> {
    fn enough(&self) -> Option<u32> {
        self.enough
    }

    fn inside(&mut self, place: u32, key: Option<&[u8]>) -> Option<u32> {
        let at = usize::try_from(place).ok()?;
        let field = match key {
            None => self.schema.child(at, b"[]"),
            Some(key) => {
                let key = visible(key, self.form);
                let known = self.schema.child(at, &key).or_else(|| self.schema.child(at, b"*"));
                if known.is_none() {
                    let name = visible(&key, Form::Escaped);
                    self.unknown.insert((at, String::from_utf8_lossy(&name).into_owned()));
                }
                known
            }
        };
        let stays = field.filter(|field| self.alive.get(*field) == Some(&true))?;
        u32::try_from(stays).ok()
    }
}
