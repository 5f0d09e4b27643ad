//! Records that are chosen by their ids.

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
        if let Some((note, chosen)) = self.by_other_id(records, &ids) {
            return Ok((chosen, Some(note)));
        }
        if ids.iter().all(|id| own(id).is_none()) {
            return Err("filter_ids: the records have no ids, and no field has one of these values; write where, or name the field in policy as itemFields.id".to_owned());
        }
        Ok((chosen, None))
    }

    /// Returns the records in which the first field with one of the ids has one, with a note that
    /// names the field. `None` if no field has one. O(values).
    fn by_other_id(
        &self,
        records: &RecordSet<'_>,
        ids: &[NodeId],
    ) -> Option<(String, Vec<NodeId>)> {
        let outline = &records.outline;
        let first = *ids.first()?;
        let names = outline.children(first).map(|(_, node)| outline.decoded(&node.key));
        names.filter(|name| !name.is_empty()).find_map(|name| {
            let is_chosen = |id: &NodeId| {
                let value = outline.member(*id, &name).and_then(|(id, _)| outline.node(id));
                let value =
                    value.filter(|node| node.children == 0).map(|node| Value::new(outline, node));
                value
                    .as_ref()
                    .and_then(Value::text)
                    .is_some_and(|text| self.filter_ids.iter().any(|id| id == text))
            };
            let chosen: Vec<NodeId> = ids.iter().copied().filter(is_chosen).collect();
            (!chosen.is_empty()).then(|| (format!("ids are at {name}"), chosen))
        })
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
    }
}
