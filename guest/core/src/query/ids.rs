//! Records that are chosen by their ids.

use std::collections::{BTreeMap, HashSet};

use super::Query;
use super::records::RecordSet;
use super::response_mode::RecordKeys;
use super::value::Value;
use crate::json::outline::NodeId;
use crate::policy::EndpointSettings;

impl Query {
    /// Returns the records of `ids` that have one of the requested ids, with a note if another
    /// field than the usual one has them. O(values).
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
        let own = |id: &NodeId| keys.id_of(records, *id);
        let is_chosen = |id: &NodeId| own(id).is_some_and(|own| self.filter_ids.contains(&own));
        let chosen: Vec<NodeId> = ids.iter().copied().filter(is_chosen).collect();
        if !chosen.is_empty() || ids.is_empty() {
            return Ok((chosen, None));
        }
        if records.ids.iter().any(|id| own(id).is_some()) {
            return Ok((chosen, None));
        }
        let (field, chosen) = self.by_other_id(records, &ids).ok_or_else(|| {
            "filter_ids: the records have no ids, and no field has one of these values; write where, or name the field in policy as itemFields.id".to_owned()
        })?;
        Ok((chosen, Some(format!("ids are at {field}"))))
    }

    /// Returns the field in which most records have one of the ids, and these records. `None` if no
    /// field has one. O(values).
    fn by_other_id(
        &self,
        records: &RecordSet<'_>,
        ids: &[NodeId],
    ) -> Option<(String, Vec<NodeId>)> {
        let outline = &records.outline;
        let wanted: HashSet<&str> = self.filter_ids.iter().map(String::as_str).collect();
        let mut found: BTreeMap<String, Vec<NodeId>> = BTreeMap::new();
        for id in ids {
            for (_, node) in outline.children(*id).filter(|(_, node)| node.children == 0) {
                let value = Value::new(outline, node);
                if value.text().is_some_and(|text| wanted.contains(text)) {
                    found.entry(outline.decoded(&node.key)).or_default().push(*id);
                }
            }
        }
        found.into_iter().rev().max_by_key(|(_, chosen)| chosen.len())
    }
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
        // A value of another field is no id if the records have ids.
        let json = br#"[{"id":1,"qty":5},{"id":2,"qty":9}]"#;
        let records = RecordSet::locate(json, &limits).unwrap();
        let query = Query { filter_ids: vec!["5".to_owned()], ..Query::default() };
        assert_eq!(query.by_ids(&records, &limits, records.ids.clone()), Ok((Vec::new(), None)));
    }
}
