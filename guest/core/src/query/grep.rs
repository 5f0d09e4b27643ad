//! Lines of a text, or values of a document, that match a regular expression. The engine takes linear time, and reads no more than so much.

use regex_lite::{Regex, RegexBuilder};

use super::records::Records;
use crate::json::outline::{Id, Outline};
use crate::json::scan::Kind;
use crate::json::text::{Form, boundary, quoted};
use crate::shape::extract::mark;
use crate::text::lines::Lines;

/// Bytes that are searched: a fraction of a second.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Matches that are shown.
const MOST_MATCHES: usize = 2_000;
/// Lines before and after a match.
const MOST_CONTEXT: u64 = 50;
/// Bytes of one line, or value, that are searched and shown.
const MOST_LINE: usize = 4_096;

/// A pattern, ready to be searched for.
pub struct Pattern(Regex);

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// With a sentence for the caller.
    pub fn new(pattern: &str) -> Result<Self, String> {
        if pattern.is_empty() || pattern.len() > 1_000 {
            return Err("grep takes a regular expression of 1 to 1000 characters".to_owned());
        }
        RegexBuilder::new(pattern)
            .size_limit(256 * 1024)
            .build()
            .map(Self)
            .map_err(|error| format!("grep {pattern:?} is no regular expression: {error}"))
    }

    /// The lines that match with those round them, numbered as grep does: `12:` matches, `13-` stands by. And what they are, in words.
    #[must_use]
    pub fn in_text(&self, text: &[u8], context: u64) -> (Vec<u8>, String) {
        let around = usize::try_from(context.min(MOST_CONTEXT)).unwrap_or(0);
        let searched = boundary(text, MOST_BYTES, Form::Raw);
        let head = text.get(..searched).unwrap_or(text);
        let lines: Vec<&[u8]> =
            Lines::new(head, Form::Raw).map(|line| head.get(line).unwrap_or_default()).collect();
        let matches: Vec<usize> = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| self.0.is_match(&shown(line)))
            .map(|(at, _)| at)
            .collect();
        let mut out = Vec::new();
        let mut next = 0;
        for (number, at) in matches.iter().take(MOST_MATCHES).enumerate() {
            let from = at.saturating_sub(around).max(next);
            if number > 0 && around > 0 && from > next {
                out.extend_from_slice(b"--\n");
            }
            // Lines up to the next match belong to this one, as far as the context goes.
            let until = matches.get(number + 1).map_or(usize::MAX, |next| *next);
            for line in from..(at + around + 1).min(until).min(lines.len()) {
                let sign = if line == *at { ':' } else { '-' };
                let text = lines.get(line).map(|line| shown(line)).unwrap_or_default();
                out.extend_from_slice(
                    format!("{}{sign}{}\n", line + 1, text.trim_end_matches(['\n', '\r']))
                        .as_bytes(),
                );
                next = line + 1;
            }
        }
        let mut what = format!("{} matching lines of {}", matches.len(), lines.len());
        if matches.len() > MOST_MATCHES {
            what.push_str(&format!(", the first {MOST_MATCHES} shown"));
        }
        if searched < text.len() {
            what.push_str(&format!(
                "; only the first {searched} bytes were searched, read on from line {}",
                lines.len()
            ));
        }
        (out, what)
    }

    /// The values that match, each with its path; and how many there are.
    #[must_use]
    pub fn in_json(&self, records: &Records<'_>) -> (Vec<u8>, usize) {
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
        out.extend_from_slice(format!("],\"count\":{}}}", search.count).as_bytes());
        (out, search.count)
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
    fn visit(&mut self, id: Id) {
        let outline = self.outline;
        let Some(node) = outline.node(id) else { return };
        if self.bytes > MOST_BYTES {
            return;
        }
        if node.children > 0 && !node.closed {
            for (at, (child, member)) in outline.children(id).enumerate() {
                let step = if node.kind == Kind::Object {
                    outline.decoded(&member.key).replace('~', "~0").replace('/', "~1")
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
        if !self.pattern.0.is_match(&value) {
            return;
        }
        self.count += 1;
        if self.count > MOST_MATCHES {
            return;
        }
        if self.count > 1 {
            self.out.push(b',');
        }
        let short = shown(value.as_bytes());
        self.out.extend_from_slice(b"{\"path\":");
        self.out.extend(quoted(&self.path));
        self.out.extend_from_slice(b",\"value\":");
        self.out.extend(quoted(&short));
        self.out.push(b'}');
    }
}

/// A line, or the beginning of a long one.
fn shown(line: &[u8]) -> String {
    let end = boundary(line, MOST_LINE, Form::Raw);
    let text = String::from_utf8_lossy(line.get(..end).unwrap_or(line)).into_owned();
    if end < line.len() { format!("{text}{}", mark(line.len() - end, "characters")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Limits;

    #[test]
    fn lines_come_with_their_numbers_and_neighbours() {
        let text = b"one\ntwo\nERROR three\nfour\nfive\nsix\nERROR seven\n";
        let grep = |context| {
            let (bytes, what) = Pattern::new("ERR.R").unwrap().in_text(text, context);
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
    fn values_come_with_their_paths() {
        let json = br#"{"rows":[{"a/b":"x1"},{"c":["y","x2"]}]}"#;
        let records = Records::of(json, &Limits::default()).unwrap();
        let (bytes, count) = Pattern::new("^x").unwrap().in_json(&records);
        assert_eq!(
            (String::from_utf8(bytes).unwrap().as_str(), count),
            (
                r#"{"matches":[{"path":"/rows/0/a~1b","value":"x1"},{"path":"/rows/1/c/1","value":"x2"}],"count":2}"#,
                2
            )
        );
    }

    #[test]
    fn patterns_that_cannot_be_are_refused() {
        assert!(
            Pattern::new("(").is_err()
                && Pattern::new("").is_err()
                && Pattern::new("(a{1000}){1000}").is_err()
        );
    }
}
