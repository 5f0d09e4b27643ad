//! The fields of a document: values at the same path of all records form one field.

mod score;
mod visit;

use std::collections::BTreeSet;

use crate::fields::priority::FieldPriority;
use crate::json::key_cache::KeyCache;
use crate::json::outline::{Node, NodeId, Outline};
use crate::json::scan::Kind;
use crate::tokens::{CostModel, Estimator};

/// The lengths, in characters, to which condensing may shorten string values. The last is
/// unlimited.
pub const VALUE_LENGTHS: [usize; 7] = [24, 48, 96, 192, 400, 1_000, usize::MAX];
/// The index in [`VALUE_LENGTHS`] of the length that grows with the remaining tokens.
pub const TEXT_LENGTH: usize = FULL_LENGTH - 1;
/// The index of the unlimited length in [`VALUE_LENGTHS`].
pub const FULL_LENGTH: usize = VALUE_LENGTHS.len() - 1;
/// The maximum numbers of elements that condensing may leave in lists inside records. The last is
/// unlimited.
pub const LIST_LENGTHS: [usize; 7] = [1, 2, 3, 5, 8, 20, usize::MAX];

/// The position of a field in its document.
#[derive(Clone, Copy, Default)]
struct FieldPosition {
    /// The number of keys on the path from the root. See [`Field::level`].
    level: u32,
    /// True for elements of a list inside a record. See [`Field::nested`].
    nested: bool,
    /// True if the values are elements of a list of records.
    is_record: bool,
}

/// The index of a field in [`Schema::fields`].
pub type FieldId = usize;

/// The maximum number of distinct values of a field that are counted.
const MAX_DISTINCT_VALUES: usize = 512;
/// The maximum number of fields to select from. A document with more fields has no similar records,
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
    /// The rank of the document's part that contains the field: 0 for results, 2 for definitions
    /// and settings, 1 for all others.
    pub section: u8,
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
    /// The number of values that are neither objects nor lists, or that are empty ones.
    pub values: u64,
    /// The total number of characters in the string values of the field.
    pub(super) characters: u64,
    /// The number of string values of the field.
    pub(super) strings: u64,
    prose: u64,
    /// The number of values that are short texts of several words.
    phrases: u64,
    /// The number of values that are URLs.
    pub(super) links: u64,
    /// The number of values that contain a hash or a random identifier.
    opaque: u64,
    /// The number of values that are numbers.
    pub(super) numbers: u64,
    /// The number of values that begin with a date, such as `2026-01-31`.
    pub(super) dates: u64,
    empty: u64,
    /// The hashes of distinct values, at most [`MAX_DISTINCT_VALUES`].
    distinct: BTreeSet<u64>,
    /// The fields directly inside this one, by their keys in unescaped JSON.
    children: KeyCache<FieldId>,
    key_cost: u64,
}

impl Field {
    /// Returns true if the values of the field are elements of a list or members of a map.
    #[must_use]
    pub fn is_item(&self) -> bool {
        matches!(self.name.as_str(), "[]" | "*")
    }

    /// Returns the number of distinct values, at most 512.
    #[must_use]
    pub fn distinct_values(&self) -> usize {
        self.distinct.len()
    }

    /// Returns true if the values of a field are records, which are never removed as a whole.
    #[must_use]
    pub fn is_record(&self) -> bool {
        self.container && self.is_item() && self.in_record && !self.nested
    }
}

/// All fields of a document or of a list of records, with their counts and costs.
#[derive(Debug, Default)]
pub struct Schema {
    /// The fields, in the order in which their first values occur.
    pub fields: Vec<Field>,
    /// For each value of the document, by its [`NodeId`], the index of its field in `fields`.
    field_ids: Vec<u32>,
    /// True if the document is a list of records, whose constant values are stated once.
    is_list: bool,
    /// The fields of a list of records that have the same value in all of them.
    pub constants: Vec<FieldId>,
}

impl Schema {
    /// Creates the schema of a document, or of a list of records if `is_list`. `None` if it has
    /// more than 50,000 fields. O(n log fields). If a field has many values, only a sample of them
    /// is priced, and the total cost is estimated.
    #[must_use]
    pub fn new(outline: &Outline<'_>, estimator: &Estimator, is_list: bool) -> Option<Self> {
        let field_ids = vec![u32::MAX; outline.len()];
        let mut schema = Self { field_ids, is_list, ..Self::default() };
        let root = schema.field(None, b"", FieldPosition::default(), 0);
        visit::all(&mut schema, outline, estimator, root);
        if schema.fields.len() > MAX_FIELDS {
            return None;
        }
        schema.score_fields();
        Some(schema)
    }

    /// Returns an upper bound for the number of elements of any list, from the totals of all lists
    /// at a path. O(fields).
    #[must_use]
    pub fn most_elements(&self) -> usize {
        let totals = self.fields.iter().filter_map(|field| field.elements.last().copied());
        usize::try_from(totals.max().unwrap_or(0)).unwrap_or(usize::MAX)
    }

    /// Returns the field of the value `id` of the document. `None` if the value has no field.
    #[must_use]
    pub fn field_of(&self, id: NodeId) -> Option<FieldId> {
        usize::try_from(*self.field_ids.get(id)?).ok().filter(|at| *at < self.fields.len())
    }

    /// Returns true if the object `node`, a value of the field `at`, is treated as a map, whose
    /// keys are data.
    #[must_use]
    pub fn is_map(&self, at: FieldId, node: &Node) -> bool {
        node.kind == Kind::Object
            && node.children >= MIN_MAP_CONTAINERS
            && self.fields.get(at).is_some_and(|field| field.map)
    }

    /// Returns the path of a field from the root, such as `items[].name`. In a list of records, the
    /// path is relative to the record: `user.login`, `labels[].name`. A path of more than five
    /// names is abbreviated.
    #[must_use]
    pub fn path(&self, at: FieldId) -> String {
        let name = self.fields.get(at).map_or("", |field| field.name.as_str());
        match self.fields.get(at).and_then(|field| field.parent) {
            Some(parent) => self.path_of(parent, name),
            None => String::new(),
        }
    }

    /// Returns the path of the member `name` of the field `parent`, in the form of
    /// [`Schema::path`].
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

    /// Returns the keys on the path from the root to a field, without list elements and keys of
    /// maps, in the form of policy masks.
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

    /// Returns the number of records that were read for the schema, or 1 for a document without
    /// records.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        self.fields.iter().find(|field| field.is_record()).map_or(1, |field| field.count)
    }

    /// Sets the entry of `field` and of all its containers in `read`, which has an entry for each
    /// field.
    pub(super) fn mark_with_containers(&self, read: &mut [bool], field: FieldId) {
        let mut next = Some(field);
        while let Some(read) = next.and_then(|at| read.get_mut(at)) {
            *read = true;
            next = next.and_then(|at| self.fields.get(at)?.parent);
        }
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
        position: FieldPosition,
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
            in_record: position.nested || outer || position.is_record,
            name,
            parent,
            level: position.level,
            nested: position.nested,
            priority: FieldPriority::Plain,
            section: 1,
            container: false,
            map: false,
            count: 0,
            costs: [0; VALUE_LENGTHS.len()],
            elements: [0; LIST_LENGTHS.len()],
            cost_model: CostModel::default(),
            values: 0,
            characters: 0,
            strings: 0,
            prose: 0,
            phrases: 0,
            links: 0,
            opaque: 0,
            numbers: 0,
            dates: 0,
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
}
