//! The pages of a merged list.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use serde_json::{Map, Value, json};

use super::ListEntry;

/// The member of `_meta` that names the upstreams whose entries are missing from a merged list.
const UNAVAILABLE_KEY: &str = "dev.context-guard/upstreams";

/// Returns the `_meta` of a merged list without the entries of the upstreams that `missing`
/// describes.
pub(super) fn missing_meta(missing: &[Value]) -> Map<String, Value> {
    let mut meta = Map::new();
    if !missing.is_empty() {
        meta.insert(UNAVAILABLE_KEY.to_owned(), json!({"unavailable": missing}));
    }
    meta
}

/// Returns the index of the first entry of a page: after the entry that the cursor names or, if
/// that no longer exists, the cursor's index. `None` for an invalid cursor. Of several entries with
/// the name, the one before the cursor's index counts.
pub(super) fn page_start(cursor: &str, entries: &[ListEntry]) -> Option<usize> {
    let (index, key): (usize, Option<String>) =
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let is_named = |entry: &ListEntry| Some(&entry.key) == key.as_ref();
    // The first of several entries with one name would repeat pages without end.
    if index.checked_sub(1).and_then(|last| entries.get(last)).is_some_and(is_named) {
        return Some(index);
    }
    let found = entries.iter().position(is_named);
    Some(found.map_or(index, |found| found + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_starts_after_last_entry_even_if_moved() {
        let entries = |keys: &[&str]| -> Vec<ListEntry> {
            keys.iter().map(|key| ListEntry { key: (*key).into(), json: String::new() }).collect()
        };
        let cursor = URL_SAFE_NO_PAD.encode(r#"[2,"b"]"#);
        assert_eq!(page_start(&cursor, &entries(&["a", "b", "c"])), Some(2));
        assert_eq!(page_start(&cursor, &entries(&["new", "a", "b", "c"])), Some(3));
        assert_eq!(page_start(&cursor, &entries(&["a", "c"])), Some(2));
        assert_eq!(page_start("!", &[]), None);
        let cursor = URL_SAFE_NO_PAD.encode(r#"[3,"b"]"#);
        assert_eq!(page_start(&cursor, &entries(&["a", "b", "b", "c"])), Some(3));
    }
}
