//! Excerpts of long texts inside JSON documents, such as the output of a command: the beginning,
//! the errors, the outline and the end.

use crate::json::outline::Outline;
use crate::json::scan::Kind;
use crate::json::text::Form;
use crate::shape::binary::describe_base64;
use crate::shape::highlight::Highlights;
use crate::text::colours::without_colours;
use crate::text::lines::IndexedText;
use crate::text::shorten::{shorten, truncation_mark};
use crate::tokens::{Estimator, OriginalCost};

/// The minimum number of bytes of a long text.
const MIN_BYTES: usize = 2_000;
/// The minimum share of its document that a long text makes up, as a divisor.
const MIN_SHARE: usize = 8;
/// The minimum number of lines of a text for an excerpt of whole lines.
const MIN_LINES: usize = 4;
/// The maximum size, in bytes, of a text that is priced whole. Larger texts are priced by samples.
const MAX_EXACT_BYTES: usize = 1 << 20;
/// The cost of the mark for omitted lines, in tokens.
const MARK_TOKENS: u64 = 12;

/// A string that makes up a large part of a document.
pub struct LongString {
    /// The byte offset of its first character in the document.
    start: usize,
    /// The JSON Pointer to the string.
    path: String,
    text: String,
}

impl LongString {
    /// Returns the long strings of a document that are texts, decoded. O(n).
    #[must_use]
    pub fn find(outline: &Outline<'_>) -> Vec<Self> {
        let least = (outline.bytes().len() / MIN_SHARE).max(MIN_BYTES);
        let mut found = Vec::new();
        Self::add(outline, 0, "", least, &mut found);
        found
    }

    fn add(outline: &Outline<'_>, id: usize, path: &str, least: usize, found: &mut Vec<Self>) {
        let Some(parent) = outline.node(id) else { return };
        for (at, (child, node)) in outline.children(id).enumerate() {
            if node.span.len() < least {
                continue;
            }
            let step = match parent.kind {
                Kind::Object => outline.step(&node.key),
                _ => at.to_string(),
            };
            let path = format!("{path}/{step}");
            if node.kind == Kind::String {
                let text = outline.decoded(&node.span);
                if describe_base64(text.as_bytes()).is_none() {
                    found.push(Self { start: node.span.start, path, text });
                }
            } else if node.children > 0 {
                Self::add(outline, child, &path, least, found);
            }
        }
    }

    /// Returns the text, divided into lines.
    #[must_use]
    pub fn lined(&self) -> IndexedText<'_> {
        IndexedText::new(self.text.as_bytes(), Form::Raw)
    }
}

/// Returns the cost of a text in tokens, which is estimated from samples if the text is very long.
fn cost(text: &[u8], estimator: &Estimator) -> u64 {
    match text.len() > MAX_EXACT_BYTES {
        true => OriginalCost::estimate(estimator, text, Form::Raw).cost,
        false => estimator.cost(text),
    }
}

/// A long text, with its important lines for excerpts.
pub struct LongText<'t> {
    string: &'t LongString,
    lines: &'t IndexedText<'t>,
    highlights: Highlights<'t>,
    /// The length of the text in characters.
    characters: usize,
    /// The cost of the text, in tokens.
    cost: u64,
}

impl<'t> LongText<'t> {
    /// Creates the long text for a string and its lines. O(n).
    #[must_use]
    pub fn new(string: &'t LongString, lines: &'t IndexedText<'t>, estimator: &Estimator) -> Self {
        Self {
            string,
            lines,
            highlights: Highlights::new(lines),
            characters: string.text.chars().count(),
            cost: cost(string.text.as_bytes(), estimator),
        }
    }

    /// Returns the whole text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.string.text
    }

    /// Returns true if this is the string that starts at byte offset `start` of the document.
    #[must_use]
    pub fn starts_at(&self, start: usize) -> bool {
        self.string.start == start
    }

    /// Returns the JSON Pointer to the string in the document.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.string.path
    }

    /// Returns an excerpt that costs about as much as `max_chars` characters of the text: its first
    /// lines, then its errors, its outline and its end. A text of few lines is shortened between
    /// words.
    #[must_use]
    pub fn excerpt(&self, max_chars: usize, estimator: &Estimator) -> String {
        let text = &self.string.text;
        let share = u128::from(self.cost) * max_chars as u128 / self.characters.max(1) as u128;
        let token_limit = u64::try_from(share).unwrap_or(u64::MAX).saturating_sub(MARK_TOKENS);
        if self.lines.len() < MIN_LINES {
            let tail = self.highlights.tail(estimator, token_limit / 4).unwrap_or_default();
            let head = shorten(text, max_chars.saturating_sub(tail.chars().count()), &[]);
            return if tail.is_empty() { head } else { format!("{head}\n{tail}") };
        }
        let wanted = self.highlights.wanted_tokens(1, estimator, token_limit);
        let mut room = token_limit.saturating_sub(wanted);
        let mut head = String::new();
        let mut shown = 0;
        for line in self.lines.lines().map(without_colours) {
            let cost = estimator.cost(&line) + 1;
            if cost > room {
                break;
            }
            head.push_str(&String::from_utf8_lossy(&line));
            head.push('\n');
            room -= cost;
            shown += 1;
        }
        if shown == self.lines.len() {
            return head;
        }
        let errors = self.highlights.errors_after(shown);
        let rest = self.highlights.excerpt(shown, &errors, estimator, wanted + room);
        let mark = truncation_mark(self.lines.len() - shown, "lines");
        format!("{head}{mark}\n{}", rest.unwrap_or_default())
    }
}
