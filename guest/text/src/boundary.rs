//! Ranks line boundaries by their suitability as the end of a chunk of text.

use std::borrow::Cow;

use context_guard_json::text::{self, Form};

use super::colours::without_colours;
use super::heading::is_heading;
use super::log_format::LogFormat;

/// The suitability of the boundary between two lines as the end of a chunk of text. Greater is
/// better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A boundary inside a log entry, a code fence or a stack trace.
    Inside,
    /// A boundary between any two lines.
    Line,
    /// A boundary after a sentence.
    Sentence,
    /// A boundary after a paragraph.
    Paragraph,
    /// A boundary before a log entry or a section.
    Entry,
}

/// The number of bytes at each end of a line that are examined to rank its boundary.
const LINE_SAMPLE_BYTES: usize = 96;
/// The number of bytes at the start of a line that are examined in a log, because prefixes of
/// containers and files are long.
const LOG_SAMPLE_BYTES: usize = 192;

/// Ranks the boundaries between lines of a text by their suitability for dividing the text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ranker {
    /// The format of the log. `None` if the text is not a log.
    log: Option<LogFormat>,
    in_fence: bool,
    previous: Previous,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Previous {
    #[default]
    Nothing,
    Blank,
    Sentence,
    /// A heading, or a blank line after one. The following lines belong to it.
    Heading,
    Other,
}

impl Ranker {
    /// Creates a ranker for a text whose leading lines are `sample`, from which logs are detected.
    #[must_use]
    pub fn new<'a>(sample: impl Iterator<Item = &'a [u8]>, form: Form) -> Self {
        let lines: Vec<_> = sample.take(120).map(|line| log_head(line, form)).collect();
        let format = LogFormat::learn(&lines);
        Self { log: Some(format).filter(LogFormat::is_log), ..Self::default() }
    }

    /// Returns the rank of the boundary between the adjacent lines `before` and `line`, anywhere in
    /// the text. Does not detect code fences, for which earlier lines are needed.
    #[must_use]
    pub fn between(&self, before: &[u8], line: &[u8], form: Form) -> Rank {
        if let Some(format) = &self.log {
            return in_log(format, line, form);
        }
        let mut here = Self::default();
        here.before(before, form);
        // A fence line may open or close a fence: a single line does not tell which.
        here.in_fence = false;
        here.before(line, form)
    }

    /// Returns the rank of the boundary before `line`. Must be called for all lines of the text in
    /// order.
    pub fn before(&mut self, line: &[u8], form: Form) -> Rank {
        let head = text::prefix(line, LINE_SAMPLE_BYTES, form);
        let tail_from = text::boundary(line, line.len().saturating_sub(LINE_SAMPLE_BYTES), form);
        let tail = text::visible(line.get(tail_from..).unwrap_or_default(), form);
        let fence = head.trim_ascii_start().starts_with(b"```")
            || head.trim_ascii_start().starts_with(b"~~~");
        let is_heading = self.log.is_none() && !self.in_fence && is_heading(&head);
        let rank = if self.previous == Previous::Nothing {
            Rank::Entry
        } else if let Some(format) = &self.log {
            in_log(format, line, form)
        } else if self.in_fence {
            Rank::Inside
        } else if is_heading && self.previous != Previous::Heading {
            Rank::Entry
        } else {
            match self.previous {
                Previous::Blank => Rank::Paragraph,
                Previous::Sentence => Rank::Sentence,
                _ => Rank::Line,
            }
        };
        self.in_fence ^= fence && self.log.is_none();
        self.previous = match tail.trim_ascii_end() {
            _ if is_heading => Previous::Heading,
            [] if self.previous == Previous::Heading => Previous::Heading,
            [] => Previous::Blank,
            [.., b'.' | b'!' | b'?' | b':' | b';']
            | [.., b'.' | b'!' | b'?', b'"' | b'\'' | b')'] => Previous::Sentence,
            end if end.ends_with("。".as_bytes())
                || end.ends_with("！".as_bytes())
                || end.ends_with("？".as_bytes()) =>
            {
                Previous::Sentence
            }
            _ => Previous::Other,
        };
        rank
    }
}

/// Returns the rank of the boundary before a line of a log.
fn in_log(format: &LogFormat, line: &[u8], form: Form) -> Rank {
    if format.begins_entry(&log_head(line, form)) { Rank::Entry } else { Rank::Inside }
}

/// Decodes the beginning of a line of a log, without ANSI escape sequences.
fn log_head(line: &[u8], form: Form) -> Cow<'_, [u8]> {
    without_colours(text::prefix(line, LOG_SAMPLE_BYTES, form))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(text: &str) -> Vec<Rank> {
        let mut ranker = Ranker::new(text.split_inclusive('\n').map(str::as_bytes), Form::Raw);
        text.split_inclusive('\n').map(|line| ranker.before(line.as_bytes(), Form::Raw)).collect()
    }

    #[test]
    fn stack_trace_belongs_to_its_entry() {
        use Rank::{Entry, Inside};
        let log = "2026-01-02 10:00:00 INFO ok\n2026-01-02 10:00:01 ERROR failed\nTraceback:\n  at a.b\nCaused by: x\n2026-01-02 10:00:02 INFO ok\n";
        assert_eq!(ranks(log), [Entry, Entry, Inside, Inside, Inside, Entry]);
    }

    #[test]
    fn markdown_ends_before_sections_and_not_inside_code() {
        use Rank::{Entry, Inside, Line, Paragraph, Sentence};
        let document = "# One\nA line\nends.\nNext\n\n```rust\n# not a heading\n\n```\n\n## Two\n";
        assert_eq!(
            ranks(document),
            [Entry, Line, Line, Sentence, Line, Paragraph, Inside, Inside, Inside, Line, Entry]
        );
    }

    #[test]
    fn heading_stays_with_its_section() {
        use Rank::{Entry, Line, Paragraph};
        let document = "Text\n\n## Two.\n\n### Three\nMore\n\nEnd\n";
        let expected = [Entry, Line, Entry, Line, Line, Line, Line, Paragraph];
        assert_eq!(ranks(document), expected);
    }

    #[test]
    fn few_dates_are_no_log() {
        let prose = "2026-01-02 was a day\nthat went\non and on\nand on.\nThen it\nended\nlate\n";
        assert!(ranks(prose).iter().skip(1).all(|rank| *rank != Rank::Inside));
    }
}
