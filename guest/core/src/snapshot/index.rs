//! The index of a snapshot: positions of items and chunks, so that one of them is found without
//! reading the whole snapshot.

use serde::{Deserialize, Serialize};

use crate::encoding::{pack, unpack};
use crate::json::text::Form;

/// Size, in bytes, of the segments in which the bytes of a snapshot are stored.
pub const SEGMENT_BYTES: usize = 64 * 1024;

/// Identifies the byte format of stored indices. Must change whenever stored bytes would be read
/// differently.
const FORMAT: &[u8; 4] = b"cgi1";

/// The index of a snapshot, stored beside the segments with its bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// The tool or resource that gave the answer, without its upstream. Determines the settings.
    pub endpoint: String,
    /// The form of the stored bytes: raw, or escaped as in a JSON string.
    pub form: Form,
    /// Size of the original payload in bytes, which is the total of all segments.
    pub bytes: u64,
    /// The time at which the snapshot expires, in milliseconds since 1970.
    pub expires_ms: u64,
    /// Estimated tokens of the original payload.
    pub tokens: u64,
    /// True if `tokens` was extrapolated from samples.
    pub sampled: bool,
    /// The place of the original payload in `structuredContent`, if it was there.
    pub structured: Option<Placement>,
    /// The kind of payload, and the positions of its items or chunks.
    pub body: SnapshotBody,
}

/// The place of a payload in `structuredContent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Placement {
    /// The payload is the whole value of `structuredContent`, and a page of it takes its place.
    Whole,
    /// The payload is a string inside `structuredContent`. Holds the bytes of `structuredContent`
    /// before and after the content of that string.
    Text(Vec<u8>, Vec<u8>),
    /// The payload is the whole value of `structuredContent`, but excerpts of it are put under
    /// `context_guard`.
    Document,
}

/// The kind of a stored payload, and the positions of its items or chunks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SnapshotBody {
    /// One or several lists of a document, whose items are numbered consecutively.
    List(ListIndex),
    /// A text, divided into chunks.
    Text(TextIndex),
    /// A list of records, of which only selected fields are shown.
    Projected(ProjectedList),
}

/// Selected fields of a list that is stored as another snapshot. Each page is projected from that
/// snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProjectedList {
    /// The name of the snapshot that stores the complete list.
    pub source: String,
    /// The selected fields, as the caller wrote them.
    pub fields: String,
    /// Keys from the document to the list, if the paths in `fields` start at the document.
    /// Otherwise empty: the paths start at each record.
    pub within: Vec<String>,
    /// The positions of the records in the stored list.
    pub list: ListIndex,
}

/// The positions of the items of a document's lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListIndex {
    /// True if the items are content blocks of a result, not elements of a JSON document.
    pub blocks: bool,
    /// The bytes of the document around its lists: before the first, between them, after the last.
    pub skeleton: Vec<Vec<u8>>,
    /// Position of the longest list in `lists`.
    pub main: u64,
    /// True if the document is itself an array.
    pub bare: bool,
    /// The lists whose items are numbered, in the order of the document.
    pub lists: Vec<ListMark>,
    /// The first item that begins in each segment.
    pub marks: Vec<ItemMark>,
}

/// One list of a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListMark {
    /// The dotted keys from the document to the list; empty for a bare array.
    pub path: String,
    /// The offset of the byte after the list's opening bracket.
    pub start: u64,
    /// The number of items in the list.
    pub count: u64,
}

/// The position of an item in the stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItemMark {
    /// The item's number across all lists, counted from 0.
    pub item: u64,
    /// The offset of the item's first byte.
    pub offset: u64,
}

/// The positions of the chunks of a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextIndex {
    /// The number of lines in the text.
    pub lines: u64,
    /// The positions of the text's chunks, in ascending order.
    pub chunks: Vec<ChunkMark>,
}

/// The position of a chunk in a stored text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkMark {
    /// The offset of the chunk's first byte.
    pub offset: u64,
    /// The number of the line that contains that byte, counted from 1.
    pub line: u64,
}

impl ListIndex {
    /// Returns the number of items in all lists together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lists.iter().map(|list| list.count).sum()
    }

    /// Returns the nearest indexed position at or before an item, if there is one. O(log n).
    #[must_use]
    pub fn mark(&self, item: u64) -> Option<ItemMark> {
        let after = self.marks.partition_point(|mark| mark.item <= item);
        self.marks.get(after.checked_sub(1)?).copied()
    }
}

impl TextIndex {
    /// Returns the number of the chunk, from 0, that contains byte `offset` of the text. O(log n).
    #[must_use]
    pub fn chunk_at(&self, offset: u64) -> usize {
        self.chunks.partition_point(|mark| mark.offset <= offset).saturating_sub(1)
    }

    /// Returns the nearest start of a chunk at or before the start of `line`. O(log n).
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
    /// Returns the index as bytes for the store.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        pack(FORMAT, self)
    }

    /// Reads an index from the store. Returns none if the bytes have another format.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        unpack(FORMAT, bytes)
    }

    /// Returns the keys of all store entries of the snapshot of this name: its index and its
    /// segments.
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

/// Returns the store key of segment `at` of a snapshot.
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
