//! Detects the kind of a text from its first lines.

use std::borrow::Cow;

use super::colours::without_colours;
use super::definition::is_definition;
use super::heading::is_document;
use super::lines::IndexedText;
use super::log_format::LogFormat;
use super::log_line::LogLine;
use super::log_prefix::begins_entry;

/// The format of a text, which determines how it is divided and outlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Log entries with times or levels, or one JSON object per line.
    Log,
    /// The output of `diff`, of one or several files.
    Diff,
    /// Markdown, with headings.
    Markdown,
    /// HTML or XML.
    Markup,
    /// Lines of fields: CSV, TSV, a Markdown table or aligned columns.
    Table,
    /// Source code.
    Source,
    /// Anything else.
    Plain,
}

/// The number of leading lines from which the kind of a text is detected.
const SAMPLE_LINES: usize = 120;
/// The number of later lines, evenly spaced, that are also examined, because a log may begin with
/// other text.
const SPREAD_LINES: usize = 80;
/// A factor that spreads the numbers of lines, from multiplicative hashing (D. E. Knuth, The Art of
/// Computer Programming, volume 3, section 6.4).
const SPREAD_FACTOR: u32 = 2_654_435_761;
/// The number of bytes of each of these lines that are examined. Objects may end with their
/// severity.
const SAMPLE_BYTES: usize = 4096;

/// The length of the shortest time with seconds, in bytes.
const SHORTEST_TIME_BYTES: usize = 7;

impl Kind {
    /// Detects the kind of a text from a sample of its lines. O(1).
    #[must_use]
    pub fn detect(text: &IndexedText<'_>) -> Self {
        Self::detect_with_format(text).0
    }

    /// Detects the kind of a text, and the format of its entries if it is a log. O(1).
    #[must_use]
    pub fn detect_with_format(text: &IndexedText<'_>) -> (Self, LogFormat) {
        let stride = (text.len().saturating_sub(SAMPLE_LINES) / SPREAD_LINES).max(1);
        // Entries of equal length must not all be sampled at the same line.
        let shift = |start: usize| ((start as u32).wrapping_mul(SPREAD_FACTOR) >> 16) as usize;
        let spread = (SAMPLE_LINES..text.len()).step_by(stride);
        let spread = spread.map(|start| (start + shift(start) % stride).min(text.len() - 1));
        let sampled = (0..text.len().min(SAMPLE_LINES)).chain(spread);
        let lines: Vec<_> =
            sampled.map(|at| without_colours(text.start_within(at, SAMPLE_BYTES))).collect();
        let format = LogFormat::learn(&lines);
        let head = lines.get(..SAMPLE_LINES).unwrap_or(&lines);
        (Self::detect_in(head, &format), format)
    }

    fn detect_in(lines: &[Cow<'_, [u8]>], format: &LogFormat) -> Self {
        let head: Vec<&[u8]> =
            lines.iter().map(AsRef::as_ref).filter(|line| !line.trim_ascii().is_empty()).collect();
        let count = |test: &dyn Fn(&[u8]) -> bool| head.iter().filter(|line| test(line)).count();
        let first = head.first().map_or(&[][..], |line| {
            // A byte order mark.
            line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii_start()
        });
        if count(&|line| line.starts_with(b"@@ ") || line.starts_with(b"diff --git ")) >= 1
            && count(&|line| line.starts_with(b"+++ ")) >= 1
        {
            return Kind::Diff;
        }
        if format.is_log() && !has_columns(&head, format) && !is_database_dump(&head) {
            return Kind::Log;
        }
        if first.starts_with(b"<?xml")
            || first.starts_with(b"<!DOCTYPE")
            || first.starts_with(b"<!doctype")
            || first.starts_with(b"<!--") && count(&|line| is_tag(line.trim_ascii_start())) >= 2
            || is_tag(first)
        {
            return Kind::Markup;
        }
        let comments = head.iter().take_while(|line| line.starts_with(b"#")).count();
        let below = head.get(comments..).unwrap_or_default();
        // Documents have a heading above their tables.
        let is_markdown = below.first().is_some_and(|line| line.contains(&b'|'));
        if is_table(&head) || comments > 0 && !is_markdown && is_table(below) {
            return Kind::Table;
        }
        if is_document(head.iter().copied()) {
            return Kind::Markdown;
        }
        // Schemas have more lines of documentation than of code.
        let is_block = |line: &[u8]| is_definition(line) && line.trim_ascii_end().ends_with(b"{");
        let is_schema = count(&is_block) >= 3 && count(&|line| line.trim_ascii_end() == b"}") >= 3;
        if count(&|line| is_definition(line)) >= 2
            && (count(&|line| ends_as_code(line)) * 4 >= head.len() || is_schema)
        {
            return Kind::Source;
        }
        Kind::Plain
    }
}

/// Returns true if lines are a database dump in SQL, whose rows may have times and severities.
fn is_database_dump(head: &[&[u8]]) -> bool {
    let begins = |line: &[u8], start: &[u8]| {
        line.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
    };
    let inserts = head.iter().filter(|line| begins(line, b"INSERT INTO ")).count();
    let is_copy = |line: &&[u8]| begins(line, b"COPY ") && line.ends_with(b"FROM stdin;");
    let copy = head.iter().position(is_copy);
    // Logs have statements, too.
    let before = head.get(..copy.unwrap_or(head.len())).unwrap_or_default();
    !before.iter().any(|line| begins_entry(line))
        && (copy.is_some() || inserts > 0 && inserts * 3 >= head.len())
}

fn is_tag(line: &[u8]) -> bool {
    line.first() == Some(&b'<')
        && line.get(1).is_some_and(u8::is_ascii_alphabetic)
        && line.contains(&b'>')
}

fn ends_as_code(line: &[u8]) -> bool {
    matches!(line.trim_ascii_end().last(), Some(b'{' | b'}' | b';' | b':' | b')' | b',' | b'('))
}

/// Returns true if a text with times or severities is a table: it has a header, rules, or times in
/// a later column.
fn has_columns(head: &[&[u8]], format: &LogFormat) -> bool {
    // A log that is exported as a table has messages and severities as any other.
    if format.has_severity_column() {
        return false;
    }
    let is_rule = |line: &&[u8]| {
        line.len() > 2 && line.iter().all(|byte| b"-+|: ".contains(byte)) && line.contains(&b'-')
    };
    let begins = |line: Option<&&[u8]>| line.is_none_or(|line| format.begins_entry(line));
    let (first, second) = (head.first(), head.get(1));
    if head.iter().take(3).any(is_rule) && first.is_some_and(|line| line.contains(&b'|')) {
        return true;
    }
    // A heading has no time.
    let is_timed = first.is_some_and(|line| LogLine::parse(line).time.is_some());
    let has_heading = !begins(first) && !is_timed && begins(second);
    let fields = |line: Option<&&[u8]>, separator| {
        line.map_or(0, |line| memchr::memchr_iter(separator, line).count())
    };
    let is_alike = |separator| {
        fields(first, separator) >= 2 && fields(first, separator) == fields(second, separator)
    };
    // Quoted values may have separators, so that the rows differ.
    if has_heading && [b',', b'\t', b';'].into_iter().any(is_alike) {
        return true;
    }
    // A tab before the message is no column that a heading names.
    let is_named = |separator| {
        fields(first, separator) >= 1 && fields(first, separator) == fields(second, separator)
    };
    let is_heading = has_heading && [b',', b'\t', b';', b'|'].into_iter().any(is_named);
    is_table(head)
        && !format.has_containers()
        && (is_heading
            || !format.has_severities() && first.is_some_and(|line| has_later_time(line)))
}

/// Returns true if the time of a line follows a column separator.
fn has_later_time(line: &[u8]) -> bool {
    let parsed = LogLine::parse(line);
    // A comma may also separate the fraction of a second.
    let before = line.get(..parsed.time_end.saturating_sub(SHORTEST_TIME_BYTES));
    before.is_some_and(|before| before.iter().any(|byte| b",;\t".contains(byte)))
}

/// Returns true if at least four lines are in `head`, and four fifths of them have the same number
/// of fields, more than one.
fn is_table(head: &[&[u8]]) -> bool {
    if head.len() < 4 {
        return false;
    }
    // The lines of a stack trace are indented by a tab.
    let is_indented = head.get(1).is_some_and(|line| line.starts_with(b"\t"));
    [b',', b'\t', b';', b'|'].into_iter().any(|separator| {
        let fields = |line: &[u8]| memchr::memchr_iter(separator, line).count();
        let expected = head.get(1).map_or(0, |line| fields(line));
        let alike = head.iter().filter(|line| fields(line) == expected).count();
        expected >= 1
            && alike * 10 >= head.len() * 8
            && !(separator == b'\t' && expected == 1 && is_indented)
            && (separator != b',' || !reads_as_prose(head))
    })
}

/// Returns true if most of the lines in `head` end like sentences, and so are not rows of a table.
fn reads_as_prose(head: &[&[u8]]) -> bool {
    head.iter().filter(|line| line.trim_ascii_end().ends_with(b".")).count() * 2 > head.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use context_guard_json::text::Form;

    fn kind(text: &str) -> Kind {
        Kind::detect(&IndexedText::new(text.as_bytes(), Form::Raw))
    }

    #[test]
    fn stack_traces_are_no_tables() {
        let calls: String = (0..40).map(|at| format!("\tat a.b.C{at}.m(C.java:{at})\n")).collect();
        let trace = format!("Exception in thread \"main\" java.lang.Error: x\n{calls}");
        assert_ne!(kind(&trace), Kind::Table);
        let rows: String = (0..40).map(|at| format!("\t{at}\n")).collect();
        assert_eq!(kind(&format!("name\tcount\n{}", rows.replace('\t', "a\t"))), Kind::Table);
    }

    #[test]
    fn kinds_are_detected() {
        assert_eq!(kind("2026-01-02 10:00:00 INFO a\n2026-01-02 10:00:01 INFO b\n"), Kind::Log);
        assert_eq!(kind("{\"level\":\"info\"}\n{\"level\":\"info\"}\n"), Kind::Log);
        assert_eq!(kind("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"), Kind::Diff);
        assert_eq!(kind("id,name\n1,a\n2,b\n3,c\n"), Kind::Table);
        assert_eq!(kind("| id | name |\n|---|---|\n| 1 | a |\n| 2 | b |\n"), Kind::Table);
        assert_eq!(kind("# of today\n# unit: 1\nid,name\n1,a\n2,b\n3,c\n"), Kind::Table);
        assert_eq!(kind("# One\ntext\n## Two\ntext\n"), Kind::Markdown);
        assert_eq!(kind("<html>\n<body>\n</body></html>\n"), Kind::Markup);
        assert_eq!(kind("use a;\n\npub fn one() {\n    x();\n}\n\nfn two() {\n}\n"), Kind::Source);
        let documented = |name: &str| {
            format!(
                "\"\"\"\nWhat it is.\n\"\"\"\n{name} {{\n  \"\"\"\n  It is.\n  \"\"\"\n  id: ID!\n}}\n"
            )
        };
        let schema = ["input AInput", "type A", "interface B"].map(documented).concat();
        assert_eq!(kind(&schema), Kind::Source);
        assert_eq!(
            kind(
                "Once upon a time, there was.\nIt was, so.\nIt went on, and on.\nIt ended, well.\n"
            ),
            Kind::Plain
        );
    }
}
