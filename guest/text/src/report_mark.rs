//! Marks with which simulators and other tools of engineering begin their reports.

use super::severity::{MAX_WORD_BYTES, Severity, severity_of_word};

/// The marks, without spaces after them.
const MARKS: [&[u8]; 6] = [b"***", b"**", b"-->", b"%", b"!!!", b"^^^"];
/// The maximum number of words in capitals between a mark and the severity.
const MAX_NAMES: usize = 2;

/// Returns the severity of a report that begins with a mark, and the byte offset after it:
/// `***WARNING: text`, `*** USER FATAL MESSAGE 9050`, `%Error-WIDTH: text` and
/// `--> FOAM Warning : text`. `None` for other lines. O(1).
pub(super) fn marked_severity(line: &[u8]) -> Option<(Severity, usize)> {
    let text = line.trim_ascii_start();
    // Traces of SAP have a letter for the component first.
    let text = match text {
        [b'A'..=b'Z', b' ', b' ', rest @ ..] if rest.starts_with(b"*** ") => rest,
        _ => text,
    };
    let mark = MARKS.iter().find(|mark| text.starts_with(mark))?;
    let rest = text.get(mark.len()..)?;
    // Comments of TeX and Erlang have a space. Markdown closes bold text.
    let is_comment = *mark == b"%" && !rest.first().is_some_and(u8::is_ascii_uppercase);
    let is_bold = *mark == b"**" && memchr::memmem::find(rest, b"**").is_some();
    if is_comment || is_bold {
        return None;
    }
    let mut rest = rest.trim_ascii_start();
    for _ in 0..=MAX_NAMES {
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (word, after) = rest.split_at_checked(length)?;
        let severity = if length <= MAX_WORD_BYTES { severity_of_word(word) } else { None };
        if let Some(severity) = severity {
            let is_end = match after {
                [] => false,
                [b':' | b'-', ..] => true,
                // A code, a class or a second word of the severity is between word and colon.
                [b' ', ..] => word.first().is_some_and(u8::is_ascii_uppercase),
                _ => false,
            };
            return is_end.then_some((severity, line.len() - after.len()));
        }
        if length == 0 || !word.iter().all(u8::is_ascii_uppercase) {
            return None;
        }
        rest = after.strip_prefix(b" ")?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_have_severities() {
        for (line, expected) in [
            (" ***WARNING: ELEMENT 7 IS DISTORTED", Some(Severity::Warn)),
            (" *** USER FATAL MESSAGE 9050 (X7)", Some(Severity::Error)),
            ("*** SYSTEM INFORMATION MESSAGE 4159", Some(Severity::Other)),
            ("**ERROR: (IMP-7): no such net", Some(Severity::Error)),
            ("%Warning-WIDTH: a.v:7: width", Some(Severity::Warn)),
            ("--> FOAM FATAL ERROR : ", Some(Severity::Error)),
            ("--> FOAM Warning : ", Some(Severity::Warn)),
            ("**Error:** see below", None),
            ("**Warning** this is bold", None),
            ("% Warning: a comment", None),
            ("%error", None),
            ("--> error handling", None),
            ("*** errors ***", None),
            ("***", None),
        ] {
            let found = marked_severity(line.as_bytes()).map(|found| found.0);
            assert_eq!(found, expected, "{line}");
        }
    }
}
