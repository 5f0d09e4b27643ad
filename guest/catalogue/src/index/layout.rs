//! The layout of the index: a header, a table of sections, and sections of fixed-size numbers.

/// The first bytes of an index: a name and the version of the layout.
pub(super) const MAGIC: [u8; 8] = *b"CGTOOLS\x03";
/// The bit of a posting's tool number for a term of name, server or first sentence.
pub(super) const STRONG: u32 = 1 << 31;
/// The bit of a posting's tool number for a term that identifies the tool's server.
pub(super) const SERVER: u32 = 1 << 30;
/// The size of a tool's record, in 32-bit words.
pub(super) const TOOL_WORDS: usize = 8;
/// The value that represents an absent measurement.
pub(super) const NOT_MEASURED: f32 = -1.0;

/// The sections of an index, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// The offset of each term's text in `TermText`, and the end of the last.
    TermOffsets,
    /// The texts of all terms, sorted.
    TermText,
    /// The inverse document frequency of each term.
    TermIdf,
    /// The number of each term's first posting, and the end of the last.
    PostingOffsets,
    /// Postings, each with a tool, its bits, and the weighted frequency.
    Postings,
    /// The number of each tool's first name term, and the end of the last.
    NameOffsets,
    /// The terms of the names of all tools.
    NameTerms,
    /// Pairs of adjacent terms in a name or first sentence, sorted.
    PairKeys,
    /// The number of each pair's first tool, and the end of the last.
    PairOffsets,
    /// The tools that have each pair.
    PairTools,
    /// Hashes of normalized names with their tools, sorted.
    ExactNames,
    /// A record for each tool.
    Tools,
    /// The offset of each string in `StringText`, and the end of the last.
    StringOffsets,
    /// Names of tools, servers and categories.
    StringText,
    /// The number of the first term of each group of synonyms, and the end of the last.
    GroupOffsets,
    /// The terms of all groups of synonyms.
    GroupTerms,
    /// For each group, 1 if its words are verbs, else 0.
    GroupVerbs,
    /// Pairs of a term and a group that contains it, sorted.
    TermGroups,
    /// The direction of each tool: a signed byte for each dimension.
    Directions,
}

/// The number of sections.
pub(super) const SECTIONS: usize = Section::Directions as usize + 1;
/// The size, in bytes, of the magic number and the table of sections.
pub(super) const HEADER_BYTES: usize = MAGIC.len() + SECTIONS * 8;

/// Writes sections in order.
pub(super) struct Writer {
    bytes: Vec<u8>,
    written: usize,
}

impl Writer {
    pub(super) fn new() -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.resize(HEADER_BYTES, 0);
        Self { bytes, written: 0 }
    }

    /// Adds a section. Sections must come in the order of [`Section`].
    pub(super) fn section(&mut self, section: Section, content: &[u8]) {
        debug_assert_eq!(self.written, section as usize);
        self.written += 1;
        let range = [self.bytes.len(), content.len()];
        let entry = MAGIC.len() + section as usize * 8;
        for (place, value) in range.into_iter().enumerate() {
            let value = u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes();
            if let Some(slot) = self.bytes.get_mut(entry + 4 * place..entry + 4 * place + 4) {
                slot.copy_from_slice(&value);
            }
        }
        self.bytes.extend_from_slice(content);
        // Sections begin at multiples of 4, so that words can be read aligned.
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    pub(super) fn words(&mut self, section: Section, words: impl IntoIterator<Item = u32>) {
        let content: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        self.section(section, &content);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
