//! The key facts of an answer: ids, names and titles of records, errors and warnings of logs. Their
//! recall measures the quality of shaping.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::answer;

/// The names of JSON members whose values identify records.
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
/// The number of characters to which key facts are cut before they are compared.
const MAX_FACT_CHARS: usize = 80;

/// The pattern of log lines that report a problem. `None` if it does not compile.
static GRAVE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\b(ERROR|FATAL|CRITICAL|PANIC|WARN|WARNING|[A-Z]\w*(?:Error|Exception))\b").ok()
});

/// Returns the ids, names and titles of the records in a JSON text, each as `"name":value`, sorted,
/// once, and cut to 80 characters. Skips objects inside two others. `None` if the text is not JSON.
#[must_use]
pub fn members(text: &str) -> Option<Vec<String>> {
    let json = serde_json::from_str::<Value>(text).ok()?;
    let mut members = Vec::new();
    collect(&json, 0, &mut members);
    // Duplicates count once.
    members.sort();
    members.dedup();
    Some(members)
}

/// Appends the members that identify records in a JSON value to `members`. `level` is the number of
/// objects around the value. Objects inside two others are skipped.
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
                    if let Some((at, _)) = needle.char_indices().nth(MAX_FACT_CHARS) {
                        needle.truncate(at);
                    }
                    members.push(needle);
                }
            }
        }
        _ => {}
    }
}

/// Returns the lines of a text that report an error or a warning, without their digits and cut to
/// 80 characters. Lines that are equal then count once.
#[must_use]
pub fn problem_lines(text: &str) -> BTreeSet<String> {
    let grave = |line: &&str| GRAVE.as_ref().is_some_and(|grave| grave.is_match(line));
    text.lines().filter(grave).map(plain).collect()
}

/// The key facts of an answer: the members that identify its records, and the log lines that report
/// problems.
#[derive(Clone, Debug, Default)]
pub struct KeyFacts {
    members: BTreeSet<String>,
    lines: BTreeSet<String>,
}

impl KeyFacts {
    /// Returns the key facts of the JSON-RPC response `message`, from all its texts and its
    /// structured content.
    #[must_use]
    pub fn extract(message: &[u8]) -> Self {
        let answer: Value = serde_json::from_slice(message).unwrap_or_default();
        let structured = answer.pointer("/result/structuredContent").map(Value::to_string);
        let mut facts = Self::default();
        for text in answer::texts(&answer).into_iter().chain(structured) {
            match members(&text) {
                Some(members) => facts.members.extend(members),
                None => facts.lines.extend(problem_lines(&text)),
            }
        }
        facts
    }

    /// Returns the number of key facts.
    #[must_use]
    pub fn len(&self) -> u64 {
        (self.members.len() + self.lines.len()) as u64
    }

    /// Returns true if there are no key facts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of these key facts that the text `shown` contains.
    #[must_use]
    pub fn count_in(&self, shown: &str) -> u64 {
        // A text may contain JSON with white space, but key facts contain none.
        let compact = shown.replace("\": ", "\":");
        let plain = plain_text(shown);
        let members = self.members.iter().filter(|member| compact.contains(member.as_str()));
        let lines = self.lines.iter().filter(|line| plain.contains(line.as_str()));
        (members.count() + lines.count()) as u64
    }
}

fn plain(line: &str) -> String {
    plain_text(line.trim()).chars().take(MAX_FACT_CHARS).collect()
}

/// Returns a text without digits. The guard merges log lines that differ only in times and numbers,
/// so such lines must compare equal.
fn plain_text(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_names_and_logs_have_errors() {
        let answer = |text: &str| {
            let content = serde_json::json!([{"type": "text", "text": text}]);
            let facts = KeyFacts::extract(
                serde_json::json!({"result": {"content": content}}).to_string().as_bytes(),
            );
            move |shown: &str| (facts.len(), facts.count_in(shown))
        };
        let list = r#"[{"id": 1, "title": "One", "text": "x"}, {"id": 2, "title": "Two"}]"#;
        assert_eq!(answer(list)(r#"{"items":[{"id": 1,"title":"One"}]}"#), (4, 2));
        let log = "12:00 INFO fine\n12:01 ERROR disk 7 is full\n12:02 ERROR disk 8 is full\n12:03 WARN slow\n";
        assert_eq!(answer(log)("12:01 ERROR disk 7 is full"), (2, 1));
        assert!(KeyFacts::extract(b"nothing to find").is_empty());
    }
}
