//! Conditions on the totals of groups, in `having`.

use super::diagnose::{MAX_NAMED_VALUES, kind};
use super::{Check, Leaf, Operator, Source, Test, parse};
use crate::json::outline::NodeId;
use crate::query::field::FieldName;
use crate::query::names::join_names;
use crate::query::operand::Operand;
use crate::query::reader::Reader;
use crate::query::scale::ScaleSurvey;
use crate::query::value::{Value, quote};

/// A condition on the totals of groups.
#[derive(Debug)]
pub(in crate::query) struct TotalsCondition(Test);

impl TotalsCondition {
    /// Reads a condition on totals.
    pub(in crate::query) fn read(reader: &mut Reader<'_>) -> Result<Self, String> {
        parse::parse(reader, parse::Names::Totals).map(Self)
    }

    /// Returns the names of the totals in the condition.
    pub(in crate::query) fn names(&self) -> Vec<&FieldName> {
        let mut names = Vec::new();
        self.0.each_leaf(&mut |leaf| {
            names.push(&leaf.operand.name);
            if let Check::Field(_, other) = &leaf.check {
                names.push(&other.name);
            }
        });
        names
    }

    /// Replaces unquoted words that name a total by that total.
    pub(in crate::query) fn bind(&mut self, is_total: impl Fn(&str) -> bool) {
        let _ = self.0.each_leaf_mut(&mut |leaf| {
            if let Check::Compare(operator, literal) = &leaf.check
                && !literal.is_quoted
                && literal.number().is_none()
                && is_total(&literal.text)
            {
                let other = Operand::new(FieldName::of_key(&literal.text));
                leaf.check = Check::Field(*operator, other);
            }
            Ok(())
        });
    }

    /// Chooses the scales of comparisons with totals, as `where` does for fields. `survey` returns
    /// the forms of the values of a total. Returns notes for the answer.
    ///
    /// # Errors
    /// Returns a message for the caller if a literal does not have the form of the values.
    pub(in crate::query) fn fit<'s>(
        &mut self,
        survey: impl Fn(&str) -> Option<&'s ScaleSurvey>,
    ) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        self.0.each_leaf_mut(&mut |leaf| {
            let name = leaf.operand.name.verbatim.clone();
            let Some(survey) = survey(&name) else { return Ok(()) };
            let note = leaf.fit(survey, &name).map_err(|reason| format!("aggregate: {reason}"))?;
            // The note on a field is that on its totals.
            notes.extend(note.filter(|_| !matches!(leaf.check, Check::Field(..))));
            Ok(())
        })?;
        Ok(notes)
    }

    /// Checks that groups have values that the condition can compare. Returns a note if no group
    /// has the value of an equality.
    ///
    /// # Errors
    /// Returns a message for the caller if no group has a value of the type of a literal.
    pub(in crate::query) fn check(
        &self,
        source: &dyn Source,
        groups: usize,
    ) -> Result<Vec<String>, String> {
        let (mut notes, mut reason) = (Vec::new(), Ok(()));
        self.0.each_leaf(&mut |leaf| {
            if let Err(found) = leaf.check_groups(source, groups, &mut notes) {
                reason = Err(found);
            }
        });
        reason.map(|()| notes)
    }

    /// Returns true if the group `id` of `source` meets the condition.
    pub(in crate::query) fn holds(&self, source: &dyn Source, id: NodeId) -> bool {
        self.0.evaluate(source, id) == Some(true)
    }
}

impl Leaf {
    /// Validates a comparison of `having` against the values of all groups. See
    /// [`TotalsCondition::check`].
    fn check_groups(
        &self,
        source: &dyn Source,
        groups: usize,
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        let Check::Compare(operator, literal) = &self.check else { return Ok(()) };
        let (mut is_comparable, mut has_match, mut samples) = (false, false, Vec::new());
        for id in 0..groups {
            source.visit(&self.operand, id, &mut |value| {
                let result = self.check.test(&value);
                is_comparable |= result.is_some();
                has_match |= result == Some(true);
                let sample = value.text().map(quote).filter(|_| value != Value::Null);
                samples.extend(sample.filter(|_| samples.len() < MAX_NAMED_VALUES));
            });
        }
        let held = join_names(&samples, MAX_NAMED_VALUES);
        let name = &self.operand.name.verbatim;
        if !is_comparable && !samples.is_empty() {
            return Err(format!(
                "aggregate: no group has a {} at {name} to compare with {literal}; it holds {held}; write a value of that form",
                kind(literal)
            ));
        }
        if *operator == Operator::Equal && !has_match && !samples.is_empty() {
            notes.push(format!("no group has {literal} at {name}; it has {held}"));
        }
        Ok(())
    }
}
