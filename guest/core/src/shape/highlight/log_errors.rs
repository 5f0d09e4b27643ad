//! The errors and warnings of a log, with repeated entries merged.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_128;

use super::{HighlightWriter, Highlights, MAX_LINE_BYTES, MAX_TRACE_LINES};
use crate::text::log_entry::{LogEntry, template};
use crate::text::severity::Severity;

/// The maximum number of bytes of a UTF-8 character. Cutting a line at a character boundary may
/// remove up to three bytes more.
const MAX_CHAR_BYTES: usize = 4;

/// The maximum number of bytes that one token of the model can encode.
const MAX_TOKEN_BYTES: u64 = 16;

/// The errors and warnings of a log. Repetitions are merged on first use, and the result serves all
/// token limits.
pub struct LogErrors<'h> {
    entries: Vec<&'h LogEntry<'h>>,
    /// The errors and warnings, with those merged that differ only in time. Computed on first use.
    fine: OnceCell<Vec<MergedEntries<'h>>>,
    /// The errors and warnings, with those merged that differ only in time or numbers. Computed on
    /// first use.
    coarse: OnceCell<Vec<MergedEntries<'h>>>,
}

/// Log entries that are shown as one with a count, because they differ only in time or numbers.
#[derive(Clone, Copy)]
struct MergedEntries<'h> {
    /// The first of the merged entries.
    entry: &'h LogEntry<'h>,
    /// The line number of the last merged entry, from 0.
    last: usize,
    count: usize,
}

impl<'h> LogErrors<'h> {
    pub(super) fn new(entries: impl Iterator<Item = &'h LogEntry<'h>>) -> Self {
        Self { entries: entries.collect(), fine: OnceCell::new(), coarse: OnceCell::new() }
    }

    /// Writes the errors and warnings: all of them if they fit, else with shorter stack traces,
    /// else only the most severe.
    pub(super) fn write(&self, highlights: &Highlights<'_>, text: &mut HighlightWriter<'_>) {
        if self.entries.is_empty() {
            return;
        }
        let count = |level| self.entries.iter().filter(|entry| entry.level == level).count();
        let head =
            format!("{} errors, {} warnings:\n", count(Severity::Error), count(Severity::Warn));
        let room = text.room * 9 / 10;
        let whole = |folded: &[MergedEntries<'_>], trace: usize| {
            let most = room.saturating_mul(MAX_TOKEN_BYTES);
            let least: u64 = folded.iter().map(MergedEntries::min_bytes).sum();
            // Each group takes at least a token. Both bounds are cheap, and avoid pricing
            // megabytes.
            if folded.len() as u64 > room || least > most {
                return None;
            }
            let mut whole = head.clone();
            for group in folded {
                whole.push_str(&group.format(highlights, trace));
                whole.push('\n');
                if whole.len() as u64 > most {
                    return None;
                }
            }
            (text.estimator.cost(whole.as_bytes()) <= room).then_some(whole)
        };
        let fine = self.fine.get_or_init(|| self.fold(false));
        let coarse = || self.coarse.get_or_init(|| self.fold(true));
        let fits = [MAX_TRACE_LINES, 2, 1].into_iter().find_map(|trace| whole(fine, trace));
        if let Some(whole) = fits.or_else(|| whole(coarse(), 1)) {
            return text.push(&whole);
        }
        // Not all fit: the most severe are selected first, then shown in the order of the log.
        let mut coarse = coarse().clone();
        coarse.sort_by_key(|group| (std::cmp::Reverse(group.entry.level), group.entry.line));
        let mut kept: Vec<(usize, String)> = Vec::new();
        let mut spent = text.estimator.cost(head.as_bytes()) + 8;
        let mut omitted = 0;
        for group in &coarse {
            // Formatting and pricing stop once nothing can fit.
            let line = (spent < room).then(|| group.format(highlights, 1));
            let cost = line.as_ref().map_or(room, |line| text.estimator.cost(line.as_bytes()) + 1);
            match line.filter(|_| spent + cost <= room) {
                Some(line) => {
                    spent += cost;
                    kept.push((group.entry.line, line));
                }
                None => omitted += group.count,
            }
        }
        kept.sort_unstable();
        let lines: Vec<String> = kept.into_iter().map(|(_, line)| line).collect();
        text.push(&format!(
            "{head}{}\n({omitted} more of them have no room here)\n",
            lines.join("\n")
        ));
    }

    /// Merges log entries that differ in time only or, if `coarse`, also in numbers. O(entries).
    fn fold(&self, coarse: bool) -> Vec<MergedEntries<'h>> {
        let mut groups: Vec<MergedEntries<'_>> = Vec::new();
        // Templates are long and share their first half, so comparing hashes is faster.
        let mut known: BTreeMap<u128, usize> = BTreeMap::new();
        for entry in &self.entries {
            let key = xxh3_128(&template(&entry.says, coarse));
            match known.get(&key).and_then(|at| groups.get_mut(*at)) {
                Some(group) => {
                    group.count += 1;
                    group.last = entry.line;
                }
                None => {
                    known.insert(key, groups.len());
                    groups.push(MergedEntries { entry, last: entry.line, count: 1 });
                }
            }
        }
        groups
    }
}

impl MergedEntries<'_> {
    /// The minimum number of bytes that [`MergedEntries::format`] writes, a lower bound for the
    /// cost.
    fn min_bytes(&self) -> u64 {
        self.entry.says.len().min(MAX_LINE_BYTES - MAX_CHAR_BYTES) as u64
    }

    /// Formats the first of the merged entries with at most `trace` lines, followed by the number
    /// of entries.
    fn format(&self, highlights: &Highlights<'_>, trace: usize) -> String {
        let text = highlights.entry(self.entry, trace);
        if self.count > 1 {
            format!("{text} (x{}, last in line {})", self.count, self.last + 1)
        } else {
            text
        }
    }
}
