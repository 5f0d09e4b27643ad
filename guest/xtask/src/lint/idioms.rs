//! Comments and messages use standard terms: the phrases and names of `idioms.txt` do not occur.

use super::Finding;
use super::source::{Language, Source};

const LIST: &str = include_str!("idioms.txt");

/// An entry of `idioms.txt`: a phrase to avoid.
struct Idiom {
    phrase: &'static str,
    /// The words to use instead.
    instead: &'static str,
    /// Prefixes of the paths in which the phrase is allowed.
    exceptions: Vec<&'static str>,
}

pub(super) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let (list, names) = LIST.split_once("[names]").unwrap_or((LIST, ""));
    let (phrases, allowed) = list.split_once("[allowed]").unwrap_or((list, ""));
    let allowed: Vec<String> = allowed
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(words)
        .filter(|phrase| !phrase.trim().is_empty())
        .collect();
    let mut report = |line, idiom: &Idiom| {
        if !idiom.exceptions.iter().any(|path| source.name.starts_with(path)) {
            let message = format!("\"{}\": say {}", idiom.phrase, idiom.instead);
            findings.push(Finding { rule: "idiom", place: source.place(line), message });
        }
    };
    let (phrases, names) = (parse(phrases), parse(names));
    for line in &source.lines {
        let words_of = |text| allowed.iter().fold(words(text), |text, ok| text.replace(ok, " "));
        let prose = words_of(&line.comment);
        // Literals of tests are data.
        let is_data = line.is_test || source.is_test();
        let literal = if is_data { String::new() } else { words_of(&line.literal) };
        for idiom in &phrases {
            let phrase = words(idiom.phrase);
            if prose.contains(&phrase) || literal.contains(&phrase) {
                report(line, idiom);
            }
        }
        if source.language == Language::Rust {
            for idiom in &names {
                if defines(&line.code, idiom.phrase) {
                    report(line, idiom);
                }
            }
        }
    }
}

/// Parses the lines of `idioms.txt`, which have the form `phrase => instead [path path]`.
fn parse(list: &'static str) -> Vec<Idiom> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (phrase, rest) = line.split_once(" => ")?;
            let (instead, paths) = rest.split_once('[').unwrap_or((rest, ""));
            let exceptions = paths.trim_end_matches(']').split_whitespace().collect();
            Some(Idiom { phrase, instead: instead.trim(), exceptions })
        })
        .collect()
}

/// Returns the words of a text in lower case, each between spaces. Code between backquotes is left
/// out, because it names items.
fn words(text: &str) -> String {
    let mut words = String::from(" ");
    for prose in text.split('`').step_by(2) {
        for word in prose.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '_') {
            if !word.is_empty() {
                words.push_str(&word.to_lowercase());
                words.push(' ');
            }
        }
    }
    words
}

/// Returns true if a line of code defines a function or a constant of this name.
fn defines(code: &str, name: &str) -> bool {
    let words: Vec<&str> =
        code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    words
        .windows(2)
        .any(|pair| matches!(pair, ["fn" | "const" | "static", found] if *found == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lint::rules;

    #[test]
    fn idioms_in_comments_messages_and_names_are_found() {
        let text = "/// It stands here.\nconst MOST: usize = 1;\nfn of() {}\n\
                    let a = \"whoever asks\";\n// Taken back.\n";
        assert_eq!(rules("host/src/a.rs", text, check).len(), 5);
        assert_eq!(rules("a.md", "It is told.\n", check).len(), 1);
    }

    #[test]
    fn parts_of_words_code_and_data_of_tests_pass() {
        let text = "/// It understands `stands`. `*` stands for all, and is told apart.\nlet stands = 1;\nfn offset() {}\n\
                    #[cfg(test)]\nlet a = \"stands\";\n";
        assert_eq!(rules("host/src/a.rs", text, check), [""; 0]);
    }
}
