//! Reads an index in place, without parsing it first.

use std::cmp::Ordering;
use std::ops::Range;

use super::compile::{exact_hash, inverse_frequency};
use super::layout::{HEADER_BYTES, MAGIC, SECTIONS, SERVER, STRONG, Section, TOOL_WORDS};
use crate::vectors::{DIMENSIONS, StoredDirection};

/// An index in memory. With a damaged index, searches return fewer or wrong hits, but do not panic.
#[derive(Clone, Copy, Debug)]
pub struct Index<'a> {
    sections: [&'a [u8]; SECTIONS],
}

/// The weighted frequency of a term in one tool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Posting {
    /// The number of the tool.
    pub tool: u32,
    /// True if the term occurs in name, server or first sentence.
    pub is_strong: bool,
    /// True if the term identifies the server of the tool.
    pub names_server: bool,
    /// The frequency of the term in the tool, weighted by field.
    pub x: f32,
}

/// A tool of an index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IndexedTool<'a> {
    /// The client-visible name.
    pub wire_name: &'a str,
    /// The name of the tool on its server.
    pub name: &'a str,
    /// The name of its server.
    pub server: &'a str,
    /// The category.
    pub category: &'a str,
    /// True if the tool changes nothing.
    pub read_only: bool,
    /// The mean latency in milliseconds, if the tool was called.
    pub average_ms: Option<f32>,
    /// The success rate in percent, if the tool was called.
    pub success_percent: Option<f32>,
    /// The usage score of the tool, from 0 to 1.
    pub tier_score: f32,
}

impl<'a> Index<'a> {
    /// Opens an index. Returns `None` if the bytes are not an index of this version, or if a
    /// section is out of bounds. Also if the lengths of sections do not fit each other.
    #[must_use]
    pub fn open(bytes: &'a [u8]) -> Option<Self> {
        let table = bytes.strip_prefix(&MAGIC)?.get(..HEADER_BYTES - MAGIC.len())?;
        let mut sections: [&[u8]; SECTIONS] = [&[]; SECTIONS];
        for (section, at) in sections.iter_mut().zip((0..).step_by(2)) {
            let (start, length) = (word(table, at)? as usize, word(table, at + 1)? as usize);
            *section = bytes.get(start..start.checked_add(length)?)?;
        }
        let index = Self { sections };
        let tools = index.tool_count();
        // Arrays that describe the same things have the same length.
        let term_count = index.words(Section::TermIdf);
        (index.words(Section::NameOffsets) == tools + 1
            && index.words(Section::TermOffsets) == term_count + 1
            && index.words(Section::PostingOffsets) == term_count + 1
            && index.section(Section::Directions).len() == tools * DIMENSIONS)
            .then_some(index)
    }

    /// Returns the number of tools.
    #[must_use]
    pub fn tool_count(&self) -> usize {
        self.words(Section::Tools) / TOOL_WORDS
    }

    /// Returns the number of terms, including those that occur only in synonyms.
    #[must_use]
    pub fn term_count(&self) -> usize {
        self.words(Section::TermIdf)
    }

    /// Returns the tool with this number. `None` if there is none.
    #[must_use]
    pub fn tool(&self, tool: u32) -> Option<IndexedTool<'a>> {
        let first = (tool as usize).checked_mul(TOOL_WORDS)?;
        let field = |at: usize| self.word(Section::Tools, first + at);
        let string = |at: usize| self.string(field(at)?);
        let measured = |at: usize| {
            Some(f32::from_bits(field(at)?)).filter(|value| value.is_finite() && *value >= 0.0)
        };
        Some(IndexedTool {
            wire_name: string(0)?,
            name: string(1)?,
            server: string(2)?,
            category: string(3)?,
            read_only: field(4)? == 1,
            average_ms: measured(5),
            success_percent: measured(6),
            tier_score: measured(7).unwrap_or_default(),
        })
    }

    /// Returns the score of a tool's usage, 0 if there is no such tool.
    #[must_use]
    pub fn tier_score(&self, tool: u32) -> f32 {
        let at = (tool as usize).saturating_mul(TOOL_WORDS).saturating_add(7);
        let score = self.word(Section::Tools, at).map(f32::from_bits);
        score.filter(|score| score.is_finite()).unwrap_or_default()
    }

    /// Returns the directions of all tools in the order of their numbers.
    pub(crate) fn directions(&self) -> impl Iterator<Item = &'a StoredDirection> + use<'a> {
        let (directions, _) = self.section(Section::Directions).as_chunks::<DIMENSIONS>();
        directions.iter()
    }

    /// Returns all tools in the order of their numbers.
    pub fn tools(&self) -> impl Iterator<Item = IndexedTool<'a>> + use<'a> {
        let index = *self;
        (0..index.tool_count()).filter_map(move |tool| index.tool(u32::try_from(tool).ok()?))
    }

    /// Returns the number of a term. `None` if the index does not have it.
    #[must_use]
    pub fn term(&self, text: &str) -> Option<u32> {
        let (mut low, mut high) = (0, self.term_count());
        while low < high {
            let middle = low.midpoint(high);
            match self.term_text(middle)?.cmp(text.as_bytes()) {
                Ordering::Equal => return u32::try_from(middle).ok(),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Returns the numbers and texts of the terms that begin with `prefix`, in their order.
    pub(crate) fn terms_with_prefix<'p>(
        &self,
        prefix: &'p [u8],
    ) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a, 'p> {
        let index = *self;
        let is_before = |at| index.term_text(at).is_some_and(|text| text < prefix);
        let first = partition(self.term_count(), is_before);
        (first..self.term_count())
            .map_while(move |at| Some((u32::try_from(at).ok()?, index.term_text(at)?)))
            .take_while(move |(_, text)| text.starts_with(prefix))
    }

    /// Returns the text of the term with the index `term`. `None` if there is none.
    pub(crate) fn term_text(&self, term: usize) -> Option<&'a [u8]> {
        let range = self.range(Section::TermOffsets, term)?;
        self.section(Section::TermText).get(range)
    }

    /// Returns the inverse document frequency of a term.
    #[must_use]
    pub fn idf(&self, term: u32) -> f32 {
        let idf = self.word(Section::TermIdf, term as usize).map(f32::from_bits);
        idf.filter(|idf| idf.is_finite()).unwrap_or_default()
    }

    /// Returns the inverse document frequency of a term that no tool has.
    pub(crate) fn maximum_idf(&self) -> f32 {
        inverse_frequency(f64::from(u32::try_from(self.tool_count()).unwrap_or(u32::MAX)), 0)
    }

    /// Returns the number of tools that have a term.
    #[must_use]
    pub fn frequency(&self, term: u32) -> usize {
        self.range(Section::PostingOffsets, term as usize).map_or(0, |range| range.len())
    }

    /// Returns the postings of a term.
    pub fn postings(&self, term: u32) -> impl Iterator<Item = Posting> + use<'a> {
        let range = self.range(Section::PostingOffsets, term as usize).unwrap_or_default();
        let bytes = range.start.checked_mul(8).zip(range.end.checked_mul(8));
        let bytes = bytes.and_then(|(start, end)| self.section(Section::Postings).get(start..end));
        bytes.unwrap_or_default().as_chunks::<8>().0.iter().map(|posting| {
            let [a, b, c, d, e, f, g, h] = *posting;
            let tool = u32::from_le_bytes([a, b, c, d]);
            Posting {
                tool: tool & !(STRONG | SERVER),
                is_strong: tool & STRONG != 0,
                names_server: tool & SERVER != 0,
                x: f32::from_le_bytes([e, f, g, h]),
            }
        })
    }

    /// Returns the terms of a tool's name.
    pub fn name_terms(&self, tool: u32) -> impl Iterator<Item = u32> + use<'a> {
        self.list(Section::NameOffsets, Section::NameTerms, tool as usize)
    }

    /// Returns the tools that have the two terms next to each other.
    pub fn pair_tools(&self, first: u32, second: u32) -> impl Iterator<Item = u32> + use<'a> {
        let pairs = self.words(Section::PairKeys) / 2;
        let key = |at: usize| {
            let word = |place| self.word(Section::PairKeys, 2 * at + place).unwrap_or(u32::MAX);
            (word(0), word(1))
        };
        let at = partition(pairs, |at| key(at) < (first, second));
        let found = (at < pairs && key(at) == (first, second)).then_some(at);
        self.list(Section::PairOffsets, Section::PairTools, found.unwrap_or(usize::MAX))
    }

    /// Returns the tools with this name, in any notation, in the order of their numbers.
    #[must_use]
    pub fn tools_named(&self, name: &str) -> Vec<u32> {
        let hash = exact_hash(name);
        let names = self.words(Section::ExactNames) / 3;
        let word = |at: usize, place| self.word(Section::ExactNames, 3 * at + place);
        let key = |at: usize| {
            let (high, low) = (word(at, 0).unwrap_or(u32::MAX), word(at, 1).unwrap_or(u32::MAX));
            (u64::from(high) << 32) | u64::from(low)
        };
        let first = partition(names, |at| key(at) < hash);
        let found = (first..names).take_while(|at| key(*at) == hash);
        found.filter_map(|at| word(at, 2)).collect()
    }

    /// Returns the groups of synonyms that contain a term. Each has true for verbs, and its terms.
    pub fn synonym_groups(
        &self,
        term: u32,
    ) -> impl Iterator<Item = (bool, impl Iterator<Item = u32> + use<'a>)> + use<'a> {
        let index = *self;
        let entries = self.words(Section::TermGroups) / 2;
        let entry = move |at: usize, place| index.word(Section::TermGroups, 2 * at + place);
        let first = partition(entries, |at| entry(at, 0).is_some_and(|found| found < term));
        (first..entries).take_while(move |at| entry(*at, 0) == Some(term)).filter_map(move |at| {
            let group = entry(at, 1)? as usize;
            let is_verbs = index.word(Section::GroupVerbs, group)? == 1;
            Some((is_verbs, index.list(Section::GroupOffsets, Section::GroupTerms, group)))
        })
    }

    fn string(&self, number: u32) -> Option<&'a str> {
        let range = self.range(Section::StringOffsets, number as usize)?;
        std::str::from_utf8(self.section(Section::StringText).get(range)?).ok()
    }

    fn section(&self, section: Section) -> &'a [u8] {
        self.sections.get(section as usize).copied().unwrap_or_default()
    }

    fn words(&self, section: Section) -> usize {
        self.section(section).len() / 4
    }

    fn word(&self, section: Section, at: usize) -> Option<u32> {
        word(self.section(section), at)
    }

    /// Returns the range from the offset with index `at` to the next offset. `None` if there is no
    /// such range.
    fn range(&self, offsets: Section, at: usize) -> Option<Range<usize>> {
        let start = self.word(offsets, at)? as usize;
        let end = self.word(offsets, at.checked_add(1)?)? as usize;
        (start <= end).then_some(start..end)
    }

    /// Returns list number `at` in the section `values`. The section `offsets` has the ranges of
    /// the lists.
    fn list(
        &self,
        offsets: Section,
        values: Section,
        at: usize,
    ) -> impl Iterator<Item = u32> + use<'a> {
        let range = self.range(offsets, at).unwrap_or_default();
        let bytes = range.start.checked_mul(4).zip(range.end.checked_mul(4));
        let bytes = bytes.and_then(|(start, end)| self.section(values).get(start..end));
        bytes.unwrap_or_default().as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let start = at.checked_mul(4)?;
    let word = bytes.get(start..start.checked_add(4)?)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

/// Returns the first number below `count` for which `is_before` is false, or `count` if there is
/// none.
fn partition(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
