//! Names of records before the names of their fields: `df.price`, `row.price`, `x.price`.

use super::{FieldName, NameSegment};
use crate::json::outline::NodeId;
use crate::query::records::RecordSet;

/// Names that programs use for a record or its table: `df.price`, `row.price`. A single letter is
/// such a name, too: `x.price`. A field of that name takes precedence.
const RECORDS: [&str; 18] = [
    "df", "data", "table", "rows", "row", "records", "record", "rec", "entry", "doc", "obj",
    "item", "it", "elem", "el", "this", "self", "_",
];

/// Names that programs use for a record, and never for an element of one of its lists.
const ROWS: [&str; 7] = ["df", "table", "rows", "row", "records", "record", "rec"];

impl FieldName {
    /// Returns true if the name denotes the records themselves, not one of their fields.
    pub(in crate::query) fn is_of_records(&self, records: &RecordSet<'_>) -> bool {
        let own = records.list_keys();
        let list: Vec<NameSegment> = own.iter().cloned().map(NameSegment::Key).collect();
        match self.segments.as_slice() {
            [NameSegment::Key(name)] => {
                // `item` may be a list `items` of the records.
                let plural = self.plural();
                let has_list =
                    || plural.is_some_and(|plural| plural.find(records, &records.ids).is_some());
                ["items", "@"].contains(&name.as_str()) || is_record(name, &list) && !has_list()
            }
            _ => false,
        }
    }

    /// Returns true if the name can only denote a field of a record, also inside a test of the
    /// `elements` of `list`: `row.seller`, `$.seller`. In a list `rows`, `row` is an element.
    pub(in crate::query) fn is_outside(
        &self,
        list: &FieldName,
        records: &RecordSet<'_>,
        elements: &[NodeId],
    ) -> bool {
        let is_root = self.verbatim.starts_with("$.") || self.verbatim.starts_with("$[");
        let element = list.keys().last().map(singular);
        let is_row = |first: &&str| ROWS.contains(first) && element.as_deref() != Some(first);
        let row = self.split_first().map(|(first, _)| first).filter(is_row).map(Self::of_key);
        is_root || row.is_some_and(|row| row.find(records, elements).is_none())
    }

    /// Returns the name of a list of values that this name denotes: `items` for `item`. `None` if
    /// the name is not a single key.
    pub(in crate::query) fn plural(&self) -> Option<Self> {
        match self.segments.as_slice() {
            [NameSegment::Key(name)] => Some(Self::of_key(&format!("{name}s"))),
            _ => None,
        }
    }
}

/// Returns the name of an element of a list: `product` for `products`.
fn singular(plural: &str) -> String {
    match plural.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => plural.strip_suffix('s').unwrap_or(plural).to_owned(),
    }
}

/// Returns true if `name` denotes a record of a list: `product` for one of `/products`.
pub(super) fn is_record(name: &str, list: &[NameSegment]) -> bool {
    let mut letters = name.chars();
    let is_letter = letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none();
    let is_of_list = || match list.last() {
        Some(NameSegment::Key(list)) => singular(list).eq_ignore_ascii_case(name),
        _ => false,
    };
    is_letter || RECORDS.contains(&name) || is_of_list()
}
