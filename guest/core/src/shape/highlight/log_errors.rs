//! The errors and warnings of a log, with repeated entries merged.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_128;

use super::{HighlightWriter, Highlights, MAX_LINE_BYTES, MAX_TRACE_LINES};
use crate::text::log_entry::{LogEntry, Masking, Subject, template};
use crate::text::severity::Severity;

/// The maximum number of bytes of a UTF-8 character. Cutting a line at a character boundary may
/// remove up to three bytes more.
const MAX_CHAR_BYTES: usize = 4;

/// The maximum number of bytes that one token of usual text encodes.
const MAX_TOKEN_BYTES: u64 = 16;

/// The amount of detail in which entries are shown.
#[derive(Clone, Copy)]
pub(super) struct EntryDetail {
    /// The parts of entries that are ignored when entries are merged.
    masking: Masking,
    /// The maximum number of lines of an entry.
    pub(super) lines: usize,
    /// The maximum number of bytes of the first line.
    pub(super) bytes: usize,
    /// True if the first line begins with the severity, without time and host.
    pub(super) is_brief: bool,
}

const fn detail(masking: Masking, lines: usize, bytes: usize, is_brief: bool) -> EntryDetail {
    EntryDetail { masking, lines, bytes, is_brief }
}

/// The greatest amount of detail.
pub(super) const FULL_DETAIL: EntryDetail =
    detail(Masking::Header, MAX_TRACE_LINES, MAX_LINE_BYTES, false);
/// The least amount of detail.
const LEAST_DETAIL: EntryDetail = detail(Masking::Values, 1, 80, true);

/// The amounts of detail to try, in falling order.
const DETAILS: [EntryDetail; 8] = [
    FULL_DETAIL,
    detail(Masking::Header, 2, MAX_LINE_BYTES, false),
    detail(Masking::Header, 1, MAX_LINE_BYTES, false),
    detail(Masking::Numbers, 1, MAX_LINE_BYTES, false),
    detail(Masking::Numbers, 1, 160, true),
    detail(Masking::Values, 1, MAX_LINE_BYTES, true),
    detail(Masking::Values, 1, 160, true),
    LEAST_DETAIL,
];

/// The errors and warnings of a log. Repetitions are merged on first use, and the result is reused
/// for all token limits.
pub struct LogErrors<'h> {
    entries: Vec<&'h LogEntry<'h>>,
    /// The name of the entries, for headings.
    subject: Subject,
    /// The numbers of errors and warnings in the whole text.
    totals: (usize, usize),
    /// The errors and warnings, merged by each [`Masking`] in turn. Computed on first use.
    merged: [OnceCell<Vec<MergedEntries<'h>>>; 3],
}

/// Log entries that are shown once with their number, because they differ only in time or numbers.
#[derive(Clone, Copy)]
struct MergedEntries<'h> {
    /// The first of the merged entries.
    entry: &'h LogEntry<'h>,
    /// The line number of the last merged entry, from 0.
    last: usize,
    count: usize,
}

/// Returns the number of errors and the number of warnings among log entries.
fn counts<'h>(entries: impl Iterator<Item = &'h LogEntry<'h>> + Clone) -> (usize, usize) {
    let count = |level| entries.clone().filter(|entry| entry.level == level).count();
    (count(Severity::Error), count(Severity::Warn))
}

impl<'h> LogErrors<'h> {
    /// Selects the `errors` of a text that are in line `from`, counted from 0, or later.
    pub(super) fn new(errors: &'h [LogEntry<'h>], from: usize, subject: Subject) -> Self {
        let entries: Vec<_> = errors.iter().filter(|entry| entry.line >= from).collect();
        let totals = counts(errors.iter());
        Self { entries, subject, totals, merged: Default::default() }
    }

    /// Writes the errors and warnings: all of them if they fit, else with shorter stack traces,
    /// else only the most severe.
    pub(super) fn write(&self, highlights: &Highlights<'_>, text: &mut HighlightWriter<'_>) {
        if self.entries.is_empty() {
            return;
        }
        let (errors, warnings) = counts(self.entries.iter().copied());
        let (all_errors, all_warnings) = self.totals;
        let is_all = self.totals == (errors, warnings);
        let tests = match self.subject {
            Subject::Errors => None,
            Subject::FailedTests => Some("failed tests"),
            Subject::FailedTestsAndErrors => Some("failed tests and errors"),
        };
        let head = match tests {
            Some(tests) if is_all => format!("{errors} {tests}:\n"),
            Some(tests) => format!("{errors} {tests} (in all lines {all_errors}):\n"),
            None if is_all => format!("{errors} errors, {warnings} warnings:\n"),
            None => format!(
                "{errors} errors, {warnings} warnings (in all lines {all_errors} and \
                 {all_warnings}):\n"
            ),
        };
        let room = text.room * 9 / 10;
        let whole = |detail: &EntryDetail| {
            let folded = self.merged(detail.masking);
            let most = room.saturating_mul(MAX_TOKEN_BYTES);
            let least: u64 = folded.iter().map(|group| group.min_bytes(detail)).sum();
            // Each group takes at least a token. Both bounds are cheap, and avoid pricing
            // megabytes.
            if folded.len() as u64 > room || least > most {
                return None;
            }
            let mut whole = head.clone();
            for group in folded {
                whole.push_str(&group.format(highlights, detail));
                whole.push('\n');
                if whole.len() as u64 > most {
                    return None;
                }
            }
            (text.estimator.cost(whole.as_bytes()) <= room).then_some(whole)
        };
        if let Some(whole) = DETAILS.iter().find_map(whole) {
            return text.push(&whole);
        }
        // Not all fit: the most severe come first.
        let coarse = self.merged(Masking::Values);
        let mut kept: Vec<String> = Vec::new();
        let mut spent = text.estimator.cost(head.as_bytes()) + 8;
        let mut omitted = 0;
        for group in coarse {
            // Formatting and pricing stop once nothing can fit.
            let line = (spent < room).then(|| group.format(highlights, &LEAST_DETAIL));
            let cost = line.as_ref().map_or(room, |line| text.estimator.cost(line.as_bytes()) + 1);
            match line.filter(|_| spent + cost <= room) {
                Some(line) => {
                    spent += cost;
                    kept.push(line);
                }
                None => omitted += group.count,
            }
        }
        text.push(&format!(
            "{head}{}\n({omitted} more of them have no room here)\n",
            kept.join("\n")
        ));
    }

    /// Returns the entries, merged by `masking`: errors first, each severity in the order of the
    /// log.
    fn merged(&self, masking: Masking) -> &[MergedEntries<'h>] {
        let [header, numbers, values] = &self.merged;
        // Each masking hides more than the one before, so that it only has to merge its groups.
        match masking {
            Masking::Header => header.get_or_init(|| {
                let single =
                    |entry: &&'h LogEntry<'h>| MergedEntries { entry, last: entry.line, count: 1 };
                merge(&self.entries.iter().map(single).collect::<Vec<_>>(), masking)
            }),
            Masking::Numbers => {
                numbers.get_or_init(|| merge(self.merged(Masking::Header), masking))
            }
            Masking::Values => values.get_or_init(|| merge(self.merged(Masking::Numbers), masking)),
        }
    }
}

/// Merges groups of log entries with equal templates, errors first. O(groups log groups).
fn merge<'h>(entries: &[MergedEntries<'h>], masking: Masking) -> Vec<MergedEntries<'h>> {
    let mut groups: Vec<MergedEntries<'h>> = Vec::new();
    // Templates are long and share their first half, so comparing hashes is faster.
    let mut known: BTreeMap<u128, usize> = BTreeMap::new();
    for merged in entries {
        let entry = merged.entry;
        let key = xxh3_128(&template(&entry.says, entry.message, masking));
        match known.get(&key).and_then(|at| groups.get_mut(*at)) {
            // The words of a message do not tell its severity.
            Some(group) if group.entry.level == entry.level => {
                group.count += merged.count;
                group.last = group.last.max(merged.last);
            }
            _ => {
                known.insert(key, groups.len());
                groups.push(*merged);
            }
        }
    }
    let (mut errors, warnings): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|group| group.entry.level == Severity::Error);
    errors.extend(warnings);
    errors
}

impl MergedEntries<'_> {
    /// Returns the minimum number of bytes that [`MergedEntries::format`] writes, a lower bound for
    /// the cost.
    fn min_bytes(&self, detail: &EntryDetail) -> u64 {
        shown_part(self.entry, detail).len().min(detail.bytes - MAX_CHAR_BYTES) as u64
    }

    /// Formats the first of the merged entries, followed by the number of merged entries.
    fn format(&self, highlights: &Highlights<'_>, detail: &EntryDetail) -> String {
        let text = highlights.entry(self.entry, detail);
        if self.count > 1 {
            format!("{text} (x{}, last in line {})", self.count, self.last + 1)
        } else {
            text
        }
    }
}

/// Returns the part of an entry's first line that is shown.
pub(super) fn shown_part<'e>(entry: &'e LogEntry<'_>, detail: &EntryDetail) -> &'e [u8] {
    let start = if detail.is_brief { entry.severity_start() } else { 0 };
    entry.says.get(start..).unwrap_or_default()
}
