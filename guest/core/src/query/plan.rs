//! The parts of the input that a query needs.

use super::Query;
use super::aggregate::Aggregates;
use super::condition::Condition;
use super::needed::NeededFields;

impl Query {
    /// Returns the fields of records that the query reads. `None` if it may read all fields.
    pub(super) fn needed_fields(&self) -> Option<NeededFields> {
        let reads_all = self.path.is_some()
            || self.grep.is_some()
            || self.mode.is_some()
            || self.min_score.is_some()
            || !self.filter_ids.is_empty()
            || (self.condition.is_none() && self.aggregate.is_none() && !self.only_skips());
        if reads_all {
            return None;
        }
        let mut needed = NeededFields::default();
        if let Some(condition) = &self.condition {
            let condition = Condition::parse(condition).ok().filter(|known| !known.names_path())?;
            condition.each_name(&mut |name| needed.add(name.keys()));
        }
        if let Some(aggregate) = &self.aggregate {
            Aggregates::parse(aggregate).ok()?.each_name(&mut |name| needed.add(name.keys()));
        }
        Some(needed)
    }

    /// Returns true if the query returns complete records and skips the first ones.
    fn only_skips(&self) -> bool {
        self.skip > 0 && self.fields.is_none() && self.jq.is_none()
    }

    /// Returns true if the query chooses a page of the values, as `offset` does, and nothing else.
    fn only_pages(&self) -> bool {
        let condition = self.condition.as_deref().and_then(|text| Condition::parse(text).ok());
        let is_page = condition.is_some_and(|condition| condition.is_page());
        is_page && self.filter_ids.is_empty() && self.min_score.is_none()
    }

    /// Returns true if the query needs records, so that a table in a text must be converted to
    /// records.
    pub(super) fn needs_records(&self) -> bool {
        self.filters()
            || self.path.is_some()
            || self.fields.is_some()
            || self.mode.is_some()
            || self.jq.is_some()
            || (self.aggregate.is_some() && (self.grep.is_none() || self.totals_have_fields()))
    }

    fn totals_have_fields(&self) -> bool {
        let totals = self.aggregate.as_deref().and_then(|text| Aggregates::parse(text).ok());
        totals.is_some_and(|totals| !totals.has_no_fields())
    }

    /// Returns true if the query has a condition, ids or a minimum score that selects records.
    pub(super) fn filters(&self) -> bool {
        self.condition.is_some() || !self.filter_ids.is_empty() || self.min_score.is_some()
    }

    /// Returns true if the query chooses, totals or reduces records, so that it does not return the
    /// values of a path as they are.
    pub(super) fn reads_records(&self) -> bool {
        (self.filters() && !self.only_pages())
            || self.aggregate.is_some()
            || self.fields.is_some()
            || self.mode.is_some()
            || self.skip > 0
    }

    /// Returns true if the query selects records: by a filter, or by `grep` if it returns records,
    /// not matches.
    pub(super) fn chooses(&self) -> bool {
        self.filters() || self.greps_records()
    }

    /// Returns true if `grep` selects records, because the query returns records or totals of them.
    pub(super) fn greps_records(&self) -> bool {
        let shows_records =
            self.aggregate.is_some() || self.mode.is_some() || self.fields.is_some();
        self.grep.is_some() && shows_records
    }

    /// Returns true if the query only searches. A search also reads values that are not in the
    /// outline.
    pub(super) fn is_search(&self) -> bool {
        self.grep.is_some() && !self.needs_records() && self.aggregate.is_none()
    }
}
