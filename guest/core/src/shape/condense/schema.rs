//! The fields of a document: values at the same path of all records are one field.

mod visit;

use std::collections::BTreeSet;

use crate::fields::priority::{FieldPriority, field_priority};
use crate::json::key_cache::KeyCache;
use crate::json::outline::{Node, NodeId, Outline};
use crate::json::scan::Kind;
use crate::tokens::{CostModel, Estimator};

/// The lengths, in characters, to which condensing may shorten string values. The last is
/// unlimited.
pub const VALUE_LENGTHS: [usize; 7] = [24, 48, 96, 192, 400, 1_000, usize::MAX];
/// The index in [`VALUE_LENGTHS`] of the length that grows with the tokens that remain.
pub const TEXT_LENGTH: usize = FULL_LENGTH - 1;
/// The index of the unlimited length in [`VALUE_LENGTHS`].
pub const FULL_LENGTH: usize = VALUE_LENGTHS.len() - 1;
/// The maximum numbers of elements that condensing may leave in lists inside records. The last is
/// unlimited.
pub const LIST_LENGTHS: [usize; 4] = [1, 3, 8, usize::MAX];

/// The index of a field in [`Schema::fields`].
pub type FieldId = usize;

/// The maximum number of distinct values of a field that are counted.
const MAX_DISTINCT_VALUES: usize = 512;
/// The maximum number of fields that are selected from. A document of more has no records alike,
/// and its field names alone exceed every token limit.
const MAX_FIELDS: usize = 50_000;
/// The maximum number of names in a field path. Longer paths are abbreviated.
const MAX_PATH_NAMES: usize = 5;
/// The minimum number of members with which an object of objects or lists is treated as a map: its
/// keys are data, like the elements of a list.
const MIN_MAP_CONTAINERS: u32 = 16;

/// A field of a document: all values at the same path, such as `items[].name`.
#[derive(Debug)]
pub struct Field {
    /// The key of the field in its parent object. `[]` for elements of a list, `*` for members of a
    /// map.
    pub name: String,
    /// The field that contains this one. `None` for the root.
    pub parent: Option<FieldId>,
    /// The number of keys on the path from the root. A list inside a record counts as one.
    pub level: u32,
    /// True for elements of a list inside a record, and for all fields inside those elements.
    pub nested: bool,
    /// True for records, which are elements of lists or maps, and for all fields inside them.
    pub in_record: bool,
    /// The importance of the field to a reader, which decides the order of selection.
    pub priority: FieldPriority,
    /// True if some values of the field are objects or lists.
    pub container: bool,
    /// True if some values of the field are maps: objects whose keys are data.
    pub map: bool,
    /// The number of values at this path in the document.
    pub count: u64,
    /// For each of [`VALUE_LENGTHS`], the total cost of the values with their keys if shortened to
    /// that length, in 1/[`crate::tokens::COST_SCALE`] token.
    pub costs: [u64; VALUE_LENGTHS.len()],
    /// For each of [`LIST_LENGTHS`], the total number of elements in all lists at this path if each
    /// list is shortened to that length.
    pub elements: [u64; LIST_LENGTHS.len()],
    /// Cost samples of the field's values, from which the costs of unpriced values are estimated.
    cost_model: CostModel,
    /// The total number of characters in the string values of the field.
    pub(super) characters: u64,
    /// The number of string values of the field.
    pub(super) strings: u64,
    prose: u64,
    empty: u64,
    /// The hashes of distinct values, at most [`MAX_DISTINCT_VALUES`].
    distinct: BTreeSet<u64>,
    /// The fields directly inside this one, by their keys in unescaped JSON.
    children: KeyCache<FieldId>,
    key_cost: u64,
}

/// All fields of a document or of a list of records, with their counts and costs.
#[derive(Debug, Default)]
pub struct Schema {
    /// The fields, in the order in which their first values occur.
    pub fields: Vec<Field>,
    /// For each value of the document, by its [`NodeId`], the index of its field in `fields`.
    field_ids: Vec<u32>,
}

impl Schema {
    /// Creates the schema of a document. `None` if it has more than 50,000 fields.
    /// O(n log fields). If a field has many values, only some of them are priced, and the total
    /// cost is estimated.
    #[must_use]
    pub fn new(outline: &Outline<'_>, estimator: &Estimator) -> Option<Self> {
        let mut schema = Self { field_ids: vec![u32::MAX; outline.len()], ..Self::default() };
        let root = schema.field(None, b"", 0, false, 0);
        visit::all(&mut schema, outline, estimator, root);
        if schema.fields.len() > MAX_FIELDS {
            return None;
        }
        schema.score_fields();
        Some(schema)
    }

    /// Returns the field of the value `id` of the document. `None` if the value has no field.
    #[must_use]
    pub fn field_of(&self, id: NodeId) -> Option<FieldId> {
        usize::try_from(*self.field_ids.get(id)?).ok().filter(|at| *at < self.fields.len())
    }

    /// Returns true if the object `node`, a value of the field `at`, is treated as a map: its keys
    /// are data.
    #[must_use]
    pub fn is_map(&self, at: FieldId, node: &Node) -> bool {
        node.kind == Kind::Object
            && node.children >= MIN_MAP_CONTAINERS
            && self.fields.get(at).is_some_and(|field| field.map)
    }

    /// Returns the path of a field, relative to the record that contains it: `user.login`,
    /// `labels[].name`.
    #[must_use]
    pub fn path(&self, at: FieldId) -> String {
        let name = self.fields.get(at).map_or("", |field| field.name.as_str());
        match self.fields.get(at).and_then(|field| field.parent) {
            Some(parent) => self.path_of(parent, name),
            None => String::new(),
        }
    }

    /// Returns the path of the member `name` of the field `parent`, relative to the record that
    /// contains it.
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
        // The ends of a long path identify it.
        let parts: Vec<&str> = path.split('.').collect();
        match parts.as_slice() {
            [first, .., before, last] if parts.len() > MAX_PATH_NAMES => {
                format!("{first}.….{before}.{last}")
            }
            _ => path,
        }
    }

    /// Returns the keys on the path from the root to a field, without list elements, as policy
    /// masks write paths.
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

    /// Returns the number of direct members of the field `at` for which `wanted` is true. `None`
    /// for maps, whose keys are not known in advance. O(fields).
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

    /// Returns the id of the member `key` of the field `at`. `None` if no value had this member.
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
        key_cost: u64,
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
            costs: [0; VALUE_LENGTHS.len()],
            elements: [0; LIST_LENGTHS.len()],
            cost_model: CostModel::default(),
            characters: 0,
            strings: 0,
            prose: 0,
            empty: 0,
            distinct: BTreeSet::new(),
            children: KeyCache::default(),
            key_cost,
        });
        if let Some(parent) = parent.and_then(|parent| self.fields.get_mut(parent)) {
            parent.children.add(key, at);
        }
        at
    }

    /// Sets the priority of each field, derived from its name, values and depth.
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
            // The values decide if they contradict the name: long texts are prose, short ones are
            // not.
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
            // A field at a deep level, or in a list inside a record, identifies something else than
            // the record.
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
            // Long strings that are no prose are encoded data.
            if average > 400 && field.prose == 0 {
                priority = FieldPriority::Noise;
            }
            // A value that half of the records share does not identify them.
            let distinct = field.distinct.len() as u64;
            if priority == FieldPriority::Identity
                && field.count >= 4
                && distinct * 2 < field.count.min(MAX_DISTINCT_VALUES as u64)
            {
                priority = FieldPriority::State;
            }
            // An empty value, or the same in all records, says nothing about a record.
            let constant = field.count >= 3 && distinct == 1;
            if field.empty == field.count || (constant && priority > FieldPriority::State) {
                priority = FieldPriority::Noise;
            }
            // Records that are plain values have no fields: the values identify them.
            if is_record && !field.container {
                priority = FieldPriority::Identity;
            }
            field.priority = priority;
        }
    }
}
