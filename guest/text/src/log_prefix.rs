//! Detects prefixes of log lines: containers, syslog priorities, and continuations of stack traces.

use super::severity::Severity;

/// Returns true if a line begins with white space.
pub(super) fn is_indented(line: &[u8]) -> bool {
    line.starts_with(b" ") || line.starts_with(b"\t")
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
    // RFC 5424, section 6.2.1: the last three bits are the severity.
    (number < 192).then_some(match number & 7 {
        0..=3 => Severity::Error,
        4 => Severity::Warn,
        _ => Severity::Other,
    })
}

/// Returns the name of the container at the start of a line, as in `web_1  | started`. `None`
/// without one.
pub(super) fn container(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'|', line.get(..80).unwrap_or(line))?;
    let name = line.get(..end)?.trim_ascii_end();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let begins = name.first().is_some_and(u8::is_ascii_alphabetic);
    (begins && name.len() < end && name.iter().all(is_name)).then_some(name)
}

/// Returns the message after the time of a line. `time_end` is the byte offset after the time, 0
/// without a time.
pub(super) fn message(line: &[u8], time_end: usize) -> &[u8] {
    let rest = line.get(time_end..).unwrap_or_default();
    let rest = rest.strip_prefix(b"]").unwrap_or(rest);
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    // Container runtimes write the stream after the time.
    let streams = [b"stdout F ".as_slice(), b"stderr F "];
    streams.iter().find_map(|stream| rest.strip_prefix(*stream)).unwrap_or(rest)
}

/// Returns true if the message of a line continues a stack trace, although it follows a time.
/// `time_end` is the byte offset after the time.
pub(super) fn is_continuation(line: &[u8], time_end: usize) -> bool {
    const STARTS: [&[u8]; 6] = [b"\t", b"    ", b"  File \"", b"at ", b"Caused by:", b"... "];
    let message = message(line, time_end);
    time_end > 0 && STARTS.iter().any(|start| message.starts_with(start))
}

/// Returns true if the line begins a log entry: with a time, a level or a JSON object, possibly in
/// brackets. False for continuation lines, which begin with white space, `at` or `Caused by`.
pub(super) fn begins_entry(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"[").unwrap_or(line);
    starts_with_time(line) || starts_with_level(line) || line.starts_with(b"{\"")
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
            && shape.get(1..6) == Some(b"0000 "))
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
