//! The share of known words that an answer has.

use std::collections::BTreeSet;

/// The number of first words that count.
const WORDS: usize = 400;
/// The number of words in a row that must be in an answer.
const ROW: usize = 4;

/// Returns the share of the first words of `expected` that are in `shown`, from 0 to 1.
pub(crate) fn share(expected: &str, shown: &str) -> f64 {
    let expected = words(expected);
    let shown = words(&shown.replace("\\n", " "));
    let known: BTreeSet<&[String]> = shown.windows(ROW).collect();
    let expected = expected.get(..WORDS.min(expected.len())).unwrap_or_default();
    let rows: Vec<&[String]> = expected.chunks_exact(ROW).collect();
    let found = rows.iter().filter(|row| known.contains(**row)).count();
    found as f64 / rows.len().max(1) as f64
}

/// Returns the words of HTML or text in lower case, without tags, scripts and character references.
fn words(text: &str) -> Vec<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        plain.push_str(before);
        plain.push(' ');
        let name = tag.get(..6).unwrap_or_default().to_lowercase();
        let end = match name.as_str() {
            "script" => "</script",
            _ if name.starts_with("style") => "</style",
            _ => ">",
        };
        // An answer may end inside a script.
        rest = tag.split_once(end).map_or(tag, |(_, after)| after);
    }
    plain.push_str(rest);
    let mut decoded = String::with_capacity(plain.len());
    let mut rest = plain.as_str();
    while let Some((before, after)) = rest.split_once('&') {
        decoded.push_str(before);
        // References separate words in both texts alike.
        decoded.push(' ');
        rest = match after.split_once(';') {
            Some((name, after)) if name.len() <= 8 => after,
            _ => after,
        };
    }
    decoded.push_str(rest);
    let words = decoded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}
