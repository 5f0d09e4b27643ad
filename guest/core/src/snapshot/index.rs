//! The index of a snapshot: where its pages and chunks begin, so that one is found without reading the others.

use serde::{Deserialize, Serialize};

use crate::json::text::Form;
use crate::packed::{pack, unpack};

/// Bytes of a segment.
pub const SEGMENT_BYTES: usize = 64 * 1024;

/// Marks the stored form; changes whenever what was stored would be read otherwise.
const FORMAT: &[u8; 4] = b"cgi1";

/// What is stored beside the segments of a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// The tool or resource that the answer came from, without its upstream: what policy applies.
    pub endpoint: String,
    /// How the bytes stand.
    pub form: Form,
    /// Length of the original payload in bytes: that of its segments.
    pub bytes: u64,
    /// When the snapshot stops being kept, in milliseconds since 1970.
    pub expires_ms: u64,
    /// Tokens of the original payload.
    pub tokens: u64,
    /// Whether `tokens` was extrapolated.
    pub sampled: bool,
    /// How the original stood in `structuredContent`, if it did.
    pub structured: Option<Placement>,
    /// Where its parts begin.
    pub body: Body,
}

/// How a payload stood in `structuredContent`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Placement {
    /// It was the whole value: a page takes its place.
    Whole,
    /// It was a string of the value: what stands before and after its content.
    Text(Vec<u8>, Vec<u8>),
    /// It was the whole value, shown as text under `context_guard`.
    Document,
}

/// What kind of payload, and where its parts begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Body {
    /// A list, or several lists of one document, numbered through.
    List(ListIndex),
    /// A text.
    Text(TextIndex),
    /// Chosen fields of a list.
    Projected(ProjectedList),
}

/// Chosen fields of the items of a list that is kept as another snapshot: each page is read out of that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProjectedList {
    /// The snapshot of the list.
    pub source: String,
    /// The fields, as they were asked for.
    pub fields: String,
    /// The keys that lead to the list, where the fields are named from the document on.
    pub within: Vec<String>,
    /// The list.
    pub list: ListIndex,
}

/// The parts of a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListIndex {
    /// Whether the items are content blocks of a result, not elements of a JSON document.
    pub blocks: bool,
    /// What stands around the lists: before the first, between them, after the last.
    pub skeleton: Vec<Vec<u8>>,
    /// Which of the lists dominates.
    pub main: u64,
    /// Whether the document is a bare array.
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

/// Where an item begins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItemMark {
    /// Its number, through all lists.
    pub item: u64,
    /// Its first byte.
    pub offset: u64,
}

/// The parts of a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TextIndex {
    /// Its number of lines.
    pub lines: u64,
    /// Where its chunks begin.
    pub chunks: Vec<ChunkMark>,
}

/// Where a chunk begins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChunkMark {
    /// Its first byte.
    pub offset: u64,
    /// The line that this byte stands in, from 1.
    pub line: u64,
}

impl ListIndex {
    /// Items in all lists.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.lists.iter().map(|list| list.count).sum()
    }

    /// The place nearest before an item that can be read from. O(log n).
    #[must_use]
    pub fn mark(&self, item: u64) -> Option<ItemMark> {
        let after = self.marks.partition_point(|mark| mark.item <= item);
        self.marks.get(after.checked_sub(1)?).copied()
    }
}

impl TextIndex {
    /// The number of the chunk that byte `offset` stands in. O(log n).
    #[must_use]
    pub fn chunk_at(&self, offset: u64) -> usize {
        self.chunks.partition_point(|mark| mark.offset <= offset).saturating_sub(1)
    }

    /// The last place that is known to stand at or before the beginning of `line`. O(log n).
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
    /// The stored form.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        pack(FORMAT, self)
    }

    /// Reads the stored form; none where it is another's.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        unpack(FORMAT, bytes)
    }

    /// The keys of all that the snapshot consists of.
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

    /// The snapshot, of this one's name, that has the segments.
    #[must_use]
    pub fn source<'s>(&'s self, snapshot: &'s str) -> &'s str {
        match &self.body {
            Body::Projected(view) => &view.source,
            Body::List(_) | Body::Text(_) => snapshot,
        }
    }
}

/// The key of a segment.
#[must_use]
pub fn segment_key(snapshot: &str, at: u64) -> String {
    format!("{snapshot}.{at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_consists_of_what_it_is_read_out_of_too() {
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
            body: Body::Projected(view),
        };
        assert_eq!(index.keys("view"), ["view", "list", "list.0", "list.1"]);
        let list = Index { body: Body::List(ListIndex::default()), ..index };
        assert_eq!(list.keys("list"), ["list", "list.0", "list.1"]);
    }
}
