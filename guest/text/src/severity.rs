//! Detects the severity of a line, from a named field or from the beginning of the line.

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

/// The length of the longest word that names a severity, in bytes.
pub(super) const MAX_WORD_BYTES: usize = 13;
/// The number of bytes at the start of a line that are searched for a named severity.
pub const NAMED_BYTES: usize = 1024;

/// The minimum number of words that follow a severity in a text other than a log.
const MIN_MESSAGE_WORDS: usize = 2;

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

/// Returns the severity of a line of any text, derived from the beginning of the line only.
#[must_use]
#[inline(never)]
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

/// Words at the start of a line with which a program reports its own crash.
const CRASH_STARTS: &[&[u8]] =
    &[b"Traceback (", b"Exception in ", b"panic:", b"fatal:", b"thread '", b"##[error]"];

/// Returns the severity of a line outside of log entries: `Error` if it reports the crash of a
/// program, else `Other`.
#[must_use]
pub fn crash_severity(line: &[u8]) -> Severity {
    let is_crash = CRASH_STARTS.iter().any(|start| line.starts_with(start));
    if is_crash { Severity::Error } else { Severity::Other }
}

/// Returns the severity of a line of a text other than a log. Indented lines, lines of one or two
/// words, and members such as `error: String` have none.
#[must_use]
pub fn line_severity(line: &[u8]) -> Severity {
    if line.first().is_none_or(u8::is_ascii_whitespace) {
        return Severity::Other;
    }
    let words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    if words.take(MIN_MESSAGE_WORDS + 1).count() <= MIN_MESSAGE_WORDS {
        return Severity::Other;
    }
    let strict = strict_severity(line);
    if strict != Severity::Other {
        // An assignment to a constant is no report.
        let second = line.split(|byte| *byte == b' ').nth(1).and_then(|word| word.first());
        let is_code = second.is_some_and(|byte| b"=({+?:".contains(byte));
        return if is_code { Severity::Other } else { strict };
    }
    // Compilers write the position first: `a.c:12:5: error: expected ';'`.
    let position = line.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
    let (position, message) = line.split_at_checked(position).unwrap_or_default();
    let is_position = position.ends_with(b":") && position.iter().any(u8::is_ascii_digit);
    if !is_position {
        return Severity::Other;
    }
    match strict_severity(message) {
        Severity::Other => coded_severity(message.trim_ascii_start()),
        severity => severity,
    }
}

/// Returns the severity of a compiler message with a rule code: `warning CS0162: text`. `Other`
/// without one.
fn coded_severity(message: &[u8]) -> Severity {
    let mut words = message.splitn(3, |byte| *byte == b' ');
    let (word, code) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let digits = code.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_code =
        digits >= 2 && code.ends_with(b":") && code.first().is_some_and(u8::is_ascii_uppercase);
    match word {
        b"error" if is_code => Severity::Error,
        b"warning" if is_code => Severity::Warn,
        _ => Severity::Other,
    }
}

/// Returns the severity in a line's level field. `None` if the first [`NAMED_BYTES`] have no such
/// field, or if it has another value than a severity. Examples are `level=error`,
/// `"level":"error"`, `"severity": "WARNING"`, and the numbers of pino and bunyan.
#[must_use]
#[inline(never)]
pub fn named_severity(line: &[u8]) -> Option<Severity> {
    let look = line.get(..NAMED_BYTES).unwrap_or(line);
    memchr::memchr(b'v', look)?;
    let names = [(b"level".as_slice(), 2), (b"severity", 2), (b"levelname", 2), (b"lvl", 1)];
    names.into_iter().find_map(|(name, letter)| {
        let at = find(look, name, b'v', letter)?;
        let rest = look.get(at + name.len()..)?;
        let is_sign = |byte: &u8| matches!(byte, b'"' | b'\'' | b':' | b'=' | b' ');
        let signs = rest.iter().take_while(|byte| is_sign(byte)).count();
        let (signs, value) = rest.split_at_checked(signs)?;
        let length = value.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let value = value.get(..length)?;
        if !signs.iter().any(|sign| matches!(sign, b':' | b'=')) {
            return None;
        }
        match value {
            b"50" | b"60" => Some(Severity::Error),
            b"40" => Some(Severity::Warn),
            b"10" | b"20" | b"30" => Some(Severity::Other),
            _ => severity_of_word(value),
        }
    })
}

/// Returns the offset of `word` in `look`. `None` if it does not occur. Searches for `letter`, a
/// rare letter at the offset `place` of the word. Lines are too short for search algorithms with a
/// setup phase.
fn find(look: &[u8], word: &[u8], letter: u8, place: usize) -> Option<usize> {
    let is_free = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| look.get(before));
        before.is_none_or(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'_' | b'-'))
    };
    memchr::memchr_iter(letter, look)
        .filter_map(|at| at.checked_sub(place))
        .find(|at| is_free(at) && look.get(*at..).is_some_and(|rest| rest.starts_with(word)))
}

/// Returns the severity that a word names, ignoring case. `None` for other words.
#[must_use]
#[inline(never)]
pub fn severity_of_word(word: &[u8]) -> Option<Severity> {
    // Most words of a line begin with other letters.
    if !b"efcspawidtvn".contains(&(word.first()? | 0x20)) {
        return None;
    }
    match lower_case(word)?.get(..word.len())? {
        b"error" | b"err" | b"fatal" | b"ftl" | b"critical" | b"crit" | b"severe" | b"panic"
        | b"emerg" | b"emergency" | b"alert" | b"fail" => Some(Severity::Error),
        b"warn" | b"warning" | b"wrn" => Some(Severity::Warn),
        b"info" | b"inf" | b"information" | b"informational" | b"debug" | b"dbg" | b"dbug"
        | b"trace" | b"trce" | b"trc" | b"verbose" | b"vrb" | b"notice" | b"fine" | b"finer"
        | b"finest" => Some(Severity::Other),
        _ => None,
    }
}

/// Returns the severity for an ambiguous word, such as `failed` or `note`. `None` for other words.
pub(super) fn severity_of_weak_word(word: &[u8]) -> Option<Severity> {
    match lower_case(word)?.get(..word.len())? {
        b"failure" | b"failed" => Some(Severity::Error),
        b"log" | b"note" | b"config" | b"system" | b"detail" | b"hint" | b"statement"
        | b"context" | b"default" | b"success" => Some(Severity::Other),
        _ => None,
    }
}

/// Returns a word in lower case, followed by zeros. `None` if it is too short or too long to name
/// a severity.
fn lower_case(word: &[u8]) -> Option<[u8; MAX_WORD_BYTES]> {
    let mut lower = [0; MAX_WORD_BYTES];
    for (to, from) in lower.iter_mut().zip(word) {
        *to = from.to_ascii_lowercase();
    }
    (3..=MAX_WORD_BYTES).contains(&word.len()).then_some(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_severities_are_detected() {
        for (line, expected) in [
            ("ts=1 level=error msg=x", Some(Severity::Error)),
            (r#"{"time":1,"level":"warning","msg":"ERROR in text"}"#, Some(Severity::Warn)),
            (r#"{"level":50,"msg":"x"}"#, Some(Severity::Error)),
            (r#"{"log.level": "ERROR"}"#, Some(Severity::Error)),
            (r#"{"level":"info","msg":"no ERROR"}"#, Some(Severity::Other)),
            ("the level of error is low", None),
            ("--log_level=error", None),
            ("logging.level.root=ERROR", None),
        ] {
            assert_eq!(named_severity(line.as_bytes()), expected, "{line}");
        }
        assert_eq!(strict_severity(b"An ERROR in prose"), Severity::Other);
    }

    #[test]
    fn reports_of_compilers_have_severities() {
        for (line, expected) in [
            ("a.c:12:5: error: expected ';' here", Severity::Error),
            (r"C:\a\P.cs(12,17): warning CS0162: Unreachable code", Severity::Warn),
            ("src/a.ts(1,2): error TS2304: Cannot find name", Severity::Error),
            ("a.c:12: a warning about C12: text", Severity::Other),
            ("step 1: error handling: C12: text", Severity::Other),
        ] {
            assert_eq!(line_severity(line.as_bytes()), expected, "{line}");
        }
    }
}
