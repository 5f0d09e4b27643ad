//! Recognizes timestamps in the lines of logs.

/// The maximum field in which a time without seconds is recognized. File listings have such times
/// in later fields.
const MAX_SHORT_TIME_FIELD: u8 = 3;

/// Returns the offset after the time to which the digits at `at` belong. `length` is the number of
/// letters and digits there, and `field` the number of fields before them. `None` if they are not
/// part of a time.
pub(super) fn time_end(line: &[u8], at: usize, length: usize, field: u8) -> Option<usize> {
    let digits = run(line, at, u8::is_ascii_digit);
    let before = at.checked_sub(1).and_then(|before| line.get(before)).copied().unwrap_or(b' ');
    let byte = |at: usize| line.get(at).copied().unwrap_or(b' ');
    let number = |from: usize| run(line, from, u8::is_ascii_digit);
    // ISO 8601 joins date and time by a letter, so that the time is not at the start of the run.
    let (clock, hours) = match byte(at + digits) {
        b'T' | b't' if digits == 2 || digits == 8 => (at + digits + 1, number(at + digits + 1)),
        _ => (at, digits),
    };
    let minutes = clock + hours;
    if (1..=2).contains(&hours)
        && byte(minutes) == b':'
        && number(minutes + 1) == 2
        && byte(minutes + 1) < b'6'
    {
        let seconds = minutes + 3;
        let is_after_year = before == b':' && at >= 5 && number(at - 5) == 4;
        // Erlang writes `3-Jan-2026::10:00:00`.
        let is_after_year = is_after_year
            || before == b':' && at >= 6 && byte(at - 2) == b':' && number(at - 6) == 4;
        let is_free = !matches!(before, b':' | b'.') || is_after_year;
        if byte(seconds) == b':' && number(seconds + 1) == 2 {
            let end = seconds + 3;
            // A hardware address has more groups of two.
            let is_address = byte(end) == b':' && number(end + 1) == 2;
            return (is_free && !is_address).then(|| fraction_end(line, end));
        }
        // Libraries for Go write `8:00AM` at the start of a line.
        let half = line.get(seconds..seconds + 3).unwrap_or_default();
        if at == 0 && matches!(half, b"AM " | b"PM ") {
            return Some(seconds + 2);
        }
        let is_enclosed = matches!(before, b' ' | b'[' | b'(' | b'\t' | b'T')
            && matches!(byte(seconds), b' ' | b']' | b')' | b'.' | b'\t');
        return (is_enclosed && hours == 2 && field <= MAX_SHORT_TIME_FIELD)
            .then(|| fraction_end(line, seconds));
    }
    let is_separate =
        matches!(before, b' ' | b'[' | b'(' | b'"' | b'=' | b':' | b'|' | b'\t') || at == 0;
    if !is_separate {
        return None;
    }
    // Greenbone writes `10h00.00`.
    let is_hour = digits == 2 && byte(at + 2) == b'h' && number(at + 3) == 2;
    if is_hour && byte(at + 5) == b'.' && number(at + 6) == 2 {
        return Some(at + 8);
    }
    // `20260102T101500`
    if digits == 8 && clock > at && hours == 6 {
        return Some(fraction_end(line, minutes));
    }
    if length == digits {
        let is_epoch = matches!(digits, 10 | 13 | 16 | 19) && byte(at) == b'1';
        let is_compact = digits == 14 && matches!(byte(at), b'1' | b'2');
        // The kernel counts seconds since its start: `[   12.345678]`.
        let is_uptime = byte(at + digits) == b'.'
            && number(at + digits + 1) >= 3
            && byte(at + digits + 1 + number(at + digits + 1)) == b']';
        // ESP-IDF writes a letter and milliseconds: `I (312) boot: x`.
        let is_letter = |at: usize| b"EWIDV".contains(&byte(at)) && byte(at + 1) == b' ';
        if before == b'(' && at == 3 && is_letter(0) && byte(at + digits) == b')' {
            return Some(at + digits);
        }
        // Chrome writes `0307/080000.123456`.
        let is_day = digits == 4 && byte(at + 4) == b'/' && number(at + 5) == 6;
        if is_day && matches!(byte(at + 11), b'.' | b':') {
            return Some(fraction_end(line, at + 11));
        }
        // `081109 203615`: date and time of six digits each.
        if digits == 6 && byte(at + 6) == b' ' && number(at + 7) == 6 {
            return Some(at + 13);
        }
        if is_epoch || is_compact || is_uptime {
            return Some(fraction_end(line, at + digits));
        }
    }
    // Factorio aligns the seconds since its start: `  95.587 Error a.cpp:92: text`.
    let is_first = line.get(..at).is_some_and(|before| before.iter().all(|byte| *byte == b' '));
    if is_first && byte(at + digits) == b'.' && number(at + digits + 1) == 3 {
        let end = at + digits + 4;
        let is_before_word = byte(end) == b' ' && byte(end + 1).is_ascii_alphabetic();
        if is_before_word && digits <= 6 {
            return Some(end);
        }
    }
    let separator = byte(at + 4);
    // `2026-01-02-10.00.00.123`: DB2 and Unreal Engine.
    let has_two = |offsets: [usize; 5]| offsets.iter().all(|offset| number(at + offset) == 2);
    if digits == 4
        && matches!(separator, b'-' | b'.')
        && has_two([5, 8, 11, 14, 17])
        && [7, 10, 13, 16].map(|offset| byte(at + offset)) == [separator, b'-', b'.', b'.']
    {
        return Some(fraction_end(line, at + 19));
    }
    // `2026-01-02`, where no time of day follows.
    let is_date = digits == 4
        && at == 0
        && matches!(separator, b'-' | b'/' | b'.')
        && number(at + 5) == 2
        && byte(at + 7) == separator
        && number(at + 8) == 2
        && byte(at + 10) == b' '
        && !byte(at + 11).is_ascii_digit();
    is_date.then_some(at + 10)
}

/// Returns the offset after a fraction of a second and the time zone at `at`.
fn fraction_end(line: &[u8], at: usize) -> usize {
    let mut end = at;
    if matches!(line.get(end), Some(b'.' | b',' | b':')) {
        let digits = run(line, end + 1, u8::is_ascii_digit);
        end += if digits > 0 { digits + 1 } else { 0 };
    }
    if line.get(end) == Some(&b'Z') {
        return end + 1;
    }
    if matches!(line.get(end), Some(b'+' | b'-')) {
        return end + 1 + run(line, end + 1, |byte| byte.is_ascii_digit() || *byte == b':');
    }
    end
}

/// Returns the number of consecutive bytes, from `at` on, for which `test` returns true.
pub(super) fn run(line: &[u8], at: usize, test: impl Fn(&u8) -> bool) -> usize {
    line.get(at..).map_or(0, |rest| rest.iter().take_while(|byte| test(byte)).count())
}

#[cfg(test)]
mod tests {
    use super::super::log_line::LogLine;

    #[test]
    fn times_are_found() {
        for (line, expected) in [
            ("2026-01-02T10:00:00.123Z x", Some("2026-01-02T10:00:00.123Z")),
            ("2026-01-02T10:00:00+02:00 x", Some("2026-01-02T10:00:00+02:00")),
            ("20260102T101500Z x", Some("20260102T101500Z")),
            ("2026-01-02 ERROR x", Some("2026-01-02")),
            ("Jan  2 10:00:00 host x", Some("Jan  2 10:00:00")),
            ("[Sun Dec 04 04:47:44.123 2005] x", Some("[Sun Dec 04 04:47:44.123")),
            ("03-17 16:13:38.811  1702 x", Some("03-17 16:13:38.811")),
            ("[12:34:0307/080000.123456:WARNING:a.cc(7)] x", Some("[12:34:0307/080000.123456")),
            ("8:00AM INF x", Some("8:00AM")),
            (
                "md main:WARNING:2026-01-02 10h00.07 UTC:7: x",
                Some("md main:WARNING:2026-01-02 10h00.07"),
            ),
            ("[   12.345678] x", Some("[   12.345678")),
            ("1767348000.123 x", Some("1767348000.123")),
            ("1767348000123 x", Some("1767348000123")),
            ("[2026.01.02-10.00.00:123][ 31]x", Some("[2026.01.02-10.00.00:123")),
            ("2026-01-02-10.00.00.123456+060 x", Some("2026-01-02-10.00.00.123456+060")),
            ("2026.01.02-10.00.0 x", None),
            ("081109 203615 148 x", Some("081109 203615")),
            (
                "127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] x",
                Some("127.0.0.1 - - [10/Oct/2000:13:55:36"),
            ),
            ("10:42 x", Some("10:42")),
            ("a.c:12:34: error: x", None),
            ("link 00:11:22:33:44:55 up", None),
            ("at a.b(C.java:10)", None),
            ("ratio 3:2 of 4000000000", None),
        ] {
            let parsed = LogLine::parse(line.as_bytes());
            let found = parsed.time.and_then(|_| line.get(..parsed.time_end));
            assert_eq!(found, expected, "{line}");
        }
    }
}
