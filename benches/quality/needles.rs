//! What a reader looks for in an answer: ids, names and titles of its records, errors and warnings of a log.

use std::collections::BTreeSet;

use context_guard_core::json::text::Form;
use context_guard_core::text::entry::template;
use context_guard_core::text::kind::Kind;
use context_guard_core::text::level::{Level, level};
use context_guard_core::text::lines::Lined;

/// Characters of a value, or line, that must be there.
const LONG: usize = 80;

/// The needles of a payload.
pub(crate) enum Needles {
    /// Members of records, as they stand in JSON without white space.
    Members(Vec<String>),
    /// Lines, without the digits of their times.
    Lines(Vec<String>),
}

impl Needles {
    /// The needles of a payload.
    pub(crate) fn of(text: &str) -> Self {
        if let Some(members) = context_guard::needles::members(text) {
            return Needles::Members(members);
        }
        if Kind::of(&Lined::of(text.as_bytes(), Form::Raw)) != Kind::Log {
            return Needles::Lines(Vec::new());
        }
        let grave = text.lines().filter(|line| level(line.as_bytes()) != Level::Other);
        Needles::Lines(grave.map(normal).collect())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Needles::Members(needles) | Needles::Lines(needles) => needles.len(),
        }
    }

    /// How many of them a text has.
    pub(crate) fn kept(&self, text: &str) -> usize {
        match self {
            Needles::Members(members) => {
                members.iter().filter(|member| text.contains(member.as_str())).count()
            }
            Needles::Lines(lines) => {
                let shown: BTreeSet<String> =
                    text.lines().map(|line| normal(without_number(line))).collect();
                lines.iter().filter(|line| shown.contains(*line)).count()
            }
        }
    }
}

/// `812: text`, as excerpts number their lines.
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

/// The beginning of a line, without the digits of its time: what folded entries have in common.
fn normal(line: &str) -> String {
    let line = line.trim().split(" (x").next().unwrap_or_default();
    String::from_utf8_lossy(&template(line.as_bytes(), false)).chars().take(LONG).collect()
}
