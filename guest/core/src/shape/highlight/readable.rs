//! The readable content of HTML, XML and accessibility snapshots, shown after the first lines of
//! the source: the text of a page, or the elements of a document with the reported failures.

use std::borrow::Cow;

use super::shortened;
use crate::text::element_text::elements;
use crate::text::page_snapshot::snapshot_lines;
use crate::text::page_text::page_text;
use crate::tokens::Estimator;

/// The number of leading characters that are searched for signs of HTML.
const SAMPLE_BYTES: usize = 4_096;
/// The share of the tokens, in tenths, that failures may take.
const FAILURE_TENTHS: u64 = 6;
/// The share of the tokens, in tenths, for headings after the shown text of a page.
const HEADING_TENTHS: u64 = 2;

/// The share of the tokens, in tenths, for content outside the main content, if not all fits.
const ASIDE_TENTHS: u64 = 3;
/// The share of the tokens for one block of text, as a divisor, if not all fits.
const LONGEST_SHARE: u64 = 8;
/// The cost of a truncation mark, in tokens.
const MARK_TOKENS: u64 = 10;

/// The readable content of a document.
pub(super) struct Readable {
    /// The heading above the lines, which describes them.
    heading: String,
    /// The failures that the document reports, each with its line number in the source.
    failures: Vec<String>,
    lines: Vec<Line>,
}

struct Line {
    text: String,
    /// True if the line is a heading of the page. It then has its line number in the source.
    is_heading: bool,
    /// True if the line is outside the main content, such as a menu.
    is_aside: bool,
}

impl Readable {
    /// Reads an HTML page or XML document. `None` if it has no text. O(n).
    pub(super) fn new(source: &str) -> Option<Self> {
        let readable = if is_html(source) { Self::page(source) } else { Self::document(source) };
        (!readable.lines.is_empty()).then_some(readable)
    }

    /// Reads the accessibility snapshot of a page. `None` if the text is not one. O(n).
    pub(super) fn snapshot(source: &str) -> Option<Self> {
        let mut numbers = LineNumbers::new(source);
        let lines = snapshot_lines(source)?.into_iter().map(|line| {
            let number = numbers.number_at(line.offset).filter(|_| line.is_outline);
            let number = number.map_or(String::new(), |number| format!(" (line {number})"));
            Line {
                text: format!("{}{number}", line.text),
                is_heading: line.is_outline,
                is_aside: line.is_aside,
            }
        });
        let heading = "The page in short, without containers and addresses; [name](ref) is a link:";
        Some(Self { heading: heading.to_owned(), failures: Vec::new(), lines: lines.collect() })
    }

    fn page(source: &str) -> Self {
        let mut numbers = LineNumbers::new(source);
        let lines = page_text(source).into_iter().map(|block| {
            let number = numbers.number_at(block.offset).filter(|_| block.heading > 0);
            let number = number.map_or(String::new(), |number| format!(" (line {number})"));
            Line {
                text: format!("{}{number}", block.text),
                is_heading: block.heading > 0,
                is_aside: false,
            }
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
            is_aside: false,
        };
        let heading = format!("The elements without their end tags ({}):", kinds.join(", "));
        Self { heading, failures, lines: found.all.iter().map(line).collect() }
    }

    /// Returns the number of tokens for all of the content, at most `token_limit`.
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

    /// Returns as much of the content as `token_limit` allows. `None` if nothing fits.
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
        // One long block, such as an example, must not displace all that follows it.
        let least_cap = room / LONGEST_SHARE;
        // A document may be much longer than what fits, so that not all of it is priced.
        let mut least = 0;
        let costs = self.lines.iter().map_while(|line| {
            let cost = (least <= room).then(|| cost(&line.text))?;
            least += cost.min(least_cap);
            Some(cost)
        });
        let costs: Vec<u64> = costs.collect();
        let fits = costs.len() == self.lines.len() && least <= room;
        // A shortened block may cost a little more than planned.
        let cap = if fits { largest_cap(&costs, least_cap, room - room / 16) } else { least_cap };
        // Headings that do not fit the rest say what else there is.
        let for_headings = if fits { 0 } else { room * HEADING_TENTHS / 10 };
        let reserve = |lines: &[&Line]| {
            let headings = lines.iter().filter(|line| line.is_heading);
            let mut sum = 0;
            for heading in headings {
                sum += cost(&heading.text);
                if sum >= for_headings {
                    break;
                }
            }
            sum.min(for_headings)
        };
        let all: Vec<&Line> = self.lines.iter().collect();
        let for_asides = if fits { room } else { room * ASIDE_TENTHS / 10 };
        let select = |reserved: u64| {
            let (mut for_text, mut for_asides) = (room - reserved, for_asides);
            let (mut shown, mut rest) = (Vec::new(), Vec::new());
            let mut lines = self.lines.iter();
            for line in lines.by_ref() {
                let text = with_cost(&line.text, cost(&line.text), cap);
                let cost = cost(&text);
                if line.is_aside && cost > for_asides {
                    rest.push(line);
                    continue;
                }
                if cost > for_text {
                    rest.push(line);
                    break;
                }
                for_text -= cost;
                for_asides -= if line.is_aside { cost } else { 0 };
                shown.push(text);
            }
            rest.extend(lines);
            (shown, rest, room - reserved - for_text)
        };
        // The first selection tells which headings need room.
        let first = reserve(&all);
        let (_, rest, _) = select(first);
        let (texts, rest, spent) = select(reserve(&rest).min(first));
        room -= spent;
        for text in texts {
            out.push('\n');
            out.push_str(&text);
        }
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

/// Returns the largest maximum cost per line with which lines of these `costs` cost at most `room`
/// together. `least` is a maximum with which they certainly do.
fn largest_cap(costs: &[u64], least: u64, room: u64) -> u64 {
    let fits = |cap: u64| costs.iter().map(|cost| (*cost).min(cap)).sum::<u64>() <= room;
    let (mut cap, mut too_large) = (least, room + 1);
    while cap + 1 < too_large {
        let middle = u64::midpoint(cap, too_large);
        if fits(middle) { cap = middle } else { too_large = middle }
    }
    cap
}

/// Returns a text that costs `cost` tokens, shortened to about `limit` tokens if it costs more.
fn with_cost(text: &str, cost: u64, limit: u64) -> Cow<'_, str> {
    let Some(limit) = limit.checked_sub(MARK_TOKENS).filter(|limit| limit + MARK_TOKENS < cost)
    else {
        return Cow::Borrowed(text);
    };
    let bytes = u128::from(limit) * text.len() as u128 / u128::from(cost.max(1));
    Cow::Owned(shortened(text.as_bytes(), usize::try_from(bytes).unwrap_or(usize::MAX)))
}

/// Returns true if a document is HTML, not XML.
fn is_html(source: &str) -> bool {
    let end = source.char_indices().map(|(at, _)| at).nth(SAMPLE_BYTES).unwrap_or(source.len());
    let head = source.get(..end).unwrap_or(source).to_ascii_lowercase();
    let has = |tag: &str| head.contains(tag);
    let tags = ["<body", "<div", "<p>", "<p ", "<h1", "<h2", "<span", "<ul", "<table", "<main"];
    has("<html") || has("<!doctype html") || !has("<?xml") && tags.into_iter().any(has)
}

/// Finds the line numbers of ascending byte offsets in a text.
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

    /// Returns the number of the line that contains the byte `offset`, which must not decrease
    /// between calls. `None` if the text has one line.
    fn number_at(&mut self, offset: usize) -> Option<usize> {
        let passed = self.text.get(self.at..offset).unwrap_or_default();
        self.line += memchr::memchr_iter(b'\n', passed).count();
        self.at = self.at.max(offset);
        (!self.is_single).then_some(self.line)
    }
}
