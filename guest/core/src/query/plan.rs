//! The parts of its input that a query needs.

use super::Query;
use super::aggregate::Aggregates;
use super::condition::Condition;
use super::needed::NeededFields;

impl Query {
    /// Returns the fields of records that the query reads. None if it may read all of them.
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

    /// Returns true if the query returns complete records after the first ones.
    fn only_skips(&self) -> bool {
        self.skip > 0 && self.fields.is_none() && self.jq.is_none()
    }

    /// Returns true if the query is about records, so that a table in a text is read as records.
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

    /// Returns true if the query states which records to choose.
    pub(super) fn filters(&self) -> bool {
        self.condition.is_some() || !self.filter_ids.is_empty() || self.min_score.is_some()
    }

    /// Returns true if some records are chosen: also those with a match, if the query asks for
    /// records and not for the matches.
    pub(super) fn chooses(&self) -> bool {
        self.filters() || self.greps_records()
    }

    /// Returns true if `grep` chooses records, because the query states their form.
    pub(super) fn greps_records(&self) -> bool {
        let shows_records =
            self.aggregate.is_some() || self.mode.is_some() || self.fields.is_some();
        self.grep.is_some() && shows_records
    }

    /// Returns true if the query only searches. A search reads values that are not indexed, too.
    pub(super) fn is_search(&self) -> bool {
        self.grep.is_some() && !self.needs_records() && self.aggregate.is_none()
    }
}
