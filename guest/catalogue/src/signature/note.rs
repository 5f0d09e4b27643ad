//! Notes on parameters, and texts of upstreams on one line.

use super::form::Form;
use crate::document::Json;
use crate::sentence::split_first;
use crate::text::{Splitter, TermKind};

/// Maximum number of characters of a note.
const MAX_NOTE_CHARACTERS: usize = 60;

/// The keywords that a complete note lists.
const CONSTRAINTS: &[&str] = &[
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// Returns the note on a parameter. `None` if it has no more information than the parameter's name.
pub(super) fn note(name: &str, property: &Json, form: Form) -> Option<String> {
    let description = property.get("description").and_then(Json::as_str).unwrap_or_default();
    let mut text = match form {
        Form::Short => clean(split_first(description).0),
        Form::Complete => clean(description),
    };
    if repeats(name, &text) {
        text.clear();
    }
    match form {
        Form::Short => {
            text = cut(text.strip_suffix('.').unwrap_or(&text), MAX_NOTE_CHARACTERS);
        }
        Form::Complete => {
            for keyword in CONSTRAINTS {
                if let Some(value) = property.get(keyword) {
                    let separator = if text.is_empty() { "" } else { "; " };
                    text.push_str(&clean(&format!("{separator}{keyword} {value}")));
                }
            }
        }
    }
    (!text.is_empty()).then(|| text.replace("*/", "* /"))
}

/// Returns true if all words of a note occur in the name.
fn repeats(name: &str, note: &str) -> bool {
    let mut splitter = Splitter::default();
    let words = |terms: Vec<crate::text::Term>| -> Vec<String> {
        let terms = terms.into_iter().filter(|term| term.kind != TermKind::Compound);
        terms.map(|term| term.text).collect()
    };
    let name = words(splitter.split(name));
    words(splitter.split(note)).iter().all(|word| name.contains(word))
}

/// Returns a text on one line. Collapses white space, and removes control and bidirectional
/// characters, because these can make a text look like another.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        let visible = word.chars().filter(|character| !is_invisible(*character));
        let before = out.len();
        if before > 0 {
            out.push(' ');
        }
        let start = out.len();
        out.extend(visible);
        if out.len() == start {
            out.truncate(before);
        }
    }
    out
}

fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Cuts a text after a word and adds `…`, if it is longer than `limit` characters.
pub(super) fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    // One character remains for the ellipsis.
    let end = text.char_indices().nth(limit.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
    let (head, tail) = text.split_at_checked(end).unwrap_or((text, ""));
    let whole = match head.rfind(' ') {
        Some(space) if !tail.starts_with(' ') => head.get(..space).unwrap_or(head),
        _ => head,
    };
    let whole = whole.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':'));
    format!("{whole}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_after_a_word() {
        assert_eq!(cut("one two three", 13), "one two three");
        assert_eq!(cut("one two three", 9), "one two…");
        assert_eq!(cut("one two, three", 9), "one two…");
        assert_eq!(cut("abcdefgh", 5), "abcd…");
    }

    #[test]
    fn invisible_characters_vanish() {
        assert_eq!(clean(" a\u{202e}b \u{200b} c\n\td\u{7} "), "ab c d");
    }

    #[test]
    fn repeated_names_are_no_notes() {
        assert!(repeats("user_id", "The user ID"));
        assert!(!repeats("city", "City name"));
    }
}
