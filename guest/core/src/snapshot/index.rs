//! The index of a snapshot: positions of items and chunks, so that one is found without reading
//! all.

use serde::{Deserialize, Serialize};

use crate::encoding::{pack, unpack};
use crate::json::text::Form;

/// Size of a segment in bytes.
pub const SEGMENT_BYTES: usize = 64 * 1024;

/// Identifies the stored form. Must change whenever stored bytes would be read differently.
const FORMAT: &[u8; 4] = b"cgi1";

/// The index of a snapshot, stored beside its segments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// The tool or resource, without its upstream. Determines the settings.
    pub endpoint: String,
    /// The form of the bytes.
    pub form: Form,
    /// Size of the original payload in bytes: that of all segments.
    pub bytes: u64,
    /// Time of expiry in milliseconds since 1970.
    pub expires_ms: u64,
    /// Tokens of the original payload.
    pub tokens: u64,
    /// `tokens` was extrapolated from samples.
    pub sampled: bool,
    /// The placement of the original in `structuredContent`, if it was there.
    pub structured: Option<Placement>,
    /// The kind of payload and the positions of its parts.
    pub body: SnapshotBody,
}

/// The placement of a payload in `structuredContent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Placement {
    /// The whole value. A page replaces it.
    Whole,
    /// A string of the value, with the bytes before and after the string's content.
    Text(Vec<u8>, Vec<u8>),
    /// The whole value, shown as text under `context_guard`.
    Document,
}

/// The kind of a payload and the positions of its parts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SnapshotBody {
    /// One or several lists of a document, whose items are numbered consecutively.
    List(ListIndex),
    /// A text.
    Text(TextIndex),
    /// Selected fields of a list.
    Projected(ProjectedList),
}

/// Selected fields of a list that is stored as another snapshot. Each page is projected from that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProjectedList {
    /// The snapshot of the list.
    pub source: String,
    /// The fields, as the caller wrote them.
    pub fields: String,
    /// Keys from the document to the list, if the paths of the fields start at the document.
    pub within: Vec<String>,
    /// The list.
    pub list: ListIndex,
}

/// The positions of the items of lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListIndex {
    /// The items are content blocks of a result, not elements of a JSON document.
    pub blocks: bool,
    /// The bytes around the lists: before the first, between them, after the last.
    pub skeleton: Vec<Vec<u8>>,
    /// Index of the longest list.
    pub main: u64,
    /// The document is a bare array.
    pub bare: bool,
    /// The lists.
    pub lists: Vec<ListMark>,
    /// The first item that begins in each segment.
    pub marks: Vec<ItemMark>,
}

/// A list of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListMark {
    /// Its keys, dotted; empty for a bare array.
    pub path: String,
    /// The byte after its opening bracket.
    pub start: u64,
    /// Its number of items.
    pub count: u64,
}

/// The position of an item.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItemMark {
    /// Its number across all lists.
    pub item: u64,
    /// Its first byte.
    pub offset: u64,
}

/// The positions of the chunks of a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextIndex {
    /// Its number of lines.
    pub lines: u64,
    /// The positions of its chunks.
    pub chunks: Vec<ChunkMark>,
}

/// The position of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkMark {
    /// Its first byte.
    pub offset: u64,
    /// The line of that byte, counted from 1.
    pub line: u64,
}

impl ListIndex {
    /// Returns the number of items in all lists.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lists.iter().map(|list| list.count).sum()
    }

    /// Returns the nearest known position at or before an item. O(log n).
    #[must_use]
    pub fn mark(&self, item: u64) -> Option<ItemMark> {
        let after = self.marks.partition_point(|mark| mark.item <= item);
        self.marks.get(after.checked_sub(1)?).copied()
    }
}

impl TextIndex {
    /// Returns the index of the chunk that contains byte `offset`. O(log n).
    #[must_use]
    pub fn chunk_at(&self, offset: u64) -> usize {
        self.chunks.partition_point(|mark| mark.offset <= offset).saturating_sub(1)
    }

    /// Returns the nearest known position at or before the start of `line`. O(log n).
    #[must_use]
    pub fn before_line(&self, line: u64) -> ChunkMark {
        let after = self.chunks.partition_point(|mark| mark.line < line);
        after
            .checked_sub(1)
            .and_then(|at| self.chunks.get(at))
            .copied()
            .unwrap_or(ChunkMark { offset: 0, line: 1 })
    }
}

impl Index {
    /// Returns the stored form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        pack(FORMAT, self)
    }

    /// Reads the stored form. Returns none if it has another format.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        unpack(FORMAT, bytes)
    }

    /// Returns the keys of all entries of the snapshot.
    #[must_use]
    pub fn keys(&self, snapshot: &str) -> Vec<String> {
        let segments = self.bytes.div_ceil(SEGMENT_BYTES as u64);
        let source = self.source(snapshot);
        std::iter::once(snapshot)
            .chain((source != snapshot).then_some(source))
            .map(str::to_owned)
            .chain((0..segments).map(|at| segment_key(source, at)))
            .collect()
    }

    /// Returns the name of the snapshot that has the segments. `snapshot` is the name of this one.
    #[must_use]
    pub fn source<'s>(&'s self, snapshot: &'s str) -> &'s str {
        match &self.body {
            SnapshotBody::Projected(view) => &view.source,
            SnapshotBody::List(_) | SnapshotBody::Text(_) => snapshot,
        }
    }
}

/// Returns the key of a segment.
#[must_use]
pub fn segment_key(snapshot: &str, at: u64) -> String {
    format!("{snapshot}.{at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projected_list_includes_the_keys_of_its_source() {
        let view = ProjectedList {
            source: "list".to_owned(),
            fields: "id".to_owned(),
            within: Vec::new(),
            list: ListIndex::default(),
        };
        let index = Index {
            endpoint: String::new(),
            form: Form::Raw,
            bytes: SEGMENT_BYTES as u64 + 1,
            expires_ms: 0,
            tokens: 0,
            sampled: false,
            structured: None,
            body: SnapshotBody::Projected(view),
        };
        assert_eq!(index.keys("view"), ["view", "list", "list.0", "list.1"]);
        let list = Index { body: SnapshotBody::List(ListIndex::default()), ..index };
        assert_eq!(list.keys("list"), ["list", "list.0", "list.1"]);
    }
}
