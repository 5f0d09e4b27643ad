//! Detects prefixes of log lines: containers, syslog priorities, and continuations of stack traces.

use super::log_member::is_object;
use super::severity::{Severity, severity_of_word};

/// Returns true if a line begins with white space that does not align a level.
pub(super) fn is_indented(line: &[u8]) -> bool {
    let is_aligned =
        || [b" INFO ".as_slice(), b" WARN "].iter().any(|level| line.starts_with(level));
    line.starts_with(b"\t")
        || line.starts_with(b" ") && !is_aligned() && !begins_with_aligned_time(line)
}

/// Returns true if a line begins with spaces and a time: a date, or seconds before a word, as in
/// `  95.587 Error a.cpp:92: text`.
fn begins_with_aligned_time(line: &[u8]) -> bool {
    let text = line.trim_ascii_start();
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(text);
    let fraction = text.get(whole..).and_then(|rest| rest.strip_prefix(b"."));
    let is_uptime = whole > 0
        && fraction.is_some_and(|fraction| {
            let length = digits(fraction);
            let rest = fraction.get(length..).unwrap_or_default();
            length >= 3 && matches!(rest, [b' ', letter, ..] if letter.is_ascii_alphabetic())
        });
    is_uptime || whole == 4 && starts_with_time(text)
}

/// Returns the severity of the syslog priority at the start of a line: `<3>`. `None` without a
/// priority.
pub(super) fn priority(line: &[u8]) -> Option<Severity> {
    let rest = line.strip_prefix(b"<")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=3).contains(&digits) || rest.get(digits) != Some(&b'>') {
        return None;
    }
    let number = rest.iter().take(digits).fold(0u16, |sum, byte| sum * 10 + u16::from(byte - b'0'));
    // The last three bits are the severity.
    (number < 192).then_some(syslog_severity(number))
}

/// The maximum length of the code of a message of a network device, in bytes.
const MAX_MNEMONIC_BYTES: usize = 64;

/// Returns the severity in the code of a message of a network device at the start of `text`:
/// facility, severity of syslog, and mnemonic, as in `%LINK-3-UPDOWN:` or `%%01IFNET/4/LINK(l):`.
/// `None` without such a code.
pub(super) fn mnemonic(text: &[u8]) -> Option<Severity> {
    let text = text.get(..MAX_MNEMONIC_BYTES).unwrap_or(text);
    let is_name = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let signs = text.iter().take_while(|byte| matches!(byte, b'%' | b'#')).count();
    let code = text.get(signs..).filter(|code| code.first().is_some_and(&is_name))?;
    let length = code.iter().take_while(|byte| is_name(byte) || b"-/".contains(byte)).count();
    let (code, rest) = code.split_at_checked(length)?;
    let mut parts = code.split(|byte| b"-/".contains(byte));
    let facility = parts.next().filter(|name| name.iter().any(u8::is_ascii_uppercase));
    let is_code = facility.is_some() && matches!(rest.first(), Some(b':' | b' ' | b'(' | b'['));
    // A part of the facility may precede the severity: `%ROUTING-OSPF-5-ADJCHG`.
    let digit = parts.find(|part| matches!(part, [b'0'..=b'7']))?;
    let has_name = parts.next().is_some_and(|name| name.len() > 1) && is_code;
    let digit = digit.first().filter(|_| has_name)?;
    Some(syslog_severity(u16::from(digit - b'0')))
}

/// Returns the severity in the code with which products of VMware begin messages: the first letters
/// of the severity, and a number, as in `Er(179)`. `None` for other words.
pub(super) fn named_priority(word: &[u8], rest: &[u8]) -> Option<Severity> {
    const NAMES: [&[u8]; 8] = [b"Em", b"Al", b"Cr", b"Er", b"Wa", b"No", b"In", b"Db"];
    let severity = NAMES.iter().zip(0..).find(|(name, _)| **name == word)?.1;
    let inner = rest.strip_prefix(b"(")?;
    let digits = inner.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_code = (2..=3).contains(&digits) && inner.get(digits) == Some(&b')');
    is_code.then(|| syslog_severity(severity))
}

/// Returns the severity in the header of an event in the Common Event Format at the start of
/// `text`, and the byte offset of its name: `CEF:0|vendor|product|version|id|name|severity|`.
/// `None` without such a header.
pub(super) fn common_event(text: &[u8]) -> Option<(Severity, usize)> {
    let text =
        text.strip_prefix(b"CEF:").filter(|rest| rest.first().is_some_and(u8::is_ascii_digit))?;
    let is_separator = |at: &usize| at.checked_sub(1).and_then(|at| text.get(at)) != Some(&b'\\');
    let mut separators = memchr::memchr_iter(b'|', text).filter(is_separator).skip(4);
    let (name, start, end) = (separators.next()?, separators.next()?, separators.next()?);
    let severity = match text.get(start + 1..end)? {
        b"0" | b"1" | b"2" | b"3" | b"Low" | b"Unknown" => Severity::Other,
        b"4" | b"5" | b"6" | b"Medium" => Severity::Warn,
        b"7" | b"8" | b"9" | b"10" | b"High" | b"Very-High" => Severity::Error,
        _ => return None,
    };
    Some((severity, name + 1 + b"CEF:".len()))
}

/// Returns the severity of the mark that Redis writes after the time: `1:M 2 Jan 2026 10:00:00.1 #
/// text`. `None` for other lines. `time_end` is the byte offset after the time.
pub(super) fn mark(line: &[u8], time_end: usize) -> Option<Severity> {
    let entry = match container(line) {
        Some(_) => line.get(memchr::memchr(b'|', line)? + 1..)?.trim_ascii_start(),
        None => line,
    };
    let pid = entry.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let role = entry.get(pid..).filter(|_| pid > 0)?;
    let is_redis = matches!(role, [b':', b'M' | b'S' | b'C' | b'X', b' ', ..]);
    match line.get(time_end..).filter(|_| is_redis)? {
        [b' ', b'#', b' ', ..] => Some(Severity::Warn),
        [b' ', b'.' | b'-' | b'*', b' ', ..] => Some(Severity::Other),
        _ => None,
    }
}

/// Returns the severity of a number of syslog: RFC 5424, section 6.2.1.
fn syslog_severity(number: u16) -> Severity {
    match number & 7 {
        0..=3 => Severity::Error,
        4 => Severity::Warn,
        _ => Severity::Other,
    }
}

/// Returns the name of the container at the start of a line, as in `web_1  | started`. `None`
/// without one.
pub(super) fn container(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'|', line.get(..80).unwrap_or(line))?;
    let name = line.get(..end)?.trim_ascii_end();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let begins = name.first().is_some_and(u8::is_ascii_alphabetic);
    let is_severity = severity_of_word(name).is_some();
    (begins && !is_severity && name.len() < end && name.iter().all(is_name)).then_some(name)
}

/// Returns the message after the time of a line. `time_end` is the byte offset after the time, 0
/// without a time.
pub(super) fn message(line: &[u8], time_end: usize) -> &[u8] {
    let rest = line.get(time_end..).unwrap_or_default();
    let rest = without_zone(rest);
    let rest = rest.strip_prefix(b"]").unwrap_or(rest);
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    // Container runtimes write the stream after the time.
    let streams = [b"stdout F ".as_slice(), b"stderr F "];
    streams.iter().find_map(|stream| rest.strip_prefix(*stream)).unwrap_or(rest)
}

/// Returns the text after the name of a time zone in brackets: `] PHP` of ` UTC] PHP`.
fn without_zone(rest: &[u8]) -> &[u8] {
    let is_name = |byte: &u8| byte.is_ascii_alphabetic() || b"/_".contains(byte);
    let Some(name) = rest.strip_prefix(b" ") else { return rest };
    let length = name.iter().take_while(|byte| is_name(byte)).count();
    let after = name.get(length..).unwrap_or_default();
    if after.starts_with(b"] ") { after } else { rest }
}

/// Returns true if the message of a line continues a stack trace, although it follows a time.
/// `time_end` is the byte offset after the time.
pub(super) fn is_continuation(line: &[u8], time_end: usize) -> bool {
    const STARTS: [&[u8]; 6] = [b"\t", b"    ", b"  File \"", b"at ", b"Caused by:", b"... "];
    let message = message(line, time_end);
    time_end > 0 && STARTS.iter().any(|start| message.starts_with(start))
}

/// The maximum number of bytes before the message of a line of a stack trace.
const MAX_TAG_BYTES: usize = 120;

/// Returns true if the message after a severity is a line of a stack trace, as in the logs of
/// Android: `E/App( 12): \tat a.b.C(D.java:1)`. `rest` is the line after the severity.
pub(super) fn is_trace(rest: &[u8]) -> bool {
    let Some(tag) = tag(rest) else { return false };
    let message = rest.get(tag.len()..).unwrap_or_default().trim_ascii_start();
    let is_call = |rest: &[u8]| {
        let name = rest.iter().take_while(|byte| !matches!(byte, b'(' | b' '));
        name.filter(|byte| **byte == b'.').count() > 0 && rest.contains(&b'(')
    };
    let is_more =
        |rest: &[u8]| rest.first().is_some_and(u8::is_ascii_digit) && rest.ends_with(b" more");
    message.strip_prefix(b"at ").is_some_and(is_call)
        || message.strip_prefix(b"... ").is_some_and(is_more)
        || message.starts_with(CAUSED_BY)
}

/// The beginning of the line of a stack trace that names an earlier exception.
const CAUSED_BY: &[u8] = b"Caused by: ";

/// Returns the tag before the message of a line, with its colon and space. `rest` is the line after
/// the severity. `None` without a tag.
fn tag(rest: &[u8]) -> Option<&[u8]> {
    let head = rest.get(..MAX_TAG_BYTES).unwrap_or(rest);
    rest.get(..memchr::memmem::find(head, b": ")? + 2)
}

/// Returns the tag of a line whose message is the cause of an exception. The line belongs to the
/// entry before it only if that has the same tag. `rest` is the line after the severity.
pub(super) fn tag_of_cause(rest: &[u8]) -> Option<&[u8]> {
    tag(rest).filter(|tag| rest.get(tag.len()..).is_some_and(|rest| rest.starts_with(CAUSED_BY)))
}

/// Returns true if the line begins a log entry: with a time, a level or a JSON object, possibly in
/// brackets. False for continuation lines, which begin with white space, `at` or `Caused by`.
pub(super) fn begins_entry(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"[").or(line.strip_prefix(b"=")).unwrap_or(line);
    starts_with_time(line) || starts_with_level(line) || is_object(line)
}

fn starts_with_time(line: &[u8]) -> bool {
    let mut shape = [0; 10];
    for (to, from) in shape.iter_mut().zip(line) {
        *to = if from.is_ascii_digit() { b'0' } else { *from };
    }
    let month = matches!(
        line.get(..3),
        Some(
            b"Jan"
                | b"Feb"
                | b"Mar"
                | b"Apr"
                | b"May"
                | b"Jun"
                | b"Jul"
                | b"Aug"
                | b"Sep"
                | b"Oct"
                | b"Nov"
                | b"Dec"
        )
    );
    shape.starts_with(b"0000-00-00")
        || shape.starts_with(b"0000/00/00")
        || shape.starts_with(b"00:00:00")
        || shape.starts_with(b"00/00/0000")
        || shape.starts_with(b"00.00.0000")
        || shape.starts_with(b"0000000000")
        || (month && line.get(3) == Some(&b' '))
        // klog: I0102 15:04:05
        || (matches!(line.first(), Some(b'I' | b'W' | b'E' | b'F'))
            && (shape.get(1..6) == Some(b"0000 ") || shape.get(1..8) == Some(b"000000 ")))
}

fn starts_with_level(line: &[u8]) -> bool {
    const LEVELS: [&[u8]; 14] = [
        b"TRACE",
        b"DEBUG",
        b"INFO",
        b"NOTICE",
        b"WARN",
        b"WARNING",
        b"ERROR",
        b"FATAL",
        b"CRITICAL",
        b"info",
        b"warn",
        b"error",
        b"debug",
        b"level=",
    ];
    LEVELS.iter().any(|level| {
        line.strip_prefix(*level).is_some_and(|rest| {
            level.ends_with(b"=") || rest.first().is_none_or(|next| !next.is_ascii_alphanumeric())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_esxi_have_severities() {
        for (word, rest, expected) in [
            ("Er", "(179) vmkernel", Some(Severity::Error)),
            ("Wa", "(180)", Some(Severity::Warn)),
            ("In", "(14)", Some(Severity::Other)),
            ("Er", "(02)", Some(Severity::Error)),
            ("In", "(a)", None),
            ("No", "(5)", None),
            ("No", " (05)", None),
        ] {
            assert_eq!(named_priority(word.as_bytes(), rest.as_bytes()), expected, "{word}{rest}");
        }
    }

    #[test]
    fn events_have_severities() {
        let read = |text: &str| common_event(text.as_bytes());
        let name = "CEF:0|A|B|1.0|7|".len();
        assert_eq!(read(r"CEF:0|A|B|1.0|7|x \| y|8|src=1"), Some((Severity::Error, name)));
        assert_eq!(read("CEF:0|A|B|1.0|7|x|Medium|src=1"), Some((Severity::Warn, name)));
        assert_eq!(read("CEF:0|A|B|1.0|7|x|3|"), Some((Severity::Other, name)));
        assert_eq!(read("CEF:0|A|B|1.0|7|x|11|"), None);
        assert_eq!(read("CEF:0|A|B"), None);
    }

    #[test]
    fn codes_of_network_devices_have_severities() {
        for (text, expected) in [
            ("%LINK-3-UPDOWN: Interface x", Some(Severity::Error)),
            ("%SW_MATM-4-MACFLAP_NOTIF: Host x", Some(Severity::Warn)),
            ("%SYS-5-CONFIG_I: Configured", Some(Severity::Other)),
            ("%ASA-2-106001: Inbound", Some(Severity::Error)),
            ("%ROUTING-OSPF-4-ADJCHG : x", Some(Severity::Warn)),
            ("%%01IFNET/4/LINK_STATE(l)[2]:x", Some(Severity::Warn)),
            ("%d-3-x", None),
            ("%20-3-01", None),
            ("%PATH%", None),
            ("100%", None),
        ] {
            assert_eq!(mnemonic(text.as_bytes()), expected, "{text}");
        }
    }
}
