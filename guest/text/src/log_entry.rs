//! Errors and warnings of a log, and templates that group similar ones.

use std::borrow::Cow;

use wide::u8x16;

use super::boundary::begins_entry;
use super::lines::IndexedText;
use super::severity::{Severity, severity, strict_severity};
use context_guard_json::blocks::{copy_until, find_where, in_range};

/// An error or a warning in a log or another text.
#[derive(Clone, Debug)]
pub struct LogEntry<'t> {
    /// The severity of the entry: an error or a warning.
    pub level: Severity,
    /// The number of the entry's first line in the text, from 0.
    pub line: usize,
    /// The number of lines of the entry, without blank lines.
    pub length: usize,
    /// The first line of the entry, decoded.
    pub says: Cow<'t, [u8]>,
}

/// Returns the errors and warnings of a log with their continuation lines. `candidates` has one
/// element per line: true if an error or warning may begin there.
#[must_use]
pub fn entries<'t>(text: &IndexedText<'t>, candidates: &[bool]) -> Vec<LogEntry<'t>> {
    let mut entries: Vec<LogEntry<'_>> = Vec::new();
    // True if the next line may continue the last entry.
    let mut open = false;
    for (at, candidate) in candidates.iter().enumerate() {
        if *candidate {
            let says = text.line(at);
            let own = severity(&says);
            let indented = says.starts_with(b" ") || says.starts_with(b"\t");
            if own != Severity::Other && (!indented || begins_entry(&says)) {
                entries.push(LogEntry { level: own, line: at, length: 1, says });
                open = true;
                continue;
            }
        }
        // Without an open entry the line needs no further check.
        if !open {
            continue;
        }
        open = !begins_entry(&text.head(at));
        if let Some(entry) = entries.last_mut().filter(|_| open) {
            entry.length += usize::from(!text.line(at).trim_ascii().is_empty());
        }
    }
    entries
}

/// Returns the lines of a text other than a log that begin like errors or warnings. Returns none if
/// more than half of all lines do. `candidates` has one element per line: true if the line needs to
/// be checked.
#[must_use]
pub fn error_lines<'t>(text: &IndexedText<'t>, candidates: &[bool]) -> Vec<LogEntry<'t>> {
    let read = |line| {
        let says = text.line(line);
        LogEntry { level: strict_severity(&says), line, length: 1, says }
    };
    let lines = candidates.iter().enumerate().filter(|(_, candidate)| **candidate);
    let grave: Vec<LogEntry<'_>> =
        lines.map(|(line, _)| read(line)).filter(|entry| entry.level != Severity::Other).collect();
    if grave.len() * 2 > text.len() { Vec::new() } else { grave }
}

/// Returns the number of bytes of the timestamp at the beginning of a line, with brackets and
/// separators. 0 if there is none.
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
            // `T` and `Z` of ISO 8601, or the level letter of klog.
            1 if matches!(byte, b'T' | b'Z' | b'I' | b'W' | b'E' | b'F') => at += 1,
            _ if MONTHS.contains(&word) => at += letters,
            _ => break,
        }
    }
    at
}

/// Returns the template of a log entry: its first line without the timestamp. If `coarse`, numbers
/// and ids are replaced by `0`. Entries with equal templates are repetitions.
#[must_use]
pub fn template(line: &[u8], coarse: bool) -> Cow<'_, [u8]> {
    let rest = line.get(time_length(line)..).unwrap_or_default();
    if !coarse {
        return Cow::Borrowed(rest);
    }
    let digit = |part| in_range(part, b'0', b'9');
    let not_id = |part: u8x16| !(digit(part) | in_range(part | u8x16::splat(0x20), b'a', b'f'));
    let (mut out, mut rest) = (Vec::with_capacity(rest.len()), rest);
    loop {
        let plain = copy_until(&mut out, rest, digit);
        rest = rest.get(plain..).unwrap_or_default();
        if rest.is_empty() {
            return Cow::Owned(out);
        }
        out.push(b'0');
        rest = rest.get(find_where(rest, 0, not_id)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ids_become_zero() {
        let line = b"order 123 of 0xBEEF7 by ab12cd-9fz: 1A.2 and 77";
        assert_eq!(*template(line, true), *b"order 0 of 0xBEEF0 by ab0-0z: 0.0 and 0");
    }

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
