//! Totals of the numbers of a list in a record: `sum(lines.price) > 5`, `max(scores)`, `sum(l.price
//! for l in lines)`.

use std::cmp::Ordering;

use super::{FieldFunction, Operand};
use crate::decimal::Sum;
use crate::json::outline::{NodeId, Outline};
use crate::query::code::end_of_group;
use crate::query::field::FieldName;
use crate::query::reader::Reader;
use crate::query::records::RecordSet;
use crate::query::value::{Number, Value};

/// A function of the numbers of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::query) enum ListFunction {
    Sum,
    Average,
    Max,
    Min,
}

/// The names of the functions.
pub(super) const FUNCTIONS: [(&str, ListFunction); 4] = [
    ("sum", ListFunction::Sum),
    ("avg", ListFunction::Average),
    ("max", ListFunction::Max),
    ("min", ListFunction::Min),
];

impl ListFunction {
    /// Returns the name of the function.
    pub(super) fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

impl Operand {
    /// Reads the list of a total, after the opening parenthesis.
    pub(super) fn list_total(
        reader: &mut Reader<'_>,
        function: ListFunction,
    ) -> Result<Self, String> {
        let inside = end_of_group(reader.rest()).and_then(|end| reader.rest().get(..end));
        let generator = inside.and_then(|inside| {
            let (value, rest) = inside.trim().split_once(" for ")?;
            let (variable, list) = rest.split_once(" in ")?;
            let member = value.strip_prefix(variable.trim())?;
            let is_path = member.is_empty() || member.starts_with(['.', '[']);
            is_path.then(|| (inside, format!("{}{member}", list.trim())))
        });
        let name = match generator {
            Some((inside, path)) => {
                let mut inner = reader.inner(&path);
                let name = FieldName::read(&mut inner)?;
                if !inner.is_at_end() {
                    return Err(reader.error("a list and its variable are expected here"));
                }
                reader.eat(inside.trim_start());
                name
            }
            None => FieldName::read(reader)?,
        };
        reader.close()?;
        Ok(Self { function: Some(FieldFunction::List(function)), ..Self::new(name) })
    }

    /// Checks that the field is a list of numbers.
    ///
    /// # Errors
    /// Returns a message for the caller if no record has a list there, or if a value is no number.
    pub(super) fn check_list(
        &self,
        function: ListFunction,
        records: &RecordSet<'_>,
        all: &[NodeId],
    ) -> Result<(), String> {
        let (field, word) = (&self.field, function.name());
        if !all.iter().any(|id| field.list_depth(&records.outline, *id).is_some()) {
            return Err(format!(
                "{word}({field}) is a total of a list in each record, and {field} is none: for one of all records write aggregate: {word}({field}), and for the record with the highest value order by {field} desc limit 1"
            ));
        }
        let mut other = None;
        for id in all {
            field.visit(&records.outline, *id, &mut |value| {
                if value != Value::Null && value.number().is_none() {
                    other.get_or_insert_with(|| value.text().unwrap_or("an object").to_owned());
                }
            });
        }
        match other {
            None => Ok(()),
            Some(other) => Err(format!(
                "{word}({field}) takes numbers, and {field} holds {other:?}: compute it with jq"
            )),
        }
    }

    /// Returns the total of the list in the node `id`. Null if the field is absent, and if there is
    /// no number, except for a sum.
    pub(super) fn total_of_list(
        &self,
        function: ListFunction,
        outline: &Outline<'_>,
        id: NodeId,
    ) -> Value<'static> {
        let (mut sum, mut count, mut nulls) = (Sum::default(), 0usize, 0usize);
        let mut best: Option<(Number, String)> = None;
        let better = if function == ListFunction::Max { Ordering::Greater } else { Ordering::Less };
        self.field.visit(outline, id, &mut |value| {
            let number = value.number().zip(value.text());
            let Some((number, text)) = number.filter(|(_, text)| sum.add(text)) else {
                nulls += 1;
                return;
            };
            count += 1;
            if best.as_ref().is_none_or(|(known, _)| number.compare(*known) == Some(better)) {
                best = Some((number, text.to_owned()));
            }
        });
        let total = match function {
            ListFunction::Sum => (count > 0 || nulls == 0).then(|| sum.to_string()),
            ListFunction::Average => average(sum, count),
            ListFunction::Max | ListFunction::Min => best.map(|(_, text)| text),
        };
        total.map_or(Value::Null, |total| Value::Number(total.into()))
    }
}

/// Returns the average of `count` numbers with a sum. `None` if there are none.
#[allow(clippy::cast_precision_loss, reason = "an average is no exact number")]
fn average(sum: Sum, count: usize) -> Option<String> {
    let sum: f64 = sum.to_string().parse().ok()?;
    let average = sum / count as f64;
    // Further digits of a double differ from those of the exact result.
    let rounded: f64 = format!("{average:.14e}").parse().ok()?;
    let is_large = average.abs() >= 1e14;
    (count > 0).then(|| if is_large { average.to_string() } else { rounded.to_string() })
}
