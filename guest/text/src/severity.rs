//! Detects the severity of a line, from a named field or from the beginning of the line.

pub use super::severity_level::Severity;
use super::severity_translation::severity_of_translation;
pub use super::severity_word::severity_of_word;
pub(super) use super::severity_word::{
    MAX_WORD_BYTES, severity_of_contextual_word, severity_of_letter, severity_of_weak_word,
};

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
    b"fatal error:",
    b"Fatal:",
    b"Fatal error:",
    b"panic:",
    b"Traceback (",
    b"Exception in ",
    b"npm ERR!",
    b"npm error",
    b"##[error]",
    b"thread '",
    b"E   ",
    b"FAILED ",
    b"FAILURE: ",
    b"BUILD FAILED",
    b"PHP Fatal error:",
    b"PHP Parse error:",
    b"Error response from daemon:",
    b"Error from server",
    b"CMake Error",
    b"! LaTeX Error:",
    b"e: file:",
    b"e: /",
    b"E: Failed to ",
    b"E: Unable to ",
    b"E: Could not ",
    b"E: Sub-process ",
    b"E: The ",
    b"dpkg: error ",
];
/// Words in capitals that may precede `ERROR:` and `WARNING:` at the start of a line.
const MAX_NAMES: usize = 2;
const WARNING_STARTS: &[&[u8]] = &[
    b"warning:",
    b"Warning:",
    b"WARN",
    b"##[warning]",
    b"npm WARN",
    b"npm warn",
    b"PHP Warning:",
    b"CMake Warning",
    b"CMake Deprecation Warning",
    b"LaTeX Warning:",
    b"LaTeX Font Warning:",
    b"pdfTeX warning",
    b"w: file:",
    b"w: /",
    b"W: Failed to ",
    b"W: Some index ",
    b"W: GPG error",
    b"W: An error ",
    b"W: Possible missing firmware",
];

/// Lines with which build tools report a failure: Ant, Xcode and Make.
const VERDICTS: &[&[u8]] = &[
    b"BUILD FAILED",
    b"BUILD FAILURE",
    b"** BUILD FAILED **",
    b"** TEST FAILED **",
    b"** ARCHIVE FAILED **",
    b"** CLEAN FAILED **",
];

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

/// Returns the severity of a line after the time in a log that has no severities. Codes such as
/// `ORA-00600` are errors there, except for the position of an error.
pub(super) fn report_severity(line: &[u8]) -> Severity {
    const CODES: [&[u8]; 3] = [b"ORA-", b"RMAN-", b"Fatal "];
    const POSITION: &[u8] = b"ORA-06512";
    let is_code = CODES.iter().any(|code| line.starts_with(code)) && !line.starts_with(POSITION);
    if is_code { Severity::Error } else { strict_severity(line) }
}

/// Returns the severity in the code of a message of OpenVMS at the start of a line: facility,
/// letter and name, as in `%TCPIP-E-DISCONNECT, text`. `None` without such a code.
fn facility_code(line: &[u8]) -> Option<Severity> {
    let code = line.strip_prefix(b"%")?;
    let is_name =
        |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_$".contains(byte);
    let facility = code.iter().take_while(|byte| is_name(byte)).count();
    let [b'-', letter, b'-', name @ ..] = code.get(facility..).filter(|_| facility > 1)? else {
        return None;
    };
    let length = name.iter().take_while(|byte| is_name(byte)).count();
    let is_code = length > 2 && name.get(length..)?.starts_with(b", ");
    let severity = match letter {
        b'E' | b'F' => Severity::Error,
        b'W' => Severity::Warn,
        b'I' | b'S' => Severity::Other,
        _ => return None,
    };
    is_code.then_some(severity)
}

/// Words at the start of a line with which a program reports its own crash.
const CRASH_STARTS: &[&[u8]] = &[
    b"Traceback (",
    b"Exception in ",
    b"panic:",
    b"fatal:",
    b"thread '",
    b"##[error]",
    b"Guru Meditation Error",
];

/// The products of Oracle whose messages begin with their name and a number: `TNS-12514: text`.
const CODED_PRODUCTS: [&[u8]; 10] =
    [b"ORA-", b"TNS-", b"RMAN-", b"PLS-", b"SP2-", b"IMP-", b"EXP-", b"KUP-", b"DGM-", b"LRM-"];
/// The messages of Oracle that only continue another one.
const CODED_POSITIONS: [&[u8]; 1] = [b"ORA-06512"];

/// Returns true if a line is a message of Oracle with its code.
fn is_coded_message(line: &[u8]) -> bool {
    let code = CODED_PRODUCTS.iter().find_map(|product| line.strip_prefix(*product));
    code.is_some_and(|code| {
        let digits = code.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (4..=5).contains(&digits) && code.get(digits..).is_some_and(|rest| rest.starts_with(b": "))
    }) && !CODED_POSITIONS.iter().any(|position| line.starts_with(position))
}

/// Phrases with which runtimes and operating systems report the end of a program. They are no part
/// of usual messages.
const CRASH_PHRASES: &[&[u8]] = &[
    b"Task timed out after ",
    b"exited with error: ",
    b"exited with signal ",
    b"signal: killed",
    b"signal: aborted",
    b"signal: segmentation fault",
    b"killed by signal ",
    b"terminated by signal ",
    b"Segmentation fault",
    b"segfault at ",
    b"(core dumped)",
    b"Out of memory: Kill",
    b"oom-kill:",
    b"java.lang.OutOfMemoryError",
    b"JavaScript heap out of memory",
    b"MemoryError: Unable to allocate",
    b"Unhandled exception",
    b"Uncaught exception",
    b"UnhandledPromiseRejection",
    b"kernel panic",
    b"Kernel panic",
];

/// Returns the severity of a line outside of log entries: `Error` if it reports the crash of a
/// program, and that of a code of OpenVMS. `Other` for other lines.
#[must_use]
pub fn crash_severity(line: &[u8]) -> Severity {
    if let Some(severity) = facility_code(line) {
        return severity;
    }
    let is_crash = CRASH_STARTS.iter().any(|start| line.starts_with(start))
        || is_coded_message(line)
        || !line.first().is_none_or(u8::is_ascii_whitespace) && has_crash_phrase(line);
    if is_crash { Severity::Error } else { Severity::Other }
}

/// Returns true if a line has a phrase that reports the end of a program. O(line).
pub(super) fn has_crash_phrase(line: &[u8]) -> bool {
    CRASH_PHRASES.iter().any(|phrase| memchr::memmem::find(line, phrase).is_some())
}

/// Returns the severity of a line of a text other than a log. Indented lines, lines of one or two
/// words, and members such as `error: String` have none.
#[must_use]
pub fn line_severity(line: &[u8]) -> Severity {
    if let Some(severity) = reported_severity(line) {
        return severity;
    }
    if line.first().is_none_or(u8::is_ascii_whitespace) {
        return Severity::Other;
    }
    if VERDICTS.contains(&line.trim_ascii_end()) || is_stop_of_make(line) {
        return Severity::Error;
    }
    if let Some(severity) = facility_code(line) {
        return severity;
    }
    // Simulators of hardware mark their reports: `# ** Error: text`.
    if let Some(report) = line.strip_prefix(b"# ").unwrap_or(line).strip_prefix(b"** ") {
        return strict_severity(report);
    }
    let words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    if words.take(MIN_MESSAGE_WORDS + 1).count() <= MIN_MESSAGE_WORDS {
        return Severity::Other;
    }
    if coded_severity(line) == Severity::Warn && line.starts_with(b"Warning ") {
        return Severity::Warn;
    }
    if let Some(severity) =
        after_names(line).or_else(|| package_severity(line)).or_else(|| tool_severity(line))
    {
        return severity;
    }
    if let Some(severity) = bracketed_severity(line) {
        return severity;
    }
    let strict = strict_severity(line);
    if strict != Severity::Other {
        // An assignment to a constant is no report.
        let second = line.split(|byte| *byte == b' ').nth(1).and_then(|word| word.first());
        let is_code = second.is_some_and(|byte| b"=({+?:".contains(byte))
            && !line.starts_with(b"Traceback (most recent ");
        return if is_code { Severity::Other } else { strict };
    }
    let Some(message) = after_position(line).or_else(|| after_program(line)) else {
        return Severity::Other;
    };
    let message = message.trim_ascii_start();
    match strict_severity(message) {
        Severity::Other => coded_severity(message).max(translated_severity(message)),
        severity => severity,
    }
}

/// Returns the severity of a message of a compiler in another language than English:
/// `varning: text`. `Other` without one.
fn translated_severity(message: &[u8]) -> Severity {
    let Some(end) = memchr::memchr(b':', message) else { return Severity::Other };
    let word = message.get(..end).unwrap_or_default().trim_ascii_end();
    if word == b"fel" {
        return Severity::Error;
    }
    severity_of_translation(word).unwrap_or(Severity::Other)
}

/// Returns true if Make reports in a line that it stops: `make[2]: *** text`.
fn is_stop_of_make(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"g").unwrap_or(line).strip_prefix(b"make") else {
        return false;
    };
    let end = rest.iter().take_while(|byte| **byte != b':').count();
    let level = rest.get(..end).unwrap_or_default();
    let is_level = level.is_empty() || level.starts_with(b"[") && level.ends_with(b"]");
    is_level && rest.get(end..).is_some_and(|rest| rest.starts_with(b": *** "))
}

/// Returns the severity of a line in the report of a linter or a package manager: `  12:5  error
/// text` (ESLint), `  error • text` (Dart) and ` WARN  text` (pnpm). `None` for other lines.
fn reported_severity(line: &[u8]) -> Option<Severity> {
    let aligned = [(b" WARN  ".as_slice(), Severity::Warn), (b" ERROR  ", Severity::Error)];
    let aligned = aligned.iter().find(|(start, _)| line.starts_with(start));
    if let Some((start, severity)) = aligned {
        return line.get(start.len()..)?.contains(&b' ').then_some(*severity);
    }
    let text = line.trim_ascii_start();
    let position = text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b':').count();
    let (position, rest) = text.split_at_checked(position)?;
    let rest = rest.trim_ascii_start();
    let end = memchr::memchr(b' ', rest)?;
    let (word, rest) = rest.split_at_checked(end)?;
    let is_report = match position {
        b"" => rest.starts_with(" • ".as_bytes()),
        _ => position.contains(&b':') && rest.starts_with(b"  ") && text.len() < line.len(),
    };
    match word {
        b"error" if is_report => Some(Severity::Error),
        b"warning" if is_report => Some(Severity::Warn),
        _ => None,
    }
}

/// Returns the severity after words in capitals: `SCRIPT ERROR: text`. `None` for other lines.
fn after_names(line: &[u8]) -> Option<Severity> {
    let mut rest = line;
    for _ in 0..MAX_NAMES {
        let length = rest.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
        rest = rest.get(length..).filter(|_| length > 2)?.strip_prefix(b" ")?;
        match rest {
            [b'E', b'R', b'R', b'O', b'R', b':', b' ', ..] => return Some(Severity::Error),
            [b'W', b'A', b'R', b'N', b'I', b'N', b'G', b':', b' ', ..] => {
                return Some(Severity::Warn);
            }
            _ => {}
        }
    }
    None
}

/// Returns the severity of a message of a package of TeX: `Package hyperref Warning: text`. `None`
/// for other lines.
fn package_severity(line: &[u8]) -> Option<Severity> {
    let line = line.strip_prefix(b"! ").unwrap_or(line);
    let rest = [b"Package ".as_slice(), b"Class ", b"Module "]
        .iter()
        .find_map(|kind| line.strip_prefix(*kind))?;
    let end = memchr::memchr(b' ', rest)?;
    match rest.get(end + 1..)? {
        [b'W', b'a', b'r', b'n', b'i', b'n', b'g', b':', b' ', ..] => Some(Severity::Warn),
        [b'E', b'r', b'r', b'o', b'r', b':', b' ', ..] => Some(Severity::Error),
        _ => None,
    }
}

/// Returns the severity of a message of a build tool that has a rule code, and at most the name of
/// the tool before it: `LINK : fatal error LNK1104: text`, `warning NU1903: text`. `None` for other
/// lines.
fn tool_severity(line: &[u8]) -> Option<Severity> {
    let name = line.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let message = match name {
        0 => line,
        _ => line.get(name..)?.strip_prefix(b" : ")?,
    };
    let code = memchr::memmem::find(message, b": ").and_then(|end| message.get(..end))?;
    let code = code.rsplit(|byte| *byte == b' ').next()?;
    let letters = code.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    let digits = code.get(letters..)?;
    let is_rule = letters >= 2 && digits.len() >= 3 && digits.iter().all(u8::is_ascii_digit);
    Some(coded_severity(message)).filter(|severity| is_rule && *severity != Severity::Other)
}

/// Returns the message after the name of a program: `ld: warning: text`. `None` without a name.
fn after_program(line: &[u8]) -> Option<&[u8]> {
    let is_name =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-+".contains(byte);
    let name = line.iter().take_while(|byte| is_name(byte)).count();
    let message = line.get(name..)?.strip_prefix(b": ")?;
    // Values in YAML and prose begin with a capital.
    (name > 1 && message.first()?.is_ascii_lowercase()).then_some(message)
}

/// Returns the message after the position that compilers write first: `a.c:12:5: error: expected
/// ';'`. `None` without a position.
fn after_position(line: &[u8]) -> Option<&[u8]> {
    // Paths of Windows may have spaces.
    let after_path = || match line {
        [b'A'..=b'Z', b':', b'\\', ..] => Some(memchr::memmem::find(line, b"): ")? + 2),
        _ => None,
    };
    let first_word = || line.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
    let (position, message) = line.split_at_checked(after_path().unwrap_or_else(first_word))?;
    let is_position = position.ends_with(b":") && position.iter().any(u8::is_ascii_digit);
    is_position.then_some(message)
}

/// Returns true if a line with a severity names its origin: a program, a rule, or a position.
/// Such a line is a report, even if most lines of a text are.
pub(super) fn has_origin(line: &[u8]) -> bool {
    let starts = [b"npm ".as_slice(), b"##[", b"PHP "];
    starts.iter().any(|start| line.starts_with(start))
        || after_position(line).is_some()
        || reported_severity(line).is_some()
        || tool_severity(line).is_some()
}

/// Returns the severity in brackets at the start of a line: `[WARNING]: text`. `None` without one.
fn bracketed_severity(line: &[u8]) -> Option<Severity> {
    let rest = line.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', rest.get(..=MAX_WORD_BYTES).unwrap_or(rest))?;
    let is_end = matches!(rest.get(end + 1), Some(b':' | b' '));
    severity_of_word(rest.get(..end)?).filter(|_| is_end)
}

/// Returns the severity of a compiler message with a rule code: `warning CS0162: text`. `Other`
/// without one.
fn coded_severity(message: &[u8]) -> Severity {
    let message = message.strip_prefix(b"fatal ").unwrap_or(message);
    let mut words = message.splitn(3, |byte| *byte == b' ');
    let (word, code) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // Python writes the class of a warning.
    if word.len() > b"Warning:".len() && word.ends_with(b"Warning:") {
        return Severity::Warn;
    }
    let digits = code.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_code =
        digits >= 2 && code.ends_with(b":") && code.first().is_some_and(u8::is_ascii_uppercase);
    let is_number = code
        .strip_suffix(b":")
        .is_some_and(|code| !code.is_empty() && code.iter().all(u8::is_ascii_digit));
    match word {
        b"Warning" if is_number => Severity::Warn,
        b"error" if is_code => Severity::Error,
        b"warning" if is_code => Severity::Warn,
        _ => Severity::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_has_no_severity() {
        assert_eq!(strict_severity(b"An ERROR in prose"), Severity::Other);
    }

    #[test]
    fn reports_of_compilers_have_severities() {
        for (line, expected) in [
            ("a.c:12:5: error: expected ';' here", Severity::Error),
            (r"C:\a\P.cs(12,17): warning CS0162: Unreachable code", Severity::Warn),
            (r"C:\Program Files\a.targets(156,5): error NU1101: No such package", Severity::Error),
            ("LINK : fatal error LNK1104: cannot open input file 'a.lib'", Severity::Error),
            ("warning NU1903: Package 'a' is vulnerable", Severity::Warn),
            ("error E2: this is no rule", Severity::Other),
            ("NOTE : error A1B: this is no rule", Severity::Other),
            ("src/a.ts(1,2): error TS2304: Cannot find name", Severity::Error),
            ("[WARNING]: Platform linux is new", Severity::Warn),
            ("[error](a.md) is a link", Severity::Other),
            ("a.c:12: a warning about C12: text", Severity::Other),
            ("step 1: error handling: C12: text", Severity::Other),
        ] {
            assert_eq!(line_severity(line.as_bytes()), expected, "{line}");
        }
    }
}
