//! JSON objects on lines of their own, between other lines of a log.

use super::{LogRecords, MAX_JSON_BYTES, left_out};
use crate::json::scan::is_json;
use crate::json::text::Form;

/// Returns the JSON objects of a text as a JSON list. `None` unless they are at least two, and at
/// least half of the non-blank lines. O(text).
pub(super) fn read(text: &str) -> Option<LogRecords> {
    let filled = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_object = |line: &&str| line.starts_with('{') && is_json(line.as_bytes(), Form::Raw);
    let objects: Vec<&str> = filled().filter(is_object).collect();
    let (total, lines) = (objects.len(), filled().count());
    if total < 2 || total * 2 < lines {
        return None;
    }
    let json = format!("[{}]", objects.join(",")).into_bytes();
    let skipped = left_out(lines - total, "that is no JSON", "that are no JSON");
    let what = "the lines of JSON were read as records";
    (json.len() <= MAX_JSON_BYTES).then_some(LogRecords {
        json,
        what,
        skipped,
        total,
        chosen: total,
        is_json: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_between_other_lines_are_records() {
        let text = "starting\n{\"a\":1}\n  {\"a\":2} \n** note\n{\"a\":3}\n";
        let found = read(text).unwrap();
        assert_eq!(found.json, b"[{\"a\":1},{\"a\":2},{\"a\":3}]");
        assert_eq!(found.skipped, ", without the 2 lines that are no JSON");
        assert!(read("{\"a\":1}\nx\ny\n{\"a\":2}\nz\n").is_none());
        assert!(read("{\"a\":1}\n{broken\n{\n").is_none());
    }
}
