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

    /// Returns nodes with the elements of lists instead of the lists. Counts a step for each
    /// element.
    fn elements(&mut self, ids: Vec<NodeId>) -> Vec<NodeId> {
        let mut elements = Vec::new();
        for id in ids {
            if self.is_list(id) {
                elements.extend(self.list_elements(id));
            } else {
                elements.push(id);
            }
        }
        elements
    }

    fn is_list(&self, id: NodeId) -> bool {
        self.outline.node(id).is_some_and(|node| node.kind == Kind::Array)
    }

    /// Returns the elements of a list. Counts a step for each of them.
    fn list_elements(&mut self, id: NodeId) -> Vec<NodeId> {
        let elements: Vec<NodeId> = self.outline.children(id).map(|(id, _)| id).collect();
        self.steps = self.steps.saturating_add(elements.len());
        elements
    }

    /// Returns true if a text has a part, or a list an element.
    pub(super) fn has_part(
        &mut self,
        (text, part, place): (&'e PathOperand, &'e PathOperand, PartPlace),
        id: NodeId,
    ) -> Result<bool, String> {
        let (text, part) = (self.scalar(text, id)?, self.scalar(part, id)?);
        if let Compared::Container(id) = text {
            if !self.is_list(id) || place != PartPlace::Anywhere {
                return Err("a function of a text was given a list or an object: use where".into());
            }
            let equal = Comparison::Equal;
            let elements = self.list_elements(id);
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
        let mut whole = Some(0i128);
        for id in ids {
            let value = self.own_text(value_of(self.outline, id));
            let is_first = count == 0;
            match (&value, &best, total) {
                (Compared::Null, ..) => continue,
                (Compared::Number(number), Compared::Nothing | Compared::Number(_), _) => {
                    sum += number.float();
                    whole = whole.zip(number.whole()).and_then(|(sum, next)| sum.checked_add(next));
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
        let number = match whole.filter(|_| total == ListTotal::Sum) {
            Some(whole) => PathNumber::of_result(&whole.to_string()),
            // Further digits of a double differ from those of the exact result.
            None => PathNumber::of_result(&format!("{number:.14e}")),
        };
        Ok(number.map_or(Compared::Nothing, Compared::Number))
    }

    /// Returns the number that a value is. Null for other values.
    pub(super) fn to_number(value: &Compared<'e>) -> Compared<'e> {
        match value {
            Compared::Number(_) => value.clone(),
            Compared::Text(text) => {
                let text = text.trim();
                let is_number = serde_json::from_str::<serde_json::Number>(text).is_ok();
                let number = PathNumber::of_result(text).filter(|_| is_number);
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

#[cfg(test)]
mod tests {
    use crate::json::outline::Outline;
    use crate::json::text::Form;
    use crate::query::path::Path;

    fn count(json: &str, path: &str) -> Result<usize, String> {
        let outline = Outline::parse(json.as_bytes(), Form::Raw, &(0..json.len())).unwrap();
        Path::parse(path).unwrap().follow(&outline, 0).map(|found| found.len())
    }

    #[test]
    fn numbers_have_the_text_that_they_are_written_as() {
        let json = r#"{"d":[{"v":2.0,"p":12.50},{"v":"2.0.1","p":7},{"v":1.10,"p":1e3}]}"#;
        for (path, expected) in [
            ("$.d[?starts-with(@.v, '2.0')]", 2),
            ("$.d[?contains(@.v, '1.10')]", 1),
            ("$.d[?contains-text(@.p, '.50')]", 1),
            ("$.d[?string-length(@.p) == 5]", 1),
            ("$.d[?contains(@.p, '1e3')]", 1),
        ] {
            assert_eq!(count(json, path), Ok(expected), "{path}");
        }
    }

    #[test]
    fn sums_of_whole_numbers_are_exact() {
        let json = r#"{"d":[{"l":[1700000000123457,1]},{"l":[0.1,0.2]}]}"#;
        assert_eq!(count(json, "$.d[?sum(@.l) == 1700000000123458]"), Ok(1));
        assert_eq!(count(json, "$.d[?sum(@.l) == 0.3]"), Ok(1));
    }

    #[test]
    fn elements_that_functions_visit_are_steps() {
        let list = vec!["1"; 5_000].join(",");
        let items = vec!["{\"x\":2}"; 3_000].join(",");
        let json = format!("{{\"l\":[{list}],\"items\":[{items}]}}");
        for path in ["$.items[?contains($.l, @.x)]", "$.items[?sum($.l) == @.x]"] {
            assert!(count(&json, path).unwrap_err().contains("too many steps"), "{path}");
        }
    }
}
