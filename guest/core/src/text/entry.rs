//! Entries of a log that matter, and which of them say the same.

use std::borrow::Cow;

use super::boundary::begins_entry;
use super::level::{Level, level, strict};
use super::lines::Lined;

/// An entry that matters.
#[derive(Clone, Debug)]
pub struct Entry {
    /// How grave it is.
    pub level: Level,
    /// Its first line, from 0.
    pub line: usize,
    /// Its number of lines.
    pub length: usize,
}

/// The entries of a log that matter, with the lines that belong to them; `candidates` are the lines that may begin one.
#[must_use]
pub fn entries(text: &Lined<'_>, candidates: &[bool]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut open: Option<Entry> = None;
    for (at, candidate) in candidates.iter().enumerate() {
        // Where nothing is open and nothing begins, it does not matter what the line is.
        if !*candidate && open.is_none() {
            continue;
        }
        let line = text.line(at);
        let own = if *candidate { level(&line) } else { Level::Other };
        if own == Level::Other && open.is_none() {
            continue;
        }
        if begins_entry(&line)
            || own != Level::Other && !line.starts_with(b" ") && !line.starts_with(b"\t")
        {
            entries.extend(open.take());
            if own != Level::Other {
                open = Some(Entry { level: own, line: at, length: 1 });
            }
        } else if let Some(entry) = &mut open {
            entry.length += usize::from(!line.trim_ascii().is_empty());
        }
    }
    entries.extend(open);
    entries
}

/// Lines of any other text that begin as errors do; none where half of it does.
#[must_use]
pub fn strict_lines(text: &Lined<'_>, candidates: &[bool]) -> Vec<Entry> {
    let grave: Vec<Entry> = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| **candidate)
        .map(|(line, _)| Entry { level: strict(&text.line(line)), line, length: 1 })
        .filter(|entry| entry.level != Level::Other)
        .collect();
    if grave.len() * 2 > text.len() { Vec::new() } else { grave }
}

/// Length of the time at the beginning of a line, and of what stands round it.
fn time_length(line: &[u8]) -> usize {
    const MONTHS: &[&[u8]] = &[
        b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
        b"Dec",
    ];
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        if let b'0'..=b'9' | b'-' | b'/' | b':' | b'.' | b',' | b' ' | b'[' | b']' | b'(' | b'+' =
            byte
        {
            at += 1;
            continue;
        }
        let letters = line
            .get(at..)
            .map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count());
        let word = line.get(at..at + letters).unwrap_or_default();
        match letters {
            // `T` and `Z` of a time, the level before the digits of klog.
            1 if matches!(byte, b'T' | b'Z' | b'I' | b'W' | b'E' | b'F') => at += 1,
            _ if MONTHS.contains(&word) => at += letters,
            _ => break,
        }
    }
    at
}

/// A line without what differs between repeats: its time; `coarse`: all numbers and ids. Two entries of one template say the same.
#[must_use]
pub fn template(line: &[u8], coarse: bool) -> Cow<'_, [u8]> {
    let rest = line.get(time_length(line)..).unwrap_or_default();
    if !coarse {
        return Cow::Borrowed(rest);
    }
    // As long as the line at first, so that nothing has to be made room for.
    let mut out = vec![0; rest.len()];
    let (mut last, mut length) = (0, 0);
    for (byte, place) in rest
        .iter()
        .filter_map(|byte| {
            let hex = matches!(byte, b'a'..=b'f' | b'A'..=b'F') && last == b'0';
            let byte = if byte.is_ascii_digit() || hex { b'0' } else { *byte };
            let repeats = byte == b'0' && last == b'0';
            last = byte;
            (!repeats).then_some(byte)
        })
        .zip(&mut out)
    {
        *place = byte;
        length += 1;
    }
    out.truncate(length);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_differ_in_time_or_in_numbers() {
        let one = b"2026-01-02 10:00:00 WARN attempt 5 of upstream a1b2";
        let two = b"2026-01-02 11:30:09 WARN attempt 6 of upstream a1b3";
        assert!(
            template(one, false) != template(two, false)
                && template(one, true) == template(two, true)
        );
        for (left, right) in [
            (
                "[2026-01-02T10:00:00Z] ERROR payment 250",
                "[2026-01-03T11:00:00Z] ERROR payment 250",
            ),
            ("Jan 12 10:00:00 host sshd: x", "Feb 3 11:00:00 host sshd: x"),
            ("E0102 15:04:05.1 1 x.go:1] y", "E0103 15:04:06.2 1 x.go:1] y"),
        ] {
            assert_eq!(template(left.as_bytes(), false), template(right.as_bytes(), false));
        }
    }
}
