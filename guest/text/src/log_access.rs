//! Lines of access logs in the formats of Apache and nginx, whose status states the severity.

use super::severity::Severity;

/// The end of the time, and the quote before the request.
const REQUEST: &[u8] = b"] \"";

/// Returns the severity of the status after the request of a line, and the byte offset of the
/// request: `10.0.0.1 - - [01/May/2024:10:00:00 +0000] "GET / HTTP/1.1" 500 12`. Only the statuses
/// of failed servers, 500 to 599, are errors. `None` for other lines. O(line).
pub(super) fn status_severity(line: &[u8]) -> Option<(Severity, usize)> {
    let start = memchr::memmem::find(line, REQUEST)? + REQUEST.len();
    let request = line.get(start..)?;
    // Apache escapes quotes in requests by a backslash.
    let is_end = |at: &usize| at.checked_sub(1).and_then(|at| request.get(at)) != Some(&b'\\');
    let end = memchr::memchr_iter(b'"', request).find(is_end)?;
    let [b' ', class @ b'1'..=b'5', second, third, rest @ ..] = request.get(end + 1..)? else {
        return None;
    };
    let is_status = second.is_ascii_digit()
        && third.is_ascii_digit()
        && rest.first().is_none_or(u8::is_ascii_whitespace);
    let severity = if *class == b'5' { Severity::Error } else { Severity::Other };
    is_status.then_some((severity, start - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_severities() {
        let head = "10.0.0.1 - - [01/May/2024:10:00:00 +0000] ";
        for (rest, expected) in [
            (r#""GET / HTTP/1.1" 500 12"#, Some(Severity::Error)),
            (r#""GET / HTTP/1.1" 404 12"#, Some(Severity::Other)),
            (r#""GET /\" 500 " HTTP/1.1" 503"#, None),
            (r#""GET /a\"b HTTP/1.1" 503"#, Some(Severity::Error)),
            (r#""-" 408 0"#, Some(Severity::Other)),
            (r#""GET / HTTP/1.1" 5000"#, None),
            (r#""GET / HTTP/1.1"#, None),
            ("text", None),
        ] {
            let found = status_severity(format!("{head}{rest}").as_bytes());
            assert_eq!(found, expected.map(|severity| (severity, head.len())), "{rest}");
        }
    }
}
