//! What a reader looks for in an answer: ids, names and titles of its records, errors and warnings of a log.

use std::collections::BTreeSet;

use context_guard_core::text::entry::template;
use context_guard_core::text::kind::Kind;
use context_guard_core::text::level::{Level, level};
use serde_json::Value;

/// Names of members that tell records apart.
const NAMES: &[&str] = &[
    "id",
    "_id",
    "uuid",
    "number",
    "iid",
    "key",
    "name",
    "full_name",
    "title",
    "login",
    "slug",
    "sku",
    "symbol",
    "label",
    "subject",
    "path",
];

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
        if let Ok(json) = serde_json::from_str::<Value>(text) {
            let mut members = Vec::new();
            collect(&json, 0, &mut members);
            // What stands there twice is found once.
            members.sort();
            members.dedup();
            return Needles::Members(members);
        }
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        if Kind::of(&lines) != Kind::Log {
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

/// The members of records: of the elements of lists, and where there are none of the document and its sections.
fn collect(value: &Value, level: usize, members: &mut Vec<String>) {
    match value {
        Value::Array(elements) => {
            elements.iter().for_each(|element| collect(element, level, members))
        }
        Value::Object(object) if level < 2 => {
            for (name, member) in object {
                if member.is_object() || member.is_array() {
                    collect(member, level + 1, members);
                } else if NAMES.contains(&name.to_lowercase().as_str()) && !member.is_null() {
                    let mut needle = format!("\"{name}\":{member}");
                    if let Some((at, _)) = needle.char_indices().nth(LONG) {
                        needle.truncate(at);
                    }
                    members.push(needle);
                }
            }
        }
        _ => {}
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
