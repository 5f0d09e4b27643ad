//! Queries whose records are the members of an object.

use super::path::Path;
use super::records::RecordSet;
use super::{Query, QueryInput, QueryResult};
use crate::json::scan::Kind;

impl Query {
    /// Runs the query on a document. If its records are not a list, uses the members of an object
    /// as records, each with its name.
    ///
    /// # Errors
    /// Returns a message for the caller if the query does not apply to the document.
    pub(super) fn run_on_document(
        &self,
        records: RecordSet<'_>,
        input: &QueryInput<'_>,
    ) -> Result<QueryResult, String> {
        let chooses = self.filters() || self.aggregate.is_some();
        let reads_records = chooses || self.fields.is_some() || self.mode.is_some();
        let target = match &self.path {
            None if records.is_list => None,
            None => Some(None),
            Some(path) => {
                let path = Path::parse(path)?;
                let found = path.follow(&records.outline, records.root).unwrap_or_default();
                let is_object =
                    |id| records.outline.node(id).is_some_and(|node| node.kind == Kind::Object);
                let is_many = path.is_many(&records.outline, records.root);
                found.first().copied().filter(|id| !is_many && is_object(*id)).map(Some)
            }
        };
        let members =
            target.filter(|_| reads_records).and_then(|target| records.members_as_list(target));
        let Some(members) = members else { return self.run_on_records(records, input) };
        let run = || -> Result<QueryResult, String> {
            let mut result = self.run_on_json(&members.json, input)?;
            result.description.push_str(&format!("; {}", members.note));
            Ok(result)
        };
        if chooses && members.are_objects {
            return run().or_else(|reason| self.run_on_records(records, input).map_err(|_| reason));
        }
        self.run_on_records(records, input).or_else(|reason| run().map_err(|_| reason))
    }
}
