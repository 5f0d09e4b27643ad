//! JSON objects on lines of their own, between other lines of a log.

use super::{LogRecords, MAX_JSON_BYTES};
use crate::json::scan::is_json;
use crate::json::text::Form;
use crate::query::grep::Pattern;

/// Returns the objects of a text as a JSON list, of which a pattern may choose some. `None` unless
/// they are at least two, and half of the filled lines. O(text).
pub(super) fn read(text: &str, pattern: Option<&Pattern>) -> Option<LogRecords> {
    let filled = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_object = |line: &&str| line.starts_with('{') && is_json(line.as_bytes(), Form::Raw);
    let objects: Vec<&str> = filled().filter(is_object).collect();
    let (total, lines) = (objects.len(), filled().count());
    if total < 2 || total * 2 < lines {
        return None;
    }
    let is_chosen = |line: &&&str| pattern.is_none_or(|pattern| pattern.is_match(line));
    let chosen: Vec<&str> = objects.iter().filter(is_chosen).copied().collect();
    let json = format!("[{}]", chosen.join(",")).into_bytes();
    let skipped = match lines - total {
        0 => String::new(),
        others => format!(", without the {others} lines that are no JSON"),
    };
    (json.len() <= MAX_JSON_BYTES).then_some(LogRecords {
        json,
        skipped,
        total,
        chosen: chosen.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_between_other_lines_are_records() {
        let text = "starting\n{\"a\":1}\n  {\"a\":2} \n** note\n{\"a\":3}\n";
        let found = read(text, None).unwrap();
        assert_eq!(found.json, b"[{\"a\":1},{\"a\":2},{\"a\":3}]");
        assert_eq!(found.skipped, ", without the 2 lines that are no JSON");
        let two = Pattern::new("2", None).unwrap();
        assert_eq!(read(text, Some(&two)).unwrap().json, b"[{\"a\":2}]");
        assert!(read("{\"a\":1}\nx\ny\n{\"a\":2}\nz\n", None).is_none());
        assert!(read("{\"a\":1}\n{broken\n{\n", None).is_none());
    }
}
