//! HTML and XML in short, beside the first lines of the source: the text of a page, or the elements
//! of a document with what failed first.

use crate::text::element_text::elements;
use crate::text::page_text::page_text;
use crate::tokens::Estimator;

/// The number of first bytes in which HTML is recognized.
const SAMPLE_BYTES: usize = 4_096;
/// The share of the tokens, in tenths, that failures may take.
const FAILURE_TENTHS: u64 = 6;
/// The share of the tokens, in tenths, that is for the headings after the shown text of a page.
const HEADING_TENTHS: u64 = 2;

/// A document in short.
pub(super) struct Readable {
    /// The heading of the lines, which says what they are.
    heading: String,
    /// The failures that the document reports, each with the number of its line.
    failures: Vec<String>,
    lines: Vec<Line>,
}

struct Line {
    text: String,
    /// True if the line is a heading of the page, with the number of its line in the source.
    is_heading: bool,
}

impl Readable {
    /// Reads an HTML page or XML document. `None` if it has no text. O(n).
    pub(super) fn new(source: &str) -> Option<Self> {
        let readable = if is_html(source) { Self::page(source) } else { Self::document(source) };
        (!readable.lines.is_empty()).then_some(readable)
    }

    fn page(source: &str) -> Self {
        let mut numbers = LineNumbers::new(source);
        let lines = page_text(source).into_iter().map(|block| {
            let number = numbers.number_at(block.offset).filter(|_| block.heading > 0);
            let number = number.map_or(String::new(), |number| format!(" (line {number})"));
            Line { text: format!("{}{number}", block.text), is_heading: block.heading > 0 }
        });
        let lines = lines.collect();
        Self { heading: "The text of the page:".to_owned(), failures: Vec::new(), lines }
    }

    fn document(source: &str) -> Self {
        let found = elements(source);
        let mut numbers = LineNumbers::new(source);
        let failures = found.all.iter().filter(|element| element.is_failure).map(|element| {
            let number = numbers.number_at(element.offset);
            number.map_or(element.text.clone(), |number| format!("{number}: {}", element.text))
        });
        let failures = failures.collect();
        let kinds: Vec<String> =
            found.kinds.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let line = |element: &crate::text::element_text::Element| Line {
            text: element.line(),
            is_heading: false,
        };
        let heading = format!("The elements without their end tags ({}):", kinds.join(", "));
        Self { heading, failures, lines: found.all.iter().map(line).collect() }
    }

    /// Returns the number of tokens that all of the document costs, at most `token_limit`.
    pub(super) fn wanted_tokens(&self, estimator: &Estimator, token_limit: u64) -> u64 {
        let mut tokens = 40;
        let texts = self.failures.iter().chain(self.lines.iter().map(|line| &line.text));
        for text in texts {
            tokens += estimator.cost(text.as_bytes()) + 1;
            if tokens >= token_limit {
                return token_limit;
            }
        }
        tokens
    }

    /// Returns as much of the document as `token_limit` allows. `None` if nothing fits.
    pub(super) fn excerpt(&self, estimator: &Estimator, token_limit: u64) -> Option<String> {
        let cost = |text: &str| estimator.cost(text.as_bytes()) + 1;
        let mut room = token_limit.checked_sub(cost(&self.heading) + 24)?;
        let mut out = String::new();
        let mut shown = 0;
        let mut for_failures = room * FAILURE_TENTHS / 10;
        for failure in &self.failures {
            let cost = cost(failure);
            if cost > for_failures {
                break;
            }
            (for_failures, room, shown) = (for_failures - cost, room - cost, shown + 1);
            out.push_str(failure);
            out.push('\n');
        }
        if !self.failures.is_empty() {
            let hidden = self.failures.len() - shown;
            let hidden = if hidden > 0 { format!(", {hidden} not shown") } else { String::new() };
            out = format!("failures and errors ({}{hidden}):\n{out}", self.failures.len());
        }
        out.push_str(&self.heading);
        // A document may be much longer than what fits, so that not all of it is priced.
        let at_most = |lines: &mut dyn Iterator<Item = &Line>, limit: u64| {
            let mut sum = 0;
            while sum <= limit
                && let Some(line) = lines.next()
            {
                sum += cost(&line.text);
            }
            sum.min(limit + 1)
        };
        let fits = at_most(&mut self.lines.iter(), room) <= room;
        // Headings that do not fit the rest say what else there is.
        let for_headings = room * HEADING_TENTHS / 10;
        let mut headings = self.lines.iter().filter(|line| line.is_heading);
        let reserved = at_most(&mut headings, for_headings).min(for_headings);
        let mut for_text = if fits { room } else { room - reserved };
        let mut lines = self.lines.iter();
        let mut rest = Vec::new();
        for line in lines.by_ref() {
            let cost = cost(&line.text);
            if cost > for_text {
                rest.push(line);
                break;
            }
            (for_text, room) = (for_text - cost, room - cost);
            out.push('\n');
            out.push_str(&line.text);
        }
        rest.extend(lines);
        if !rest.is_empty() {
            out.push_str(&format!("\n({} more of these lines)", rest.len()));
        }
        for line in rest.iter().filter(|line| line.is_heading) {
            let cost = cost(&line.text);
            if cost > room {
                break;
            }
            room -= cost;
            out.push('\n');
            out.push_str(&line.text);
        }
        (rest.len() < self.lines.len() || shown > 0).then_some(out)
    }
}

/// Returns true if a document is HTML, not XML.
fn is_html(source: &str) -> bool {
    let end = source.char_indices().map(|(at, _)| at).nth(SAMPLE_BYTES).unwrap_or(source.len());
    let head = source.get(..end).unwrap_or(source).to_ascii_lowercase();
    let has = |tag: &str| head.contains(tag);
    let tags = ["<body", "<div", "<p>", "<p ", "<h1", "<h2", "<span", "<ul", "<table", "<main"];
    has("<html") || has("<!doctype html") || !has("<?xml") && tags.into_iter().any(has)
}

/// The numbers of the lines of a text, by increasing offset.
struct LineNumbers<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
    is_single: bool,
}

impl<'t> LineNumbers<'t> {
    fn new(text: &'t str) -> Self {
        let text = text.as_bytes();
        Self { text, at: 0, line: 1, is_single: memchr::memchr(b'\n', text).is_none() }
    }

    /// Returns the number of the line that contains `offset`, which must not decrease. `None` if
    /// the text has one line.
    fn number_at(&mut self, offset: usize) -> Option<usize> {
        let passed = self.text.get(self.at..offset).unwrap_or_default();
        self.line += memchr::memchr_iter(b'\n', passed).count();
        self.at = self.at.max(offset);
        (!self.is_single).then_some(self.line)
    }
}
