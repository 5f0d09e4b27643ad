//! Errors and warnings of a log, repeats in one.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_128;

use super::{HighlightWriter, Highlights, MAX_LINE_BYTES, MAX_TRACE_LINES};
use crate::text::entry::{Entry, template};
use crate::text::level::Level;

/// Bytes of a character, at most: where a line is cut it may lose all but one of them.
const MAX_CHAR_BYTES: usize = 4;

/// Bytes of a token, at most.
const MAX_TOKEN_BYTES: u64 = 16;

/// Entries that matter. What repeats among them is found once, however often they are told.
pub struct LogErrors<'h> {
    entries: Vec<&'h Entry<'h>>,
    /// Entries that say the same at another time, in one.
    fine: OnceCell<Vec<Group<'h>>>,
    /// Entries that differ in numbers only, in one.
    coarse: OnceCell<Vec<Group<'h>>>,
}

/// Entries that say the same.
#[derive(Clone, Copy)]
struct Group<'h> {
    /// The first of them.
    entry: &'h Entry<'h>,
    /// The line of the last.
    last: usize,
    count: usize,
}

impl<'h> LogErrors<'h> {
    pub(super) fn new(entries: impl Iterator<Item = &'h Entry<'h>>) -> Self {
        Self { entries: entries.collect(), fine: OnceCell::new(), coarse: OnceCell::new() }
    }

    /// Tells all of them where they fit, repeats folded; else shorter; else the gravest. How many had to be left out.
    pub(super) fn tell(&self, of: &Highlights<'_>, text: &mut HighlightWriter<'_>) -> usize {
        if self.entries.is_empty() {
            return 0;
        }
        let count = |level| self.entries.iter().filter(|entry| entry.level == level).count();
        let head = format!("{} errors, {} warnings:\n", count(Level::Error), count(Level::Warn));
        let room = text.room * 9 / 10;
        let whole = |folded: &[Group<'_>], trace: usize| {
            let most = room.saturating_mul(MAX_TOKEN_BYTES);
            let least: u64 = folded.iter().map(Group::least).sum();
            // Each takes a token at least.
            if folded.len() as u64 > room || least > most {
                return None;
            }
            let mut whole = head.clone();
            for group in folded {
                whole.push_str(&group.tell(of, trace));
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
            text.push(&whole);
            return 0;
        }
        // Not all of them fit: the gravest first, in their order, evenly spread.
        let mut coarse = coarse().clone();
        coarse.sort_by_key(|group| (std::cmp::Reverse(group.entry.level), group.entry.line));
        let mut kept: Vec<(usize, String)> = Vec::new();
        let mut spent = text.estimator.cost(head.as_bytes()) + 8;
        let mut omitted = 0;
        for group in &coarse {
            if spent >= room {
                omitted += group.count;
                continue;
            }
            let line = group.tell(of, 1);
            let cost = text.estimator.cost(line.as_bytes()) + 1;
            if spent + cost > room {
                omitted += group.count;
                continue;
            }
            spent += cost;
            kept.push((group.entry.line, line));
        }
        kept.sort_unstable();
        let lines: Vec<String> = kept.into_iter().map(|(_, line)| line).collect();
        text.push(&format!(
            "{head}{}\n({omitted} more of them have no room here)\n",
            lines.join("\n")
        ));
        omitted
    }

    /// Repeats in one: entries that say the same at another time; `coarse`: that differ in numbers only. O(entries).
    fn fold(&self, coarse: bool) -> Vec<Group<'h>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        // By their hashes: templates are long, and alike in their first half.
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
                    groups.push(Group { entry, last: entry.line, count: 1 });
                }
            }
        }
        groups
    }
}

impl Group<'_> {
    /// Bytes that [`Group::tell`] writes, at least.
    fn least(&self) -> u64 {
        self.entry.says.len().min(MAX_LINE_BYTES - MAX_CHAR_BYTES) as u64
    }

    /// The first of them, with so many lines of what belongs to it, and how many say the same.
    fn tell(&self, of: &Highlights<'_>, trace: usize) -> String {
        let text = of.entry(self.entry, trace);
        if self.count > 1 {
            format!("{text} (x{}, last in line {})", self.count, self.last + 1)
        } else {
            text
        }
    }
}
