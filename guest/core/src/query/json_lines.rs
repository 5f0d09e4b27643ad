//! JSON objects on lines of their own, between other lines.

use super::names::left_out;
use crate::json::scan::is_json;
use crate::json::text::Form;

/// The form of the records, in words.
pub(super) const WHAT: &str = "the lines of JSON were read as records";

/// Returns the lines of a text that are JSON objects, and the number of all its non-blank lines.
/// `None` unless the objects are at least two, and at least half of the lines. O(text).
pub(super) fn objects(text: &str) -> Option<(Vec<&str>, usize)> {
    let text = text.trim_start_matches('\u{feff}');
    let filled = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_object = |line: &&str| line.starts_with('{') && is_json(line.as_bytes(), Form::Raw);
    let objects: Vec<&str> = filled().filter(is_object).collect();
    let lines = filled().count();
    (objects.len() >= 2 && objects.len() * 2 >= lines).then_some((objects, lines))
}

/// Returns a phrase with the number of lines that are no records. Empty for 0.
pub(super) fn skipped(lines: usize) -> String {
    left_out(lines, "that is no JSON object", "that are no JSON objects")
}

/// Returns the note on JSON lines with other lines around them. Empty if there are none.
pub(super) fn note(others: usize) -> String {
    if others == 0 { String::new() } else { format!("; {WHAT}{}", skipped(others)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_between_other_lines_are_records() {
        let text = "starting\n{\"a\":1}\n  {\"a\":2} \n** note\n{\"a\":3}\n";
        assert_eq!(objects(text), Some((vec!["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"], 5)));
        assert_eq!(objects("\u{feff}{\"a\":1}\n{}\n"), Some((vec!["{\"a\":1}", "{}"], 2)));
        assert!(objects("{\"a\":1}\nx\ny\n{\"a\":2}\nz\n").is_none());
        assert!(objects("{\"a\":1}\n{broken\n{\n").is_none());
        assert!(note(2).ends_with(", without the 2 lines that are no JSON objects"));
    }
}
