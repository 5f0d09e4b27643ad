//! Fields that are meant by a name which no record has.

use super::{FieldName, FieldPath, NameSegment};
use crate::json::outline::NodeId;
use crate::query::alike::alike;
use crate::query::known_fields::known_fields;
use crate::query::records::RecordSet;

impl FieldName {
    /// Returns the only field that the name can mean, with its full name: one that is written with
    /// other separators, as `unitPrice` for `unit_price`, or that is inside an object, as
    /// `namespace` for `metadata.namespace`. `None` if there are none or several.
    pub(in crate::query) fn find_alike(
        &self,
        records: &RecordSet<'_>,
        all: &[NodeId],
    ) -> Option<(FieldName, FieldPath)> {
        let keys = self.segments.iter().map(|segment| match segment {
            NameSegment::Key(key) => Some(key.as_str()),
            NameSegment::Index(_) => None,
        });
        let wanted = keys.collect::<Option<Vec<&str>>>()?.join(".");
        let known = known_fields(records, all);
        let full = alike(&known, &wanted)?;
        let named = |keys: Vec<&str>| {
            let segments = keys.into_iter().map(|key| NameSegment::Key(key.to_owned())).collect();
            let name = FieldName { segments, verbatim: full.to_owned() };
            let path = name.find(records, all)?;
            Some((name, path))
        };
        // A key may have dots itself.
        named(full.split('.').collect()).or_else(|| named(vec![full]))
    }
}
