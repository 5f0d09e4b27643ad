//! Errors and warnings of a log, and templates that group similar entries.

use std::borrow::Cow;

use wide::u8x16;

use super::colours::without_colours;
use super::kind::Kind;
use super::lines::IndexedText;
use super::log_format::LogFormat;
use super::severity::{Severity, crash_severity, line_severity};
use super::severity_prefilter::severity_prefilter;
use super::test_failures::{FailedTest, test_failures};
use context_guard_json::blocks::{copy_until, find_where, in_range};

/// The maximum number of bytes of a quoted value that [`template`] replaces.
const MAX_QUOTED_BYTES: usize = 200;

/// An error or a warning in a log or another text.
#[derive(Clone, Debug)]
pub struct LogEntry<'t> {
    /// The severity of the entry: an error or a warning.
    pub level: Severity,
    /// The number of the entry's first line in the text, from 0.
    pub line: usize,
    /// The number of lines of the entry, without blank lines.
    pub length: usize,
    /// The first line of the entry, decoded and without ANSI escape sequences.
    pub says: Cow<'t, [u8]>,
    /// The byte offset in `says` of the message, after time and severity.
    pub message: usize,
}

impl<'t> From<&FailedTest<'t>> for LogEntry<'t> {
    fn from(test: &FailedTest<'t>) -> Self {
        let FailedTest { line, length, says, message } = test;
        let (level, says) = (Severity::Error, says.clone());
        Self { level, line: *line, length: *length, says, message: *message }
    }
}

impl LogEntry<'_> {
    /// Returns the byte offset in the first line at which its severity begins. If the line does not
    /// name a severity, returns the offset of the message.
    #[must_use]
    pub fn severity_start(&self) -> usize {
        let header = self.says.get(..self.message).unwrap_or_default();
        let word = header.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
        self.message - word
    }
}

/// The parts of a log entry that [`template`] replaces, so that repetitions are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Masking {
    /// Numbers before the message: times, processes and threads.
    Header,
    /// Numbers and ids, including those in the message.
    Numbers,
    /// Numbers, ids, quoted values, paths, and everything before the message. In messages with
    /// JSON, quoted values and paths remain.
    Values,
}

/// The kind of a text, with its most important entries.
#[derive(Clone, Debug)]
pub struct SevereEntries<'t> {
    /// The kind of the text.
    pub kind: Kind,
    /// The failed tests of a test run, or the errors and warnings of a log or plain text.
    pub entries: Vec<LogEntry<'t>>,
    /// The name of `entries`.
    pub subject: Subject,
}

/// The subject that log entries report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Errors and warnings.
    Errors,
    /// Failed tests.
    FailedTests,
    /// The names of failed tests, and the errors of these tests.
    FailedTestsAndErrors,
}

/// Returns the kind of a text with its failed tests. If it has none and is a log or plain text,
/// returns its errors and warnings. O(n).
///
/// # Example
///
/// ```
/// use context_guard_json::text::Form;
/// use context_guard_text::{lines::IndexedText, log_entry::severe_entries};
///
/// let log = b"web-1 | 10:00:00 info up, 0 errors\nweb-1 | 10:00:01 error refused\n";
/// let text = IndexedText::new(log, Form::Raw);
/// let found = severe_entries(&text);
/// assert_eq!(found.entries.iter().map(|entry| entry.line).collect::<Vec<_>>(), [1]);
/// ```
#[must_use]
pub fn severe_entries<'t>(text: &IndexedText<'t>) -> SevereEntries<'t> {
    let (kind, format) = Kind::detect_with_format(text);
    let start = |line: &[u8]| match kind {
        Kind::Log => format.read(line).message,
        _ => 0,
    };
    let is_test_output = !matches!(kind, Kind::Markup | Kind::Diff);
    let failures = is_test_output.then(|| test_failures(text, start)).flatten();
    if let Some(failures) = &failures
        && !failures.are_names
    {
        let entries = failures.tests.iter().map(LogEntry::from).collect();
        return SevereEntries { kind, entries, subject: Subject::FailedTests };
    }
    let mut entries = match kind {
        Kind::Log if format.has_short_severities() => {
            entries(text, &format, &vec![true; text.len()])
        }
        Kind::Log => entries(text, &format, &severity_prefilter(text)),
        Kind::Plain => error_lines(text, &severity_prefilter(text)),
        _ => Vec::new(),
    };
    let Some(failures) = failures else {
        return SevereEntries { kind, entries, subject: Subject::Errors };
    };
    let subject = match entries.is_empty() {
        true => Subject::FailedTests,
        false => Subject::FailedTestsAndErrors,
    };
    entries.extend(failures.tests.iter().map(LogEntry::from));
    entries.sort_by_key(|entry| entry.line);
    entries.dedup_by_key(|entry| entry.line);
    SevereEntries { kind, entries, subject }
}

/// Returns the errors and warnings of a log with their continuation lines. `candidates` has one
/// element per line: true if an error or warning may begin there.
fn entries<'t>(
    text: &IndexedText<'t>,
    format: &LogFormat,
    candidates: &[bool],
) -> Vec<LogEntry<'t>> {
    let mut entries: Vec<LogEntry<'_>> = Vec::new();
    // True if the next line may continue the last entry.
    let mut open = false;
    for (at, candidate) in candidates.iter().enumerate() {
        if *candidate {
            let says = without_colours(text.line(at));
            let head = format.read(&says);
            let level = if !head.is_start && !open { crash_severity(&says) } else { head.severity };
            if level != Severity::Other {
                entries.push(LogEntry { level, line: at, length: 1, says, message: head.message });
                open = true;
                continue;
            }
        }
        // Without an open entry the line needs no further check.
        if !open {
            continue;
        }
        open = !format.begins_entry(&without_colours(text.start(at)));
        if let Some(entry) = entries.last_mut().filter(|_| open) {
            entry.length += usize::from(!text.line(at).trim_ascii().is_empty());
        }
    }
    entries
}

/// Returns the lines of a text other than a log that begin like errors or warnings. Empty if more
/// than half of all lines do. `candidates` has one element per line: true if the line needs to be
/// checked.
fn error_lines<'t>(text: &IndexedText<'t>, candidates: &[bool]) -> Vec<LogEntry<'t>> {
    let mut found: Vec<LogEntry<'_>> = Vec::new();
    for (line, _) in candidates.iter().enumerate().filter(|(_, candidate)| **candidate) {
        let says = without_colours(text.line(line));
        let level = line_severity(&says);
        if level == Severity::Other {
            continue;
        }
        // pytest repeats its mark on all lines of one report.
        let is_report = |line: &[u8]| line.starts_with(b"E   ");
        if let Some(last) = found.last_mut()
            && last.line + last.length == line
            && is_report(&last.says)
            && is_report(&says)
        {
            last.length += 1;
            continue;
        }
        found.push(LogEntry { level, line, length: 1, says, message: 0 });
    }
    if found.len() * 2 > text.len() { Vec::new() } else { found }
}

/// Returns the template of a log entry: its first line, with the parts of `masking` replaced.
/// `message` is the byte offset of the message. Entries with equal templates are repetitions.
#[must_use]
pub fn template(line: &[u8], message: usize, masking: Masking) -> Vec<u8> {
    let (header, message) = line.split_at_checked(message).unwrap_or((line, &[]));
    let mut out = Vec::with_capacity(line.len());
    match masking {
        Masking::Header => {
            // Most numbers of a header are short, so that a search for them would cost more.
            out.extend(header.iter().filter(|byte| !byte.is_ascii_digit()));
            out.extend_from_slice(message);
            return out;
        }
        Masking::Numbers => mask_numbers(&mut out, header),
        Masking::Values => {}
    }
    let is_json = message.windows(2).any(|pair| pair == b"{\"");
    if masking == Masking::Numbers || is_json {
        mask_numbers(&mut out, message);
        return out;
    }
    let mut rest = message;
    loop {
        let plain = find_where(rest, 0, |part| {
            let is = |byte| part.simd_eq(u8x16::splat(byte));
            is(b'"') | is(b'\'') | is(b'/')
        });
        let (before, value) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
        mask_numbers(&mut out, before);
        let Some(mark) = value.first() else { return out };
        let is_first =
            before.last().or(out.last()).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        let length = if is_first { value_length(value) } else { 1 };
        out.push(*mark);
        rest = value.get(length..).unwrap_or_default();
    }
}

/// Returns the length, in bytes, of the quoted text or path at the start of `value`. 1 if no quote
/// closes the text.
fn value_length(value: &[u8]) -> usize {
    let rest = value.get(1..).unwrap_or_default();
    if value.first() == Some(&b'/') {
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || b",;:()[]\"'".contains(byte);
        return 1 + rest.iter().position(is_end).unwrap_or(rest.len());
    }
    let look = rest.get(..MAX_QUOTED_BYTES).unwrap_or(rest);
    value.first().and_then(|quote| memchr::memchr(*quote, look)).map_or(1, |at| at + 2)
}

/// Appends `text` to `out`. Replaces each number and each hexadecimal id with `0`.
#[inline(never)]
fn mask_numbers(out: &mut Vec<u8>, text: &[u8]) {
    let digit = |part| in_range(part, b'0', b'9');
    let not_id = |part: u8x16| {
        let is_dash = part.simd_eq(u8x16::splat(b'-'));
        !(digit(part) | is_dash | in_range(part | u8x16::splat(0x20), b'a', b'f'))
    };
    let mut rest = text;
    loop {
        let plain = copy_until(out, rest, digit);
        rest = rest.get(plain..).unwrap_or_default();
        if rest.is_empty() {
            return;
        }
        // An id may begin with letters.
        let is_id = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
        let letters = out.iter().rev().take(plain).take_while(|byte| is_id(byte)).count();
        let start = out.len() - letters;
        let before = start.checked_sub(1).and_then(|at| out.get(at));
        if before.is_none_or(|byte| !byte.is_ascii_alphanumeric()) {
            out.truncate(start);
        }
        out.push(b'0');
        rest = rest.get(find_where(rest, 0, not_id)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(line: &str, message: usize, masking: Masking) -> String {
        String::from_utf8(template(line.as_bytes(), message, masking)).unwrap()
    }

    #[test]
    fn numbers_and_ids_become_zero() {
        let line = "order 123 of 0xBEEF7 by ab12cd-9fz: 1A.2 and 77 for blk_-5";
        let expected = "order 0 of 0xBEEF0 by 0z: 0.0 and 0 for blk_0";
        assert_eq!(masked(line, 0, Masking::Numbers), expected);
        let uuid = "id beefcafe-1b2c-4d5e-8f90-a1b2c3d4e5f6 lost";
        assert_eq!(masked(uuid, 0, Masking::Numbers), "id 0 lost");
    }

    #[test]
    fn quoted_values_and_paths_are_masked_last() {
        let line = "can't read '/etc/a.conf' of \"x y\" in /var/b: no \"z\"";
        assert_eq!(masked(line, 0, Masking::Numbers), line);
        assert_eq!(masked(line, 0, Masking::Values), "can't read ' of \" in /: no \"");
        let json = r#"{"msg":"failed 7"}"#;
        assert_eq!(masked(json, 0, Masking::Values), r#"{"msg":"failed 0"}"#);
    }

    #[test]
    fn repeats_differ_in_time_or_in_numbers() {
        let one = "2026-01-02 10:00:00 WARN attempt 5 of upstream a1b2";
        let two = "2026-01-02 11:30:09 WARN attempt 6 of upstream a1b3";
        assert_ne!(masked(one, 24, Masking::Header), masked(two, 24, Masking::Header));
        assert_eq!(masked(one, 24, Masking::Numbers), masked(two, 24, Masking::Numbers));
        let later = one.replace("10:00", "12:34");
        assert_eq!(masked(one, 24, Masking::Header), masked(&later, 24, Masking::Header));
    }
}
