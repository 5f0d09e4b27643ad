//! Errors and warnings of a log.

mod joined;

use std::borrow::Cow;
use std::ops::Range;

use self::joined::{join_message, message_of_record};
use super::build_report::{is_tex_error, reason_below};
use super::colours::without_colours;
use super::kind::Kind;
use super::lines::IndexedText;
use super::log_format::{EntryHead, LogFormat};
use super::log_prefix::{is_indented, tag_of_cause};

use super::log_source::has_words;
use super::report_mark::marked_severity;
use super::severity::{Severity, crash_severity, has_origin, line_severity};
use super::severity_prefilter::{mark_server_errors, severity_prefilter};
use super::test_failures::{FailedTest, test_failures};

/// The left side of a box around a message, as Terraform draws it.
const BOX_SIDE: &[u8] = "│".as_bytes();
/// The maximum number of lines of a stack trace before its exception.
const MAX_STACK_LINES: usize = 200;
/// The maximum number of lines between a severity and its message.
const MAX_LINES_BETWEEN: usize = 16;
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
    /// The range in `says` of the cause that a named field has beside the message.
    pub cause: Option<Range<usize>>,
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
    pub(super) fn new(level: Severity, line: usize, says: Cow<'t, [u8]>, message: usize) -> Self {
        Self {
            level,
            line,
            length: 1,
            says,
            header_lines: 1,
            message,
            message_end: None,
            cause: None,
        }
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
    /// The entries are errors and warnings.
    Errors,
    /// The entries are failed tests.
    FailedTests,
    /// The entries are the names of failed tests, and the errors of these tests.
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
        Kind::Log => {
            let mut candidates = severity_prefilter(text);
            if format.is_access_log() {
                mark_server_errors(text, &mut candidates);
            }
            entries(text, &format, &candidates)
        }
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
            let last = entries.last().filter(|_| open && head.may_continue);
            let level = match last {
                Some(last) if continues(last, &says, &head) => Severity::Other,
                _ if !head.is_start && !open => crash_severity(&says),
                _ => head.severity,
            };
            if level != Severity::Other {
                let mut entry = LogEntry::new(level, at, says, head.message);
                if let Some(message) = head.named_message {
                    (entry.message, entry.message_end) = (message.start, Some(message.end));
                    entry.cause = head.cause;
                }
                if let Some(end) = exception_line(text, at, &entry.says) {
                    entry.join(&without_colours(text.line(end)));
                    entry.header_lines = 1;
                }
                if format.has_records() {
                    if let Some(message) = message_of_record(text, at, format) {
                        entry.join(&without_colours(text.line(message)));
                    }
                } else if is_error_number(entry.says.get(entry.message..).unwrap_or_default()) {
                    if at + 1 < text.len() {
                        let next = without_colours(text.line(at + 1));
                        let start = format.read(&next).message;
                        entry.join(next.get(start..).unwrap_or_default());
                        entry.header_lines = 1;
                    }
                } else {
                    join_message(&mut entry, text, format);
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

/// Returns true if a line with the cause of an exception has the severity and the tag of the entry
/// before it.
fn continues(last: &LogEntry<'_>, line: &[u8], head: &EntryHead) -> bool {
    let message = last.says.get(last.message..).unwrap_or_default();
    let tag = tag_of_cause(line.get(head.message..).unwrap_or_default());
    last.level == head.severity && tag.is_some_and(|tag| message.starts_with(tag))
}

/// Returns true for the number of an error of SQL Server, whose message is in the next entry:
/// `spid52  Error: 18456, Severity: 14, State: 8.`.
fn is_error_number(text: &[u8]) -> bool {
    let name = b"Error: ";
    let at = memchr::memmem::find(text, name).map(|at| at + name.len());
    at.and_then(|at| text.get(at..)).is_some_and(|text| {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        digits > 0 && text.get(digits..).is_some_and(|rest| rest.starts_with(b", Severity: "))
    })
}

/// Returns the lines of a text other than a log that begin like errors or warnings. Empty if more
/// than half of all lines do, without an origin. `candidates` has one element per line: true if
/// the line needs to be checked.
fn error_lines<'t>(text: &IndexedText<'t>, candidates: &[bool]) -> Vec<LogEntry<'t>> {
    let mut found: Vec<LogEntry<'_>> = Vec::new();
    let mut doubtful = 0;
    for (line, _) in candidates.iter().enumerate().filter(|(_, candidate)| **candidate) {
        let says = without_colours(text.line(line));
        let marked = marked_severity(&says);
        let report = || without_step(without_box(&says));
        let level = marked.map_or_else(|| line_severity(report()), |(level, _)| level);
        let level = if is_tex_error(text, line, &says) { Severity::Error } else { level };
        let is_inside = |last: &LogEntry<'_>| last.line + last.length > line;
        // Documentation has sessions of Python whose result is an exception.
        let is_session = says.starts_with(b"Traceback (")
            && line.checked_sub(1).is_some_and(|before| is_prompt(&text.start(before)));
        if level == Severity::Other || is_session || found.last().is_some_and(is_inside) {
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
        doubtful += usize::from(marked.is_none() && !has_origin(report()));
        let mut entry = LogEntry::new(level, line, says, 0);
        if let Some(reason) = reason_below(text, line, &entry.says) {
            entry.join(&without_colours(text.line(reason)));
            (entry.length, entry.header_lines) = (reason + 1 - line, 1);
        }
        if entry.says.starts_with(b"ERROR in ") || entry.says.starts_with(b"WARNING in ") {
            // Webpack writes the file first.
            entry.join(&without_colours(text.line(line + 1)));
        }
        let is_header = |says: &[u8]| {
            says.trim_ascii_end().ends_with(b")")
                && memchr::memmem::find(says, b" MESSAGE ").is_some()
        };
        if let Some((_, end)) = marked
            && (!has_words(entry.says.get(end..).unwrap_or_default()) || is_header(&entry.says))
            && line + 1 < text.len()
        {
            entry.join(&without_colours(text.line(line + 1)));
            entry.length = 2;
        }
        if let Some(end) = exception_line(text, line, &entry.says) {
            entry.join(&without_colours(text.line(end)));
            (entry.length, entry.header_lines) = (end + 1 - line, 1);
        }
        let is_in_box = |line: &usize| without_colours(text.start(*line)).starts_with(BOX_SIDE);
        if entry.says.starts_with(BOX_SIDE) {
            entry.length +=
                (line + 1..text.len()).take(MAX_BOX_LINES).take_while(is_in_box).count();
        }
        found.push(entry);
    }
    if doubtful * 2 > text.len() { Vec::new() } else { found }
}

/// Returns true if a line is the input of an interactive session of Python.
fn is_prompt(line: &[u8]) -> bool {
    line.starts_with(b">>> ") || line.starts_with(b"... ")
}

/// Returns the number of the line with the exception after the trace of Python that begins in
/// `line`. `None` for other lines.
fn exception_line(text: &IndexedText<'_>, line: usize, says: &[u8]) -> Option<usize> {
    if !says.starts_with(b"Traceback (") {
        return None;
    }
    let later = line + 1..text.len().min(line + MAX_STACK_LINES);
    later.into_iter().find(|line| {
        let start = text.start(*line);
        !is_indented(&start) && !start.trim_ascii().is_empty()
    })
}

/// Returns a line without the side of a box and the symbol at its start. Rows of tables have more
/// than one side, and remain.
fn without_box(line: &[u8]) -> &[u8] {
    let sides = [BOX_SIDE, "┃".as_bytes()];
    let signs = ["✖", "✗", "❌", "┌"].map(str::as_bytes);
    let is_only =
        |inner: &&[u8]| sides.iter().all(|side| memchr::memmem::find(inner, side).is_none());
    let boxed = sides.iter().find_map(|sign| line.strip_prefix(*sign)).filter(is_only);
    let inner = boxed.or_else(|| signs.iter().find_map(|sign| line.strip_prefix(*sign)));
    inner.and_then(|inner| inner.strip_prefix(b" ")).unwrap_or(line)
}

/// Returns a line without the number of the project or the step that a build writes first:
/// `  3>a.cs(1,2): error CS1: text` (MSBuild) and `#12 3.456 error: text` (BuildKit).
fn without_step(line: &[u8]) -> &[u8] {
    fn after_digits(text: &[u8]) -> Option<&[u8]> {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        text.get(digits..).filter(|_| digits > 0)
    }
    let text = line.trim_ascii_start();
    let after_project = || after_digits(text)?.strip_prefix(b">");
    let after_time = || {
        let seconds = after_digits(text.strip_prefix(b"#")?)?.strip_prefix(b" ")?;
        after_digits(after_digits(seconds)?.strip_prefix(b".")?)?.strip_prefix(b" ")
    };
    after_project().or_else(after_time).map_or(line, <[u8]>::trim_ascii_start)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn numbers_of_steps_precede_reports() {
        let mut text = "  2>CoreCompile: csc.dll /noconfig\n".repeat(5);
        let report = "  3>Program.cs(195,73): error CS1061: 'Order' has no 'Total' [a.csproj]";
        text.push_str(&format!("{report}\n").repeat(9));
        assert_eq!(severe(&text).len(), 9);
        let mut text = "#12 0.512 added 12 packages\n".repeat(5);
        text.push_str("#12 1.734 error: no such target\n#1234 error: a title of three words\n");
        let message = "#12 1.734 error: no such target".to_owned();
        assert_eq!(severe(&text), [(Severity::Error, message, 1)]);
    }

    #[test]
    fn records_state_severities_in_lines_of_their_own() {
        let mut text = String::new();
        for at in 0..40 {
            let level = if at == 30 { "Error" } else { "Information" };
            let date = if at % 3 == 0 { "yesterday" } else { "3/12/2024 6:27:31 AM" };
            text.push_str(&format!(
                "Log Name: System\nDate:     {date}\nLevel:    {level}\nUser:     N/A\n\
                 Description:\nThe disk {at} is full.\n\n"
            ));
        }
        let found = severe(&text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found.iter().all(|(_, message, _)| message.contains("The disk 30 is full.")));
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
}
