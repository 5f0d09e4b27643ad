//! Selects fields and the maximum lengths of their values. Removes the least important fields
//! first, from all records alike.

mod selectable;

pub use selectable::SelectableField;

use super::schema::{
    FULL_LENGTH, Field, FieldId, LIST_LENGTHS, Schema, TEXT_LENGTH, VALUE_LENGTHS,
};
use crate::fields::priority::FieldPriority;
use crate::tokens::COST_SCALE;

/// The fields of a document that condensing keeps, with the maximum lengths of their values and
/// lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// For each field, the maximum length of its values, as an index in [`VALUE_LENGTHS`]. `None`
    /// if the field is removed.
    keep: Vec<Option<usize>>,
    /// For each field, true if the field itself or a field inside it is kept.
    kept: Vec<bool>,
    /// The maximum length, in characters, of values whose length in `keep` is [`TEXT_LENGTH`].
    text_chars: usize,
    /// The maximum number of elements in each list inside a record.
    pub nested: usize,
    /// The maximum number of elements in each list of records.
    pub records: usize,
    /// The number of removed important fields: those of [`FieldPriority::Key`] and above, outside
    /// of lists inside records.
    pub missing: usize,
    /// The number of removed fields that identify records, outside of lists inside records.
    pub missing_identity: usize,
    /// The number of lists without a kept field, although some of their fields have useful
    /// priorities.
    pub emptied_lists: usize,
    /// True if every selectable field has its maximum length, and lists inside records are
    /// complete.
    pub whole: bool,
}

impl Selection {
    /// Returns the maximum length of the values of a field, in characters. `None` if the field is
    /// removed.
    #[must_use]
    pub fn cap(&self, at: FieldId) -> Option<usize> {
        match self.keep.get(at).copied().flatten()? {
            TEXT_LENGTH => Some(self.text_chars),
            cap => VALUE_LENGTHS.get(cap).copied(),
        }
    }

    /// Returns true if a field, or a field inside it, is kept.
    #[must_use]
    pub fn is_kept(&self, at: FieldId) -> bool {
        self.kept.get(at).copied().unwrap_or(false)
    }
}

/// The rounds of field selection, in order. Each lets the fields of one priority have values up to
/// a length, given as an index in [`VALUE_LENGTHS`].
const ROUNDS: [(FieldPriority, usize); 17] = [
    (FieldPriority::Identity, 1),
    (FieldPriority::State, 1),
    (FieldPriority::Key, 2),
    (FieldPriority::Identity, 2),
    (FieldPriority::Plain, 1),
    (FieldPriority::Prose, 2),
    (FieldPriority::Detail, 1),
    (FieldPriority::Identity, FULL_LENGTH),
    (FieldPriority::State, FULL_LENGTH),
    (FieldPriority::Key, FULL_LENGTH),
    (FieldPriority::Plain, FULL_LENGTH),
    (FieldPriority::Prose, 4),
    (FieldPriority::Detail, FULL_LENGTH),
    (FieldPriority::Prose, 5),
    (FieldPriority::Prose, FULL_LENGTH),
    (FieldPriority::Noise, 2),
    (FieldPriority::Noise, FULL_LENGTH),
];

/// The number of rounds for fields of useful priorities: all but [`FieldPriority::Noise`].
pub const WORTHY_ROUNDS: usize = ROUNDS.len() - 2;

/// Selects fields whose values cost at most `token_limit` tokens, by the first `rounds` selection
/// rounds. Lists of records are cut to `records` elements. `None` if no identifying field fits or,
/// without identifying fields, no field at all.
#[must_use]
pub fn select(
    schema: &Schema,
    leaves: &[SelectableField],
    token_limit: u64,
    records: usize,
    rounds: usize,
) -> Option<Selection> {
    let mut best: Option<Selection> = None;
    // If only identifying fields are selected, the length of lists inside records rarely matters.
    let priorities = ROUNDS.get(..rounds).unwrap_or(&ROUNDS);
    let tried: Vec<&SelectableField> = leaves
        .iter()
        .filter(|leaf| priorities.iter().any(|(priority, _)| *priority == leaf.priority))
        .collect();
    let varies = tried.is_empty() || tried.iter().any(|leaf| leaf.varies);
    for nested in LIST_LENGTHS.iter().rev() {
        let mut selector = Selector::new(schema, leaves, *nested, records);
        if selector.spent > token_limit * COST_SCALE {
            continue;
        }
        let first = selector.run(token_limit * COST_SCALE, rounds);
        // Longer lists inside records are better only while no important field is removed for them.
        let missing = selector.missing(FieldPriority::Key);
        let emptied = selector.emptied_lists(priorities);
        let is_better = |best: &Selection| (missing, emptied) < (best.missing, best.emptied_lists);
        if first && best.as_ref().is_none_or(is_better) {
            let text_chars = selector.text_chars(token_limit * COST_SCALE);
            best = Some(selector.into_selection((missing, emptied), priorities, text_chars));
        }
        if (missing, emptied) == (0, 0) || !varies {
            break;
        }
    }
    best
}

struct Selector<'s> {
    schema: &'s Schema,
    leaves: &'s [SelectableField],
    nested: usize,
    records: usize,
    keep: Vec<Option<usize>>,
    kept: Vec<bool>,
    /// For each field, the number of its list elements that are shown, and their total number.
    shares: Vec<(u64, u64)>,
    /// True if some elements of lists are left out.
    is_cut: bool,
    spent: u64,
}

impl<'s> Selector<'s> {
    fn new(
        schema: &'s Schema,
        leaves: &'s [SelectableField],
        nested: usize,
        records: usize,
    ) -> Self {
        let mut selector = Self {
            schema,
            leaves,
            nested,
            records,
            keep: vec![None; schema.fields.len()],
            kept: vec![false; schema.fields.len()],
            shares: Vec::with_capacity(schema.fields.len()),
            is_cut: false,
            // The brackets of the document.
            spent: 2 * COST_SCALE,
        };
        for field in &schema.fields {
            let [.., all] = field.elements;
            let shown = shown_elements(field, if field.in_record { nested } else { records });
            selector.shares.push((shown, all));
            selector.is_cut |= shown != all;
        }
        if let Some(kept) = selector.kept.first_mut() {
            *kept = true;
        }
        // Records are always kept, with their brackets and the keys of map members.
        for (at, field) in schema.fields.iter().enumerate() {
            if field.is_record() {
                selector.spent += selector.shown_share(at, field.count) * 2 * COST_SCALE
                    + selector.shown_share(at, field.costs[0]);
            }
        }
        selector
    }

    /// Returns the part of `amount` that remains after the lists around the field `at` are
    /// shortened. `amount` is a cost or count over all values of the field.
    fn shown_share(&self, at: FieldId, amount: u64) -> u64 {
        if !self.is_cut {
            return amount;
        }
        let mut share = amount;
        let mut next = self.schema.fields.get(at).and_then(|field| field.parent);
        while let Some((at, field)) = next.and_then(|at| Some((at, self.schema.fields.get(at)?))) {
            if let Some(&(shown, all @ 1..)) = self.shares.get(at)
                && shown != all
            {
                // The product of costs and elements exceeds 64 bits in large documents only, and
                // 128-bit division is slow.
                share = match share.checked_mul(shown) {
                    Some(product) => product / all,
                    None => u64::try_from(u128::from(share) * u128::from(shown) / u128::from(all))
                        .unwrap_or(u64::MAX),
                };
            }
            next = field.parent;
        }
        share
    }

    /// Selects fields by the first `rounds` of [`ROUNDS`], until they cost `token_limit`, in
    /// 1/[`COST_SCALE`] token. Returns true if any field was selected.
    fn run(&mut self, token_limit: u64, rounds: usize) -> bool {
        let mut any = false;
        for (round, (priority, cap)) in ROUNDS.iter().take(rounds).enumerate() {
            // The leaves are in the order of their priorities.
            let start = self.leaves.partition_point(|leaf| leaf.priority < *priority);
            let rest = self.leaves.get(start..).unwrap_or_default();
            for leaf in rest.iter().take_while(|leaf| leaf.priority == *priority) {
                any |= self.raise(leaf.field, *cap, token_limit);
            }
            // Without identifying fields, any short field will do. But identifying fields that do
            // not fit must not be replaced by others.
            if round == 0 && !any {
                any = !self.has_identity() && self.cheapest(token_limit);
                if !any {
                    return false;
                }
            }
        }
        any
    }

    /// Returns true if a field that identifies the records is outside of lists inside records.
    fn has_identity(&self) -> bool {
        let nested =
            |leaf: &SelectableField| self.schema.fields.get(leaf.field).is_none_or(|at| at.nested);
        self.leaves.iter().any(|leaf| leaf.priority == FieldPriority::Identity && !nested(leaf))
    }

    /// Selects one field that fits `token_limit`. Among fields of the highest priority that are
    /// nearest to the root, chooses the cheapest. Returns false if none fits.
    fn cheapest(&mut self, token_limit: u64) -> bool {
        let leaves = self.leaves.iter().filter_map(|leaf| {
            let field = self.schema.fields.get(leaf.field)?;
            let cost = cost(field, 0) / field.count.max(1);
            // A level counts as much as 64 tokens, more than a short value costs, and a priority as
            // much as ten levels.
            let levels = u64::from(field.level) + field.priority as u64 * 10;
            Some((levels * 64 * COST_SCALE + cost, leaf.field))
        });
        let mut fields: Vec<(u64, FieldId)> = leaves.collect();
        fields.sort_unstable();
        fields.into_iter().any(|(_, at)| self.raise(at, 0, token_limit))
    }

    /// Raises the maximum length of a field's values to `cap`, an index in [`VALUE_LENGTHS`],
    /// unless the cost then exceeds `token_limit`. Returns true if the field then has at least that
    /// length.
    fn raise(&mut self, at: FieldId, cap: usize, token_limit: u64) -> bool {
        let Some(field) = self.schema.fields.get(at) else { return false };
        let now = self.keep.get(at).copied().flatten();
        if now.is_some_and(|now| now >= cap) {
            return true;
        }
        let before = now.map_or(0, |now| cost(field, now));
        let mut added = self.shown_share(at, cost(field, cap).saturating_sub(before));
        if now.is_none() {
            // Half a token for the comma, and the brackets and keys of containers that only this
            // field keeps.
            added += self.shown_share(at, field.count) * COST_SCALE / 2;
            let mut next = field.parent;
            while let Some((at, parent)) =
                next.and_then(|at| Some((at, self.schema.fields.get(at)?)))
            {
                if self.kept.get(at).copied().unwrap_or(true) {
                    break;
                }
                added += self.shown_share(at, parent.count) * (COST_SCALE * 2 + self.key(parent));
                next = parent.parent;
            }
        }
        if self.spent + added > token_limit {
            return false;
        }
        self.spent += added;
        if let Some(keep) = self.keep.get_mut(at) {
            *keep = Some(cap);
        }
        // The containers around a kept one are kept already.
        let mut next = Some(at);
        while let Some(kept) = next.and_then(|at| self.kept.get_mut(at)).filter(|kept| !**kept) {
            *kept = true;
            next = next.and_then(|at| self.schema.fields.get(at)?.parent);
        }
        true
    }

    /// Returns the estimated cost of a field's key, at three bytes per token, in 1/[`COST_SCALE`]
    /// token.
    fn key(&self, field: &Field) -> u64 {
        (field.name.len() as u64).div_ceil(3) * COST_SCALE
    }

    /// Returns the maximum length, in characters, of texts that are shortened to [`TEXT_LENGTH`].
    /// Such texts use the rest of `token_limit`, in 1/[`COST_SCALE`] token.
    fn text_chars(&self, token_limit: u64) -> usize {
        let mut cost_per_char = 0;
        for leaf in self.leaves {
            if let Some(field) = self.schema.fields.get(leaf.field)
                && self.keep.get(leaf.field) == Some(&Some(TEXT_LENGTH))
            {
                let one = cost(field, FULL_LENGTH) / field.characters.max(1);
                cost_per_char += self.shown_share(leaf.field, field.strings) * one;
            }
        }
        let more = token_limit.saturating_sub(self.spent).checked_div(cost_per_char);
        // Steps, so that targets that differ little have the same selection.
        let more = usize::try_from(more.unwrap_or(0) / 64 * 64).unwrap_or(usize::MAX);
        VALUE_LENGTHS[TEXT_LENGTH].saturating_add(more)
    }

    /// Returns the number of removed fields with this priority or a higher one. Ignores fields of
    /// lists inside records.
    fn missing(&self, priority: FieldPriority) -> usize {
        let goes = |leaf: &&SelectableField| {
            self.schema.fields.get(leaf.field).is_some_and(|field| {
                !field.nested
                    && field.priority <= priority
                    && self.keep.get(leaf.field).copied().flatten().is_none()
            })
        };
        self.leaves.iter().filter(goes).count()
    }

    /// Returns the number of lists without a kept field, although one of their fields has a
    /// priority of `rounds` above [`FieldPriority::Noise`].
    fn emptied_lists(&self, rounds: &[(FieldPriority, usize)]) -> usize {
        let is_tried = |leaf: &&SelectableField| {
            leaf.priority < FieldPriority::Noise
                && leaf.section < 2
                && rounds.iter().any(|(priority, _)| *priority == leaf.priority)
        };
        let mut emptied = vec![false; self.kept.len()];
        for leaf in self.leaves.iter().filter(is_tried) {
            let mut next = Some(leaf.field);
            while let Some(at) = next.filter(|at| self.kept.get(*at) == Some(&false)) {
                let Some(field) = self.schema.fields.get(at) else { break };
                if field.elements.iter().any(|elements| *elements > 0)
                    && let Some(emptied) = emptied.get_mut(at)
                {
                    *emptied = true;
                }
                next = field.parent;
            }
        }
        emptied.into_iter().filter(|emptied| *emptied).count()
    }

    /// Converts the state of this selector to the resulting selection. `missing` is the number of
    /// removed important fields, `rounds` are the completed rounds, and `text_chars` is the maximum
    /// length of texts.
    fn into_selection(
        self,
        (missing, emptied_lists): (usize, usize),
        rounds: &[(FieldPriority, usize)],
        text_chars: usize,
    ) -> Selection {
        // For each field of these rounds: the maximum length of its values, and their length.
        let lengths = self.leaves.iter().filter_map(|leaf| {
            let (_, most) = rounds.iter().rev().find(|(priority, _)| *priority == leaf.priority)?;
            Some((Some(*most), self.keep.get(leaf.field).copied().flatten()))
        });
        let whole = self.nested == usize::MAX
            && lengths.clone().next().is_some()
            && lengths.clone().all(|(most, length)| length >= most);
        let missing_identity = self.missing(FieldPriority::Identity);
        Selection {
            whole,
            missing_identity,
            emptied_lists,
            keep: self.keep,
            kept: self.kept,
            text_chars,
            nested: self.nested,
            records: self.records,
            missing,
        }
    }
}

/// Returns true if a field has plain values (no objects or lists) in some records.
fn is_leaf(field: &Field) -> bool {
    field.values > 0 && field.costs.iter().any(|cost| *cost > 0)
}

fn cost(field: &Field, cap: usize) -> u64 {
    field.costs.get(cap).copied().unwrap_or(u64::MAX)
}

/// Returns the total number of elements that are shown if each list at the path of a field has at
/// most `limit`.
fn shown_elements(field: &Field, limit: usize) -> u64 {
    match LIST_LENGTHS.iter().position(|length| *length == limit) {
        Some(at) => field.elements.get(at).copied().unwrap_or(0),
        None => {
            let [.., all] = field.elements;
            all.min(field.count.max(1).saturating_mul(limit as u64))
        }
    }
}
