//! The functions of JMESPath and XPath in filters.

use super::Evaluation;
use crate::json::outline::NodeId;
use crate::json::scan::Kind;
use crate::query::path::compare::{Compared, PathNumber, compare, value_of};
use crate::query::path::syntax::{Comparison, ListTotal, PartPlace, PathOperand, PathQuery};

impl<'e> Evaluation<'e, '_> {
    /// Returns the value of an operand. The value of an XML element with attributes is its text.
    pub(super) fn scalar(
        &mut self,
        operand: &'e PathOperand,
        id: NodeId,
    ) -> Result<Compared<'e>, String> {
        let value = self.value(operand, id)?;
        Ok(self.own_text(value))
    }

    fn own_text(&self, value: Compared<'e>) -> Compared<'e> {
        let Compared::Container(id) = value else { return value };
        match self.outline.member(id, "#text") {
            Some((text, _)) => value_of(self.outline, text),
            None => value,
        }
    }

    /// Returns true if one of the values that a query selects through lists exists or, with a
    /// comparison, meets it.
    pub(super) fn each(
        &mut self,
        query: &'e PathQuery,
        comparison: Option<&'e (Comparison, PathOperand)>,
        id: NodeId,
    ) -> Result<bool, String> {
        let mut at = vec![id];
        for segment in &query.segments {
            let mut next = Vec::new();
            for id in self.elements(at) {
                for selector in &segment.selectors {
                    self.apply(selector, id, &mut next)?;
                }
            }
            at = next;
        }
        let Some((comparison, right)) = comparison else { return Ok(!at.is_empty()) };
        let right = self.scalar(right, id)?;
        let found = self.elements(at);
        Ok(found.into_iter().any(|id| {
            let left = self.own_text(value_of(self.outline, id));
            compare(self.outline, &left, *comparison, &right, &mut self.steps)
        }))
    }

    /// Returns nodes with the elements of lists instead of the lists.
    fn elements(&self, ids: Vec<NodeId>) -> Vec<NodeId> {
        let is_list =
            |id: NodeId| self.outline.node(id).is_some_and(|node| node.kind == Kind::Array);
        let each = |id: NodeId| match is_list(id) {
            true => self.outline.children(id).map(|(id, _)| id).collect(),
            false => vec![id],
        };
        ids.into_iter().flat_map(each).collect()
    }

    /// Returns true if a text has a part, or a list an element.
    pub(super) fn has_part(
        &mut self,
        (text, part, place): (&'e PathOperand, &'e PathOperand, PartPlace),
        id: NodeId,
    ) -> Result<bool, String> {
        let (text, part) = (self.scalar(text, id)?, self.scalar(part, id)?);
        if let Compared::Container(id) = text {
            let is_list = self.outline.node(id).is_some_and(|node| node.kind == Kind::Array);
            if !is_list || place != PartPlace::Anywhere {
                return Err("a function of a text was given a list or an object: use where".into());
            }
            let equal = Comparison::Equal;
            let elements: Vec<NodeId> = self.outline.children(id).map(|(id, _)| id).collect();
            return Ok(elements.into_iter().any(|id| {
                let element = value_of(self.outline, id);
                compare(self.outline, &element, equal, &part, &mut self.steps)
            }));
        }
        let (Some(text), Some(part)) = (text.written(), part.written()) else { return Ok(false) };
        self.steps = self.steps.saturating_add(text.len() / 8);
        Ok(match place {
            PartPlace::Anywhere | PartPlace::InText => text.contains(part.as_ref()),
            PartPlace::Start => text.starts_with(part.as_ref()),
            PartPlace::End => text.ends_with(part.as_ref()),
        })
    }

    /// Returns a total of the selected values or, if one list is selected, of its elements. Null
    /// counts as absent, as in a projection of JMESPath.
    ///
    /// # Errors
    /// Returns a message for the caller if a value has another type.
    pub(super) fn total(
        &mut self,
        total: ListTotal,
        query: &'e PathQuery,
        id: NodeId,
    ) -> Result<Compared<'e>, String> {
        let mut ids = self.query(query, id)?;
        if query.is_singular() {
            ids = self.elements(ids);
        }
        let (mut best, mut sum, mut count) = (Compared::Nothing, 0.0, 0usize);
        for id in ids {
            let value = self.own_text(value_of(self.outline, id));
            let is_first = count == 0;
            match (&value, &best, total) {
                (Compared::Null, ..) => continue,
                (Compared::Number(number), Compared::Nothing | Compared::Number(_), _) => {
                    sum += number.float();
                }
                (
                    Compared::Text(_),
                    Compared::Nothing | Compared::Text(_),
                    ListTotal::Max | ListTotal::Min,
                ) => {}
                _ => return Err("max, min, sum and avg take numbers, or texts for max and min, and a value has another type: use where or jq".to_owned()),
            }
            count += 1;
            let better = match total {
                ListTotal::Min => Comparison::Less,
                _ => Comparison::Greater,
            };
            if is_first || compare(self.outline, &value, better, &best, &mut self.steps) {
                best = value;
            }
        }
        #[allow(clippy::cast_precision_loss, reason = "an average is no exact number")]
        let number = match total {
            ListTotal::Max | ListTotal::Min => return Ok(best),
            ListTotal::Average if count == 0 => return Ok(Compared::Null),
            ListTotal::Average => sum / count as f64,
            ListTotal::Sum => sum,
        };
        // Further digits of a double differ from those of the exact result.
        let number = PathNumber::parse(&format!("{number:.14e}"));
        Ok(number.map_or(Compared::Nothing, Compared::Number))
    }

    /// Returns the number that a value is. Null for other values.
    pub(super) fn to_number(value: &Compared<'e>) -> Compared<'e> {
        match value {
            Compared::Number(number) => Compared::Number(*number),
            Compared::Text(text) => {
                let text = text.trim();
                let is_number = serde_json::from_str::<serde_json::Number>(text).is_ok();
                let number = PathNumber::parse(text).filter(|_| is_number);
                number.map_or(Compared::Null, Compared::Number)
            }
            _ => Compared::Null,
        }
    }

    /// Returns the number of characters of a text or number, and 0 without a value.
    ///
    /// # Errors
    /// Returns a message for the caller if the value is a list or an object.
    pub(super) fn text_length(value: &Compared<'e>) -> Result<Compared<'e>, String> {
        match value {
            Compared::Container(_) => {
                Err("string-length takes one element with a text: use where with length(…)"
                    .to_owned())
            }
            value => {
                let count = value.written().map_or(0, |text| text.chars().count());
                Ok(Compared::Number(PathNumber::of_count(count)))
            }
        }
    }
}
