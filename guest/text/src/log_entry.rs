//! Errors and warnings of a log, and templates that group similar entries.

use std::borrow::Cow;

use wide::u8x16;

use super::colours::without_colours;
use super::kind::Kind;
use super::lines::IndexedText;
use super::log_field::message_range;
use super::log_format::LogFormat;
use super::log_prefix::is_indented;
use super::severity::{Severity, crash_severity, has_origin, line_severity};
use super::severity_prefilter::severity_prefilter;
use super::test_failures::{FailedTest, test_failures};
use context_guard_json::blocks::{copy_until, find_where, in_range};

/// The maximum number of bytes of a quoted value that [`template`] replaces.
const MAX_QUOTED_BYTES: usize = 200;

/// The left side of a box around a message, as Terraform draws it.
const BOX_SIDE: &[u8] = "│".as_bytes();
/// The maximum number of lines of a message in a box.
const MAX_BOX_LINES: usize = 40;

/// An error or a warning in a log or another text.
#[derive(Clone, Debug)]
pub struct LogEntry<'t> {
    /// The severity of the entry: an error or a warning.
    pub level: Severity,
    /// The number of the entry's first line in the text, from 0.
    pub line: usize,
    /// The number of lines of the entry, without blank lines.
    pub length: usize,
    /// The first line of the entry, decoded and without ANSI escape sequences. The second line
    /// follows if it has the message.
    pub says: Cow<'t, [u8]>,
    /// The number of lines in `says`.
    pub header_lines: usize,
    /// The byte offset in `says` of the message, after time and severity.
    pub message: usize,
    /// The byte offset in `says` after the message, if it is the value of a named field. `None` if
    /// the message takes the rest.
    pub message_end: Option<usize>,
}

impl<'t> From<&FailedTest<'t>> for LogEntry<'t> {
    fn from(test: &FailedTest<'t>) -> Self {
        let FailedTest { line, length, says, message } = test;
        let entry = Self::new(Severity::Error, *line, says.clone(), *message);
        Self { length: *length, ..entry }
    }
}

impl<'t> LogEntry<'t> {
    /// Creates an entry of one line. `message` is the byte offset of the message in `says`.
    fn new(level: Severity, line: usize, says: Cow<'t, [u8]>, message: usize) -> Self {
        Self { level, line, length: 1, says, header_lines: 1, message, message_end: None }
    }

    /// Appends the line after the first, which has the message.
    fn join(&mut self, next: &[u8]) {
        let says = self.says.to_mut();
        says.push(b' ');
        says.extend_from_slice(next.trim_ascii());
        self.header_lines = 2;
    }

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
    /// All but the words of the message.
    Words,
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
                let mut entry = LogEntry::new(level, at, says, head.message);
                if let Some(message) = head.named_message {
                    (entry.message, entry.message_end) = (message.start, Some(message.end));
                }
                if has_message_below(&entry) {
                    let next = without_colours(text.line(at + 1));
                    let is_own = is_indented(&next) || entry.says.ends_with(b"===");
                    let is_own = is_own && !next.trim_ascii().is_empty();
                    if is_own && !format.begins_entry(&next) {
                        entry.join(&next);
                    }
                }
                entries.push(entry);
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

/// Returns true if the first line of an entry ends with the name of its source, so that the message
/// may be in the next line: `fail: Shop.Orders[0]`.
fn has_message_below(entry: &LogEntry<'_>) -> bool {
    let rest = entry.says.get(entry.message..).unwrap_or_default();
    let rest = rest.trim_ascii_end();
    let name = rest.trim_ascii_start();
    let name = name.strip_prefix(b":").unwrap_or(name).trim_ascii_start();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-$[]`+".contains(byte);
    let is_source = name.ends_with(b"]") || name.contains(&b'.');
    entry.message > 0
        && entry.message_end.is_none()
        && (name.is_empty() || name.ends_with(b"===") || is_source && name.iter().all(is_name))
}

/// Returns the lines of a text other than a log that begin like errors or warnings. Empty if more
/// than half of all lines do, without an origin. `candidates` has one element per line: true if
/// the line needs to be checked.
fn error_lines<'t>(text: &IndexedText<'t>, candidates: &[bool]) -> Vec<LogEntry<'t>> {
    let mut found: Vec<LogEntry<'_>> = Vec::new();
    let mut doubtful = 0;
    for (line, _) in candidates.iter().enumerate().filter(|(_, candidate)| **candidate) {
        let says = without_colours(text.line(line));
        let level = line_severity(without_box(&says));
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
        doubtful += usize::from(!has_origin(&says));
        let mut entry = LogEntry::new(level, line, says, 0);
        let is_in_box = |line: &usize| without_colours(text.start(*line)).starts_with(BOX_SIDE);
        if entry.says.starts_with(BOX_SIDE) {
            entry.length +=
                (line + 1..text.len()).take(MAX_BOX_LINES).take_while(is_in_box).count();
        }
        found.push(entry);
    }
    if doubtful * 2 > text.len() { Vec::new() } else { found }
}

/// Returns a line without the side of a box and the symbol at its start.
fn without_box(line: &[u8]) -> &[u8] {
    let signs = [BOX_SIDE, "┃".as_bytes(), "✖".as_bytes(), "✗".as_bytes(), "❌".as_bytes()];
    let inner = signs.iter().find_map(|sign| line.strip_prefix(*sign));
    inner.and_then(|inner| inner.strip_prefix(b" ")).unwrap_or(line)
}

/// Returns the template of a log entry: its first line, with the parts of `masking` replaced.
/// Entries with equal templates are repetitions. O(line).
#[must_use]
pub fn template(entry: &LogEntry<'_>, masking: Masking) -> Vec<u8> {
    let line = &*entry.says;
    let (header, rest) = line.split_at_checked(entry.message).unwrap_or((line, &[]));
    let length = entry.message_end.map_or(rest.len(), |end| end.saturating_sub(header.len()));
    let (message, after) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    let mut out = Vec::with_capacity(line.len());
    match masking {
        Masking::Header => {
            // Most numbers of a header are short, so that a search for them would cost more.
            out.extend(header.iter().filter(|byte| !byte.is_ascii_digit()));
            out.extend_from_slice(message);
            out.extend(after.iter().filter(|byte| !byte.is_ascii_digit()));
        }
        Masking::Numbers => {
            mask_numbers(&mut out, header);
            mask_numbers(&mut out, message);
            mask_numbers(&mut out, after);
        }
        Masking::Values => mask_message(&mut out, message),
        Masking::Words => {
            let mut masked = Vec::with_capacity(line.len());
            mask_message(&mut masked, message);
            keep_words(&mut out, &masked);
        }
    }
    out
}

/// Appends a message to `out` with its values replaced. Of a JSON object after the message, only
/// the text of the error remains.
fn mask_message(out: &mut Vec<u8>, message: &[u8]) {
    let message = without_source(message);
    let Some(at) = memchr::memmem::find(message, b"{\"") else {
        return mask_values(out, message);
    };
    let (words, object) = message.split_at_checked(at).unwrap_or((message, &[]));
    if !has_words(words) {
        return mask_numbers(out, message);
    }
    mask_values(out, words);
    if let Some(text) = message_range(object).and_then(|range| object.get(range)) {
        mask_values(out, text);
    }
}

/// Returns true if a text has at least two words.
fn has_words(text: &[u8]) -> bool {
    let words = text.split(u8::is_ascii_whitespace);
    words.filter(|word| word.iter().filter(|byte| is_letter(byte)).count() > 1).count() > 1
}

fn is_letter(byte: &u8) -> bool {
    byte.is_ascii_alphabetic() || *byte >= 0x80
}

/// Returns a message without the name of its source, such as a class, before a dash:
/// `[main] shop.Orders - refused`.
fn without_source(message: &[u8]) -> &[u8] {
    let mut rest = message.trim_ascii_start();
    loop {
        if let Some(after) = rest.strip_prefix(b"- ") {
            return after;
        }
        let end = match rest.first() {
            Some(b'[') => memchr::memchr(b']', rest).map(|at| at + 1),
            _ => memchr::memchr(b' ', rest),
        };
        let token = end.and_then(|end| rest.split_at_checked(end));
        let Some((token, after)) = token else { return message };
        let is_word = |byte: &u8| byte.is_ascii_digit() || b".:".contains(byte);
        if !token.starts_with(b"[") && !token.iter().any(is_word) {
            return message;
        }
        rest = after.trim_ascii_start();
    }
}

/// Appends the words of a message to `out`, each followed by a space. Replaces names and values.
fn keep_words(out: &mut Vec<u8>, message: &[u8]) {
    for word in message.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
        let word = word.trim_ascii();
        let inner = word.strip_suffix(b":").or(word.strip_suffix(b",")).unwrap_or(word);
        let is_word = inner.iter().all(is_letter);
        let kept = if is_word { word } else { b"*" };
        if !(kept == b"*" && out.ends_with(b"* ")) {
            out.extend_from_slice(kept);
            out.push(b' ');
        }
    }
}

/// Appends `message` to `out`. Replaces numbers, ids, quoted values and paths.
fn mask_values(out: &mut Vec<u8>, message: &[u8]) {
    let mut rest = message;
    loop {
        let plain = find_where(rest, 0, |part| {
            let is = |byte| part.simd_eq(u8x16::splat(byte));
            is(b'"') | is(b'\'') | is(b'/')
        });
        let (before, value) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
        mask_numbers(out, before);
        let Some(mark) = value.first() else { return };
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
        let says = Cow::Borrowed(line.as_bytes());
        let entry = LogEntry::new(Severity::Error, 0, says, message);
        String::from_utf8(template(&entry, masking)).unwrap()
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

    /// Returns the first line, from the message on, and the number of lines of each severe entry.
    fn severe(text: &str) -> Vec<(Severity, String, usize)> {
        use context_guard_json::text::Form;
        let text = IndexedText::new(text.as_bytes(), Form::Raw);
        let read = |entry: &LogEntry<'_>| {
            let end = entry.message_end.unwrap_or(entry.says.len());
            let message = entry.says.get(entry.message..end).unwrap();
            let message = String::from_utf8_lossy(message).trim().to_owned();
            (entry.level, message, entry.length)
        };
        severe_entries(&text).entries.iter().map(read).collect()
    }

    #[test]
    fn severities_after_a_tab_are_found() {
        let mut log = "Set permissions for uid=1, gid=2 on a.log\n".to_owned();
        for at in 0..40 {
            let (level, message) = match at {
                20 => ("warning", "Blind faith"),
                30 => ("error", "Either configure some"),
                _ => ("info", "Node is known"),
            };
            log.push_str(&format!(
                "Feb 04 09:57:{at:02} node1 pcmk  [12] (f) \t{level}: {message}\n"
            ));
        }
        let expected = [
            (Severity::Warn, ": Blind faith".to_owned(), 1),
            (Severity::Error, ": Either configure some".to_owned(), 1),
        ];
        assert_eq!(severe(&log), expected);
    }

    #[test]
    fn codes_of_network_devices_are_severities() {
        let mut log = "Jul  8 11:15:17.5: %SYS-5-CONFIG_I: Configured\n".repeat(10);
        log.push_str(
            "Jul  8 11:15:18.0: %LINK-3-UPDOWN: Interface Gi1/0/1, changed state to down\n",
        );
        log.push_str("Jul  8 11:15:18.1: %IFMIB-6-ERRDISABLE: error recovery timer set\n");
        let message = "%LINK-3-UPDOWN: Interface Gi1/0/1, changed state to down".to_owned();
        assert_eq!(severe(&log), [(Severity::Error, message, 1)]);
    }

    #[test]
    fn severities_of_java_are_in_the_second_line() {
        let mut log = String::new();
        for at in 0..30 {
            let line = match at {
                7 => "SCHWERWIEGEND: Zugriff verweigert\n\tat a.b(C.java:1)",
                9 => "WARNUNG: Zertifikat ist alt",
                _ => "INFORMATION: 0 errors",
            };
            log.push_str(&format!("Mar 16, 2026 1:48:{at:02} AM de.amt.Lauf start\n{line}\n"));
        }
        let expected = [
            (Severity::Error, ": Zugriff verweigert".to_owned(), 2),
            (Severity::Warn, ": Zertifikat ist alt".to_owned(), 1),
        ];
        assert_eq!(severe(&log), expected);
    }

    #[test]
    fn messages_of_dotnet_are_in_the_second_line() {
        let mut log = "info: Shop.Web[0]\n      Request finished\n".repeat(10);
        log.push_str("fail: Shop.Orders[5]\n      Order lost\n      System.Exception: x\n");
        let expected = [(Severity::Error, ": Shop.Orders[5] Order lost".to_owned(), 3)];
        assert_eq!(severe(&log), expected);
    }

    #[test]
    fn entries_with_long_traces_are_found() {
        let mut log = String::new();
        for at in 0..6 {
            log.push_str(&format!("[2026-05-15 18:19:{at:02}] local.ERROR: Unclosed '{{'\n"));
            log.push_str(&"#0 /srv/vendor/Container.php(795): build()\n".repeat(40));
        }
        let found = severe(&log);
        assert_eq!(found.len(), 6, "{found:?}");
        let message = "] local.ERROR: Unclosed '{'".to_owned();
        assert_eq!(found.first().unwrap(), &(Severity::Error, message, 41));
    }

    #[test]
    fn messages_in_boxes_are_found() {
        let mut text = "aws_iam_role.a: Refreshing state...\n".repeat(10);
        text.push_str(
            "╷\n│ Error: creating Subnet: Conflict\n│ \n│   on net.tf line 1\n╵\nok: [a]\n",
        );
        let message = "│ Error: creating Subnet: Conflict".to_owned();
        assert_eq!(severe(&text), [(Severity::Error, message, 3)]);
    }

    #[test]
    fn json_after_a_message_is_ignored() {
        let one = r#"Target class X does not exist. {"exception":"at a.php:916"}"#;
        let two = r#"Target class X does not exist. {"exception":"at b.php:1"}"#;
        assert_eq!(masked(one, 0, Masking::Values), masked(two, 0, Masking::Values));
        let other = r#"host FAILED to start => {"changed": false, "msg": "no route"}"#;
        assert!(masked(other, 0, Masking::Values).ends_with("no route"));
    }

    #[test]
    fn sources_are_no_part_of_values() {
        for line in [
            "c.a.StockClient - age 4 s",
            "  [a b - 1] 2026-01-02 1:02:03,5  A.java:1 - age 7 s",
            "[main] 2026-01-02 A.java:1 - age 7 s",
        ] {
            assert_eq!(masked(line, 0, Masking::Values), "age 0 s");
        }
        let prose = "login of a user - retrying";
        assert_eq!(masked(prose, 0, Masking::Values), prose);
    }

    #[test]
    fn words_remain_last() {
        let line = "Class App.Orders of user_7 'x' is lost: Retry";
        assert_eq!(masked(line, 0, Masking::Words), "Class * of * is lost: Retry ");
    }
}
