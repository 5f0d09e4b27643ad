//! Converts XML documents to compact lines: reported failures first, then each element with its
//! attributes and text, without end tags.

use std::collections::BTreeMap;

use super::markup::{Piece, Pieces, attributes, plain_text};
use super::shorten::truncation_mark;

/// Names of elements that report failures.
const FAILURES: &[&str] = &[
    "failure",
    "error",
    "failed",
    "errorinfo",
    "rerunfailure",
    "rerunerror",
    "flakyfailure",
    "flakyerror",
    "exception",
    "fatal",
    "problem",
    "violation",
    "bug",
    "fault",
];
/// Attributes with the severity or the outcome of an element.
const STATES: &[&str] = &[
    "outcome",
    "status",
    "result",
    "severity",
    "level",
    "state",
    "success",
    "passed",
    "conclusion",
];
/// Values of [`STATES`] attributes that report a failure.
const FAILED: &[&str] = &[
    "failed",
    "failure",
    "fail",
    "error",
    "errored",
    "fatal",
    "critical",
    "high",
    "blocker",
    "broken",
    "timeout",
    "aborted",
    "rejected",
    "unhealthy",
];
/// Attributes that identify an element.
const NAMES: &[&str] = &[
    "name",
    "testname",
    "classname",
    "class",
    "id",
    "file",
    "path",
    "filename",
    "title",
    "key",
    "uri",
    "line",
];
/// The maximum length of an attribute's value, in characters.
const MAX_VALUE_CHARS: usize = 160;
/// The maximum length of an element's text, in characters.
const MAX_TEXT_CHARS: usize = 400;
/// The maximum length of the attributes that identify an element, in characters. They are repeated
/// in each failure inside the element.
const MAX_IDENTITY_CHARS: usize = 200;
/// The maximum length, in bytes, of an element that is written on the line of its parent.
const MAX_LEAF_BYTES: usize = 100;
/// The maximum depth to which elements are indented.
const MAX_INDENT: usize = 12;
/// The maximum number of elements that are read.
const MAX_ELEMENTS: usize = 200_000;
/// The maximum depth of open elements.
const MAX_DEPTH: usize = 256;
/// The maximum number of element names that are counted.
const MAX_KINDS: usize = 10;

/// An element of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The byte offset of the element.
    pub offset: usize,
    /// The number of elements that contain this one.
    pub depth: usize,
    /// True if the element reports a failure.
    pub is_failure: bool,
    /// The name, attributes and text, without indentation. The text of a failure begins with its
    /// parent element.
    pub text: String,
}

/// The elements of a document in order, with the number of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// The elements in document order, at most 200,000.
    pub all: Vec<Element>,
    /// The most frequent names, each with the number of elements.
    pub kinds: Vec<(String, usize)>,
}

impl Element {
    /// Returns the element as a line, indented by its depth.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{}{}", " ".repeat(self.depth.min(MAX_INDENT)), self.text)
    }
}

/// Returns the elements of an XML document. Accepts any text. O(n).
#[must_use]
pub fn elements(document: &str) -> Elements {
    let (mut all, mut kinds): (Vec<Element>, BTreeMap<&str, usize>) = (Vec::new(), BTreeMap::new());
    // The open elements, each with its index in `all` and its identifying attributes.
    let mut open: Vec<(&str, usize, String)> = Vec::new();
    for (offset, piece) in Pieces::new(document) {
        match piece {
            Piece::Open { name, attributes, closed } => {
                *kinds.entry(name).or_default() += 1;
                if all.len() >= MAX_ELEMENTS {
                    break;
                }
                let is_failure = is_failure(name, attributes);
                let text = describe(name, attributes, |_| true);
                let around = open.iter().rev().find(|(.., identity)| !identity.is_empty());
                let text = match around.filter(|_| is_failure) {
                    Some((.., identity)) => format!("{identity} > {text}"),
                    None => text,
                };
                all.push(Element { offset, depth: open.len(), is_failure, text });
                if !closed && open.len() < MAX_DEPTH {
                    open.push((name, all.len() - 1, identity(name, attributes)));
                }
            }
            Piece::Close { name } => {
                // A tag that closes nothing is ignored, one that was forgotten is closed.
                if let Some(at) = open.iter().rposition(|(known, ..)| *known == name) {
                    open.truncate(at);
                }
            }
            Piece::Text(text) => {
                let text = plain_text(text);
                let element = open.last().and_then(|(_, at, _)| all.get_mut(*at));
                if let Some(element) = element.filter(|_| !text.is_empty()) {
                    element.text.push_str(if element.text.contains(": ") { " " } else { ": " });
                    element.text.push_str(&shortened(&text, MAX_TEXT_CHARS));
                }
            }
        }
    }
    // The text of a failure may be in an element inside it.
    for at in (1..all.len()).rev() {
        let (before, after) = all.split_at_mut(at);
        let (Some(outer), Some(inner)) = (before.last_mut(), after.first()) else { continue };
        if outer.is_failure && inner.depth > outer.depth && !outer.text.contains(": ") {
            outer.text.push_str(": ");
            // An element may contain several failures, each in the one before.
            outer.text.push_str(&shortened(&inner.text, MAX_TEXT_CHARS));
        }
    }
    let all = with_joined_leaves(all);
    let mut kinds: Vec<(String, usize)> =
        kinds.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    kinds.truncate(MAX_KINDS);
    Elements { all, kinds }
}

/// Joins short elements without children to their parent's line. Adjacent elements of the same name
/// are records, and remain separate.
fn with_joined_leaves(all: Vec<Element>) -> Vec<Element> {
    let mut out: Vec<Element> = Vec::with_capacity(all.len());
    let mut elements = all.into_iter().peekable();
    while let Some(element) = elements.next() {
        let name = |element: &Element| {
            let end = element.text.find([' ', ':']).unwrap_or(element.text.len());
            element.text.get(..end).unwrap_or_default().to_owned()
        };
        let next = elements.peek();
        let is_leaf = next.is_none_or(|next| next.depth <= element.depth);
        let is_record = next.is_some_and(|next| name(next) == name(&element))
            || out
                .last()
                .is_some_and(|last| last.depth == element.depth && name(last) == name(&element));
        let is_short = element.text.len() <= MAX_LEAF_BYTES && !element.is_failure;
        let outer = out.last_mut().filter(|outer| {
            outer.depth + 1 == element.depth
                && !outer.is_failure
                && outer.text.len() <= MAX_TEXT_CHARS
        });
        match outer.filter(|_| is_leaf && is_short && !is_record) {
            Some(outer) => {
                outer.text.push_str(" | ");
                outer.text.push_str(&element.text);
            }
            None => out.push(element),
        }
    }
    out
}

/// Returns the name of an element, and those of its attributes for which `wanted` returns true.
fn describe(name: &str, text: &str, wanted: impl Fn(&str) -> bool) -> String {
    let mut out = name.to_owned();
    for (attribute, value) in attributes(text) {
        // Names of schemas say nothing about the content.
        let is_schema = attribute.starts_with("xmlns") || attribute.starts_with("xsi:");
        if !is_schema && wanted(attribute) && !value.is_empty() {
            out.push_str(&format!(
                " {attribute}={}",
                shortened(&plain_text(value), MAX_VALUE_CHARS)
            ));
        }
    }
    out
}

/// Returns the attributes that identify an element. Empty if it has none.
fn identity(name: &str, text: &str) -> String {
    let found = describe(name, text, |attribute| is_one(NAMES, attribute));
    if found.len() > name.len() { shortened(&found, MAX_IDENTITY_CHARS) } else { String::new() }
}

fn is_failure(name: &str, text: &str) -> bool {
    let local = name.rsplit(':').next().unwrap_or(name);
    if is_one(FAILURES, local) {
        // A severity decides, where there is one: `<error severity="info">`.
        let severity =
            attributes(text).find(|(attribute, _)| attribute.eq_ignore_ascii_case("severity"));
        return severity
            .is_none_or(|(_, value)| is_one(FAILED, value) || value.parse::<u32>().is_ok());
    }
    attributes(text).any(|(attribute, value)| {
        let is_false = value.eq_ignore_ascii_case("false")
            && (attribute.eq_ignore_ascii_case("success")
                || attribute.eq_ignore_ascii_case("passed"));
        is_false || is_one(STATES, attribute) && is_one(FAILED, value)
    })
}

fn is_one(known: &[&str], name: &str) -> bool {
    known.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => {
            let rest = text.chars().count() - most;
            format!("{}{}", text.get(..end).unwrap_or(text), truncation_mark(rest, "characters"))
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "<?xml version=\"1.0\"?>\n<testsuites tests=\"3\" failures=\"1\">\n\
        <testsuite name=\"Sums\" xmlns:x=\"urn:x\">\n<testcase name=\"adds\" time=\"0.1\"/>\n\
        <testcase name=\"divides\"><failure message=\"1 &lt; 2\"><![CDATA[at a.b(C:1)]]></failure></testcase>\n\
        <testcase name=\"waits\"><skipped/></testcase></testsuite></testsuites>";

    #[test]
    fn elements_have_attributes_and_text() {
        let found = elements(REPORT);
        let lines: Vec<String> = found.all.iter().map(Element::line).collect();
        assert_eq!(
            lines,
            [
                "testsuites tests=3 failures=1",
                " testsuite name=Sums",
                "  testcase name=adds time=0.1",
                "  testcase name=divides",
                "   testcase name=divides > failure message=1 < 2: at a.b(C:1)",
                "  testcase name=waits | skipped",
            ]
        );
        assert_eq!(found.kinds[0], ("testcase".to_owned(), 3));
        assert_eq!(found.all.iter().filter(|element| element.is_failure).count(), 1);
    }

    #[test]
    fn outcomes_and_severities_decide() {
        let text = "<r><t testName='a' outcome='Passed'/><t testName='b' outcome='Failed'><m>why</m></t>\
            <error severity='info' message='x'/><error severity='error' message='y'/></r>";
        let found = elements(text);
        let failures: Vec<&str> = found
            .all
            .iter()
            .filter(|found| found.is_failure)
            .map(|found| found.text.as_str())
            .collect();
        assert_eq!(
            failures,
            ["t testName=b outcome=Failed: m: why", "error severity=error message=y"]
        );
    }

    #[test]
    fn failures_repeat_a_bounded_text() {
        let name = " name='a'".repeat(5_000);
        let inside = format!("<r><s{name}>{}</s></r>", "<error/>".repeat(1_000));
        let nested = format!("{}<error{name}/>", "<error>".repeat(250));
        for document in [inside, nested] {
            let bytes: usize = elements(&document).all.iter().map(|found| found.text.len()).sum();
            assert!(bytes < 10 * document.len(), "{bytes} bytes of {}", document.len());
        }
    }

    #[test]
    fn unclosed_and_unknown_tags_are_accepted() {
        assert_eq!(elements("<a><b><c></a></d><e>").all.len(), 3);
        assert_eq!(elements("no tags").all.len(), 0);
    }
}
