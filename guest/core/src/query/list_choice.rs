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

impl Query {
    /// Returns the JSON Pointer of the list that the query names after `FROM`. `None` if it names
    /// none, or that of the records.
    pub(super) fn named_list(&self, records: &RecordSet<'_>) -> Option<String> {
        if self.path.is_some() {
            return None;
        }
        let condition = self.condition.as_deref().and_then(|text| Condition::parse(text).ok());
        let names = condition.map(|condition| condition.list_names().to_vec());
        let names = names.filter(|names| !names.is_empty());
        let names = names.or_else(|| self.aggregate.as_deref().and_then(table_of))?;
        records.list_named(&names)
    }

    /// Returns the JSON Pointer of the only list whose records have all fields of the query.
    /// `None` if the records are known already, or if no list or several have them.
    /// O(lists × fields × records).
    pub(super) fn list_with_fields(
        &self,
        records: &RecordSet<'_>,
        aggregates: Option<&Aggregates>,
    ) -> Option<String> {
        if records.is_list || self.path.is_some() {
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
        let mut found = records
            .record_lists()
            .into_iter()
            .filter(|(_, ids)| names.iter().all(|name| name.find(records, ids).is_some()));
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

/// Returns the names of the table in a statement: `["data", "items"]` of `SELECT a FROM
/// data.items`.
fn table_of(text: &str) -> Option<Vec<String>> {
    let rest = text.get(keyword(text, 0, "from")? + "from".len()..)?.trim_start();
    let end = rest.find(|c| !(is_word_character(c) || "_-.$".contains(c))).unwrap_or(rest.len());
    let name = rest.get(..end).filter(|name| !name.is_empty())?;
    Some(name.split('.').map(str::to_owned).collect())
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
