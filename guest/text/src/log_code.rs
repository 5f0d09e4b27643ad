//! Severities that the format of a line states by a number.

use super::severity::Severity;

/// The beginning of an entry of Eclipse.
pub(super) const ECLIPSE_ENTRY: &[u8] = b"!ENTRY ";
/// The beginning of an entry of CMTrace, the format of Windows' management tools.
const TRACE_ENTRY: &[u8] = b"<![LOG[";
/// The end of the message of such an entry. Attributes follow.
const TRACE_MESSAGE_END: &[u8] = b"]LOG]!>";

/// Returns the severity of an entry of Eclipse (`!ENTRY plugin 4 0 time`) or CMTrace
/// (`<![LOG[text]LOG]!><time="…" type="3">`), and the byte offset after its beginning. `None` for
/// other lines. O(line).
pub(super) fn line_code(line: &[u8]) -> Option<(Severity, usize)> {
    if let Some(entry) = line.strip_prefix(ECLIPSE_ENTRY) {
        let severity = match entry.split(|byte| *byte == b' ').nth(1)? {
            b"4" => Severity::Error,
            b"2" => Severity::Warn,
            b"0" | b"1" | b"8" => Severity::Other,
            _ => return None,
        };
        return Some((severity, ECLIPSE_ENTRY.len()));
    }
    let entry = line.strip_prefix(TRACE_ENTRY)?;
    let attributes = entry.get(memchr::memmem::rfind(entry, TRACE_MESSAGE_END)?..)?;
    let name = b" type=\"";
    let kind = attributes.get(memchr::memmem::find(attributes, name)? + name.len()..)?;
    let severity = match kind.first()? {
        b'3' => Severity::Error,
        b'2' => Severity::Warn,
        _ => Severity::Other,
    };
    Some((severity, TRACE_ENTRY.len()))
}
