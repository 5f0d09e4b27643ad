//! No line of documentation begins with a question word: a doc comment states a result.

use super::Finding;
use super::source::{Language, Source};

const QUESTION_WORDS: [&str; 6] = ["What", "Whether", "Where", "How", "Which", "Who"];

pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    if source.language == Language::Markdown {
        return;
    }
    for line in &source.lines {
        let comment = line.comment.trim_start();
        let doc = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
        let word = doc.and_then(|doc| doc.split_whitespace().next()).unwrap_or_default();
        // "Whose" and "However" are other words.
        let word = word.trim_end_matches(|end: char| !end.is_alphabetic());
        if QUESTION_WORDS.contains(&word) {
            findings.push(Finding {
                rule: "doc-start",
                place: source.place(line),
                message: format!("a doc line begins with \"{word}\": state the result"),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::rules;

    #[test]
    fn question_words_are_found() {
        let text =
            "//! What it is.\n/// Whether it is so.\n/// # Errors\n/// Where: never.\nfn a() {}";
        assert_eq!(rules("a.rs", text, check).len(), 3);
        assert_eq!(rules("a.wit", "/// How it is.\n", check).len(), 1);
    }

    #[test]
    fn statements_pass() {
        let text =
            "/// Returns what it is.\n/// Whose it is.\n// What: a plain comment.\nfn a() {}";
        assert_eq!(rules("a.rs", text, check), [""; 0]);
    }
}
