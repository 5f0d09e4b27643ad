//! The fields of records that a query reads. The parser skips all others when it locates the
//! records.

use crate::json::key_cache::KeyCache;
use crate::json::outline::PathFilter;
use crate::json::text::{Form, visible};

/// The maximum number of distinct keys in the cache of decisions.
const MAX_CACHED_KEYS: usize = 1_000;

/// The state of the filter for the list of records. Smaller states are those of the values on the
/// way to the list: the number of keys so far.
const LIST: u32 = u32::MAX - 3;
/// The state for a record.
const RECORD: u32 = u32::MAX - 2;
/// The state for a value inside a needed field of a record.
const FIELD: u32 = u32::MAX - 1;
/// The state for a member beside the list, of which only the key and the type are read.
const OTHER: u32 = u32::MAX;

/// The keys of records that a query reads.
#[derive(Clone, Debug, Default)]
pub(super) struct NeededFields {
    /// Keys in lower case. Several of them, joined by dots, may be one key of a record.
    keys: Vec<String>,
}

impl NeededFields {
    /// Adds the keys of a field name. Any of them may be the first key inside a record, because the
    /// name may also contain the path of the list.
    pub(super) fn add<'k>(&mut self, keys: impl Iterator<Item = &'k str>) {
        for key in keys.map(str::to_lowercase) {
            // `cost__amount` and `orbit/@type` may be paths.
            let parts = key.split("__").flat_map(|part| part.split('/'));
            self.keys.extend(parts.filter(|part| *part != key).map(str::to_owned));
            self.keys.push(key);
        }
    }

    /// Returns a filter for a document in the form `form`, whose records are in the list at the
    /// keys `list`.
    pub(super) fn filter<'n>(&'n self, list: &'n [String], form: Form) -> NeededValues<'n> {
        NeededValues { fields: self, list, form, known: KeyCache::default(), count: 0 }
    }

    fn has(&self, key: &str) -> bool {
        let key = key.to_lowercase();
        let begins = |name: &String| {
            key.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('.'))
        };
        self.keys.iter().any(|name| *name == key || begins(name))
    }
}

/// Selects the needed fields of the records in a document, and skips all others.
pub(super) struct NeededValues<'n> {
    fields: &'n NeededFields,
    list: &'n [String],
    form: Form,
    known: KeyCache<bool>,
    count: usize,
}

impl NeededValues<'_> {
    /// Returns the state for the value after `depth` keys on the way to the list.
    pub(super) fn path(&self, depth: usize) -> u32 {
        if depth >= self.list.len() { LIST } else { u32::try_from(depth).unwrap_or(OTHER) }
    }

    /// Decodes a key, which is escaped twice if the document is escaped.
    fn decoded(&self, key: &[u8]) -> String {
        let name = visible(key, self.form);
        String::from_utf8_lossy(&visible(&name, Form::Escaped)).into_owned()
    }

    fn is_needed(&mut self, key: &[u8]) -> bool {
        if let Some(known) = self.known.find(key) {
            return known;
        }
        let is_needed = self.fields.has(&self.decoded(key));
        if self.count < MAX_CACHED_KEYS {
            self.known.add(key, is_needed);
            self.count += 1;
        }
        is_needed
    }
}

impl PathFilter for NeededValues<'_> {
    fn child(&mut self, path: u32, key: Option<&[u8]>) -> Option<u32> {
        match (path, key) {
            (LIST, _) => Some(RECORD),
            (RECORD, Some(key)) => self.is_needed(key).then_some(FIELD),
            (RECORD | FIELD, _) => Some(FIELD),
            (OTHER, _) | (_, None) => None,
            (depth, Some(key)) => {
                let depth = usize::try_from(depth).unwrap_or(usize::MAX);
                let is_next = self.list.get(depth).is_some_and(|next| *next == self.decoded(key));
                Some(if is_next { self.path(depth + 1) } else { OTHER })
            }
        }
    }
}
