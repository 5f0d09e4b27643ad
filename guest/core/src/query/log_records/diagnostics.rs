//! The reports of compilers and linters as records: `file`, `line`, `column`, `severity`, `code`
//! and `message`.
//!
//! | form | programs |
//! |---|---|
//! | `a.c:12:5: error: text` | gcc, clang, javac, mypy, ShellCheck, Go |
//! | `a.rb:12:5: W: text`, `a.py:12:5: E501 text` | RuboCop, flake8, pylint |
//! | `a.cs(12,5): warning CS0162: text` | MSBuild, TypeScript |

use super::{LogRecords, MAX_JSON_BYTES, MAX_NAME_BYTES};
use crate::json::text::quoted;
use crate::query::grep::Pattern;

/// The minimum number of reports in a text.
const MIN_REPORTS: usize = 3;
/// The maximum length of the path of a file, in bytes.
const MAX_PATH_BYTES: usize = 400;

/// Returns the reports in a text as a JSON list, of which a pattern may choose some. `None` unless
/// they are half of the lines that are not indented. O(text).
pub(super) fn read(text: &str, pattern: Option<&Pattern>) -> Option<LogRecords> {
    let own = || text.lines().filter(|line| !line.is_empty() && !line.starts_with([' ', '\t']));
    let reports: Vec<(&str, Diagnostic<'_>)> =
        own().filter_map(|line| Some((line, Diagnostic::read(line)?))).collect();
    let (total, lines) = (reports.len(), own().count());
    if total < MIN_REPORTS || total * 2 < lines {
        return None;
    }
    let mut out = vec![b'['];
    let mut chosen = 0;
    for (line, report) in reports {
        if pattern.is_none_or(|pattern| pattern.is_match(line)) {
            if chosen > 0 {
                out.push(b',');
            }
            chosen += 1;
            report.write(&mut out);
        }
    }
    out.push(b']');
    let skipped = match lines - total {
        0 => String::new(),
        others => format!(", without {others} other lines"),
    };
    (out.len() <= MAX_JSON_BYTES).then_some(LogRecords { json: out, skipped, total, chosen })
}

/// One report.
#[derive(Debug, PartialEq)]
struct Diagnostic<'l> {
    file: &'l str,
    line: &'l str,
    column: Option<&'l str>,
    severity: Option<&'l str>,
    code: Option<&'l str>,
    message: &'l str,
}

impl<'l> Diagnostic<'l> {
    fn read(text: &'l str) -> Option<Self> {
        let (file, line, column, rest) =
            in_brackets(text).or_else(|| between_colons(text)).filter(|(file, ..)| {
                let is_path = file.contains(['.', '/', '\\']) || file.ends_with("file");
                is_path && file.len() <= MAX_PATH_BYTES && !file.contains("://")
            })?;
        let rest = rest.trim_start();
        let label = rest.split_once(':').map(|(label, message)| (label, message.trim_start()));
        let label = label.filter(|(label, _)| label.len() <= MAX_NAME_BYTES);
        let (severity, code, message) = match label {
            // `error`, `fatal error`, `W`, `C0114`, `warning CS0162`.
            Some((label, message)) if is_severity(label) => (Some(label), None, message),
            Some((label, message)) if is_code(label) => (None, Some(label), message),
            Some((label, message)) => match label.rsplit_once(' ') {
                Some((word, code)) if is_severity(word) && is_code(code) => {
                    (Some(word), Some(code), message)
                }
                _ => (None, None, rest),
            },
            None => (None, None, rest),
        };
        // `E501 line too long`.
        let first = message.split_once(' ').filter(|(word, _)| code.is_none() && is_code(word));
        let (code, message) = first.map_or((code, message), |(word, rest)| (Some(word), rest));
        Some(Self { file, line, column, severity, code, message })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"file\":");
        out.extend(quoted(self.file));
        for (name, number) in [("line", Some(self.line)), ("column", self.column)] {
            if let Some(number) = number {
                out.extend_from_slice(format!(",\"{name}\":{number}").as_bytes());
            }
        }
        for (name, text) in
            [("severity", self.severity), ("code", self.code), ("message", Some(self.message))]
        {
            if let Some(text) = text {
                out.extend_from_slice(format!(",\"{name}\":").as_bytes());
                out.extend(quoted(text));
            }
        }
        out.push(b'}');
    }
}

/// The file, line and column of a report, and the rest of its text.
type ReportPosition<'l> = (&'l str, &'l str, Option<&'l str>, &'l str);

/// Reads `a.cs(12,5): …`.
fn in_brackets(text: &str) -> Option<ReportPosition<'_>> {
    let (position, rest) = text.split_once("): ").or_else(|| text.split_once(") : "))?;
    let (file, numbers) = position.rsplit_once('(')?;
    let (line, column) = match numbers.split_once(',') {
        Some((line, column)) => (line, Some(column)),
        None => (numbers, None),
    };
    (is_number(line) && column.is_none_or(is_number)).then_some((file, line, column, rest))
}

/// Reads `a.c:12:5: …` and `a.c:12: …`. The path may begin with a drive.
fn between_colons(text: &str) -> Option<ReportPosition<'_>> {
    let bytes = text.as_bytes();
    let has_drive = bytes.get(1) == Some(&b':') && matches!(bytes.get(2), Some(b'\\' | b'/'));
    let from = if has_drive { 2 } else { 0 };
    let at = from + text.get(from..)?.find(':')?;
    let (file, rest) = (text.get(..at)?, text.get(at + 1..)?);
    let (line, rest) = rest.split_once(':').filter(|(line, _)| is_number(line))?;
    match rest.split_once(':').filter(|(column, _)| is_number(column)) {
        Some((column, rest)) => Some((file, line, Some(column), rest)),
        None => rest.starts_with(' ').then_some((file, line, None, rest)),
    }
}

/// Returns true if a text is a number as JSON writes it.
fn is_number(text: &str) -> bool {
    let is_short = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_short && (text == "0" || !text.starts_with('0'))
}

fn is_severity(word: &str) -> bool {
    let is_word = matches!(
        word.to_ascii_lowercase().as_str(),
        "error" | "fatal error" | "fatal" | "warning" | "note" | "info" | "remark" | "style"
    );
    is_word || matches!(word.as_bytes(), [b'A'..=b'Z'])
}

/// Returns true if a word is the code of a rule: letters in capitals, and digits.
fn is_code(word: &str) -> bool {
    let letters = word.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = word.get(letters..).unwrap_or_default();
    (1..=8).contains(&letters)
        && (2..=6).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        read(text, None).map_or_else(String::new, |found| String::from_utf8(found.json).unwrap())
    }

    #[test]
    fn reports_of_compilers_and_linters_are_records() {
        let text = "Inspecting 2 files\n\nGemfile:4:1: C: Extra blank line.\n  code: 1\n  ^^^\nsrc/a.c:12:5: fatal error: x: y\nC:\\a b\\P.cs(12,17): warning CS0162: Unreachable\na.py:7:80: E501 line too long\nmain.go:9:2: x declared and not used\nFoo.java:5: error: ';' expected\n";
        assert_eq!(
            json(text),
            concat!(
                r#"[{"file":"Gemfile","line":4,"column":1,"severity":"C","message":"Extra blank line."},"#,
                r#"{"file":"src/a.c","line":12,"column":5,"severity":"fatal error","message":"x: y"},"#,
                r#"{"file":"C:\\a b\\P.cs","line":12,"column":17,"severity":"warning","code":"CS0162","message":"Unreachable"},"#,
                r#"{"file":"a.py","line":7,"column":80,"code":"E501","message":"line too long"},"#,
                r#"{"file":"main.go","line":9,"column":2,"message":"x declared and not used"},"#,
                r#"{"file":"Foo.java","line":5,"severity":"error","message":"';' expected"}]"#,
            )
        );
    }

    #[test]
    fn other_lines_are_no_reports() {
        for line in [
            "12:30:45 started",
            "http://a.b:80:1: x",
            "a.c:012:5: error: x",
            "note: see a.c",
            "host:80: refused",
            "f(x): y",
        ] {
            assert_eq!(Diagnostic::read(line), None, "{line}");
        }
        assert_eq!(json("a.c:1:1: error: x\nprose\nmore prose\nand more\na.c:2:1: error: y\n"), "");
    }
}
