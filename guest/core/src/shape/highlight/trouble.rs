//! Errors and warnings of a log, repeats in one.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_128;

use super::{Highlights, TRACE, Text};
use crate::text::entry::{Entry, template};
use crate::text::level::Level;
use crate::text::lines::Lined;

/// Entries that matter. What repeats among them is found once, however often they are told.
pub struct Trouble<'h> {
    /// Each with its first line.
    entries: Vec<(&'h Entry, Cow<'h, [u8]>)>,
    /// Entries that say the same at another time, in one.
    fine: OnceCell<Vec<Group>>,
    /// Entries that differ in numbers only, in one.
    coarse: OnceCell<Vec<Group>>,
}

/// Entries that say the same.
#[derive(Clone, Copy)]
struct Group {
    level: Level,
    line: usize,
    length: usize,
    last: usize,
    count: usize,
}

impl<'h> Trouble<'h> {
    pub(super) fn of(text: &Lined<'h>, entries: impl Iterator<Item = &'h Entry>) -> Self {
        let entries = entries.map(|entry| (entry, text.line(entry.line))).collect();
        Self { entries, fine: OnceCell::new(), coarse: OnceCell::new() }
    }

    /// Tells all of them where they fit, repeats folded; else shorter; else the gravest. How many had to be left out.
    pub(super) fn tell(&self, of: &Highlights<'_>, text: &mut Text<'_>) -> usize {
        if self.entries.is_empty() {
            return 0;
        }
        let count = |level| self.entries.iter().filter(|(entry, _)| entry.level == level).count();
        let head = format!("{} errors, {} warnings:\n", count(Level::Error), count(Level::Warn));
        let room = text.room * 9 / 10;
        let whole = |folded: &[Group], trace: usize| {
            // Each takes a token at least, and a token is at most 16 bytes.
            if folded.len() as u64 > room {
                return None;
            }
            let mut whole = head.clone();
            for group in folded {
                whole.push_str(&group.tell(of, trace));
                whole.push('\n');
                if whole.len() as u64 > room.saturating_mul(16) {
                    return None;
                }
            }
            (text.estimator.cost(whole.as_bytes()) <= room).then_some(whole)
        };
        let fine = self.fine.get_or_init(|| self.fold(false));
        let coarse = || self.coarse.get_or_init(|| self.fold(true));
        let fits = [TRACE, 2, 1].into_iter().find_map(|trace| whole(fine, trace));
        if let Some(whole) = fits.or_else(|| whole(coarse(), 1)) {
            text.push(&whole);
            return 0;
        }
        // Not all of them fit: the gravest first, in their order, evenly spread.
        let mut coarse = coarse().clone();
        coarse.sort_by_key(|group| (std::cmp::Reverse(group.level), group.line));
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
            kept.push((group.line, line));
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
    fn fold(&self, coarse: bool) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        // By their hashes: templates are long, and alike in their first half.
        let mut known: BTreeMap<u128, usize> = BTreeMap::new();
        for (entry, line) in &self.entries {
            let key = xxh3_128(&template(line, coarse));
            match known.get(&key).and_then(|at| groups.get_mut(*at)) {
                Some(group) => {
                    group.count += 1;
                    group.last = entry.line;
                }
                None => {
                    known.insert(key, groups.len());
                    groups.push(Group {
                        level: entry.level,
                        line: entry.line,
                        length: entry.length,
                        last: entry.line,
                        count: 1,
                    });
                }
            }
        }
        groups
    }
}

impl Group {
    /// The first of them, with so many lines of what belongs to it, and how many say the same.
    fn tell(&self, of: &Highlights<'_>, trace: usize) -> String {
        let text =
            of.entry(&Entry { level: self.level, line: self.line, length: self.length }, trace);
        if self.count > 1 {
            format!("{text} (x{}, last in line {})", self.count, self.last + 1)
        } else {
            text
        }
    }
}
