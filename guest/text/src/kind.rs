//! The kind of a text, detected in its first lines.

use super::boundary::{begins_entry, is_heading};
use super::definition::is_definition;
use super::lines::IndexedText;

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

/// The number of first lines from which the kind of a text is detected.
const SAMPLE_LINES: usize = 200;

impl Kind {
    /// Detects the kind of a text from its first lines. O(1).
    #[must_use]
    pub fn detect(text: &IndexedText<'_>) -> Self {
        let head: Vec<_> = text.lines().take(SAMPLE_LINES).collect();
        let head: Vec<&[u8]> =
            head.iter().map(AsRef::as_ref).filter(|line| !line.trim_ascii().is_empty()).collect();
        let count = |test: &dyn Fn(&[u8]) -> bool| head.iter().filter(|line| test(line)).count();
        let first = head.first().map_or(&[][..], |line| line.trim_ascii_start());
        if count(&|line| line.starts_with(b"@@ ") || line.starts_with(b"diff --git ")) >= 1
            && count(&|line| line.starts_with(b"+++ ")) >= 1
        {
            return Kind::Diff;
        }
        let entries = count(&|line| begins_entry(line));
        if entries >= 2 && entries * 3 >= head.len() {
            return Kind::Log;
        }
        if first.starts_with(b"<?xml")
            || first.starts_with(b"<!DOCTYPE")
            || first.starts_with(b"<!doctype")
            || is_tag(first)
        {
            return Kind::Markup;
        }
        if is_table(&head) {
            return Kind::Table;
        }
        if count(&|line| is_heading(line)) >= 2 || count(&|line| line.starts_with(b"```")) >= 2 {
            return Kind::Markdown;
        }
        if count(&|line| is_definition(line)) >= 2
            && count(&|line| ends_as_code(line)) * 4 >= head.len()
        {
            return Kind::Source;
        }
        Kind::Plain
    }
}

fn is_tag(line: &[u8]) -> bool {
    line.first() == Some(&b'<')
        && line.get(1).is_some_and(u8::is_ascii_alphabetic)
        && line.contains(&b'>')
}

fn ends_as_code(line: &[u8]) -> bool {
    matches!(line.trim_ascii_end().last(), Some(b'{' | b'}' | b';' | b':' | b')' | b',' | b'('))
}

/// Returns true if most of the lines in `head` have the same number of fields, and more than one.
fn is_table(head: &[&[u8]]) -> bool {
    if head.len() < 4 {
        return false;
    }
    [b',', b'\t', b';', b'|'].into_iter().any(|separator| {
        let fields = |line: &[u8]| memchr::memchr_iter(separator, line).count();
        let expected = head.get(1).map_or(0, |line| fields(line));
        let alike = head.iter().filter(|line| fields(line) == expected).count();
        expected >= 1
            && alike * 10 >= head.len() * 8
            && (separator != b',' || !reads_as_prose(head))
    })
}

/// Returns true if most of the lines in `head` end like sentences, so that they are not rows of a
/// table.
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
    fn kinds_are_detected() {
        assert_eq!(kind("2026-01-02 10:00:00 INFO a\n2026-01-02 10:00:01 INFO b\n"), Kind::Log);
        assert_eq!(kind("{\"level\":\"info\"}\n{\"level\":\"info\"}\n"), Kind::Log);
        assert_eq!(kind("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"), Kind::Diff);
        assert_eq!(kind("id,name\n1,a\n2,b\n3,c\n"), Kind::Table);
        assert_eq!(kind("| id | name |\n|---|---|\n| 1 | a |\n| 2 | b |\n"), Kind::Table);
        assert_eq!(kind("# One\ntext\n## Two\ntext\n"), Kind::Markdown);
        assert_eq!(kind("<html>\n<body>\n</body></html>\n"), Kind::Markup);
        assert_eq!(kind("use a;\n\npub fn one() {\n    x();\n}\n\nfn two() {\n}\n"), Kind::Source);
        assert_eq!(
            kind(
                "Once upon a time, there was.\nIt was, so.\nIt went on, and on.\nIt ended, well.\n"
            ),
            Kind::Plain
        );
    }
}
