//! Severities that the format of a line states by a number.

use super::severity::Severity;

/// The beginning of an entry of Eclipse.
pub(super) const ECLIPSE_ENTRY: &[u8] = b"!ENTRY ";
/// The beginning of an entry of CMTrace, the format of Windows' management tools.
const TRACE_ENTRY: &[u8] = b"<![LOG[";
/// The end of the message of such an entry. Attributes follow.
const TRACE_MESSAGE_END: &[u8] = b"]LOG]!>";

/// The letters and digits of the code of a message, in numbers.
const CODE_LETTERS: std::ops::RangeInclusive<usize> = 3..=5;
const CODE_DIGITS: std::ops::RangeInclusive<usize> = 3..=6;

/// Returns the severity in the last letter of the code of a message of IBM products: `ANR2034E`.
/// `None` for other words.
pub(super) fn message_code(word: &[u8]) -> Option<Severity> {
    let letters = word.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let (last, digits) = word.get(letters..)?.split_last()?;
    let is_code = CODE_LETTERS.contains(&letters)
        && CODE_DIGITS.contains(&digits.len())
        && digits.iter().all(u8::is_ascii_digit);
    let severity = match last {
        b'E' | b'S' | b'F' | b'C' => Severity::Error,
        b'W' | b'A' => Severity::Warn,
        b'I' | b'D' | b'N' => Severity::Other,
        _ => return None,
    };
    is_code.then_some(severity)
}

/// Returns the severity of a message in a job log of IBM i: `MCH1202    Escape      40   01/19/24`.
/// The text follows in the next line. `None` for other lines.
fn job_message(line: &[u8]) -> Option<Severity> {
    let (id, rest) = line.split_at_checked(7)?;
    let (letters, number) = id.split_at_checked(3)?;
    let is_id = letters.iter().all(u8::is_ascii_uppercase)
        && number.iter().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte));
    let mut words = rest.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let kind = words.next().filter(|_| is_id && rest.starts_with(b"  "))?;
    let number = words.find(|word| word.iter().all(u8::is_ascii_digit))?;
    let number: u8 = std::str::from_utf8(number).ok()?.parse().ok()?;
    match kind {
        b"Escape" => Some(Severity::Error),
        b"Diagnostic" | b"Notify" | b"Inquiry" if number >= 40 => Some(Severity::Error),
        b"Diagnostic" | b"Notify" | b"Inquiry" if number >= 20 => Some(Severity::Warn),
        b"Information" if number >= 80 => Some(Severity::Error),
        b"Information" if number >= 50 => Some(Severity::Warn),
        b"Diagnostic" | b"Notify" | b"Inquiry" | b"Information" | b"Completion" | b"Command"
        | b"Request" | b"Sender" | b"Reply" => Some(Severity::Other),
        _ => None,
    }
}

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
    if let Some(severity) = job_message(line) {
        return Some((severity, line.len()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_messages_have_severities() {
        for (word, expected) in [
            ("AMQ9999E", Some(Severity::Error)),
            ("ANR0123W", Some(Severity::Warn)),
            ("CWWKZ0001I", Some(Severity::Other)),
            ("AMQ9999", None),
            ("A1234E", None),
            ("AMQE", None),
            ("ERROR", None),
            ("E", None),
            ("", None),
        ] {
            assert_eq!(message_code(word.as_bytes()), expected, "{word}");
        }
    }
}
