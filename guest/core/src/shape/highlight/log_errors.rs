//! The errors and warnings of a log, with repeated entries merged.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_128;

use super::merged_entries::{MergedEntries, SimilarEntries};
use super::{HighlightWriter, Highlights, MAX_LINE_BYTES, MAX_TRACE_LINES, shortened};
use crate::text::log_entry::{LogEntry, Subject};
use crate::text::log_template::{Masking, template, text_start};
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
const LEAST_DETAIL: EntryDetail = detail(Masking::Words, 1, 80, true);

/// The amounts of detail to try, in falling order.
const DETAILS: [EntryDetail; 11] = [
    FULL_DETAIL,
    detail(Masking::Header, 2, MAX_LINE_BYTES, false),
    detail(Masking::Header, 1, MAX_LINE_BYTES, false),
    detail(Masking::Numbers, 1, MAX_LINE_BYTES, false),
    detail(Masking::Numbers, 1, 160, true),
    detail(Masking::Values, 1, MAX_LINE_BYTES, true),
    detail(Masking::Values, 1, 160, true),
    detail(Masking::Words, 1, MAX_LINE_BYTES, true),
    detail(Masking::Words, 1, 160, true),
    detail(Masking::Values, 1, 80, true),
    LEAST_DETAIL,
];

/// Entries of a log, merged by each [`Masking`] in turn. They are merged on first use, and the
/// result is reused for all token limits.
struct MaskedEntries<'h> {
    all: Vec<&'h LogEntry<'h>>,
    merged: [OnceCell<Vec<MergedEntries<'h>>>; 4],
}

/// The errors and warnings of a log.
pub struct LogErrors<'h> {
    entries: MaskedEntries<'h>,
    /// The name of the entries, for headings.
    subject: Subject,
    /// The numbers of errors and warnings in the whole text.
    totals: (usize, usize),
    /// The entries in the lines before the selected ones.
    before: MaskedEntries<'h>,
    /// The number of entries of each template in the whole text. Computed on first use.
    template_counts: OnceCell<BTreeMap<TemplateKey, usize>>,
    /// Groups that differ in few words, for entries that do not all fit. Computed on first use.
    similar: OnceCell<SimilarEntries<'h>>,
}

/// The severity of entries, and the hash of their template.
type TemplateKey = (Severity, u128);

/// Returns the severity of an entry, and the hash of its template.
fn template_key(entry: &LogEntry<'_>, masking: Masking) -> TemplateKey {
    (entry.level, xxh3_128(&template(entry, masking)))
}

/// The numbers of entries in the whole text, for groups that are written in order.
struct Totals<'c> {
    masking: Masking,
    /// The number of entries before the selected lines, by the template of a group.
    before: BTreeMap<TemplateKey, usize>,
    /// The number of entries in the whole text that have the same words.
    /// `None` if they are not written.
    alike: Option<&'c BTreeMap<TemplateKey, usize>>,
    /// The templates whose number is written.
    counted: BTreeSet<TemplateKey>,
}

impl Totals<'_> {
    /// Returns the number of entries that a group has in the whole text, and the number of entries
    /// with the same words. A number that says nothing new is 0, such as the second after an
    /// earlier group with the same words.
    fn next(&mut self, group: &MergedEntries<'_>) -> (usize, usize) {
        let before = match self.before.is_empty() {
            true => &0,
            false => self.before.get(&template_key(group.entry, self.masking)).unwrap_or(&0),
        };
        let total = group.count + before;
        let total_if_new = if *before > 0 { total } else { 0 };
        let Some(alike) = self.alike else { return (total_if_new, 0) };
        let words = template_key(group.entry, Masking::Words);
        let alike = *alike.get(&words).unwrap_or(&0);
        let is_new = alike > total && self.counted.insert(words);
        (total_if_new, if is_new { alike } else { 0 })
    }
}

/// Returns the number of errors and the number of warnings among log entries.
fn counts<'h>(entries: impl Iterator<Item = &'h LogEntry<'h>> + Clone) -> (usize, usize) {
    let count = |level| entries.clone().filter(|entry| entry.level == level).count();
    (count(Severity::Error), count(Severity::Warn))
}

impl<'h> LogErrors<'h> {
    /// Selects the `errors` of a text that are in line `from`, counted from 0, or later.
    pub(super) fn new(errors: &'h [LogEntry<'h>], from: usize, subject: Subject) -> Self {
        let (entries, before) = errors.iter().partition(|entry| entry.line >= from);
        let totals = counts(errors.iter());
        let (entries, before) = (MaskedEntries::new(entries), MaskedEntries::new(before));
        let (template_counts, similar) = (OnceCell::new(), OnceCell::new());
        Self { entries, subject, totals, before, template_counts, similar }
    }

    /// Writes the errors and warnings: all of them if they fit, else with shorter stack traces,
    /// else only the most severe.
    pub(super) fn write(&self, highlights: &Highlights<'_>, text: &mut HighlightWriter<'_>) {
        if self.entries.all.is_empty() {
            return;
        }
        let (errors, warnings) = counts(self.entries.all.iter().copied());
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
            let folded = self.entries.merged(detail.masking);
            let most = room.saturating_mul(MAX_TOKEN_BYTES);
            // Each group takes at least a token. Both bounds avoid pricing megabytes.
            if folded.len() as u64 > room {
                return None;
            }
            let least: u64 = folded.iter().map(|group| group.min_bytes(detail)).sum();
            if least > most {
                return None;
            }
            let mut whole = head.clone();
            let mut totals = self.totals_of(detail.masking);
            for group in folded {
                whole.push_str(&group.format(highlights, detail, totals.next(group)));
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
        // Not all fit: those that differ in few words are one group. Names of tests differ.
        if tests.is_some() {
            let mut totals = self.totals_of(Masking::Words);
            let coarse = self.entries.merged(Masking::Words).iter();
            let coarse = coarse.map(|group| (group, totals.next(group))).collect::<Vec<_>>();
            return self.write_some(&coarse, &head, highlights, text);
        }
        let similar = self.similar.get_or_init(|| {
            let before = self.before.merged(Masking::Words);
            SimilarEntries::new(self.entries.merged(Masking::Words), before)
        });
        let total = |(group, before): &'_ (MergedEntries<'h>, usize)| match before {
            0 => 0,
            before => group.count + before,
        };
        let groups = similar.groups.iter().map(|similar| (&similar.0, (total(similar), 0)));
        self.write_some(&groups.collect::<Vec<_>>(), &head, highlights, text);
    }

    /// Writes as many groups as fit, with their totals. The most severe come first.
    fn write_some(
        &self,
        coarse: &[(&MergedEntries<'h>, (usize, usize))],
        head: &str,
        highlights: &Highlights<'_>,
        text: &mut HighlightWriter<'_>,
    ) {
        let room = text.room * 9 / 10;
        let mut kept: Vec<String> = Vec::new();
        let mut spent = text.estimator.cost(head.as_bytes()) + 8;
        let mut omitted = 0;
        for (group, totals) in coarse {
            // Formatting and pricing stop once nothing can fit.
            let line = (spent < room).then(|| group.format(highlights, &LEAST_DETAIL, *totals));
            let cost = line.as_ref().map_or(room, |line| text.estimator.cost(line.as_bytes()) + 1);
            match line.filter(|_| spent + cost <= room) {
                Some(line) => {
                    spent += cost;
                    kept.push(line);
                }
                None => omitted += group.count,
            }
        }
        let kinds = coarse.len() - kept.len();
        if kinds == 0 {
            return text.push(&format!("{head}{}\n", kept.join("\n")));
        }
        text.push(&format!(
            "{head}{}\n({omitted} more of them have no room here, of {kinds} kinds: use grep)\n",
            kept.join("\n")
        ));
    }

    /// Returns the totals of the groups that `masking` merges.
    fn totals_of(&self, masking: Masking) -> Totals<'_> {
        let before = self.before.merged(masking).iter();
        let before = before.map(|group| (template_key(group.entry, masking), group.count));
        let before = before.collect();
        // The name of each failed test matters.
        let alike = (self.subject == Subject::Errors).then(|| self.template_counts());
        Totals { masking, before, alike, counted: BTreeSet::new() }
    }

    /// Returns the number of entries in the whole text for each template. Templates are compared by
    /// their words alone.
    fn template_counts(&self) -> &BTreeMap<TemplateKey, usize> {
        self.template_counts.get_or_init(|| {
            let mut counts = BTreeMap::new();
            for group in
                [&self.entries, &self.before].iter().flat_map(|all| all.merged(Masking::Words))
            {
                *counts.entry(template_key(group.entry, Masking::Words)).or_default() +=
                    group.count;
            }
            counts
        })
    }
}

impl<'h> MaskedEntries<'h> {
    fn new(all: Vec<&'h LogEntry<'h>>) -> Self {
        Self { all, merged: Default::default() }
    }

    /// Returns the entries, merged by `masking`: errors first, each severity in the order of the
    /// log.
    fn merged(&self, masking: Masking) -> &[MergedEntries<'h>] {
        let [header, numbers, values, words] = &self.merged;
        // Each masking hides more than the one before, so that it only has to merge its groups.
        match masking {
            Masking::Header => header.get_or_init(|| {
                let single = |entry: &&'h LogEntry<'h>| MergedEntries::new(entry);
                merge(&self.all.iter().map(single).collect::<Vec<_>>(), masking)
            }),
            Masking::Numbers => {
                numbers.get_or_init(|| merge(self.merged(Masking::Header), masking))
            }
            Masking::Values => values.get_or_init(|| merge(self.merged(Masking::Numbers), masking)),
            Masking::Words => words.get_or_init(|| merge(self.merged(Masking::Values), masking)),
        }
    }
}

/// Merges groups of log entries with equal templates, errors first. O(groups log groups).
fn merge<'h>(entries: &[MergedEntries<'h>], masking: Masking) -> Vec<MergedEntries<'h>> {
    let mut groups: Vec<MergedEntries<'h>> = Vec::new();
    // Templates are long and share their first half, so comparing hashes is faster.
    let mut known: BTreeMap<TemplateKey, usize> = BTreeMap::new();
    for merged in entries {
        // The words of a message do not tell its severity.
        let key = template_key(merged.entry, masking);
        match known.get(&key).and_then(|at| groups.get_mut(*at)) {
            Some(group) => {
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
        let end = self.entry.message_end.unwrap_or(self.entry.says.len());
        let text = if self.entry.message_end.is_some() {
            self.entry.message
        } else {
            text_start(self.entry)
        };
        let shown = shown_part(self.entry, detail).len().min(end.saturating_sub(text));
        shown.min(detail.bytes - MAX_CHAR_BYTES) as u64
    }

    /// Formats the first of the merged entries, with their number after its first line. `total` is
    /// the number of these entries in the whole text, and `alike` that of entries with the same
    /// words. A number of 0 is not written.
    fn format(
        &self,
        highlights: &Highlights<'_>,
        detail: &EntryDetail,
        (total, alike): (usize, usize),
    ) -> String {
        let mut notes = Vec::new();
        if self.count > 1 {
            let similar = if self.is_mixed { " similar" } else { "" };
            notes.push(format!("x{}{similar}, last in line {}", self.count, self.last + 1));
        }
        match (total, alike) {
            (0, 0) => {}
            (0, alike) => notes.push(format!("{alike} alike in all lines")),
            (total, 0) => notes.push(format!("{total} in all lines")),
            (total, alike) => notes.push(format!("{total} in all lines, {alike} alike")),
        }
        let notes = notes.join("; ");
        let count = if notes.is_empty() { notes } else { format!(" ({notes})") };
        highlights.entry(self.entry, detail, &count)
    }
}

/// Returns the part of an entry's first line that is shown, without the limit of `detail`.
fn shown_part<'e>(entry: &'e LogEntry<'_>, detail: &EntryDetail) -> &'e [u8] {
    entry.says.get(shown_start(entry, detail)..).unwrap_or_default()
}

/// Returns the byte offset in an entry's first line of the part that is shown.
fn shown_start(entry: &LogEntry<'_>, detail: &EntryDetail) -> usize {
    // The message of a JSON object may be after other long members.
    let is_late = entry.message_end.is_some_and(|end| end > detail.bytes);
    if detail.is_brief || is_late { entry.severity_start() } else { 0 }
}

/// Returns a line with one space for each run of spaces and tabs. O(line).
fn without_alignment(line: &[u8]) -> Vec<u8> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let mut out: Vec<u8> = Vec::with_capacity(line.len());
    for byte in line {
        if !is_space(byte) {
            out.push(*byte);
        } else if !out.last().is_some_and(is_space) {
            out.push(b' ');
        }
    }
    out
}

/// Returns what is shown of an entry's first line: its message, and the cause that it names, even
/// if other members are between them.
pub(super) fn shown_line(entry: &LogEntry<'_>, detail: &EntryDetail) -> String {
    let start = shown_start(entry, detail);
    let is_hidden = |cause: &&Range<usize>| cause.start < start || cause.end > start + detail.bytes;
    let cause = entry.cause.as_ref().filter(is_hidden);
    let cause = cause.and_then(|cause| entry.says.get(cause.clone()));
    let (Some(cause), Some(end)) = (cause, entry.message_end) else {
        let part = shown_part(entry, detail);
        let text = text_start(entry);
        // Long names of threads and classes would hide the message.
        if detail.is_brief && part.len() > detail.bytes && text > start + detail.bytes / 4 {
            let word = entry.says.get(start..entry.message).unwrap_or_default();
            let text = entry.says.get(text..).unwrap_or_default();
            let mark = if word.is_empty() { "… " } else { " … " };
            return format!(
                "{}{mark}{}",
                shortened(word, detail.bytes),
                shortened(text, detail.bytes)
            );
        }
        // Columns are aligned by white space.
        return match part.len() > detail.bytes {
            true => shortened(&without_alignment(part), detail.bytes),
            false => shortened(part, detail.bytes),
        };
    };
    let message = entry.says.get(start..end).unwrap_or_default();
    let message = shortened(message, detail.bytes);
    format!("{message} … {}", shortened(cause, detail.bytes / 2))
}
