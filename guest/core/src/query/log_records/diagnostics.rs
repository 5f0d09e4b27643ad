//! The reports of compilers and linters as records: `file`, `line`, `column`, `severity`, `code`
//! and `message`.
//!
//! | form | programs |
//! |---|---|
//! | `a.c:12:5: error: text` | gcc, clang, javac, mypy, ShellCheck, Go |
//! | `a.rb:12:5: W: text`, `a.py:12:5: E501 text` | RuboCop, flake8, pylint |
//! | `a.cs(12,5): warning CS0162: text` | MSBuild, TypeScript |

use super::{LogRecords, MAX_JSON_BYTES, MAX_NAME_BYTES, left_out};
use crate::json::text::quoted;
use crate::query::grep::Pattern;

/// The minimum number of reports in a text.
const MIN_REPORTS: usize = 3;
/// The maximum length of the path of a file, in bytes.
const MAX_PATH_BYTES: usize = 400;

/// Returns the reports in a text as a JSON list. If `pattern` is given, only matching reports.
/// Indented lines belong to the report before them. `None` unless at least three, and at least half
/// of the other lines, are reports. O(text).
pub(super) fn read(lines: &[String], pattern: Option<&Pattern>) -> Option<LogRecords> {
    let mut reports: Vec<(&str, Diagnostic<'_>)> = Vec::new();
    let (mut others, mut is_report) = (0, false);
    for line in lines.iter().filter(|line| !line.trim().is_empty()) {
        let is_own = !line.starts_with([' ', '\t']);
        match Diagnostic::read(line).filter(|_| is_own) {
            Some(report) => {
                is_report = true;
                reports.push((line.as_str(), report));
            }
            None if !is_own && is_report => {
                if let Some((_, report)) = reports.last_mut() {
                    report.more.push(line);
                }
            }
            None => {
                is_report = false;
                others += 1;
            }
        }
    }
    let total = reports.len();
    if total < MIN_REPORTS || total < others {
        return None;
    }
    let (mut out, mut chosen) = (vec![b'['], 0);
    for (line, report) in reports {
        let is_match = |pattern: &Pattern| {
            let mut lines = std::iter::once(line).chain(report.more.iter().copied());
            lines.any(|line| pattern.is_match(line))
        };
        if pattern.is_none_or(is_match) {
            if chosen > 0 {
                out.push(b',');
            }
            chosen += 1;
            report.write(&mut out);
        }
        if out.len() > MAX_JSON_BYTES {
            return None;
        }
    }
    out.push(b']');
    let skipped = left_out(others, "that is no report", "that are no reports");
    let what = "the reports of the program were read as records";
    Some(LogRecords { json: out, what, skipped, total, chosen, is_json: false })
}

/// A report of a compiler or linter.
#[derive(Debug, PartialEq)]
struct Diagnostic<'l> {
    file: &'l str,
    line: &'l str,
    column: Option<&'l str>,
    severity: Option<&'l str>,
    code: Option<&'l str>,
    message: &'l str,
    /// The indented lines after the report, such as an excerpt of the code.
    more: Vec<&'l str>,
}

impl<'l> Diagnostic<'l> {
    /// Reads a report. A report has a severity or, in the form with colons, a column. Other lines
    /// could be search matches, or addresses with ports. `None` if the line is not a report.
    fn read(text: &'l str) -> Option<Self> {
        let (in_brackets, (file, line, column, rest)) = between_colons(text)
            .map(|position| (false, position))
            .or_else(|| Some((true, in_brackets(text)?)))?;
        // Matches of a search keep the indentation of their lines.
        if file.len() > MAX_PATH_BYTES || rest.is_empty() || rest.starts_with([' ', '\t']) {
            return None;
        }
        let label = rest.split_once(": ").filter(|(label, _)| label.len() <= MAX_NAME_BYTES);
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
        if severity.is_none() && (in_brackets || column.is_none()) {
            return None;
        }
        // `E501 line too long`: the word may also be the first of the message, which keeps it.
        let first = message.split_once(' ').map(|(word, _)| word);
        let first = first.filter(|word| severity.is_none() && is_code(word));
        let message = message.trim_start();
        Some(Self { file, line, column, severity, code: code.or(first), message, more: Vec::new() })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"file\":");
        out.extend(quoted(self.file));
        for (name, number) in [("line", Some(self.line)), ("column", self.column)] {
            if let Some(number) = number {
                out.extend_from_slice(format!(",\"{name}\":{number}").as_bytes());
            }
        }
        let mut message = self.message.to_owned();
        for line in &self.more {
            message.push('\n');
            message.push_str(line);
        }
        for (name, text) in
            [("severity", self.severity), ("code", self.code), ("message", Some(message.as_str()))]
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

/// Reads `a.cs(12,5): …`. A Windows path may contain spaces. `None` for other lines.
fn in_brackets(text: &str) -> Option<ReportPosition<'_>> {
    let (position, rest) = text.split_once("): ").or_else(|| text.split_once(") : "))?;
    let (file, numbers) = position.rsplit_once('(')?;
    let (line, column) = match numbers.split_once(',') {
        Some((line, column)) => (line, Some(column)),
        None => (numbers, None),
    };
    let is_report = is_file(file) && is_number(line) && column.is_none_or(is_number);
    is_report.then_some((file, line, column, rest))
}

/// Reads `a.c:12:5: …` and `a.c:12: …`. The path may begin with a drive. `None` for other lines.
fn between_colons(text: &str) -> Option<ReportPosition<'_>> {
    let from = if has_drive(text) { 2 } else { 0 };
    let at = from + text.get(from..)?.find(':')?;
    let (file, rest) = (text.get(..at)?, text.get(at + 1..)?);
    let (line, rest) = rest.split_once(':').filter(|(line, _)| is_number(line) && is_file(file))?;
    match rest.split_once(": ").filter(|(column, _)| is_number(column)) {
        Some((column, rest)) => Some((file, line, Some(column), rest)),
        None => Some((file, line, None, rest.strip_prefix(' ')?)),
    }
}

fn has_drive(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.get(1) == Some(&b':') && matches!(bytes.get(2), Some(b'\\' | b'/'))
}

/// Returns true if a text may be the path of a file. It then contains letters, and an extension or
/// folders, or is a name such as `Makefile`. Only paths with a drive contain spaces.
fn is_file(text: &str) -> bool {
    let is_path = text.contains(['.', '/', '\\']) || text.ends_with("file");
    let path = if has_drive(text) { text.get(2..).unwrap_or_default() } else { text };
    is_path
        && (has_drive(text) || !text.contains(char::is_whitespace))
        && !path.contains(':')
        && text.contains(|letter: char| letter.is_alphabetic())
}

/// Returns true if a text is a JSON number without sign, decimals or exponent, of at most nine
/// digits.
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

/// Returns true if `word` looks like a diagnostic code: 1 to 8 uppercase letters, then 2 to 6
/// digits, such as `E0308`.
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
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        read(&lines, None).map_or_else(String::new, |found| String::from_utf8(found.json).unwrap())
    }

    #[test]
    fn reports_of_compilers_and_linters_are_records() {
        let text = concat!(
            "Inspecting 2 files\n\nGemfile:4:1: C: Extra blank line.\n  code: 1\n  ^^^\n",
            "src/a.c:12:5: fatal error: x: y\n",
            "C:\\a b\\P.cs(12,17): warning CS0162: Unreachable\n",
            "a.py:7:80: E501 line too long\n",
            "main.go:9:2: x declared and not used\n",
            "Foo.java:5: error: ';' expected\n",
            "a.c:12:5: error: call of f(3): bad SHA256 value\n",
        );
        assert_eq!(
            json(text),
            concat!(
                r#"[{"file":"Gemfile","line":4,"column":1,"severity":"C","message":"Extra blank line.\n  code: 1\n  ^^^"},"#,
                r#"{"file":"src/a.c","line":12,"column":5,"severity":"fatal error","message":"x: y"},"#,
                r#"{"file":"C:\\a b\\P.cs","line":12,"column":17,"severity":"warning","code":"CS0162","message":"Unreachable"},"#,
                r#"{"file":"a.py","line":7,"column":80,"code":"E501","message":"E501 line too long"},"#,
                r#"{"file":"main.go","line":9,"column":2,"message":"x declared and not used"},"#,
                r#"{"file":"Foo.java","line":5,"severity":"error","message":"';' expected"},"#,
                r#"{"file":"a.c","line":12,"column":5,"severity":"error","message":"call of f(3): bad SHA256 value"}]"#,
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
            // Matches of a search, addresses, times and dates.
            "src/a.rs:12:    let x = 1;",
            "src/a.rs:3:fn main() {",
            "src/a.rs:12:5:    let x = 1;",
            "src/a.rs:12:5:let x = 1;",
            "app.log:17:12:30:45 INFO x",
            "app.log:12:30:45 INFO x",
            "db1.internal:5432: accepting connections",
            "10/12/2026 12:30:15: started",
            "10/12/2026:12:30: started",
            "10.0.0.1 - - [12/Nov/2026:10:15:32 +0000] \"GET / HTTP/1.1\"",
            "Art. 12(3): the text",
            "foo_test.go:23: Fib(5): expected 5, got 8",
        ] {
            assert_eq!(Diagnostic::read(line), None, "{line}");
        }
        assert_eq!(json("a.c:1:1: error: x\nprose\nmore prose\na.c:2:1: error: y\n"), "");
    }
}
