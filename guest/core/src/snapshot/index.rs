//! The index of a snapshot: positions of items and chunks, for reading one of them without the
//! whole snapshot.

use serde::{Deserialize, Serialize};

use crate::encoding::Stored;
use crate::json::text::Form;

/// Size, in bytes, of the segments into which a snapshot is divided for storage.
pub const SEGMENT_BYTES: usize = 64 * 1024;

/// The index of a snapshot (a stored answer): its format, its size and the positions in it. Stored
/// in a separate entry from the bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// The name of the upstream that returned the answer. May be empty.
    pub upstream: String,
    /// The name of the tool or resource that returned the answer, without its upstream. Both names
    /// determine the settings for later reads.
    pub endpoint: String,
    /// The form of the stored bytes: raw, or escaped as in a JSON string.
    pub form: Form,
    /// Size of the original payload in bytes, which is the total of all segments. For a
    /// [`ProjectedList`], those are the segments of the original answer.
    pub bytes: u64,
    /// The time at which the snapshot expires, in milliseconds since 1970.
    pub expires_ms: u64,
    /// The estimated number of tokens of the original payload.
    pub tokens: u64,
    /// True if `tokens` was extrapolated from samples, false if the whole payload was counted.
    pub sampled: bool,
    /// The position of the original payload in `structuredContent`. `None` if the payload was text
    /// content only.
    pub structured: Option<Placement>,
    /// The stored answer of the upstream from which the payload was made, which later queries
    /// search. `None` if the payload is that answer.
    pub original: Option<Original>,
    /// The positions of the payload's items or chunks, by kind of payload.
    pub body: SnapshotBody,
}

/// The stored answer of the upstream from which a payload was made by a query or a transformation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Original {
    /// The name of the snapshot that stores the answer.
    pub snapshot: String,
    /// Size of the answer in bytes.
    pub bytes: u64,
    /// The query that selected the payload, in its storage format. Empty if policy transformed the
    /// answer.
    pub query: Vec<u8>,
}

/// The position of a payload in `structuredContent`, at which its excerpts are written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Placement {
    /// The payload is the whole value of `structuredContent`, and an excerpt replaces that value.
    Whole,
    /// The payload is a string inside `structuredContent`. Holds the bytes of `structuredContent`
    /// before and after the content of that string.
    Text(Vec<u8>, Vec<u8>),
    /// The payload is the whole value of `structuredContent`, but excerpts are written to its
    /// member `context_guard`.
    Document,
}

/// The positions of a stored payload's items or chunks, by kind of payload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SnapshotBody {
    /// The payload has one or several lists, whose items are numbered consecutively.
    List(ListIndex),
    /// The payload is a text, divided into chunks.
    Text(TextIndex),
    /// The payload is a list of records, of which only selected fields are shown.
    Projected(ProjectedList),
}

/// Selected fields of a list in the original answer, which is stored as another snapshot. Each page
/// is computed from that snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProjectedList {
    /// The selected fields, as the caller wrote them.
    pub fields: String,
    /// The keys from the document to the list, if the paths in `fields` start at the document.
    /// Empty if the paths start at each record.
    pub within: Vec<String>,
    /// The positions of the list's records in the stored bytes.
    pub list: ListIndex,
}

/// The positions of the items in a document's lists, in document order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListIndex {
    /// True if the items are MCP content blocks, not elements of a JSON document.
    pub blocks: bool,
    /// The bytes of the document around its lists: before the first list, between two lists, and
    /// after the last.
    pub skeleton: Vec<Vec<u8>>,
    /// The index in `lists` of the list with the most bytes.
    pub main: u64,
    /// True if the document itself is the list.
    pub bare: bool,
    /// The lists of the document, in document order. Item numbers run across all of them, from 0
    /// (see [`ItemMark::item`]).
    pub lists: Vec<ListMark>,
    /// For each segment of the snapshot, the first item that begins in it.
    pub marks: Vec<ItemMark>,
    /// The words around the document, which each page repeats.
    pub words: Words,
}

/// The words before and after a JSON document that forms most of a text. They are not escaped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Words {
    /// The text before the JSON document; empty if there is none.
    pub before: Vec<u8>,
    /// The text after the JSON document; empty if there is none.
    pub after: Vec<u8>,
}

impl Words {
    /// Returns true if there are no words around the document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }
}

/// The position of a list in a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListMark {
    /// The dotted keys from the document to the list; empty for a bare array.
    pub path: String,
    /// The offset in the document of the byte after the list's opening bracket.
    pub start: u64,
    /// The number of items in the list.
    pub count: u64,
}

/// The position of an item in the bytes of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItemMark {
    /// The item's number across all lists, counted from 0.
    pub item: u64,
    /// The byte offset of the item in the snapshot.
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
    /// The byte offset of the chunk in the text.
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

    /// Returns true if the payload can also be read by lines: JSON Lines, or a document between
    /// words.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        // Only JSON Lines have no bracket before the first item.
        let is_lines = self.bare && self.skeleton.first().is_some_and(Vec::is_empty);
        is_lines || !self.words.is_empty()
    }

    /// Returns the position of the last indexed item at or before the number `item`. `None` if
    /// there is none. O(log n).
    #[must_use]
    pub fn mark(&self, item: u64) -> Option<ItemMark> {
        let after = self.marks.partition_point(|mark| mark.item <= item);
        self.marks.get(after.checked_sub(1)?).copied()
    }
}

impl TextIndex {
    /// Returns the number of the chunk, from 0, that contains byte `offset` of the text. For an
    /// offset beyond the text, that is the last chunk. O(log n).
    #[must_use]
    pub fn chunk_at(&self, offset: u64) -> usize {
        self.chunks.partition_point(|mark| mark.offset <= offset).saturating_sub(1)
    }

    /// Returns the position of the last chunk that starts in a line before `line`, or else the
    /// start of the text. A chunk that starts in `line` may start inside it. O(log n).
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

impl Stored for Index {
    const FORMAT: &'static [u8; 4] = b"cgi3";
}

impl Index {
    /// Returns the store keys of all entries that the snapshot `snapshot` needs: its index, its
    /// segments, and the entries of the original answer.
    #[must_use]
    pub fn keys(&self, snapshot: &str) -> Vec<String> {
        let own = if self.source(snapshot) == snapshot { self.bytes } else { 0 };
        let original = self.original.as_ref().map(|from| (from.snapshot.as_str(), from.bytes));
        let keys = |(name, bytes): (&str, u64)| {
            let segments =
                (0..bytes.div_ceil(SEGMENT_BYTES as u64)).map(|at| segment_key(name, at));
            std::iter::once(name.to_owned()).chain(segments).collect::<Vec<_>>()
        };
        std::iter::once((snapshot, own)).chain(original).flat_map(keys).collect()
    }

    /// Returns the name of the snapshot whose segments have the bytes: `snapshot`, which is this
    /// one, or the original answer's if this is a [`ProjectedList`].
    #[must_use]
    pub fn source<'s>(&'s self, snapshot: &'s str) -> &'s str {
        match (&self.body, &self.original) {
            (SnapshotBody::Projected(_), Some(original)) => &original.snapshot,
            _ => snapshot,
        }
    }
}

/// Returns the store key of a snapshot's segment with the number `at`, from 0.
#[must_use]
pub fn segment_key(snapshot: &str, at: u64) -> String {
    format!("{snapshot}.{at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_include_those_of_the_original() {
        let bytes = SEGMENT_BYTES as u64 + 1;
        let list = || ListIndex::default();
        let view = ProjectedList { fields: "id".to_owned(), within: Vec::new(), list: list() };
        let index = Index {
            upstream: String::new(),
            endpoint: String::new(),
            form: Form::Raw,
            bytes,
            expires_ms: 0,
            tokens: 0,
            sampled: false,
            structured: None,
            original: Some(Original { snapshot: "list".to_owned(), bytes, query: Vec::new() }),
            body: SnapshotBody::Projected(view),
        };
        assert_eq!(index.keys("view"), ["view", "list", "list.0", "list.1"]);
        let own = Index { body: SnapshotBody::List(list()), bytes: 1, ..index };
        assert_eq!(own.keys("own"), ["own", "own.0", "list", "list.0", "list.1"]);
        let alone = Index { original: None, ..own };
        assert_eq!(alone.keys("list"), ["list", "list.0"]);
    }
}
