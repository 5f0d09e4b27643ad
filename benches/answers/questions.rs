//! Questions about payloads, with the words that answer them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

/// A question about a payload. Its answer is labelled by hand, or computed from the payload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    /// The file name of the payload.
    payload: String,
    /// The question, for people who read the data.
    pub(crate) question: String,
    /// The words that answer the question. All of them must be shown.
    answer: Vec<String>,
    /// The arguments of a read, without the cursor, that answers the question.
    #[serde(default)]
    pub(crate) follow: Option<Value>,
}

/// Questions by the file name of their payload.
pub(crate) struct Questions(BTreeMap<String, Vec<Question>>);

impl Questions {
    /// Reads questions from a JSON file.
    pub(crate) fn read(file: &Path) -> Result<Self> {
        let bytes = std::fs::read(file).with_context(|| file.display().to_string())?;
        let questions: Vec<Question> =
            serde_json::from_slice(&bytes).with_context(|| file.display().to_string())?;
        let mut by_payload = BTreeMap::<String, Vec<Question>>::new();
        for question in questions {
            ensure!(!question.answer.is_empty(), "{}: no answer", question.question);
            by_payload.entry(question.payload.clone()).or_default().push(question);
        }
        Ok(Self(by_payload))
    }

    /// Returns the questions about the payload with this path.
    pub(crate) fn about(&self, path: &str) -> &[Question] {
        let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}

impl Question {
    /// Returns the words of the answer that are not in `shown`, which [`plain`] returned.
    pub(crate) fn missing(&self, shown: &str) -> Vec<&str> {
        let words = self.answer.iter().map(String::as_str);
        words.filter(|word| !has(shown, &plain(word))).collect()
    }
}

/// Returns a text without what presentation changes: case, white space, JSON escapes and the commas
/// of large numbers.
pub(crate) fn plain(text: &str) -> String {
    let text = text.replace("\\n", " ").replace("\\\"", "\"").replace("\\\\", "\\");
    let signs: Vec<char> = text.to_lowercase().chars().collect();
    let digit = |at: Option<usize>| {
        at.and_then(|at| signs.get(at)).is_some_and(|sign: &char| sign.is_ascii_digit())
    };
    let mut plain = String::with_capacity(signs.len());
    for (at, sign) in signs.iter().enumerate() {
        let in_number = *sign == ','
            && digit(at.checked_sub(1))
            && (1..4).all(|next| digit(Some(at + next)))
            && !digit(Some(at + 4));
        if sign.is_whitespace() && !plain.ends_with(' ') {
            plain.push(' ');
        } else if !in_number && !sign.is_whitespace() {
            plain.push(*sign);
        }
    }
    plain.trim().to_owned()
}

/// Returns true if `word` is in `shown`. A number is not found in a longer number.
fn has(shown: &str, word: &str) -> bool {
    let is_digit = |sign: Option<char>| sign.is_some_and(|sign| sign.is_ascii_digit());
    let (starts, ends) = (is_digit(word.chars().next()), is_digit(word.chars().next_back()));
    shown.match_indices(word).any(|(at, found)| {
        let before = shown.get(..at).and_then(|text| text.chars().next_back());
        let after = shown.get(at + found.len()..).and_then(|text| text.chars().next());
        let is_longer = starts && is_digit(before) || ends && is_digit(after);
        !is_longer
    })
}

/// The number of questions that are answered, by what was shown.
#[derive(Default)]
pub(crate) struct Score {
    pub(crate) asked: u32,
    pub(crate) first: u32,
    pub(crate) follow: u32,
    pub(crate) cut: u32,
    pub(crate) shrunk: u32,
}

impl Score {
    pub(crate) fn print(&self, contents: &str) {
        let Self { asked, first, follow, cut, shrunk } = self;
        println!(
            "{contents}: {asked} questions; answered by the first answer {first}, and a read \
             {follow}; by the start of the payload of the same tokens {cut}, by shrinkfit {shrunk}"
        );
    }
}
