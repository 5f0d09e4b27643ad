//! A list of an upstream, as the aggregator merges and remembers it.

#[cfg(test)]
use std::sync::Arc;

/// An entry of a list: a tool, prompt, resource or resource template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListEntry {
    /// The name or URI that identifies the entry.
    pub key: String,
    pub json: String,
}

/// The entries of one upstream's list. `read_tool` is the guard's own tool, which the guard adds to
/// lists of tools.
#[derive(Debug, Default, PartialEq)]
pub(super) struct UpstreamList {
    pub entries: Vec<ListEntry>,
    pub read_tool: Option<String>,
}

impl UpstreamList {
    /// Returns the total size of the entries, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.key.len() + entry.json.len()).sum()
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
        Arc::new(Self { entries, read_tool: None })
    }
}
