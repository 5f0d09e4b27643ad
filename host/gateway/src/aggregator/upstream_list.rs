//! A list of an upstream, in the form that the aggregator merges and caches.

#[cfg(test)]
use std::sync::Arc;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

/// The maximum number of entries of one list. An upstream may list endless new names.
pub(super) const MAX_ENTRIES: usize = 20_000;
/// The memory that an entry of a list takes in addition to its texts, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// An entry of a list: a tool, prompt, resource or resource template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListEntry {
    /// The name or URI that identifies the entry.
    pub key: String,
    pub json: String,
}

/// The entries of one upstream's list. The guard's own tool, which the guard adds to lists of
/// tools, is in `read_tool` instead.
#[derive(Debug, Default)]
pub(super) struct UpstreamList {
    pub entries: Vec<ListEntry>,
    pub read_tool: Option<String>,
    /// The hash of the entries, computed when it is first needed.
    pub digest: OnceLock<[u8; 32]>,
}

impl PartialEq for UpstreamList {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries && self.read_tool == other.read_tool
    }
}

impl UpstreamList {
    /// Returns the total size of the entries, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.key.len() + entry.json.len()).sum()
    }

    /// Returns the estimated memory of the list, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let read_tool = self.read_tool.as_ref().map_or(0, String::len);
        self.bytes() + self.entries.len() * ENTRY_OVERHEAD_BYTES + read_tool
    }

    /// Returns a hash of the entries, in their order.
    pub(super) fn digest(&self) -> &[u8; 32] {
        self.digest.get_or_init(|| {
            let mut hash = Sha256::new();
            for entry in &self.entries {
                hash.update((entry.json.len() as u64).to_le_bytes());
                hash.update(entry.json.as_bytes());
            }
            hash.finalize().into()
        })
    }

    /// Returns true if the other list contains the same entries, in any order.
    pub(super) fn has_entries_of(&self, other: &Self) -> bool {
        let sorted = |list: &Self| {
            let mut entries = list.entries.clone();
            entries.sort();
            entries
        };
        self == other || sorted(self) == sorted(other)
    }

    #[cfg(test)]
    pub(super) fn named(key: &str) -> Arc<Self> {
        let entries = vec![ListEntry { key: key.to_owned(), json: "{}".to_owned() }];
        Arc::new(Self { entries, ..Self::default() })
    }
}
