//! Writes and reads the store entries of snapshots.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::index::{Index, SEGMENT_BYTES, segment_key};
use super::key::is_snapshot_name;
use crate::encoding::Stored;

/// An entry for the store: a key and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key under which the value is stored.
    pub key: String,
    /// The value to store: an index, a segment, information about a tool, the name of a snapshot,
    /// or a part of a tool catalogue.
    pub value: Cow<'a, [u8]>,
}

impl Entry<'_> {
    /// Converts the entry to one that owns its value.
    #[must_use]
    pub fn into_owned(self) -> Entry<'static> {
        Entry { key: self.key, value: Cow::Owned(self.value.into_owned()) }
    }
}

/// Returns the store entries of a snapshot: its index, then the segments of `bytes`. The segments
/// borrow from `bytes`.
#[must_use]
pub fn entries<'a>(snapshot: &str, index: &Index, bytes: &'a [u8]) -> Vec<Entry<'a>> {
    let mut entries = vec![Entry { key: snapshot.to_owned(), value: index.to_bytes().into() }];
    for (at, segment) in bytes.chunks(SEGMENT_BYTES).enumerate() {
        entries.push(Entry { key: segment_key(snapshot, at as u64), value: segment.into() });
    }
    entries
}

/// Returns the names of the snapshots whose indexes are among the entries.
#[must_use]
pub fn snapshots(entries: &[Entry<'_>]) -> Vec<String> {
    let names = entries.iter().map(|entry| &entry.key).filter(|key| is_snapshot_name(key));
    names.cloned().collect()
}

/// The store entries that the host has loaded so far, by key. A value of `None` means that the
/// store has no such entry.
pub type Loaded = BTreeMap<String, Option<Vec<u8>>>;

/// The reason why a part of a snapshot cannot be read now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The store entries with these keys must be loaded first.
    Keys(Vec<String>),
    /// An entry of the snapshot is no longer in the store, has an unknown format, or is too short.
    Gone,
}

/// A snapshot whose index, and possibly some segments, are loaded.
pub struct StoredSnapshot<'a> {
    /// The name of the snapshot.
    pub name: &'a str,
    /// The index of the snapshot.
    pub index: Index,
    loaded: &'a Loaded,
}

impl<'a> StoredSnapshot<'a> {
    /// Opens the snapshot `name`. Its index must be in `loaded`.
    ///
    /// # Errors
    /// Returns [`Missing`] if the index is not loaded, no longer stored, or in an unknown format.
    pub fn open(name: &'a str, loaded: &'a Loaded) -> Result<Self, Missing> {
        match loaded.get(name) {
            None => Err(Missing::Keys(vec![name.to_owned()])),
            Some(None) => Err(Missing::Gone),
            Some(Some(bytes)) => {
                let index = Index::from_bytes(bytes).ok_or(Missing::Gone)?;
                Ok(Self { name, index, loaded })
            }
        }
    }

    /// Returns the bytes `from..to` of the stored payload, or fewer at its end. Needs the segments
    /// that contain them.
    ///
    /// # Errors
    /// Returns [`Missing`] if a segment is not loaded, no longer stored, or too short.
    pub fn bytes(&self, from: u64, to: u64) -> Result<Vec<u8>, Missing> {
        let to = to.min(self.index.bytes);
        let size = SEGMENT_BYTES as u64;
        if from >= to {
            return Ok(Vec::new());
        }
        let source = self.index.source(self.name);
        let keys: Vec<String> =
            (from / size..to.div_ceil(size)).map(|at| segment_key(source, at)).collect();
        let missing: Vec<String> =
            keys.iter().filter(|key| !self.loaded.contains_key(*key)).cloned().collect();
        if !missing.is_empty() {
            return Err(Missing::Keys(missing));
        }
        let mut bytes =
            Vec::with_capacity(usize::try_from(to - from).unwrap_or(0) + 2 * SEGMENT_BYTES);
        for key in &keys {
            match self.loaded.get(key) {
                Some(Some(segment)) => bytes.extend_from_slice(segment),
                _ => return Err(Missing::Gone),
            }
        }
        let skip = usize::try_from(from % size).unwrap_or(usize::MAX);
        let length = usize::try_from(to - from).unwrap_or(usize::MAX);
        // The first segment may begin before `from`, the last may end after `to`.
        bytes.drain(..skip.min(bytes.len()));
        if bytes.len() < length {
            return Err(Missing::Gone);
        }
        bytes.truncate(length);
        Ok(bytes)
    }
}
