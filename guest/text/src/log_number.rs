//! Severities that entries write as a small number without a name, in a column soon after the time.

use super::log_time::run;
use super::severity::Severity;

/// The maximum number of words between the time and the number.
const MAX_COLUMN: usize = 4;
/// The minimum number of entries from which a column is learned.
const MIN_ENTRIES: usize = 20;
/// The greatest number that is a severity.
const MAX_NUMBER: i8 = 32;

/// The meaning of the numbers in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnScale {
    /// The severities of syslog: 3 is an error, 4 a warning.
    Syslog,
    /// Degrees of detail: 0 and 1 are errors, 2 is a warning.
    Detail,
    /// Degrees of detail of which only those below 0 are errors.
    Negative,
    /// Powers of two, as in logs of NetBackup: 8 is a warning, 16 and 32 are errors.
    Powers,
}

/// The column in which the entries of a log write their severity as a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberColumn {
    /// The number of words between the time and the number.
    index: usize,
    scale: ColumnScale,
}

impl NumberColumn {
    /// Learns the column from the parts of entries after their times. `None` if no column has a
    /// small set of numbers of which most are harmless. O(entries).
    pub(super) fn learn<'l>(rests: impl Iterator<Item = &'l [u8]> + Clone) -> Option<Self> {
        let total = rests.clone().count();
        if total < MIN_ENTRIES {
            return None;
        }
        (0..MAX_COLUMN).find_map(|index| {
            let mut counts = [0usize; 34];
            for (number, _) in rests.clone().filter_map(|rest| number_at(rest, index)) {
                let at = usize::try_from(number + 1).ok()?;
                *counts.get_mut(at)? += 1;
            }
            let scale = scale(&counts, total)?;
            Some(Self { index, scale })
        })
    }

    /// Returns the severity of an entry, and the byte offset after its number. `rest` is the entry
    /// after its time. `None` if it has no number in the column.
    pub(super) fn severity(&self, rest: &[u8]) -> Option<(Severity, usize)> {
        let (number, end) = number_at(rest, self.index)?;
        let severity = match (self.scale, number) {
            (ColumnScale::Syslog, 0..=3)
            | (ColumnScale::Detail, ..=1)
            | (ColumnScale::Negative, ..=-1)
            | (ColumnScale::Powers, 16..) => Severity::Error,
            (ColumnScale::Syslog, 4) | (ColumnScale::Detail, 2) | (ColumnScale::Powers, 8) => {
                Severity::Warn
            }
            _ => Severity::Other,
        };
        Some((severity, end))
    }
}

/// Returns the scale of a column. `counts` has the number of entries with each number from -1 on,
/// and `total` is the number of all entries. `None` if the numbers are no severities.
fn scale(counts: &[usize; 34], total: usize) -> Option<ColumnScale> {
    let sum = |from: i8, to: i8| -> usize {
        let has = |(number, _): &(i8, &usize)| (from..=to).contains(number);
        (-1i8..).zip(counts).filter(has).map(|(_, count)| count).sum()
    };
    let (all, distinct) = (sum(-1, MAX_NUMBER), counts.iter().filter(|count| **count > 0).count());
    if all * 20 < total * 19 || !(2..=8).contains(&distinct) {
        return None;
    }
    let is_most = |count: usize| count * 10 >= all * 7;
    let powers: usize = [1, 2, 4, 8, 16, 32].map(|power| sum(power, power)).iter().sum();
    if powers == all && sum(8, MAX_NUMBER) > 0 && is_most(sum(1, 4)) {
        return Some(ColumnScale::Powers);
    }
    if sum(8, MAX_NUMBER) > 0 {
        return None;
    }
    if sum(-1, -1) > 0 {
        return is_most(sum(0, 7)).then_some(ColumnScale::Negative);
    }
    if sum(6, 7) * 4 >= all {
        return (is_most(sum(5, 7))).then_some(ColumnScale::Syslog);
    }
    (is_most(sum(3, 5)) && sum(0, 2) > 0).then_some(ColumnScale::Detail)
}

/// Returns the number after `index` words of a text that no prose precedes, and the byte offset
/// after it: 3 in `[12.7] <3> bptm: text` and `user@host](3) text`. `None` without one.
fn number_at(rest: &[u8], index: usize) -> Option<(i8, usize)> {
    let is_mark = |byte: &u8| b"[](),<>:|;".contains(byte);
    let (mut word, mut end) = next_word(rest, 0)?;
    for _ in 0..index {
        // Words of prose are no columns.
        if word.iter().all(u8::is_ascii_alphabetic) {
            return None;
        }
        (word, end) = next_word(rest, end)?;
    }
    if word.iter().all(is_mark) {
        (word, end) = next_word(rest, end)?;
    }
    let marks = word.iter().rev().take_while(|byte| is_mark(byte)).count();
    let body = word.get(..word.len() - marks)?;
    let start = body.iter().rposition(is_mark).map_or(0, |at| at + 1);
    // A number inside a word is in brackets, as in `user@host](3)`.
    if start > 1 && (marks == 0 || body.get(start - 1) != Some(&b'(')) {
        return None;
    }
    let digits = body.get(start..)?;
    let number = std::str::from_utf8(digits).ok()?.parse::<i8>().ok()?;
    let is_short = digits.len() <= 2 && !digits.starts_with(b"+");
    (is_short && (-1..=MAX_NUMBER).contains(&number)).then_some((number, end))
}

/// Returns the first word of `text` from the byte offset `from` on, and the offset after it.
fn next_word(text: &[u8], from: usize) -> Option<(&[u8], usize)> {
    let start = from + run(text, from, u8::is_ascii_whitespace);
    let end = start + run(text, start, |byte| !byte.is_ascii_whitespace());
    (end > start).then_some((text.get(start..end)?, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_columns() {
        for (rest, index, expected) in [
            (" 3: text", 0, Some((3, 3))),
            (",  0] a.c:7(x)", 0, Some((0, 5))),
            (" [12.7] <16> bptm: x", 1, Some((16, 12))),
            (" 2026 1234 6 10.1 lim", 2, Some((6, 12))),
            (" user@web](1) x", 0, Some((1, 13))),
            (" 7f12ab -1 osd.1 x", 1, Some((-1, 10))),
            (" retry 3 of 4", 1, None),
            (" 33: text", 0, None),
            (" text", 0, None),
        ] {
            assert_eq!(number_at(rest.as_bytes(), index), expected, "{rest}");
        }
    }

    #[test]
    fn scales_are_learned() {
        let learn = |numbers: &[i8]| {
            let lines: Vec<String> = (0..40)
                .map(|at| format!(" {}: x", numbers.get(at % numbers.len()).unwrap()))
                .collect();
            NumberColumn::learn(lines.iter().map(String::as_bytes)).map(|column| column.scale)
        };
        assert_eq!(learn(&[3, 3, 4, 3, 1, 3, 3, 5, 2, 3]), Some(ColumnScale::Detail));
        assert_eq!(learn(&[6, 6, 5, 6, 3, 6, 6, 6, 4, 6]), Some(ColumnScale::Syslog));
        assert_eq!(learn(&[2, 4, 2, 2, 16, 2, 4, 2, 2, 8]), Some(ColumnScale::Powers));
        assert_eq!(learn(&[0, 0, 1, 0, -1, 0, 5, 0, 0, 0]), Some(ColumnScale::Negative));
        assert_eq!(learn(&[0, 1, 2, 3, 4, 5, 6, 7]), None);
        assert_eq!(learn(&[0, 1, 2, 3]), None);
        assert_eq!(learn(&[1, 2, 3, 9, 10, 11]), None);
        assert_eq!(learn(&[3]), None);
    }
}
