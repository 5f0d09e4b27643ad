//! Messages of log entries that are not in the line with the severity.

use super::{LogEntry, MAX_LINES_BETWEEN};
use crate::colours::without_colours;
use crate::lines::IndexedText;
use crate::log_code::ECLIPSE_ENTRY;
use crate::log_format::LogFormat;
use crate::log_prefix::is_indented;
use crate::log_record::{MAX_RECORD_LINES, record_message};
use crate::log_source::has_words;
use crate::severity::severity_of_word;

/// Appends the line with the message to an entry whose first line has none.
pub(super) fn join_message(entry: &mut LogEntry<'_>, text: &IndexedText<'_>, format: &LogFormat) {
    let next = entry.line + 1;
    if has_message_below(entry) && next < text.len() {
        let next = without_colours(text.line(next));
        let is_own = is_indented(&next)
            || entry.says.ends_with(b"===")
            || is_code(entry.says.get(entry.message..).unwrap_or_default())
            || ends_header(entry.says.get(entry.message..).unwrap_or_default())
            || is_tag(&entry.says)
            || next.starts_with(b"!MESSAGE ");
        let is_own = is_own && !next.trim_ascii().is_empty();
        if is_own && !format.begins_entry(&next) {
            if entry.says.ends_with(b"[[") {
                // GlassFish writes many fields before the message.
                entry.message = entry.says.len() + 1;
            }
            entry.join(&next);
            return;
        }
    }
    if entry.message_end.is_none() && ends_with_severity(&entry.says) {
        let below: Vec<_> = (next..text.len().min(next - 1 + MAX_LINES_BETWEEN))
            .map(|at| without_colours(text.line(at)))
            .take_while(|line| !format.begins_entry(line))
            .collect();
        let named = |name: &[u8]| below.iter().find(|line| has_name(line, name));
        if let Some(message) = named(b"message").or_else(|| named(b"retcode")) {
            entry.message = entry.says.len();
            entry.join(message);
        }
    }
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
        && (name.is_empty()
            || is_code(name)
            || ends_header(name)
            || is_tag(&entry.says)
            || entry.says.starts_with(ECLIPSE_ENTRY)
            || name.ends_with(b"[[")
            || name.ends_with(b"===")
            || is_source && name.iter().all(is_name))
}

/// Returns true for a line that is one start tag of XML.
fn is_tag(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let inner = line.strip_prefix(b"<").and_then(|line| line.strip_suffix(b">"));
    inner.is_some_and(|inner| {
        inner.first().is_some_and(u8::is_ascii_alphabetic)
            && memchr::memchr2(b'<', b'>', inner).is_none()
            && !inner.ends_with(b"/")
    })
}

/// Returns true for a source that ends a header: `/ActivityManager ]`.
fn ends_header(text: &[u8]) -> bool {
    text.starts_with(b"/") && text.ends_with(b" ]") && !has_words(text)
}

/// Returns true for a number in brackets, as the code after a severity: `Error(1012004)`.
fn is_code(text: &[u8]) -> bool {
    let inner = text.trim_ascii().strip_prefix(b"(").and_then(|text| text.strip_suffix(b")"));
    inner.is_some_and(|code| !code.is_empty() && code.iter().all(u8::is_ascii_digit))
}

/// Returns the number of the line with the message of the record whose severity is in line `at`.
/// The message is below the severity or above it. `None` if the record has no other line.
pub(super) fn message_of_record(
    text: &IndexedText<'_>,
    at: usize,
    format: &LogFormat,
) -> Option<usize> {
    let is_inside = |line: &usize| !format.begins_entry(&without_colours(text.start(*line)));
    let below = (at + 1..text.len()).take(MAX_RECORD_LINES).take_while(is_inside);
    let above = (0..at).rev().take(MAX_RECORD_LINES).take_while(is_inside);
    let named = |line: usize| {
        let start = without_colours(text.start(line));
        let is_here = !record_message(&start)?.is_empty();
        let next = line + 1;
        let has_next = || next < text.len() && !text.line(next).trim_ascii().is_empty();
        if is_here { Some(line) } else { has_next().then_some(next) }
    };
    below.clone().chain(above).find_map(named).or_else(|| below.last())
}

/// Returns true if the last word of a line is a severity.
fn ends_with_severity(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let length = line.iter().rev().take_while(|byte| byte.is_ascii_alphabetic()).count();
    line.get(line.len() - length..).is_some_and(|word| severity_of_word(word).is_some())
}

/// Returns true if a line of a record has the value with this name: `MESSAGE : text`.
fn has_name(line: &[u8], name: &[u8]) -> bool {
    let (found, rest) = line.split_at_checked(name.len()).unwrap_or_default();
    found.eq_ignore_ascii_case(name) && rest.trim_ascii_start().starts_with(b":")
}
