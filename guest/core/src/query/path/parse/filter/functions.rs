//! The functions of JMESPath and XPath.

use crate::query::path::parse::PathParser;
use crate::query::path::syntax::{ListTotal, PartPlace, PathCondition, PathOperand};

/// Conditions on parts of texts. Those of XPath take no lists.
const PARTS: [(&str, PartPlace); 5] = [
    ("contains(", PartPlace::Anywhere),
    ("contains-text(", PartPlace::InText),
    ("starts_with(", PartPlace::Start),
    ("ends_with(", PartPlace::End),
    ("starts-with(", PartPlace::Start),
];
const TOTALS: [(&str, ListTotal); 4] = [
    ("max(", ListTotal::Max),
    ("min(", ListTotal::Min),
    ("sum(", ListTotal::Sum),
    ("avg(", ListTotal::Average),
];
/// Creates the operand for a function of one value.
type ValueFunction = fn(Box<PathOperand>) -> PathOperand;
const VALUES: [(&str, ValueFunction); 2] =
    [("to_number(", PathOperand::ToNumber), ("string-length(", PathOperand::TextLength)];

impl PathParser<'_> {
    /// Returns true if a function that is a condition is next.
    pub(super) fn has_test(&self) -> bool {
        self.rest().starts_with("each(")
            || PARTS.iter().any(|(name, _)| self.rest().starts_with(name))
    }

    /// Reads a function that is a condition. `None` if none is next.
    pub(super) fn test(&mut self) -> Result<Option<PathCondition>, String> {
        if self.eat("each(") {
            let query = self.nested(|parser| {
                let query = parser.query()?;
                parser.expect(")")?;
                Ok(query)
            })?;
            let end = self.at;
            self.skip_space();
            let comparison = match self.comparison() {
                Some(comparison) => {
                    self.skip_space();
                    Some((comparison, self.operand()?))
                }
                None => {
                    self.at = end;
                    None
                }
            };
            return Ok(Some(PathCondition::Each(query, comparison)));
        }
        let Some((_, place)) = PARTS.iter().find(|(name, _)| self.eat(name)) else {
            return Ok(None);
        };
        let condition = self.nested(|parser| {
            parser.skip_space();
            let text = parser.operand()?;
            parser.skip_space();
            parser.expect(",")?;
            parser.skip_space();
            let part = parser.operand()?;
            parser.skip_space();
            parser.expect(")")?;
            Ok(PathCondition::Part { text, part, place: *place })
        })?;
        self.without_comparison(condition).map(Some)
    }

    /// Reads a function that is a value. `None` if none is next.
    pub(super) fn function(&mut self) -> Result<Option<PathOperand>, String> {
        if let Some((_, total)) = TOTALS.iter().find(|(name, _)| self.eat(name)) {
            let query = self.nested(|parser| {
                parser.skip_space();
                let query = parser.query()?;
                parser.skip_space();
                parser.expect(")")?;
                Ok(query)
            })?;
            return Ok(Some(PathOperand::Total(*total, query)));
        }
        let Some((_, function)) = VALUES.iter().find(|(name, _)| self.eat(name)) else {
            return Ok(None);
        };
        let operand = self.nested(|parser| {
            parser.skip_space();
            let operand = parser.operand()?;
            parser.skip_space();
            parser.expect(")")?;
            Ok(operand)
        })?;
        Ok(Some(function(Box::new(operand))))
    }
}
