//! Outlines of texts: headings of documents, files and hunks of diffs, definitions of source code,
//! titles of pages.

use super::definition::is_definition;
use super::heading::is_heading;
use super::kind::Kind;
use super::lines::IndexedText;

/// An entry of a text's outline, such as a heading or a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the line with this entry, from 1.
    pub line: usize,
    /// The nesting depth of this entry. If not all entries fit, the deepest are omitted.
    pub depth: usize,
    /// The text of this entry, such as that of a heading.
    pub text: String,
}

/// The maximum number of characters of an entry's text.
const MAX_ENTRY_CHARS: usize = 120;

/// Returns the outline of a text. Empty if texts of this kind have none. O(n).
#[must_use]
pub fn parts(kind: Kind, text: &IndexedText<'_>) -> Vec<Part> {
    let read = match kind {
        Kind::Markdown => headings,
        Kind::Diff => files,
        Kind::Source => items,
        Kind::Markup => tags,
        _ => return Vec::new(),
    };
    let lines: Vec<_> = text.lines().collect();
    read(&lines.iter().map(AsRef::as_ref).collect::<Vec<_>>())
}

fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line.trim_ascii()).chars().take(MAX_ENTRY_CHARS).collect()
}

fn headings(lines: &[&[u8]]) -> Vec<Part> {
    let (mut parts, mut in_fence) = (Vec::new(), false);
    for (at, line) in lines.iter().enumerate() {
        let start = line.trim_ascii_start();
        in_fence ^= start.starts_with(b"```") || start.starts_with(b"~~~");
        if !in_fence && is_heading(line) {
            let depth = line.iter().take_while(|byte| **byte == b'#').count();
            parts.push(Part { line: at + 1, depth, text: shown(line) });
        }
    }
    parts
}

/// Returns the files of a diff with their numbers of added and removed lines, each followed by its
/// hunks.
fn files(lines: &[&[u8]]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut counts: Vec<(usize, usize, usize)> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if let Some(name) = line.strip_prefix(b"+++ ") {
            // A deleted file has its name only on the line before.
            let deleted = name.starts_with(b"/dev/null");
            let old = at
                .checked_sub(1)
                .and_then(|before| lines.get(before))
                .and_then(|line| line.strip_prefix(b"--- "));
            let name = if deleted { old.unwrap_or(name) } else { name };
            counts.push((parts.len(), 0, 0));
            parts.push(Part {
                line: at + 1,
                depth: 1,
                text: shown(name.strip_prefix(b"b/").or(name.strip_prefix(b"a/")).unwrap_or(name)),
            });
        } else if line.starts_with(b"@@ ") {
            parts.push(Part { line: at + 1, depth: 2, text: shown(line) });
        } else if let Some((_, added, removed)) = counts.last_mut() {
            *added += usize::from(line.starts_with(b"+"));
            *removed += usize::from(line.starts_with(b"-") && !line.starts_with(b"--- "));
        }
    }
    for (part, added, removed) in counts {
        if let Some(part) = parts.get_mut(part) {
            part.text.push_str(&format!(" (+{added} -{removed})"));
        }
    }
    parts
}

fn items(lines: &[&[u8]]) -> Vec<Part> {
    let parts = lines.iter().enumerate().filter(|(_, line)| is_definition(line));
    parts
        .map(|(at, line)| Part {
            line: at + 1,
            depth: 1 + line
                .iter()
                .take_while(|byte| matches!(byte, b' ' | b'\t'))
                .count()
                .div_ceil(4),
            text: shown(line).trim_end_matches(['{', ' ']).to_owned(),
        })
        .collect()
}

/// Returns the titles and headings of an HTML page that begin and end in one line. Their tags must
/// be in lower case.
fn tags(lines: &[&[u8]]) -> Vec<Part> {
    const TAGS: [(&str, usize); 5] = [("title", 1), ("h1", 1), ("h2", 2), ("h3", 3), ("h4", 4)];
    let mut parts = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !line.contains(&b'<') {
            continue;
        }
        let text = String::from_utf8_lossy(line.get(..65_536).unwrap_or(line)).into_owned();
        for (tag, depth) in TAGS {
            let mut rest = text.as_str();
            while let Some((_, after)) = rest.split_once(&format!("<{tag}")) {
                rest = after;
                if !after.starts_with(['>', ' ']) {
                    continue;
                }
                let inner = after
                    .split_once('>')
                    .and_then(|(_, inner)| inner.split_once(&format!("</{tag}")))
                    .map(|(inner, _)| inner);
                if let Some(inner) = inner.map(without_tags).filter(|inner| !inner.is_empty()) {
                    parts.push(Part { line: at + 1, depth, text: inner });
                }
            }
        }
    }
    parts.sort_by_key(|part| part.line);
    parts
}

fn without_tags(html: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for character in html.chars() {
        match character {
            '<' => inside = true,
            '>' => inside = false,
            _ if !inside => text.push(character),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_ENTRY_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use context_guard_json::text::Form;

    fn texts(kind: Kind, text: &str) -> Vec<String> {
        parts(kind, &IndexedText::new(text.as_bytes(), Form::Raw))
            .into_iter()
            .map(|part| format!("{}:{}:{}", part.line, part.depth, part.text))
            .collect()
    }

    #[test]
    fn outline_of_each_kind() {
        assert_eq!(texts(Kind::Markdown, "# A\n```\n# no\n```\n### B\n"), ["1:1:# A", "5:3:### B"]);
        assert_eq!(
            texts(Kind::Diff, "--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1,2 @@ fn x\n-a\n+b\n+c\n"),
            ["2:1:x.rs (+2 -1)", "3:2:@@ -1,2 +1,2 @@ fn x"]
        );
        assert_eq!(
            texts(
                Kind::Source,
                "pub fn one(a: u8) {\n    let type_name = 1;\n}\nclass Two(Base):\n    def three(self):\n"
            ),
            ["1:1:pub fn one(a: u8)", "4:1:class Two(Base):", "5:2:def three(self):"]
        );
        assert_eq!(
            texts(Kind::Markup, "<title>T <b>x</b></title>\n<h2 id=1>U</h2><head></head>\n"),
            ["1:1:T x", "2:2:U"]
        );
    }
}
