//! Writes logs in a style, and checks the errors and warnings that are found.
#![allow(dead_code, clippy::string_slice, reason = "each test program uses a part")]

use context_guard_json::text::{Form, escape};
use context_guard_text::kind::Kind;
use context_guard_text::lines::IndexedText;
use context_guard_text::log_entry::{SevereEntries, severe_entries};
use context_guard_text::severity::Severity;

/// The messages of a log. Harmless ones have words that also name severities.
const MESSAGES: [(&str, &str); 8] = [
    ("info", "server started with 0 errors"),
    ("debug", "cache warm: no warning found"),
    ("info", "booking confirmed"),
    ("error", "payment refused"),
    ("info", "retry without error"),
    ("warn", "slow answer"),
    ("info", "user logged in"),
    ("debug", "level of the FATAL queue is low"),
];

/// Returns the kind of a text, and the lines of its errors (`E`) and warnings (`W`) with their
/// lengths. Both forms of the text have the same.
pub(crate) fn severe(text: &str) -> (Kind, Vec<(char, usize, usize)>) {
    let read = |bytes: &[u8], form| {
        let text = IndexedText::new(bytes, form);
        let SevereEntries { kind, entries, .. } = severe_entries(&text);
        let letter = |level| if level == Severity::Error { 'E' } else { 'W' };
        (kind, entries.iter().map(|x| (letter(x.level), x.line + 1, x.length)).collect::<Vec<_>>())
    };
    let found = read(text.as_bytes(), Form::Raw);
    let mut escaped = Vec::new();
    escape(&mut escaped, text.as_bytes());
    assert_eq!(read(&escaped, Form::Escaped), found, "{text}");
    found
}

/// Writes the messages four times in a style, and checks that their errors and warnings are found.
pub(crate) fn check(name: &str, line: impl Fn(usize, &str, &str) -> String) {
    let mut text = String::new();
    let mut expected = Vec::new();
    for at in 0..4 * MESSAGES.len() {
        let (level, message) = MESSAGES[at % MESSAGES.len()];
        match level {
            "error" => expected.push(('E', at + 1, 1)),
            "warn" => expected.push(('W', at + 1, 1)),
            _ => {}
        }
        text.push_str(&line(at, level, message));
        text.push('\n');
    }
    assert_eq!(severe(&text), (Kind::Log, expected), "{name}:\n{text}");
}

/// Returns a level in capitals.
pub(crate) fn upper(level: &str) -> String {
    level.to_uppercase()
}

/// Returns a level with an initial capital.
pub(crate) fn title(level: &str) -> String {
    let (first, rest) = level.split_at(1);
    format!("{}{}", first.to_uppercase(), rest.replace("arn", "arning"))
}

/// Returns the first letter of a level, in capitals.
pub(crate) fn letter(level: &str) -> String {
    upper(&level[..1])
}

/// Returns the number of a level: that of errors, of warnings, and so on.
pub(crate) fn number(level: &str, numbers: [u8; 4]) -> u8 {
    let names = ["error", "warn", "info", "debug"];
    numbers[names.iter().position(|name| *name == level).unwrap()]
}
