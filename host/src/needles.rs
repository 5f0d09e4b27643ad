//! What a reader looks for in an answer: ids, names and titles of its records, errors and warnings of a log. How many of them are still there is what shaping is judged by.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::answer;

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

/// A line that says that something went wrong.
static GRAVE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\b(ERROR|FATAL|CRITICAL|PANIC|WARN|WARNING|[A-Z]\w*(?:Error|Exception))\b").ok()
});

/// The ids, names and titles of the records of a JSON text, as they stand in JSON without white space; none where it is no JSON.
#[must_use]
pub fn members(text: &str) -> Option<Vec<String>> {
    let json = serde_json::from_str::<Value>(text).ok()?;
    let mut members = Vec::new();
    collect(&json, 0, &mut members);
    // What stands there twice is found once.
    members.sort();
    members.dedup();
    Some(members)
}

/// Of the elements of lists, and where there are none of the document and its sections.
fn collect(value: &Value, level: usize, members: &mut Vec<String>) {
    match value {
        Value::Array(elements) => {
            elements.iter().for_each(|element| collect(element, level, members));
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

/// The lines of a text that say that something went wrong, each kind once: without digits.
#[must_use]
pub fn grave_lines(text: &str) -> BTreeSet<String> {
    let grave = |line: &&str| GRAVE.as_ref().is_some_and(|grave| grave.is_match(line));
    text.lines().filter(grave).map(plain).collect()
}

/// What is looked for in a message.
#[derive(Clone, Debug, Default)]
pub struct Needles {
    members: BTreeSet<String>,
    lines: BTreeSet<String>,
}

impl Needles {
    /// The needles of all texts of an answer, and of its structured content.
    #[must_use]
    pub fn of(message: &[u8]) -> Self {
        let answer: Value = serde_json::from_slice(message).unwrap_or_default();
        let structured = answer.pointer("/result/structuredContent").map(Value::to_string);
        let mut needles = Self::default();
        for text in answer::texts(&answer).into_iter().chain(structured) {
            match members(&text) {
                Some(members) => needles.members.extend(members),
                None => needles.lines.extend(grave_lines(&text)),
            }
        }
        needles
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        (self.members.len() + self.lines.len()) as u64
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of them a text still has.
    #[must_use]
    pub fn kept(&self, shown: &str) -> u64 {
        // JSON may stand there with white space; needles have none.
        let compact = shown.replace("\": ", "\":");
        let plain = plain_text(shown);
        let members = self.members.iter().filter(|member| compact.contains(member.as_str()));
        let lines = self.lines.iter().filter(|line| plain.contains(line.as_str()));
        (members.count() + lines.count()) as u64
    }
}

fn plain(line: &str) -> String {
    plain_text(line.trim()).chars().take(LONG).collect()
}

/// A text without digits: folded lines differ in their times and numbers.
fn plain_text(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_told_by_their_names_and_logs_by_their_errors() {
        let answer = |text: &str| {
            let content = serde_json::json!([{"type": "text", "text": text}]);
            let needles = Needles::of(
                serde_json::json!({"result": {"content": content}}).to_string().as_bytes(),
            );
            move |shown: &str| (needles.len(), needles.kept(shown))
        };
        let list = r#"[{"id": 1, "title": "One", "text": "x"}, {"id": 2, "title": "Two"}]"#;
        assert_eq!(answer(list)(r#"{"items":[{"id": 1,"title":"One"}]}"#), (4, 2));
        let log = "12:00 INFO fine\n12:01 ERROR disk 7 is full\n12:02 ERROR disk 8 is full\n12:03 WARN slow\n";
        assert_eq!(answer(log)("12:01 ERROR disk 7 is full"), (2, 1));
        assert!(Needles::of(b"nothing to find").is_empty());
    }
}
