//! The severity of a log entry, detected in its first line.

/// The severity of a line or log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Neither a warning nor an error, or no severity found.
    Other,
    /// A warning.
    Warn,
    /// An error, or something more severe.
    Error,
}

/// The number of bytes at the start of a line in which a severity is searched.
const SEARCHED_BYTES: usize = 240;

const ERRORS: &[&[u8]] = &[
    b"ERROR",
    b"FATAL",
    b"CRITICAL",
    b"SEVERE",
    b"PANIC",
    b"EMERG",
    b"ALERT",
    b"ERR",
    b"CRIT",
    b"FAILED",
    b"FAILURE",
];
const WARNINGS: &[&[u8]] = &[b"WARN", b"WARNING"];

/// Words at the start of a line that mark it as an error in any text.
const ERROR_STARTS: &[&[u8]] = &[
    b"error:",
    b"error[",
    b"Error:",
    b"ERROR",
    b"FATAL",
    b"fatal:",
    b"panic:",
    b"Traceback (",
    b"Exception in ",
    b"npm ERR!",
    b"##[error]",
    b"thread '",
    b"E   ",
    b"FAILED ",
];
const WARNING_STARTS: &[&[u8]] =
    &[b"warning:", b"Warning:", b"WARN", b"##[warning]", b"npm WARN", b"npm warn"];

/// Returns the severity of a line of a log, derived from its level field, its beginning or a word
/// in capitals.
#[must_use]
pub fn severity(line: &[u8]) -> Severity {
    let look = line.get(..SEARCHED_BYTES).unwrap_or(line);
    if let Some(level) = named(look) {
        return level;
    }
    let strict = strict_severity(line);
    if strict != Severity::Other {
        return strict;
    }
    let (mut found, mut at) = (Severity::Other, 0);
    // Words in capitals count anywhere in the line.
    while let Some(start) =
        look.get(at..).and_then(|rest| rest.iter().position(u8::is_ascii_uppercase))
    {
        let start = at + start;
        let length = look
            .get(start..)
            .map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_uppercase()).count());
        let inside = start
            .checked_sub(1)
            .and_then(|before| look.get(before))
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let goes_on = look
            .get(start + length)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let word = look.get(start..start + length).unwrap_or_default();
        if !inside && !goes_on {
            if ERRORS.contains(&word) {
                return Severity::Error;
            }
            if WARNINGS.contains(&word) {
                found = Severity::Warn;
            }
        }
        at = start + length;
    }
    if found == Severity::Other { klog(look) } else { found }
}

/// Returns the severity of a line of any text, derived from the beginning of the line only.
#[must_use]
pub fn strict_severity(line: &[u8]) -> Severity {
    let line = line.trim_ascii_start();
    if ERROR_STARTS.iter().any(|start| line.starts_with(start)) {
        Severity::Error
    } else if WARNING_STARTS.iter().any(|start| line.starts_with(start)) {
        Severity::Warn
    } else {
        Severity::Other
    }
}

/// Returns the severity in a line's level field, or `None` if the line has no such field. Examples
/// are `level=error`, `"level":"error"`, `"severity": "WARNING"`, `[error]`, and the numbers of
/// pino and bunyan.
fn named(look: &[u8]) -> Option<Severity> {
    let with_v = [(b"level".as_slice(), 2), (b"severity", 2), (b"levelname", 2), (b"lvl", 1)];
    let first_v = memchr::memchr(b'v', look);
    for (name, letter) in with_v.into_iter().filter(|_| first_v.is_some()) {
        let Some(at) = find(look, name, b'v', letter) else { continue };
        let value: Vec<u8> = look
            .get(at + name.len()..)?
            .iter()
            .skip_while(|byte| matches!(byte, b'"' | b'\'' | b':' | b'=' | b' '))
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .map(u8::to_ascii_lowercase)
            .collect();
        match value.as_slice() {
            b"error" | b"err" | b"fatal" | b"critical" | b"crit" | b"panic" | b"alert"
            | b"emergency" | b"50" | b"60" => {
                return Some(Severity::Error);
            }
            b"warn" | b"warning" | b"40" => return Some(Severity::Warn),
            b"info" | b"debug" | b"trace" | b"notice" | b"10" | b"20" | b"30" => {
                return Some(Severity::Other);
            }
            _ => {}
        }
    }
    let bracketed = memchr::memchr_iter(b'[', look).filter_map(|at| look.get(at + 1..));
    bracketed.filter_map(in_brackets).max()
}

/// Returns the severity of a level in brackets, such as `[error]`. `None` for other text and lower
/// levels. `rest` begins after the opening bracket.
fn in_brackets(rest: &[u8]) -> Option<Severity> {
    let is = |word: &&[u8]| rest.starts_with(word);
    match rest.first()? {
        b'e' | b'c' => [b"error]".as_slice(), b"crit]"].iter().any(is).then_some(Severity::Error),
        b'w' => [b"warn]".as_slice(), b"warning]"].iter().any(is).then_some(Severity::Warn),
        _ => None,
    }
}

/// Returns the offset of `word` in `look`, or `None`. Searches for `letter`, a rare letter at the
/// offset `place` of the word. Lines are too short for search algorithms that need setup.
fn find(look: &[u8], word: &[u8], letter: u8, place: usize) -> Option<usize> {
    memchr::memchr_iter(letter, look)
        .filter_map(|at| at.checked_sub(place))
        .find(|at| look.get(*at..).is_some_and(|rest| rest.starts_with(word)))
}

/// Returns the severity in a klog header such as `E0102 15:04:05`, or `Other` if the line has no
/// such header.
fn klog(look: &[u8]) -> Severity {
    let digits = look.get(1..5).is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
        && look.get(5) == Some(&b' ');
    match look.first() {
        Some(b'E' | b'F') if digits => Severity::Error,
        Some(b'W') if digits => Severity::Warn,
        _ => Severity::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_common_formats_are_detected() {
        for (line, expected) in [
            ("2026-01-02 10:00:00 ERROR db: refused", Severity::Error),
            ("2026-01-02T10:00:00Z [WARN] slow", Severity::Warn),
            ("ts=1 level=error msg=x", Severity::Error),
            (r#"{"time":1,"level":"warning","msg":"ERROR in text"}"#, Severity::Warn),
            (r#"{"level":50,"msg":"x"}"#, Severity::Error),
            (r#"{"level":"info","msg":"no ERROR"}"#, Severity::Other),
            ("E0102 15:04:05.000 1 x.go:1] failed", Severity::Error),
            ("2026/01/02 10:00:00 [error] 12#0: upstream", Severity::Error),
            ("error[E0308]: mismatched types", Severity::Error),
            ("2026-01-02 INFO TERRORS and ERRORS_TOTAL 5", Severity::Other),
            ("INFO all is well", Severity::Other),
        ] {
            assert_eq!(severity(line.as_bytes()), expected, "{line}");
        }
        assert_eq!(strict_severity(b"An ERROR in prose"), Severity::Other);
    }
}
