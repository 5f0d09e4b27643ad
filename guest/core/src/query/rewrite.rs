//! Equivalent forms of a query.

use super::condition::{Condition, lambda};
use super::path::Path;
use super::response_mode::ResponseMode;
use super::{Query, aggregate};

impl Query {
    /// Moves a condition from the totals to the condition of the query, as in `SELECT count(*) FROM
    /// t WHERE a > 5`.
    pub fn separate_condition(&mut self) {
        let Some((condition, totals)) = self.aggregate.as_deref().and_then(aggregate::split) else {
            return;
        };
        self.aggregate = Some(totals);
        self.condition = Some(match self.condition.take() {
            Some(other) => {
                let condition = lambda(&condition).unwrap_or(condition);
                format!("({other}) AND ({condition})")
            }
            None => condition,
        });
    }

    /// Adds an order, such as `price desc`, to the totals or to the condition of the query.
    ///
    /// # Errors
    /// Returns a message for the caller if the query has no records to sort, or already has an
    /// order.
    pub fn add_order(&mut self, order: &str) -> Result<(), String> {
        let other = [(&self.jq, "jq"), (&self.grep, "grep")];
        if let Some((_, name)) = other.iter().find(|(argument, _)| argument.is_some()) {
            return Err(format!(
                "sort orders records, and has no effect with {name}: write where instead of it"
            ));
        }
        if let Some(totals) = &mut self.aggregate {
            totals.push_str(&format!(" order by {order}"));
            return Ok(());
        }
        self.condition = Some(match self.condition.take() {
            Some(condition) => Condition::with_order(&condition, order)?,
            None => format!("order by {order}"),
        });
        Ok(())
    }

    /// Skips the first `count` records that the query chooses, after sorting.
    ///
    /// # Errors
    /// Returns a message for the caller if the query has no records to skip, or already skips some.
    pub fn add_offset(&mut self, count: u64) -> Result<(), String> {
        if count == 0 {
            return Ok(());
        }
        if !self.filter_ids.is_empty() || self.min_score.is_some() {
            return Err(
                "offset skips records before filter_ids and min_score choose: leave it out"
                    .to_owned(),
            );
        }
        let other = [(&self.jq, "jq"), (&self.grep, "grep"), (&self.aggregate, "aggregate")];
        if let Some((_, name)) = other.iter().find(|(argument, _)| argument.is_some()) {
            return Err(format!(
                "offset skips records, and has no effect with {name}: for its next page give the nextCursor of the answer as cursor"
            ));
        }
        self.condition = Some(match self.condition.take() {
            Some(condition) => Condition::with_offset(&condition, count)?,
            None => format!("offset {count}"),
        });
        Ok(())
    }

    /// Returns a query for the complete records that this query selects, from record number `first`
    /// on. Returns `None` if this query returns complete records already.
    #[must_use]
    pub fn for_complete_records(&self, first: u64) -> Option<Self> {
        let reduces =
            self.fields.is_some() || self.mode.is_some_and(|mode| mode != ResponseMode::Full);
        let skip = self.skip.saturating_add(first);
        reduces.then(|| Self { fields: None, mode: None, skip, ..self.clone() })
    }

    /// Returns the query with its XPath converted to a JSONPath. `None` if its path is not an
    /// XPath, or has parts that JSONPath lacks.
    pub(super) fn with_json_path(&self) -> Option<Self> {
        let path = Path::from_xpath(self.path.as_deref()?)?;
        Some(Self { path: Some(path), ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_totals_join_others() {
        let totals = "rows.filter(r => !(r.a > 5)).length";
        for (other, expected) in [
            (None, "from rows where r => !(r.a > 5)"),
            (Some("b = 1"), "from rows where (b = 1) AND (!(a > 5))"),
        ] {
            let (aggregate, condition) = (Some(totals.to_owned()), other.map(str::to_owned));
            let mut query = Query { aggregate, condition, ..Query::default() };
            query.separate_statement().unwrap();
            query.separate_condition();
            assert_eq!(query.aggregate.as_deref(), Some("count"));
            let condition = query.condition.unwrap();
            assert_eq!(condition, expected);
            assert!(Condition::parse(&condition).is_ok(), "{condition}");
        }
    }
}
