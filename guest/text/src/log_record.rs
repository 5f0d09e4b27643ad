//! Records of several lines, one of which states the severity: `Level: Error`, `PRIORITY=3`.

use super::severity::{Severity, severity_of_word};

/// The maximum number of lines of a record that are searched for its message.
pub(super) const MAX_RECORD_LINES: usize = 40;
/// The names of lines that state a severity, in lower case and without spaces.
const SEVERITY_NAMES: [&[u8]; 9] = [
    b"level",
    b"severity",
    b"priority",
    b"loglevel",
    b"leveldisplayname",
    b"severitylevel",
    b"entrytype",
    b"eventtype",
    b"type",
];
/// The names of lines that have the message, in lower case and without spaces.
const MESSAGE_NAMES: [&[u8]; 6] =
    [b"message", b"msg", b"description", b"text", b"messagetext", b"eventtext"];
/// The maximum length of a name with the spaces after it, in bytes.
const MAX_NAME_BYTES: usize = 32;

/// Returns the severity that a line of a record states, if it has nothing else. `None` for other
/// lines.
pub(super) fn record_severity(line: &[u8]) -> Option<Severity> {
    let (is_priority, value) = named_line(line, &SEVERITY_NAMES, |name| name.ends_with(b"ity"))?;
    match value {
        // The severities of syslog.
        [b'0'..=b'3'] if is_priority => Some(Severity::Error),
        [b'4'] if is_priority => Some(Severity::Warn),
        [b'5'..=b'7'] if is_priority => Some(Severity::Other),
        word => severity_of_word(word),
    }
}

/// Returns the message that a line of a record states. Empty if it is in the next line. `None` for
/// other lines.
pub(super) fn record_message(line: &[u8]) -> Option<&[u8]> {
    Some(named_line(line, &MESSAGE_NAMES, |_| ())?.1)
}

/// Returns the value of a line `name: value` or `name=value`, with the result of `read` for its
/// name in lower case. `None` if the name is none of `names`.
fn named_line<'l, T>(
    line: &'l [u8],
    names: &[&[u8]],
    read: impl Fn(&[u8]) -> T,
) -> Option<(T, &'l [u8])> {
    let line = line.trim_ascii();
    let sign = memchr::memchr2(b':', b'=', line.get(..MAX_NAME_BYTES).unwrap_or(line))?;
    let name = line.get(..sign)?.trim_ascii_end();
    let is_name = |known: &&&[u8]| {
        let letters = name.iter().filter(|byte| **byte != b' ');
        letters.map(u8::to_ascii_lowercase).eq(known.iter().copied())
    };
    let known = names.iter().find(is_name)?;
    let value = line.get(sign..)?;
    // DataStage writes two signs.
    let value = value.strip_prefix(b"::").or_else(|| value.get(1..))?;
    Some((read(known), value.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_records_state_severities() {
        for (line, expected) in [
            ("  Level: Error", Some(Severity::Error)),
            ("PRIORITY=4", Some(Severity::Warn)),
            ("Severity    : Info", Some(Severity::Other)),
            ("Type: Warning", Some(Severity::Warn)),
            ("Level: 3", None),
            ("Type: Error of a kind", None),
            ("Levels: Error", None),
            ("LevelDisplayName : Error", Some(Severity::Error)),
            ("Entry Type\t: Warning", Some(Severity::Warn)),
        ] {
            assert_eq!(record_severity(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn lines_of_records_have_messages() {
        assert_eq!(record_message(b"MESSAGE=disk = full"), Some(&b"disk = full"[..]));
        assert_eq!(record_message(b"  Description: "), Some(&b""[..]));
        assert_eq!(record_message(b"Message:: lost"), Some(&b"lost"[..]));
        assert_eq!(record_message(b"Messages: 7"), None);
    }
}
