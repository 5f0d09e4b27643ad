//! Signs at the beginning of messages that state a severity.

use super::severity::Severity;

/// The signs in brackets that security tools write.
const BRACKETED: [(&[u8], Severity); 4] = [
    (b"[!] ", Severity::Warn),
    (b"[-] ", Severity::Error),
    (b"[+] ", Severity::Other),
    (b"[*] ", Severity::Other),
];
/// The symbols that command line tools write.
const SYMBOLS: [(&str, Severity); 11] = [
    ("⚠", Severity::Warn),
    ("✖", Severity::Error),
    ("✗", Severity::Error),
    ("✘", Severity::Error),
    ("❌", Severity::Error),
    ("⛔", Severity::Error),
    ("✔", Severity::Other),
    ("✓", Severity::Other),
    ("✅", Severity::Other),
    ("ℹ", Severity::Other),
    ("🔍", Severity::Other),
];

/// Returns the severity of the sign at the start of a text, and the byte offset after it. `None`
/// without a sign. O(1).
pub(super) fn sign(text: &[u8]) -> Option<(Severity, usize)> {
    let find = |sign: &[u8], severity| {
        let rest = text.strip_prefix(sign)?;
        // A selector of the colour may follow.
        let rest = rest.strip_prefix("\u{FE0F}".as_bytes()).unwrap_or(rest);
        Some((severity, text.len() - rest.len()))
    };
    match text.first()? {
        b'[' => BRACKETED.iter().find_map(|(sign, severity)| find(sign, *severity)),
        0xE2 | 0xF0 => SYMBOLS.iter().find_map(|(sign, severity)| find(sign.as_bytes(), *severity)),
        _ => None,
    }
}

/// Returns the severity of the sign directly after the time of a line, and the byte offset after
/// it. `time_end` is the byte offset after the time. `None` without a sign. O(1).
pub(super) fn sign_after_time(line: &[u8], time_end: usize) -> Option<(Severity, usize)> {
    let rest = line.get(time_end..)?;
    let text = rest.strip_prefix(b"]").unwrap_or(rest).trim_ascii_start();
    let start = line.len() - text.len();
    // The agent of SQL Server writes `2026-01-02 10:00:00 - ! [298] text`.
    let agent = match text {
        [b'-', b' ', mark, b' ', b'[', digit, ..] if digit.is_ascii_digit() => match mark {
            b'!' => Some(Severity::Error),
            b'+' => Some(Severity::Warn),
            b'?' => Some(Severity::Other),
            _ => None,
        },
        _ => None,
    };
    match agent {
        Some(severity) => Some((severity, start + b"- !".len())),
        None => sign(text).map(|(severity, end)| (severity, start + end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_have_severities() {
        for (text, expected) in [
            ("[!] x", Some((Severity::Warn, 4))),
            ("[*] x", Some((Severity::Other, 4))),
            ("❌ x", Some((Severity::Error, 3))),
            ("⚠️ x", Some((Severity::Warn, 6))),
            ("[x] x", None),
            ("– x", None),
            ("", None),
        ] {
            assert_eq!(sign(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn signs_follow_times() {
        for (line, expected) in [
            ("10:00:00 - ! [298] x", Some((Severity::Error, 12))),
            ("10:00:00 - ? [9] x", Some((Severity::Other, 12))),
            ("[10:00:00] ✖ x", None),
            ("10:00:00 - a [9] x", None),
        ] {
            assert_eq!(sign_after_time(line.as_bytes(), 8), expected, "{line}");
        }
        let line = "[10:00:00] ✖ x";
        assert_eq!(sign_after_time(line.as_bytes(), 9), Some((Severity::Error, 14)));
    }
}
