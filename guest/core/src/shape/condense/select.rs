//! Which fields stay, and how long their values may be: the fields that carry least go first, and for all records alike.

use super::schema::{FULL_LENGTH, Field, FieldId, LIST_LENGTHS, Schema, VALUE_LENGTHS};
use crate::fields::names::FieldPriority;
use crate::tokens::FINE;

/// What stays of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// For each field the place in [`VALUE_LENGTHS`] of the length that its values keep; none where it goes.
    keep: Vec<Option<usize>>,
    /// Whether a field, or one inside it, stays.
    alive: Vec<bool>,
    /// Elements that lists inside records keep.
    pub nested: usize,
    /// Elements that lists of records keep.
    pub records: usize,
    /// How many of the fields that records are known and asked for by had to go.
    pub missing: usize,
    /// How many of those that tell records apart.
    pub unknown: usize,
    /// Whether more cannot stay, however much room there is.
    pub whole: bool,
}

impl Selection {
    /// Characters that the values of a field keep; none where it goes.
    #[must_use]
    pub fn cap(&self, at: FieldId) -> Option<usize> {
        self.keep.get(at).copied().flatten().and_then(|cap| VALUE_LENGTHS.get(cap).copied())
    }

    /// Whether a field, or one inside it, stays.
    #[must_use]
    pub fn alive(&self, at: FieldId) -> bool {
        self.alive.get(at).copied().unwrap_or(false)
    }
}

/// Rounds of choosing: fields of this worth may now be this long (a place in [`VALUE_LENGTHS`]).
const ROUNDS: [(FieldPriority, usize); 15] = [
    (FieldPriority::Identity, 1),
    (FieldPriority::State, 1),
    (FieldPriority::Identity, 2),
    (FieldPriority::Key, 2),
    (FieldPriority::Plain, 1),
    (FieldPriority::Prose, 2),
    (FieldPriority::Identity, FULL_LENGTH),
    (FieldPriority::State, FULL_LENGTH),
    (FieldPriority::Key, FULL_LENGTH),
    (FieldPriority::Plain, FULL_LENGTH),
    (FieldPriority::Prose, 4),
    (FieldPriority::Noise, 2),
    (FieldPriority::Prose, 5),
    (FieldPriority::Prose, FULL_LENGTH),
    (FieldPriority::Noise, FULL_LENGTH),
];

/// Chooses among the fields that may stay within `allowance` tokens, by the first so many rounds. None where not even what tells the records apart can stay.
#[must_use]
pub fn select(
    schema: &Schema,
    leaves: &[SelectableField],
    allowance: u64,
    records: usize,
    rounds: usize,
) -> Option<Selection> {
    let mut best: Option<Selection> = None;
    // Where just what tells the records apart is chosen, one length is mostly as good as another.
    let priorities = ROUNDS.get(..rounds).unwrap_or(&ROUNDS);
    let tried: Vec<&SelectableField> = leaves
        .iter()
        .filter(|leaf| priorities.iter().any(|(priority, _)| *priority == leaf.priority))
        .collect();
    let varies = tried.is_empty() || tried.iter().any(|leaf| leaf.varies);
    for nested in LIST_LENGTHS.iter().rev() {
        let mut choice = Selector::new(schema, leaves, *nested, records);
        if choice.spent > allowance * FINE {
            continue;
        }
        let first = choice.run(allowance * FINE, rounds);
        // Longer lists inside records are worth it as long as every record keeps what it is known and asked for by.
        let missing = choice.missing(FieldPriority::Key);
        if first && best.as_ref().is_none_or(|best| missing < best.missing) {
            best = Some(choice.finish(missing, priorities));
        }
        if missing == 0 || !varies {
            break;
        }
    }
    best
}

/// Whether how long lists inside records are makes a difference to what a field costs.
fn is_within_list(schema: &Schema, at: FieldId) -> bool {
    let parent = |at: FieldId| schema.fields.get(at).and_then(|field| field.parent);
    std::iter::successors(parent(at), |at| parent(*at))
        .filter_map(|at| schema.fields.get(at))
        .any(|field| field.in_record && field.elements.iter().any(|elements| *elements > 0))
}

/// A field that may stay, since it has values of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectableField {
    /// What it is worth here: what policy maps counts as identity, so that it stays first.
    priority: FieldPriority,
    /// How deep it stands, a list inside a record counting as one more.
    level: u32,
    /// What one of its values weighs when it is short.
    weight: u64,
    field: FieldId,
    /// Whether it makes a difference to the choice how long lists inside records are.
    varies: bool,
}

impl SelectableField {
    /// All of them, in the order in which they are tried. `wanted` are the fields that policy maps; where there are some, no others stay.
    #[must_use]
    pub fn all(schema: &Schema, wanted: Option<&[bool]>) -> Vec<Self> {
        let allowed = |at: FieldId| wanted.is_none_or(|wanted| wanted.get(at) == Some(&true));
        let fields = schema.fields.iter().enumerate();
        let varies =
            fields.clone().any(|(at, field)| is_record(field) && is_within_list(schema, at));
        let mut leaves: Vec<Self> = fields
            .filter(|(at, field)| allowed(*at) && field.count > 0 && is_leaf(field))
            .map(|(at, field)| Self {
                priority: if wanted.is_some() { FieldPriority::Identity } else { field.priority },
                level: field.level + u32::from(field.nested),
                weight: weight(field, 1) / field.count,
                field: at,
                varies: varies || is_within_list(schema, at),
            })
            .collect();
        leaves.sort_unstable();
        leaves
    }
}

struct Selector<'s> {
    schema: &'s Schema,
    leaves: &'s [SelectableField],
    nested: usize,
    records: usize,
    keep: Vec<Option<usize>>,
    alive: Vec<bool>,
    /// Of each field how many elements of its lists are shown, and how many there are.
    shares: Vec<(u64, u64)>,
    /// Whether some are not.
    cut: bool,
    spent: u64,
}

impl<'s> Selector<'s> {
    fn new(
        schema: &'s Schema,
        leaves: &'s [SelectableField],
        nested: usize,
        records: usize,
    ) -> Self {
        let mut choice = Self {
            schema,
            leaves,
            nested,
            records,
            keep: vec![None; schema.fields.len()],
            alive: vec![false; schema.fields.len()],
            shares: Vec::with_capacity(schema.fields.len()),
            cut: false,
            spent: 2 * FINE,
        };
        for field in &schema.fields {
            let [.., all] = field.elements;
            let shown = shown(field, if field.in_record { nested } else { records });
            choice.shares.push((shown, all));
            choice.cut |= shown != all;
        }
        if let Some(alive) = choice.alive.first_mut() {
            *alive = true;
        }
        // The records themselves stand in any case.
        for (at, field) in schema.fields.iter().enumerate() {
            if is_record(field) {
                choice.spent +=
                    choice.part(at, field.count) * 2 * FINE + choice.part(at, field.weights[0]);
            }
        }
        choice
    }

    /// `amount`, as much of it as the lists round a field are shown.
    fn part(&self, at: FieldId, amount: u64) -> u64 {
        if !self.cut {
            return amount;
        }
        let mut share = amount;
        let mut next = self.schema.fields.get(at).and_then(|field| field.parent);
        while let Some((at, field)) = next.and_then(|at| Some((at, self.schema.fields.get(at)?))) {
            if let Some(&(shown, all @ 1..)) = self.shares.get(at)
                && shown != all
            {
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

    /// Goes through the rounds; whether any record keeps something.
    fn run(&mut self, allowance: u64, rounds: usize) -> bool {
        let mut any = false;
        for (round, (priority, cap)) in ROUNDS.iter().take(rounds).enumerate() {
            for leaf in self.leaves.iter().filter(|leaf| leaf.priority == *priority) {
                any |= self.raise(leaf.field, *cap, allowance);
            }
            // Where nothing tells the records apart, anything short does; but what does must not be lost.
            if round == 0 && !any {
                any = !self.identified() && self.cheapest(allowance);
                if !any {
                    return false;
                }
            }
        }
        any
    }

    /// Whether some field tells the records apart.
    fn identified(&self) -> bool {
        let nested =
            |leaf: &SelectableField| self.schema.fields.get(leaf.field).is_none_or(|at| at.nested);
        self.leaves.iter().any(|leaf| leaf.priority == FieldPriority::Identity && !nested(leaf))
    }

    fn cheapest(&mut self, allowance: u64) -> bool {
        let leaves = self.leaves.iter().filter_map(|leaf| {
            let field = self.schema.fields.get(leaf.field)?;
            let weight = weight(field, 0) / field.count.max(1);
            Some((u64::from(field.level) * 64 * FINE + weight, leaf.field))
        });
        let mut fields: Vec<(u64, FieldId)> = leaves.collect();
        fields.sort_unstable();
        fields.into_iter().any(|(_, at)| self.raise(at, 0, allowance))
    }

    /// Lets the values of a field be as long as this, if there is room.
    fn raise(&mut self, at: FieldId, cap: usize, allowance: u64) -> bool {
        let Some(field) = self.schema.fields.get(at) else { return false };
        let now = self.keep.get(at).copied().flatten();
        if now.is_some_and(|now| now >= cap) {
            return true;
        }
        let before = now.map_or(0, |now| weight(field, now));
        let mut added = self.part(at, weight(field, cap).saturating_sub(before));
        if now.is_none() {
            added += self.part(at, field.count) * FINE / 2;
            let mut next = field.parent;
            while let Some((at, parent)) =
                next.and_then(|at| Some((at, self.schema.fields.get(at)?)))
            {
                if self.alive.get(at).copied().unwrap_or(true) {
                    break;
                }
                added += self.part(at, parent.count) * (FINE * 2 + self.key(parent));
                next = parent.parent;
            }
        }
        if self.spent + added > allowance {
            return false;
        }
        self.spent += added;
        if let Some(keep) = self.keep.get_mut(at) {
            *keep = Some(cap);
        }
        let mut next = Some(at);
        while let Some(alive) = next.and_then(|at| self.alive.get_mut(at)).filter(|alive| !**alive)
        {
            *alive = true;
            next = next.and_then(|at| self.schema.fields.get(at)?.parent);
        }
        true
    }

    fn key(&self, field: &Field) -> u64 {
        (field.name.len() as u64).div_ceil(3) * FINE
    }

    /// How many of the fields that records are known and asked for by had to go.
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

    /// `rounds`: those that were gone through.
    fn finish(self, missing: usize, rounds: &[(FieldPriority, usize)]) -> Selection {
        // Of each leaf that may stay in them, how long its values may be at most, and are.
        let lengths = self.leaves.iter().filter_map(|leaf| {
            let (_, most) = rounds.iter().rev().find(|(priority, _)| *priority == leaf.priority)?;
            Some((Some(*most), self.keep.get(leaf.field).copied().flatten()))
        });
        let whole = self.nested == usize::MAX
            && lengths.clone().next().is_some()
            && lengths.clone().all(|(most, length)| length >= most);
        let unknown = self.missing(FieldPriority::Identity);
        Selection {
            whole,
            unknown,
            keep: self.keep,
            alive: self.alive,
            nested: self.nested,
            records: self.records,
            missing,
        }
    }
}

/// Whether the values of a field are records, which stand in any case.
fn is_record(field: &Field) -> bool {
    field.container && matches!(field.name.as_str(), "[]" | "*") && !field.nested
}

/// Whether a field has values of its own. One that is a container in most records and something else in some has both.
fn is_leaf(field: &Field) -> bool {
    field.weights.iter().any(|weight| *weight > 0)
}

fn weight(field: &Field, cap: usize) -> u64 {
    field.weights.get(cap).copied().unwrap_or(u64::MAX)
}

/// Elements of a field's lists that are shown when each shows at most `limit`.
fn shown(field: &Field, limit: usize) -> u64 {
    match LIST_LENGTHS.iter().position(|length| *length == limit) {
        Some(at) => field.elements.get(at).copied().unwrap_or(0),
        None => {
            let [.., all] = field.elements;
            all.min(field.count.max(1).saturating_mul(limit as u64))
        }
    }
}
