//! Key facts of an answer: ids, names and titles of records, and errors and warnings of a log.

use std::collections::BTreeSet;

use context_guard_core::json::text::Form;
use context_guard_core::text::kind::Kind;
use context_guard_core::text::lines::IndexedText;
use context_guard_core::text::severity::Severity;

/// The limits of the metric, printed with it.
pub(crate) const NOTE: &str = "Key facts are the values of fields that identify a record (`id`, `name`, `title`, `path` and so on), and the errors and warnings of logs. \
    They are not an independent measure: context-guard's heuristic is coded to keep the same field names, and shrinkfit is not. \
    The columns show regressions of context-guard, and not which of the two is better at keeping what a model needs.";
/// The maximum length of a value or line that counts, in characters.
const MAX_CHARS: usize = 80;

/// The number of bytes at the start of a line whose numbers do not count: its time.
const MAX_TIME_BYTES: usize = 32;

/// The key facts of a payload.
pub(crate) enum KeyFacts {
    /// Members of records, as minified JSON.
    Members(Vec<String>),
    /// Lines, without the digits of their times.
    LineSpans(Vec<String>),
}

impl KeyFacts {
    /// Finds the key facts of a payload.
    pub(crate) fn find(text: &str) -> Self {
        if let Some(members) = context_guard::key_facts::members(text) {
            return KeyFacts::Members(members);
        }
        let (kind, format) =
            Kind::detect_with_format(&IndexedText::new(text.as_bytes(), Form::Raw));
        if kind != Kind::Log {
            return KeyFacts::LineSpans(Vec::new());
        }
        let severe =
            text.lines().filter(|line| format.read(line.as_bytes()).severity != Severity::Other);
        KeyFacts::LineSpans(severe.map(normal).collect())
    }

    /// Returns the number of key facts.
    pub(crate) fn len(&self) -> usize {
        match self {
            KeyFacts::Members(facts) | KeyFacts::LineSpans(facts) => facts.len(),
        }
    }

    /// Returns the number of key facts that a text contains.
    pub(crate) fn recalled_by(&self, text: &str) -> usize {
        match self {
            KeyFacts::Members(members) => {
                members.iter().filter(|member| text.contains(member.as_str())).count()
            }
            KeyFacts::LineSpans(lines) => {
                let shown: BTreeSet<String> =
                    text.lines().map(|line| normal(without_number(line))).collect();
                lines.iter().filter(|line| shown.contains(*line)).count()
            }
        }
    }
}

/// Removes the line number that excerpts print: `812: text`.
fn without_number(line: &str) -> &str {
    match line.split_once(": ") {
        Some((number, rest))
            if number.bytes().all(|byte| byte.is_ascii_digit()) && !number.is_empty() =>
        {
            rest
        }
        _ => line,
    }
}

/// Returns the beginning of a line without the digits of its time, which folded entries share.
fn normal(line: &str) -> String {
    let line = line.trim().split(" (x").next().unwrap_or_default();
    let is_shared = |(at, char): &(usize, char)| *at >= MAX_TIME_BYTES || !char.is_ascii_digit();
    let shared = line.char_indices().filter(is_shared).map(|(_, char)| char);
    shared.take(MAX_CHARS).collect()
}
