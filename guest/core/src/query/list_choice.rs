//! The choice of a list, if a document has several: the one that a statement names after `FROM`, or
//! the only one whose records have all fields of the query.

use super::Query;
use super::aggregate::Aggregates;
use super::code::keyword;
use super::condition::Condition;
use super::field::FieldName;
use super::path::Path;
use super::reader::{Reader, is_word_character};
use super::records::{PathTarget, RecordSet};
use crate::json::outline::NodeId;

impl Query {
    /// Returns the names that lead to the list which the query names after `FROM`. Empty if it
    /// names none.
    ///
    /// # Errors
    /// Returns a message for the caller if the query names several lists.
    fn table_names(&self) -> Result<Vec<String>, String> {
        let condition = self.condition.as_deref().and_then(|text| Condition::parse(text).ok());
        let names = condition.map(|condition| condition.list_names().to_vec()).unwrap_or_default();
        let tables = self.aggregate.as_deref().map(tables_of).unwrap_or_default();
        let mut all = tables.into_iter().chain((!names.is_empty()).then_some(names));
        let first = all.next().unwrap_or_default();
        match all.find(|other| !is_same(other, &first)) {
            Some(other) => Err(format!(
                "the query names the lists {} and {}: make a call for each",
                first.join("."),
                other.join(".")
            )),
            None => Ok(first),
        }
    }

    /// Returns true if the query names a list after `FROM` that may not be that of the records.
    pub(super) fn names_other_list(&self, records: &RecordSet<'_>) -> bool {
        match self.table_names() {
            Ok(names) => {
                let own = records.list_keys();
                !(names.is_empty() || names.len() == 1 && own.last() == names.last())
            }
            Err(_) => true,
        }
    }

    /// Returns the JSON Pointer of the list that the query names after `FROM`. `None` if it names
    /// none, or that of the records, or if nothing in the document has that name.
    ///
    /// # Errors
    /// Returns a message for the caller if the query names several lists, another one than its path
    /// does, or a value that is no list of records.
    pub(super) fn named_list(&self, records: &RecordSet<'_>) -> Result<Option<String>, String> {
        let names = self.table_names()?;
        let Some(name) = names.last() else { return Ok(None) };
        let found = records.list_named(&names);
        let is_own = records.list_keys().last().is_some_and(|own| own.eq_ignore_ascii_case(name));
        if let Some(path) = &self.path {
            let last = path.rsplit(['/', '.']).next().unwrap_or_default();
            let is_other = !last.trim_end_matches("[*]").eq_ignore_ascii_case(name);
            return match (found.is_some() || is_own) && is_other {
                true => Err(format!(
                    "path is {path}, and the query names the list {name}: leave one of them out"
                )),
                false => Ok(None),
            };
        }
        if found.is_some() || is_own && names.len() == 1 {
            return Ok(found);
        }
        // Other languages write the name of a list inside records so: `lines[?qty > 5]`.
        let is_table = self.condition.as_deref().is_none_or(|text| text.starts_with("from "));
        match records.has_key(name) {
            true if is_table && !is_own => Err(format!(
                "{name} is no list of records at the top of this answer: choose it with path, such as $..{name}[*]"
            )),
            _ => Ok(None),
        }
    }

    /// Returns the JSON Pointer of the only list whose records have all fields of the query.
    /// `None` if the query names a path, if the records have the fields already, or if no list or
    /// several have them. O(lists × fields × records).
    pub(super) fn list_with_fields(
        &self,
        records: &RecordSet<'_>,
        aggregates: Option<&Aggregates>,
    ) -> Option<String> {
        if self.path.is_some() {
            return None;
        }
        let mut names: Vec<FieldName> = Vec::new();
        if let Some(condition) = self.condition.as_deref() {
            Condition::parse(condition).ok()?.each_field(&mut |name| names.push(name.clone()));
        }
        if let Some(aggregates) = aggregates {
            aggregates.each_name(&mut |name| names.push(name.clone()));
        }
        for field in self.fields.as_deref().into_iter().flat_map(|fields| fields.split(',')) {
            names.push(FieldName::read(&mut Reader::new("fields", field).ok()?).ok()?);
        }
        if names.is_empty() {
            return None;
        }
        let has_all = |ids: &[NodeId]| names.iter().all(|name| name.find(records, ids).is_some());
        if records.is_list && has_all(&records.ids) {
            return None;
        }
        let mut found = records.record_lists().into_iter().filter(|(_, ids)| has_all(ids));
        let (path, _) = found.next()?;
        found.next().is_none().then_some(path)
    }

    /// Turns the members of an object into the records if the query needs a list. Fails if it needs
    /// one and the answer has none.
    pub(super) fn require_list(
        &self,
        records: &mut RecordSet<'_>,
        aggregates: Option<&Aggregates>,
    ) -> Result<(), String> {
        if records.is_list {
            return Ok(());
        }
        let counts = self.path.is_some() && aggregates.is_some_and(Aggregates::has_no_fields);
        if records.take_members(counts) {
            return Ok(());
        }
        let lists = records.lists();
        // Totals of one object are totals of the lists inside it.
        if !self.filters()
            && (lists.is_empty() || !aggregates.is_some_and(Aggregates::has_no_fields))
        {
            return Ok(());
        }
        let hint = if lists.is_empty() {
            String::new()
        } else {
            format!("; name one of its lists with path: {}", lists.join(", "))
        };
        Err(format!(
            "where, filter_ids, min_score and aggregate need records of a list; this answer is not one{hint}"
        ))
    }
}

/// Returns the names of the tables in totals: `["data", "items"]` of `SELECT a FROM data.items`.
fn tables_of(text: &str) -> Vec<Vec<String>> {
    let (mut tables, mut at) = (Vec::new(), 0);
    while let Some(from) = keyword(text, at, "from") {
        at = from + "from".len();
        let rest = text.get(at..).unwrap_or_default().trim_start();
        let is_sign = |c: char| is_word_character(c) || "_-.$\"`[]".contains(c);
        let end = rest.find(|c| !is_sign(c)).unwrap_or(rest.len());
        let name = rest.get(..end).unwrap_or_default();
        let names: Vec<String> = name
            .split('.')
            .map(|part| part.trim_matches(['"', '`', '[', ']']).to_owned())
            .filter(|part| !part.is_empty())
            .collect();
        // `count by from limit 3`
        let is_clause = ["limit", "order", "having", "by", "as"]
            .iter()
            .any(|word| names.first().is_some_and(|name| name.eq_ignore_ascii_case(word)));
        if !names.is_empty() && !is_clause {
            tables.push(names);
        }
    }
    tables
}

fn is_same(left: &[String], right: &[String]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| left.eq_ignore_ascii_case(right))
}

impl<'a> RecordSet<'a> {
    /// Returns the elements of the list at a JSON Pointer as the records.
    ///
    /// # Errors
    /// Returns a message for the caller if there is no list.
    pub(super) fn at_list(self, path: &str) -> Result<Self, String> {
        match self.follow(&Path::parse(path)?)? {
            PathTarget::Records(records) => Ok(records),
            PathTarget::Text(_) => Err(format!("the value at {path} is a text, not a list")),
        }
    }
}
