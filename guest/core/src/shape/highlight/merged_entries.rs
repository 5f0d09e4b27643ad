//! Groups of log entries, and groups that differ in few words, for logs whose errors do not all
//! fit.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::text::log_entry::LogEntry;
use crate::text::log_template::{Masking, template};
use crate::text::severity::Severity;

/// The maximum number of groups that are compared with others. More than that never fit.
const MAX_COMPARED: usize = 2_000;
/// The maximum number of groups with which a group is compared.
const MAX_LEADERS: usize = 400;

/// The maximum number of words of a message that are compared.
const MAX_WORDS: usize = 64;

/// Log entries that are shown once with their number, because they differ only in time or numbers.
#[derive(Clone, Copy)]
pub(super) struct MergedEntries<'h> {
    /// The first of the merged entries.
    pub(super) entry: &'h LogEntry<'h>,
    /// The line number of the last merged entry, from 0.
    pub(super) last: usize,
    pub(super) count: usize,
    /// True if some of the merged entries have other words than the first.
    pub(super) is_mixed: bool,
}

impl<'h> MergedEntries<'h> {
    /// Creates a group of one entry.
    pub(super) fn new(entry: &'h LogEntry<'h>) -> Self {
        Self { entry, last: entry.line, count: 1, is_mixed: false }
    }

    /// Adds the entries of another group, whose words differ.
    pub(super) fn add_similar(&mut self, other: &Self) {
        self.count += other.count;
        self.last = self.last.max(other.last);
        self.is_mixed = true;
    }
}

/// Groups of log entries that differ in few words.
pub(super) struct SimilarEntries<'h> {
    /// The groups, each with the number of its entries before the selected lines.
    pub(super) groups: Vec<(MergedEntries<'h>, usize)>,
}

/// The first group of similar ones.
struct Leader {
    words: Vec<u64>,
    /// The index of the group.
    group: usize,
}

/// The leaders by severity and number of words. Messages of other lengths are not similar.
type Leaders = BTreeMap<(Severity, usize), Vec<Leader>>;

impl<'h> SimilarEntries<'h> {
    /// Merges `groups`, in their order. The numbers of entries of `before` are added to the groups
    /// to which they are similar. O(groups), with a limit for the comparisons of each.
    pub(super) fn new(groups: &[MergedEntries<'h>], before: &[MergedEntries<'h>]) -> Self {
        let mut leaders = Leaders::new();
        let mut merged: Vec<(MergedEntries<'h>, usize)> = Vec::new();
        for (at, group) in groups.iter().enumerate() {
            let words = if at < MAX_COMPARED { words(group) } else { Vec::new() };
            let known = find(&leaders, group, &words).and_then(|known| merged.get_mut(known));
            if let Some((known, _)) = known {
                known.add_similar(group);
                continue;
            }
            let known = leaders.entry((group.entry.level, words.len())).or_default();
            if !words.is_empty() && known.len() < MAX_LEADERS {
                known.push(Leader { words, group: merged.len() });
            }
            merged.push((*group, 0));
        }
        // A part of the numbers would be wrong.
        let before = if before.len() > MAX_COMPARED { &[] } else { before };
        for group in before {
            let known = find(&leaders, group, &words(group));
            if let Some((_, before)) = known.and_then(|known| merged.get_mut(known)) {
                *before += group.count;
            }
        }
        Self { groups: merged }
    }
}

/// Returns the hashes of the words of a group's template.
fn words(group: &MergedEntries<'_>) -> Vec<u64> {
    let template = template(group.entry, Masking::Words);
    let words = template.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.take(MAX_WORDS).map(xxh3_64).collect()
}

/// Returns the index of the first group of which at least two thirds of the words are equal.
fn find(leaders: &Leaders, group: &MergedEntries<'_>, words: &[u64]) -> Option<usize> {
    let known = leaders.get(&(group.entry.level, words.len()))?;
    let is_similar = |leader: &&Leader| {
        let equal = leader.words.iter().zip(words).filter(|(one, two)| one == two).count();
        equal * 3 >= words.len() * 2
    };
    known.iter().find(is_similar).map(|leader| leader.group)
}
