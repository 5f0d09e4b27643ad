//! Lines have at most 100 columns, in Rust, WIT and the prose of Markdown.

use super::Finding;
use super::source::{Language, Line, Source};

const MAX_COLUMNS: usize = 100;

pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    for line in &source.lines {
        let columns = line.text.chars().count();
        if columns > MAX_COLUMNS && !is_exempt(source.language, line) {
            findings.push(Finding {
                rule: "columns",
                place: source.place(line),
                message: format!("{columns} columns, more than {MAX_COLUMNS}"),
            });
        }
    }
}

/// Returns true if a line may exceed the maximum length, because it has a URL or a long literal, or
/// is a table row.
fn is_exempt(language: Language, line: &Line) -> bool {
    let without = |part: &str| line.text.chars().count() - part.chars().count();
    match language {
        // The text of a literal may be data: JSON on one line, a regular expression.
        Language::Rust | Language::Wit => {
            has_url(&line.comment) || without(&line.literal) <= MAX_COLUMNS
        }
        Language::Markdown => {
            let prose = line.comment.trim_start();
            let is_table_row = prose.starts_with('|');
            prose.is_empty() || is_table_row || has_url(prose) || has_only_long_links(prose)
        }
    }
}

fn has_url(text: &str) -> bool {
    text.contains("://")
}

/// Returns true if a line of Markdown is within the maximum length once the targets of its links
/// are removed.
fn has_only_long_links(prose: &str) -> bool {
    let mut parts = prose.split("](");
    let first = parts.next().unwrap_or_default().chars().count();
    let columns: usize = parts
        .map(|part| part.split_once(')').map_or(part, |(_, after)| after).chars().count())
        .sum();
    first + columns <= MAX_COLUMNS && prose.contains("](")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::rules;

    #[test]
    fn long_lines_are_found() {
        let comment = format!("/// {}", "word ".repeat(20));
        let code = format!("let a = [{}];", "1, ".repeat(40));
        assert_eq!(rules("a.rs", &format!("{comment}\n{code}"), check).len(), 2);
        assert_eq!(rules("a.md", &"word ".repeat(25), check).len(), 1);
    }

    #[test]
    fn lines_that_cannot_be_wrapped_pass() {
        let literal = format!("let a = \"{}\";", "word ".repeat(30));
        assert_eq!(rules("a.rs", &literal, check), [""; 0]);
        let long = "word ".repeat(25);
        let link = format!("See [the page](docs/{}.md).", "a".repeat(100));
        let text = format!("| {long} |\n```\n{long}\n```\n{link}\nhttps://example.org/{long}\n");
        assert_eq!(rules("a.md", &text, check), [""; 0]);
    }
}
