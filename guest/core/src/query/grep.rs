//! Lines of a text, or values of a document, that match a regular expression. The engine runs in
//! linear time, and the searched bytes are limited.

use regex_lite::{Regex, RegexBuilder};

use super::records::RecordSet;
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;
use crate::json::text::{Form, boundary, quoted};
use crate::text::lines::LineSpans;
use crate::text::shorten::truncation_mark;

/// Maximum number of bytes that one query searches.
const MAX_SEARCHED_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of bytes that are searched with a pattern of one KiB compiled size; fewer for
/// larger patterns. The engine takes at most about 300 ns per byte and KiB, so that the worst
/// pattern takes about a second.
const SEARCHED_BYTES_PER_PATTERN_KIB: usize = 2 * 1024 * 1024;
/// Maximum size of a compiled pattern, in bytes.
const MAX_COMPILED_PATTERN_BYTES: usize = 64 * 1024;
/// Maximum number of matches in the result of a search.
const MAX_SHOWN_MATCHES: usize = 2_000;
/// Maximum number of context lines before, and after, a match.
const MAX_CONTEXT_LINES: u64 = 50;
/// Maximum number of bytes of one line or value that are searched and shown.
const MAX_LINE_BYTES: usize = 4_096;

/// A compiled regular expression.
pub struct Pattern {
    regex: Regex,
    /// Maximum number of bytes that are searched for this pattern.
    max_bytes: usize,
}

impl Pattern {
    /// Compiles a regular expression.
    ///
    /// # Errors
    /// Returns a message for the caller if the expression is invalid or too long.
    pub fn new(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() || pattern.len() > 1_000 {
            return Err("grep takes a regular expression of 1 to 1000 characters".to_owned());
        }
        // The engine does not report the compiled size, which determines the search time. So find
        // the smallest power of two under which the pattern compiles.
        let mut size = 256;
        loop {
            match RegexBuilder::new(pattern).size_limit(size).build() {
                Ok(regex) => {
                    // Small patterns take less time than their size suggests.
                    let factor = if size <= 1_024 { 2 } else { 1 };
                    let max_bytes = (SEARCHED_BYTES_PER_PATTERN_KIB / size * 1_024 * factor)
                        .min(MAX_SEARCHED_BYTES);
                    return Ok(Self { regex, max_bytes });
                }
                Err(error) if size >= MAX_COMPILED_PATTERN_BYTES => {
                    return Err(format!("grep {pattern:?} is no regular expression: {error}"));
                }
                Err(_) => size *= 2,
            }
        }
    }

    /// Returns the lines of a text that match, with `context` lines around each, and a summary in
    /// words. The search begins at line `from` (1-based). Lines are numbered in the style of grep:
    /// `12:` is a match, `13-` is context.
    #[must_use]
    pub fn search_text(&self, text: &[u8], context: u64, from: u64) -> (Vec<u8>, String) {
        let around = usize::try_from(context.min(MAX_CONTEXT_LINES)).unwrap_or(0);
        let before = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
        let start = LineSpans::new(text, Form::Raw).take(before).last().map_or(0, |line| line.end);
        let text = text.get(start..).unwrap_or_default();
        let searched = boundary(text, self.max_bytes, Form::Raw);
        let head = text.get(..searched).unwrap_or(text);
        let lines: Vec<&[u8]> = LineSpans::new(head, Form::Raw)
            .map(|line| head.get(line).unwrap_or_default())
            .collect();
        let matches: Vec<usize> = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| self.regex.is_match(&shorten_line(line)))
            .map(|(at, _)| at)
            .collect();
        let mut out = Vec::new();
        let mut next = 0;
        for (number, at) in matches.iter().take(MAX_SHOWN_MATCHES).enumerate() {
            let from = at.saturating_sub(around).max(next);
            if number > 0 && around > 0 && from > next {
                out.extend_from_slice(b"--\n");
            }
            // The context of a match ends where the next match begins, so no line is shown twice.
            let until = matches.get(number + 1).map_or(usize::MAX, |next| *next);
            for line in from..(at + around + 1).min(until).min(lines.len()) {
                let sign = if line == *at { ':' } else { '-' };
                let text = lines.get(line).map(|line| shorten_line(line)).unwrap_or_default();
                out.extend_from_slice(format!("{}{sign}{}\n", before + line + 1, text).as_bytes());
                next = line + 1;
            }
        }
        let mut what = format!("{} matching lines of {}", matches.len(), lines.len());
        if matches.len() > MAX_SHOWN_MATCHES {
            what.push_str(&format!(", the first {MAX_SHOWN_MATCHES} shown"));
        }
        if searched < text.len() {
            what.push_str(&format!(
                "; only so far was searched: for the rest give startLine {}",
                before + lines.len().max(2)
            ));
        }
        (out, what)
    }

    /// Returns the values of a document that match, as JSON with the path of each, and a summary in
    /// words.
    #[must_use]
    pub fn search_json(&self, records: &RecordSet<'_>) -> (Vec<u8>, String) {
        let mut search = Search {
            pattern: self,
            outline: &records.outline,
            path: String::new(),
            out: b"{\"matches\":[".to_vec(),
            count: 0,
            bytes: 0,
        };
        search.visit(records.root);
        let mut out = search.out;
        let complete = search.bytes <= self.max_bytes;
        out.extend_from_slice(
            format!("],\"count\":{},\"complete\":{complete}}}", search.count).as_bytes(),
        );
        let rest = if complete { "" } else { "; NOT all of it was searched: narrow it by path" };
        let shown = if search.count > MAX_SHOWN_MATCHES {
            format!(", the first {MAX_SHOWN_MATCHES} shown")
        } else {
            String::new()
        };
        (out, format!("{} matches{shown}{rest}", search.count))
    }
}

struct Search<'s, 'a> {
    pattern: &'s Pattern,
    outline: &'s Outline<'a>,
    path: String,
    out: Vec<u8>,
    count: usize,
    bytes: usize,
}

impl Search<'_, '_> {
    fn visit(&mut self, id: NodeId) {
        let outline = self.outline;
        let Some(node) = outline.node(id) else { return };
        if self.bytes > self.pattern.max_bytes {
            return;
        }
        if node.children > 0 && !node.closed {
            for (at, (child, member)) in outline.children(id).enumerate() {
                let step = if node.kind == Kind::Object {
                    outline.step(&member.key)
                } else {
                    at.to_string()
                };
                let length = self.path.len();
                self.path.push('/');
                self.path.push_str(&step);
                self.visit(child);
                self.path.truncate(length);
            }
            return;
        }
        let value = match node.kind {
            Kind::String => outline.decoded(&node.span),
            _ => String::from_utf8_lossy(&outline.raw(node)).into_owned(),
        };
        self.bytes += value.len();
        if !self.pattern.regex.is_match(&value) {
            return;
        }
        self.count += 1;
        if self.count > MAX_SHOWN_MATCHES {
            return;
        }
        if self.count > 1 {
            self.out.push(b',');
        }
        let short = shorten_line(value.as_bytes());
        self.out.extend_from_slice(b"{\"path\":");
        self.out.extend(quoted(&self.path));
        self.out.extend_from_slice(b",\"value\":");
        self.out.extend(quoted(&short));
        self.out.push(b'}');
    }
}

/// Returns a line without its line ending, cut after [`MAX_LINE_BYTES`].
fn shorten_line(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let end = boundary(line, MAX_LINE_BYTES, Form::Raw);
    let text = String::from_utf8_lossy(line.get(..end).unwrap_or(line)).into_owned();
    if end < line.len() {
        format!("{text}{}", truncation_mark(line.len() - end, "characters"))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::EndpointSettings;

    #[test]
    fn matching_lines_have_numbers_and_context() {
        let text = b"one\ntwo\nERROR three\nfour\nfive\nsix\nERROR seven\n";
        let grep = |context| {
            let (bytes, what) = Pattern::new("ERR.R").unwrap().search_text(text, context, 1);
            (String::from_utf8(bytes).unwrap(), what)
        };
        assert_eq!(
            grep(0),
            ("3:ERROR three\n7:ERROR seven\n".to_owned(), "2 matching lines of 7".to_owned())
        );
        assert_eq!(grep(1).0, "2-two\n3:ERROR three\n4-four\n--\n6-six\n7:ERROR seven\n");
        assert_eq!(
            grep(2).0,
            "1-one\n2-two\n3:ERROR three\n4-four\n5-five\n6-six\n7:ERROR seven\n"
        );
    }

    #[test]
    fn slow_patterns_search_in_parts() {
        let text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n".repeat(20_000) + "aab\n";
        let slow = Pattern::new("(a?){60}(a|b|c){60}z").unwrap();
        let (found, what) = slow.search_text(text.as_bytes(), 0, 1);
        let next: u64 = what.split("startLine ").nth(1).unwrap().parse().unwrap();
        assert!(found.is_empty() && next > 1_000 && next < 20_000, "{what}");
        let (_, what) = slow.search_text(text.as_bytes(), 0, next);
        assert!(what.split("startLine ").nth(1).unwrap().parse::<u64>().unwrap() > next, "{what}");
        // A line beyond the limit is skipped.
        let (_, what) = slow.search_text(&b"a".repeat(600_000), 0, 1);
        assert!(what.ends_with("startLine 2"), "{what}");
        let quick = Pattern::new("b$").unwrap();
        assert_eq!(quick.search_text(text.as_bytes(), 0, 20_001).0, b"20001:aab\n");
    }

    #[test]
    fn matching_values_have_paths() {
        let json = br#"{"rows":[{"a/b":"x1"},{"c":["y","x2"]}]}"#;
        let records = RecordSet::locate(json, &EndpointSettings::default()).unwrap();
        let (bytes, what) = Pattern::new("^x").unwrap().search_json(&records);
        assert_eq!(
            (String::from_utf8(bytes).unwrap().as_str(), what.as_str()),
            (
                r#"{"matches":[{"path":"/rows/0/a~1b","value":"x1"},{"path":"/rows/1/c/1","value":"x2"}],"count":2,"complete":true}"#,
                "2 matches"
            )
        );
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        assert!(
            Pattern::new("(").is_err()
                && Pattern::new("").is_err()
                && Pattern::new("(a{1000}){1000}").is_err()
        );
    }
}
