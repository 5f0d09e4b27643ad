//! The fields of a document: values that stand at the same place in records are one field, with what all of them cost.

mod visit;

use std::collections::BTreeSet;

use crate::fields::names::{FieldPriority, field_priority};
use crate::json::keyed::Keyed;
use crate::json::outline::{Id, Node, Outline};
use crate::json::scan::Kind;
use crate::tokens::{Estimator, Weighed};

/// Characters to which values may be shortened; the last is all of them.
pub const VALUE_LENGTHS: [usize; 7] = [24, 48, 96, 192, 400, 1_000, usize::MAX];
/// The place of "all of them" in [`VALUE_LENGTHS`].
pub const FULL_LENGTH: usize = VALUE_LENGTHS.len() - 1;
/// Elements to which lists inside records may be shortened.
pub const LIST_LENGTHS: [usize; 4] = [1, 3, 8, usize::MAX];

/// The number of a field.
pub type FieldId = usize;

/// Different values of a field that are counted.
const MAX_DISTINCT_VALUES: usize = 512;
/// Names of a path that are told.
const MAX_PATH_NAMES: usize = 5;
/// Members from which an object of containers is taken for a list with names instead of numbers.
const MIN_MAP_CONTAINERS: u32 = 16;

/// All values at one place.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its key; `[]` for elements of a list, `*` for members of a map.
    pub name: String,
    /// What it is a field of.
    pub parent: Option<FieldId>,
    /// Keys from the root, a list inside a record counting as one more.
    pub level: u32,
    /// Whether it is, or is inside of, a list inside a record.
    pub nested: bool,
    /// Whether it is a record, or is inside of one: an element of a list, or a part of one.
    pub in_record: bool,
    /// What it is worth.
    pub priority: FieldPriority,
    /// Whether some of its values are containers, so that it has fields itself.
    pub container: bool,
    /// Whether some of them are lists with names.
    pub map: bool,
    /// How many values it has.
    pub count: u64,
    /// What its values weigh when shortened, in 1/[`crate::tokens::FINE`] token, keys included.
    pub weights: [u64; VALUE_LENGTHS.len()],
    /// Elements of its lists, in all, when shortened to [`LIST_LENGTHS`].
    pub elements: [u64; LIST_LENGTHS.len()],
    /// Those of its values that were weighed.
    weighed: Weighed,
    /// Characters of its strings.
    characters: u64,
    strings: u64,
    prose: u64,
    empty: u64,
    /// The hashes of its values, as far as they differ, and as far as they are counted.
    distinct: BTreeSet<u64>,
    /// By their keys, as they stand in JSON that is not escaped.
    children: Keyed<FieldId>,
    key_weight: u64,
}

/// The fields of a document.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// In the order in which they were met.
    pub fields: Vec<Field>,
    /// The field of each value.
    field_ids: Vec<u32>,
}

impl Schema {
    /// The fields of a document. O(n): of a field with few values all are weighed, of others some.
    #[must_use]
    pub fn new(outline: &Outline<'_>, estimator: &Estimator) -> Self {
        let mut schema = Self { field_ids: vec![u32::MAX; outline.len()], ..Self::default() };
        let root = schema.field(None, b"", 0, false, 0);
        visit::all(&mut schema, outline, estimator, root);
        schema.score_fields();
        schema
    }

    /// The field of a value.
    #[must_use]
    pub fn field_of(&self, id: Id) -> Option<FieldId> {
        usize::try_from(*self.field_ids.get(id)?).ok().filter(|at| *at < self.fields.len())
    }

    /// Whether an object of a field is a list with names, as others of the field are.
    #[must_use]
    pub fn is_map(&self, at: FieldId, node: &Node) -> bool {
        node.kind == Kind::Object
            && node.children >= MIN_MAP_CONTAINERS
            && self.fields.get(at).is_some_and(|field| field.map)
    }

    /// The path of a field from the nearest record: `user.login`, `labels[].name`.
    #[must_use]
    pub fn path(&self, at: FieldId) -> String {
        let name = self.fields.get(at).map_or("", |field| field.name.as_str());
        match self.fields.get(at).and_then(|field| field.parent) {
            Some(parent) => self.path_of(parent, name),
            None => String::new(),
        }
    }

    /// The path of a member of this name in a field.
    #[must_use]
    pub fn path_of(&self, parent: FieldId, name: &str) -> String {
        let mut names = vec![name];
        let mut next = Some(parent);
        while let Some(field) = next.and_then(|at| self.fields.get(at)) {
            names.push(field.name.as_str());
            next = field.parent;
        }
        names.pop();
        let mut path = String::new();
        for name in names.iter().rev() {
            if *name == "[]" {
                path.push_str("[]");
            } else {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
        }
        let path =
            path.strip_prefix("[].").or(path.strip_prefix("*.")).map(str::to_owned).unwrap_or(path);
        // A path of many names says no more than its ends.
        let parts: Vec<&str> = path.split('.').collect();
        match parts.as_slice() {
            [first, .., before, last] if parts.len() > MAX_PATH_NAMES => {
                format!("{first}.….{before}.{last}")
            }
            _ => path,
        }
    }

    /// The keys from the root to a field, list levels left out: what a projection names.
    #[must_use]
    pub fn keys(&self, at: FieldId) -> Vec<&str> {
        let mut names = Vec::new();
        let mut next = Some(at);
        while let Some(field) = next.and_then(|at| self.fields.get(at)) {
            if !matches!(field.name.as_str(), "" | "[]" | "*") {
                names.push(field.name.as_str());
            }
            next = field.parent;
        }
        names.reverse();
        names
    }

    /// How many members of a field are among those `wanted`; none where they have any keys. O(fields).
    #[must_use]
    pub(super) fn members(&self, at: FieldId, wanted: &[bool]) -> Option<u32> {
        let members = self.fields.iter().zip(wanted).filter(|(field, _)| field.parent == Some(at));
        let mut count = 0;
        for (field, wanted) in members {
            if field.name == "*" {
                return None;
            }
            count += u32::from(*wanted);
        }
        Some(count)
    }

    /// The field of a key in a field, if it has been met.
    #[inline]
    pub(super) fn child(&self, at: FieldId, key: &[u8]) -> Option<FieldId> {
        self.fields.get(at)?.children.find(key)
    }

    fn field(
        &mut self,
        parent: Option<FieldId>,
        key: &[u8],
        level: u32,
        nested: bool,
        key_weight: u64,
    ) -> FieldId {
        if let Some(known) = parent.and_then(|parent| self.child(parent, key)) {
            return known;
        }
        let at = self.fields.len();
        let name = String::from_utf8_lossy(&crate::json::text::visible(
            key,
            crate::json::text::Form::Escaped,
        ))
        .into_owned();
        let outer = parent.and_then(|at| self.fields.get(at)).is_some_and(|field| field.in_record);
        self.fields.push(Field {
            in_record: nested || outer || matches!(name.as_str(), "[]" | "*"),
            name,
            parent,
            level,
            nested,
            priority: FieldPriority::Plain,
            container: false,
            map: false,
            count: 0,
            weights: [0; VALUE_LENGTHS.len()],
            elements: [0; LIST_LENGTHS.len()],
            weighed: Weighed::default(),
            characters: 0,
            strings: 0,
            prose: 0,
            empty: 0,
            distinct: BTreeSet::new(),
            children: Keyed::default(),
            key_weight,
        });
        if let Some(parent) = parent.and_then(|parent| self.fields.get_mut(parent)) {
            parent.children.add(key, at);
        }
        at
    }

    /// What each field is worth: by its name, its values, and how deep it stands.
    fn score_fields(&mut self) {
        let names: Vec<String> = (0..self.fields.len())
            .map(|at| self.keys(at).last().map_or_else(String::new, |name| (*name).to_owned()))
            .collect();
        for (at, name) in names.iter().enumerate() {
            let is_record = self
                .fields
                .get(at)
                .is_some_and(|field| matches!(field.name.as_str(), "[]" | "*") && !field.nested);
            let Some(field) = self.fields.get_mut(at) else { continue };
            let average = field.characters / field.strings.max(1);
            let mut priority = field_priority(name);
            if field.prose * 2 > field.count && average > 100 && priority != FieldPriority::Noise {
                priority = if priority == FieldPriority::Identity {
                    FieldPriority::State
                } else {
                    FieldPriority::Prose
                };
            }
            if priority == FieldPriority::Prose && average <= 100 {
                priority = FieldPriority::Key;
            }
            // What stands deep, or in a list inside a record, tells other things apart than the records.
            let deep = field.nested || field.level > 2;
            priority = match priority {
                FieldPriority::Identity | FieldPriority::State if deep => FieldPriority::Key,
                FieldPriority::Identity
                    if field.level > 1
                        && matches!(
                            name.to_lowercase().as_str(),
                            "id" | "_id" | "uid" | "uuid"
                        ) =>
                {
                    FieldPriority::Key
                }
                FieldPriority::Key if field.nested || field.level > 3 => FieldPriority::Plain,
                priority => priority,
            };
            if average > 400 && field.prose == 0 {
                priority = FieldPriority::Noise;
            }
            // A name that half of the records share does not tell them apart.
            let distinct = field.distinct.len() as u64;
            if priority == FieldPriority::Identity
                && field.count >= 4
                && distinct * 2 < field.count.min(MAX_DISTINCT_VALUES as u64)
            {
                priority = FieldPriority::State;
            }
            let constant = field.count >= 3 && distinct == 1;
            if field.empty == field.count || (constant && priority > FieldPriority::State) {
                priority = FieldPriority::Noise;
            }
            if is_record && !field.container {
                priority = FieldPriority::Identity;
            }
            field.priority = priority;
        }
    }
}
