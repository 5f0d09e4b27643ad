//! Records that are chosen by their ids.

use std::collections::{BTreeMap, HashSet};

use super::Query;
use super::names::join_names;
use super::records::RecordSet;
use super::response_mode::RecordKeys;
use super::value::Value;
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;
use crate::policy::EndpointSettings;

/// The maximum number of absent ids that a note names.
const MAX_NAMED_IDS: usize = 5;

impl Query {
    /// Returns the records of `ids` that have one of the requested ids. A note names the ids that
    /// no record has, or another field than the usual one that has them. O(values).
    ///
    /// # Errors
    /// Returns a message for the caller if the records have no ids.
    pub(super) fn by_ids(
        &self,
        records: &RecordSet<'_>,
        limits: &EndpointSettings,
        ids: Vec<NodeId>,
    ) -> Result<(Vec<NodeId>, Option<String>), String> {
        let keys = RecordKeys::detect(records, limits);
        let own: Vec<Option<String>> = ids.iter().map(|id| keys.id_of(records, *id)).collect();
        let choose = |wanted: &HashSet<&str>| -> Vec<NodeId> {
            let is_wanted =
                |own: &Option<String>| own.as_deref().is_some_and(|own| wanted.contains(own));
            ids.iter().zip(&own).filter(|(_, own)| is_wanted(own)).map(|(id, _)| *id).collect()
        };
        let mut wanted: Vec<&str> = self.filter_ids.iter().map(String::as_str).collect();
        let mut chosen = choose(&wanted.iter().copied().collect());
        if chosen.is_empty()
            && let [only] = wanted.as_slice()
        {
            // Without commas, blanks may separate ids.
            let parts: Vec<&str> = only.split_whitespace().collect();
            chosen = choose(&parts.iter().copied().collect());
            wanted = if chosen.is_empty() { wanted } else { parts };
        }
        if chosen.is_empty()
            && let Some((field, chosen)) = by_other_id(records, &ids, &wanted)
        {
            return Ok((chosen, Some(format!("ids are at {field}"))));
        }
        let known: HashSet<String> =
            records.ids.iter().filter_map(|id| keys.id_of(records, *id)).collect();
        if known.is_empty() && !records.ids.is_empty() {
            return Err("filter_ids: the records have no ids, and no field has one of these values; write where, or name the field in policy as itemFields.id".to_owned());
        }
        Ok((chosen, absent_note(&wanted, &known)))
    }
}

/// The maximum depth of a field that has ids.
const MAX_DEPTH: usize = 4;

/// Returns the field in which most records have one of the ids, and these records. A field counts
/// if its name is that of an id, or if no two records have the same one of these ids. `None` if no
/// field has one. O(values).
fn by_other_id(
    records: &RecordSet<'_>,
    ids: &[NodeId],
    wanted: &[&str],
) -> Option<(String, Vec<NodeId>)> {
    let parts: HashSet<&str> = match wanted {
        [only] => only.split_whitespace().chain([*only]).collect(),
        wanted => wanted.iter().copied().collect(),
    };
    let mut found: BTreeMap<String, OtherIds> = BTreeMap::new();
    for id in ids {
        let mut visit = |name: &str, text: &str| {
            if let Some(sought) = parts.get(text) {
                let field = found.entry(name.to_owned()).or_default();
                field.is_distinct &= field.texts.insert((*sought).to_owned());
                field.records.push(*id);
            }
        };
        visit_texts(&records.outline, *id, "", MAX_DEPTH, &mut visit);
    }
    found.retain(|name, field| {
        field.records.dedup();
        is_id_name(name) || field.is_distinct && !field.texts.iter().all(|text| is_number(text))
    });
    let most = found.into_iter().rev().max_by_key(|(_, field)| field.records.len());
    most.map(|(name, field)| (name, field.records))
}

/// The records that have one of the requested ids in a field.
struct OtherIds {
    records: Vec<NodeId>,
    texts: HashSet<String>,
    /// True if no two records have the same id.
    is_distinct: bool,
}

impl Default for OtherIds {
    fn default() -> Self {
        Self { records: Vec::new(), texts: HashSet::new(), is_distinct: true }
    }
}

/// Calls `visit` with the dotted name and the text of each value of a record. Leaves out lists.
fn visit_texts(
    outline: &Outline<'_>,
    id: NodeId,
    path: &str,
    depth: usize,
    visit: &mut impl FnMut(&str, &str),
) {
    for (child, node) in outline.children(id) {
        let key = outline.decoded(&node.key);
        let name = if path.is_empty() { key } else { format!("{path}.{key}") };
        if node.children == 0 {
            let value = Value::new(outline, node);
            if let Some(text) = value.text() {
                visit(&name, text);
            }
        } else if node.kind == Kind::Object && depth > 1 {
            visit_texts(outline, child, &name, depth - 1, visit);
        }
    }
}

/// Returns true if the last key of a dotted name is that of an id, such as `req_id` or `orderKey`.
fn is_id_name(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default().trim_start_matches('@');
    let lower = last.to_lowercase();
    let words = ["id", "key", "uuid", "guid", "sku", "ref", "code", "number"];
    words.iter().any(|word| {
        // `paid` is no id.
        lower == *word
            || lower.ends_with(&format!("_{word}"))
            || lower.ends_with(&format!("-{word}"))
            || lower.ends_with(word)
                && last.chars().rev().nth(word.len() - 1).is_some_and(char::is_uppercase)
    })
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

/// Returns a note on the ids that no record has. `None` if there are none.
fn absent_note(wanted: &[&str], known: &HashSet<String>) -> Option<String> {
    let absent: Vec<String> =
        wanted.iter().filter(|id| !known.contains(**id)).map(|id| format!("'{id}'")).collect();
    let example = known.iter().min().filter(|_| absent.len() == wanted.len());
    let example = example.map_or_else(String::new, |id| format!("; ids are such as '{id}'"));
    let note = format!("no record has the id {}{example}", join_names(&absent, MAX_NAMED_IDS));
    (!absent.is_empty()).then_some(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_be_in_another_field() {
        let json = br#"[{"Bib":"M1","n":1},{"Bib":"M2","n":2}]"#;
        let limits = EndpointSettings::default();
        let records = RecordSet::locate(json, &limits).unwrap();
        let by = |ids: &[&str]| {
            let filter_ids = ids.iter().map(|id| (*id).to_owned()).collect();
            let query = Query { filter_ids, ..Query::default() };
            query.by_ids(&records, &limits, records.ids.clone())
        };
        let (chosen, note) = by(&["M2", "M7"]).unwrap();
        assert_eq!((chosen.len(), note.as_deref()), (1, Some("ids are at Bib")));
        assert!(by(&["M7"]).unwrap_err().contains("no ids"));
        let json =
            br#"[{"path":"/a","req_id":"r1"},{"path":"/b","req_id":"r2","by":{"userId":7}}]"#;
        let records = RecordSet::locate(json, &limits).unwrap();
        for (id, field) in [("r2", "req_id"), ("7", "by.userId")] {
            let query = Query { filter_ids: vec![id.to_owned()], ..Query::default() };
            let (chosen, note) = query.by_ids(&records, &limits, records.ids.clone()).unwrap();
            assert_eq!((chosen.len(), note), (1, Some(format!("ids are at {field}"))));
        }
        // A value of another field is no id if the records have ids.
        let json = br#"[{"id":1,"qty":5},{"id":2,"qty":9}]"#;
        let records = RecordSet::locate(json, &limits).unwrap();
        let query = Query { filter_ids: vec!["5".to_owned()], ..Query::default() };
        let (chosen, note) = query.by_ids(&records, &limits, records.ids.clone()).unwrap();
        assert!(chosen.is_empty());
        assert_eq!(note.as_deref(), Some("no record has the id '5'; ids are such as '1'"));
        let query = Query { filter_ids: vec!["2 1".to_owned()], ..Query::default() };
        let (chosen, note) = query.by_ids(&records, &limits, records.ids.clone()).unwrap();
        assert_eq!((chosen.len(), note), (2, None));
    }
}
