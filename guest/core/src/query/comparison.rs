//! Comparison of an answer with an earlier one of the same call: the added, changed and removed
//! records.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::QueryResult;
use super::records::RecordSet;
use super::response_mode::RecordKeys;
use crate::json::text::{Form, quoted, visible};
use crate::policy::EndpointSettings;

/// The maximum number of records that are compared.
const MAX_RECORDS: usize = 100_000;
/// The maximum number of ids of removed records that a result lists.
const MAX_LISTED_IDS: usize = 1_000;
/// The maximum size of the members around a list that a result repeats, in bytes.
const MAX_AROUND_BYTES: usize = 4_096;

/// Digests of an earlier answer, for comparison with a later one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousAnswer {
    /// The name of the snapshot that stores the answer.
    pub snapshot: String,
    /// True if the answer was the structured content, false if it was text content.
    pub is_structured: bool,
    /// The digests of the records. `None` if the answer was not a list, or had too many records.
    records: Option<RecordDigests>,
}

/// Digests of the records of a list, and of the document around it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RecordDigests {
    around: u64,
    /// The id and the digest of each record. All ids are empty unless every record has a unique
    /// one.
    records: Vec<(String, u64)>,
}

/// The records of a document, with their digests.
struct DigestedRecords<'a> {
    records: RecordSet<'a>,
    /// True if the document has text before or after it.
    is_in_text: bool,
    digests: RecordDigests,
}

fn digest(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// Returns the text that surrounds the values of `records` but does not belong to their document,
/// trimmed. It is empty if the document is the whole text.
fn text_around(raw: &[u8], records: &RecordSet<'_>) -> Vec<u8> {
    let outline = &records.outline;
    let span = |id| outline.node(id).map(|node| node.span.clone()).unwrap_or_default();
    // Lines of JSON have no document, and an empty span.
    let spans = if span(0).is_empty() {
        outline.children(0).map(|(id, _)| span(id)).collect()
    } else {
        vec![span(0)]
    };
    let (mut text, mut at) = (Vec::new(), 0);
    let ends = spans.iter().map(|span| (span.start, span.end)).chain([(raw.len(), raw.len())]);
    for (start, end) in ends {
        let part = raw.get(at..start).unwrap_or_default().trim_ascii();
        if !part.is_empty() {
            text.extend_from_slice(part);
            text.push(b'\n');
        }
        at = end;
    }
    text
}

impl<'a> DigestedRecords<'a> {
    /// Reads the records of an unescaped document. `None` if the document has no list, or too many
    /// records.
    fn read(raw: &'a [u8], limits: &EndpointSettings) -> Option<Self> {
        let records = RecordSet::locate(raw, limits).filter(|set| {
            set.is_list && set.outline.is_complete() && set.ids.len() <= MAX_RECORDS
        })?;
        let keys = RecordKeys::detect(&records, limits);
        let mut seen = std::collections::HashSet::new();
        let ids: Option<Vec<String>> = records
            .ids
            .iter()
            .map(|id| {
                keys.id_of(&records, *id).filter(|own| !own.is_empty() && seen.insert(own.clone()))
            })
            .collect();
        let ids = ids.unwrap_or_else(|| vec![String::new(); records.ids.len()]);
        let all = records.ids.iter().map(|id| digest(&records.raw(*id)));
        let digests = ids.into_iter().zip(all).collect();
        let mut around = records.envelope().map_or(0, |around| digest(&around.wrap(b"[]")));
        let text = text_around(raw, &records);
        let is_in_text = !text.is_empty();
        if is_in_text {
            around ^= digest(&text);
        }
        let digests = RecordDigests { around, records: digests };
        Some(Self { records, is_in_text, digests })
    }
}

impl PreviousAnswer {
    /// Computes the digests of a stored answer. O(answer).
    #[must_use]
    pub fn new(
        snapshot: &str,
        is_structured: bool,
        bytes: &[u8],
        form: Form,
        limits: &EndpointSettings,
    ) -> Self {
        let raw = visible(bytes, form);
        let records = DigestedRecords::read(&raw, limits).map(|read| read.digests);
        Self { snapshot: snapshot.to_owned(), is_structured, records }
    }

    /// Compares this answer with a later one, which is stored as `snapshot`. Returns `None` if they
    /// differ and are not both lists of at most 100,000 records. Also returns `None` if the text
    /// around a list differs, or if the document around only one of them does. O(answer).
    #[must_use]
    pub fn compare(
        &self,
        snapshot: &str,
        bytes: &[u8],
        form: Form,
        limits: &EndpointSettings,
    ) -> Option<QueryResult> {
        if self.snapshot == snapshot {
            return Some(unchanged());
        }
        let raw = visible(bytes, form);
        let now = DigestedRecords::read(&raw, limits)?;
        let before = self.records.as_ref()?;
        if now.digests == *before {
            return Some(unchanged());
        }
        // Only the whole answer shows the text around a document.
        if now.digests.around != before.around
            && (now.is_in_text || now.records.envelope().is_none())
        {
            return None;
        }
        let changes = Changes::find(before, &now.digests);
        Some(changes.into_result(&now, self.records.as_ref()?.around))
    }
}

fn unchanged() -> QueryResult {
    let what = "nothing has changed since that answer".to_owned();
    QueryResult::new(b"{\"unchanged\":true}".to_vec(), false, what)
}

/// The differences between two lists.
#[derive(Default)]
struct Changes {
    /// The positions of new records in the later list.
    added: Vec<usize>,
    /// The positions of changed records in the later list.
    changed: Vec<usize>,
    /// The ids of the records that the later list lacks. They are empty if the records have no ids.
    removed: Vec<String>,
    unchanged: usize,
}

impl Changes {
    fn find(before: &RecordDigests, after: &RecordDigests) -> Self {
        let has_ids =
            |digests: &RecordDigests| digests.records.iter().all(|(id, _)| !id.is_empty());
        let mut changes = Self::default();
        if has_ids(before) && has_ids(after) {
            let mut earlier: HashMap<&str, u64> =
                before.records.iter().map(|(id, digest)| (id.as_str(), *digest)).collect();
            for (at, (id, digest)) in after.records.iter().enumerate() {
                match earlier.remove(id.as_str()) {
                    None => changes.added.push(at),
                    Some(known) if known != *digest => changes.changed.push(at),
                    Some(_) => changes.unchanged += 1,
                }
            }
            let lacks = |(id, _): &&(String, u64)| earlier.contains_key(id.as_str());
            changes.removed =
                before.records.iter().filter(lacks).map(|(id, _)| id.clone()).collect();
            return changes;
        }
        // Without ids, a changed record is one that was removed and one that was added.
        let mut earlier: HashMap<u64, usize> = HashMap::new();
        for (_, digest) in &before.records {
            *earlier.entry(*digest).or_default() += 1;
        }
        for (at, (_, digest)) in after.records.iter().enumerate() {
            match earlier.get_mut(digest).filter(|count| **count > 0) {
                Some(count) => {
                    *count -= 1;
                    changes.unchanged += 1;
                }
                None => changes.added.push(at),
            }
        }
        changes.removed = vec![String::new(); earlier.values().sum()];
        changes
    }

    fn into_result(self, now: &DigestedRecords<'_>, around: u64) -> QueryResult {
        let mut out = b"{".to_vec();
        let records = |positions: &[usize]| {
            let raw = positions.iter().filter_map(|at| now.records.ids.get(*at));
            let raw: Vec<Vec<u8>> = raw.map(|id| now.records.raw(*id)).collect();
            [b"[".as_slice(), &raw.join(&b','), b"]"].concat()
        };
        let mut member = |name: &str, value: Vec<u8>| {
            out.extend_from_slice(format!("\"{name}\":").as_bytes());
            out.extend(value);
            out.push(b',');
        };
        if !self.added.is_empty() {
            member("added", records(&self.added));
        }
        if !self.changed.is_empty() {
            member("changed", records(&self.changed));
        }
        let listed: Vec<Vec<u8>> = self
            .removed
            .iter()
            .filter(|id| !id.is_empty())
            .take(MAX_LISTED_IDS)
            .map(|id| quoted(id))
            .collect();
        if !listed.is_empty() {
            member("removed", [b"[".as_slice(), &listed.join(&b','), b"]"].concat());
        }
        let is_around = around != now.digests.around;
        let envelope = now.records.envelope().map(|around| around.wrap(b"[]"));
        if let Some(document) =
            envelope.filter(|document| is_around && document.len() <= MAX_AROUND_BYTES)
        {
            member("around", document);
        }
        out.extend_from_slice(format!("\"unchanged\":{}}}", self.unchanged).as_bytes());
        let mut parts = vec![
            format!("{} added", self.added.len()),
            format!("{} changed", self.changed.len()),
            format!("{} removed", self.removed.len()),
            format!("{} unchanged records since that answer", self.unchanged),
        ];
        if is_around {
            parts.push("the members around the list differ".to_owned());
        }
        if self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty() && !is_around
        {
            parts.push("their order differs".to_owned());
        }
        QueryResult::new(out, false, parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(before: &str, after: &str) -> String {
        let limits = EndpointSettings::default();
        let previous = PreviousAnswer::new("a", false, before.as_bytes(), Form::Raw, &limits);
        let found = previous.compare("b", after.as_bytes(), Form::Raw, &limits);
        found.map_or("none".to_owned(), |found| {
            format!("{} {}", String::from_utf8(found.bytes).unwrap(), found.description)
        })
    }

    #[test]
    fn records_are_compared_by_their_ids() {
        let before = r#"{"page":1,"items":[{"id":1,"n":1},{"id":2,"n":1},{"id":3,"n":1}]}"#;
        let after = r#"{"page":1,"items":[{"id":4,"n":1},{"id":1,"n":2},{"id":3,"n":1}]}"#;
        assert_eq!(
            compare(before, after),
            r#"{"added":[{"id":4,"n":1}],"changed":[{"id":1,"n":2}],"removed":["2"],"unchanged":1} 1 added, 1 changed, 1 removed, 1 unchanged records since that answer"#
        );
        let white_space = before.replace(',', ", ");
        assert!(compare(before, &white_space).starts_with(r#"{"unchanged":true}"#));
        let other_page = before.replace("\"page\":1", "\"page\":2");
        assert!(compare(before, &other_page).contains(r#""around":{"page":2,"items":[]}"#));
    }

    #[test]
    fn records_without_ids_are_compared_as_a_whole() {
        let found = compare("[[1,2],[3,4],[3,4]]", "[[3,4],[5,6]]");
        assert!(
            found.starts_with(r#"{"added":[[5,6]],"unchanged":1} 1 added, 0 changed, 2 removed"#)
        );
        assert!(compare("[[1],[2]]", "[[2],[1]]").ends_with("their order differs"));
    }

    #[test]
    fn text_around_a_document_is_compared() {
        let list = r#"{"page":1,"items":[{"id":1},{"id":2}]}"#;
        for (before, after) in [
            (list.to_owned(), format!("{list}\n\nNote: the list is old.")),
            (format!("{list}\nNote: old"), format!("{list}\nNote: new")),
            (format!("Found: {list}"), list.replace("\"page\":1", "\"page\":2")),
        ] {
            assert!(!compare(&before, &after).contains("{\"unchanged\":true}"), "{after}");
        }
        let lines = "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n";
        let windows = lines.replace('\n', "\r\n");
        assert!(compare(lines, &windows).starts_with("{\"unchanged\":true}"));
    }

    #[test]
    fn other_answers_are_not_compared() {
        assert_eq!(compare("words", "other words"), "none");
        assert_eq!(compare(r#"[{"id":1}]"#, "words"), "none");
        assert_eq!(compare(r#"{"a":1}"#, r#"{"a":2}"#), "none");
    }
}
