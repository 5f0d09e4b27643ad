//! The order of records: `order by price desc, name`.

use std::cmp::Ordering;

use super::field::FieldName;
use super::known_fields::not_a_value;
use super::operand::Operand;
use super::reader::Reader;
use super::records::RecordSet;
use super::scale::{ScaleSurvey, SortPosition};
use super::value::Value;
use crate::json::outline::NodeId;

/// The order in which to return records, with true for descending. Empty to keep the order of the
/// document.
#[derive(Debug, Default)]
pub(super) struct Order(Vec<(Operand, bool)>);

impl Order {
    /// Reads `order by` and its fields. Empty if no `order by` is next.
    ///
    /// # Errors
    /// Returns a message for the caller if no field follows.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, String> {
        if reader.keyword(&["order by", "sort by", "sorted by", "orderby"]).is_none() {
            return Ok(Self::default());
        }
        reader.join_colons();
        let mut keys = Vec::new();
        loop {
            reader.count_part()?;
            let descending = reader.eat("-");
            let operand = Operand::read(reader)?;
            let is_descending = read_direction(reader) || descending;
            // Records without a value come last anyway.
            if reader.keyword(&["nulls first"]).is_some() {
                return Err(reader.error("records without a value come last: leave out NULLS FIRST, or choose them with IS NULL"));
            }
            let _ = reader.keyword(&["nulls last"]);
            keys.push((operand, is_descending));
            if !reader.eat(",") {
                return Ok(Self(keys));
            }
        }
    }

    /// Reads `limit` and its number. `None` if no `limit` is next.
    ///
    /// # Errors
    /// Returns a message for the caller if no whole number follows.
    pub(super) fn read_limit(reader: &mut Reader<'_>) -> Result<Option<u64>, String> {
        let _ = reader.eat(",");
        if reader.keyword(&["limit", "top", "first", "take", "head"]).is_none() {
            return Ok(None);
        }
        let _ = reader.eat("=");
        let word = reader.peek_word();
        match word.parse() {
            Ok(limit) if limit > 0 => {
                reader.eat(word);
                Ok(Some(limit))
            }
            _ => Err(reader.error("limit takes a whole number from 1")),
        }
    }

    /// Returns true if the limit is written as an assignment, `limit=5`, which may be a comparison
    /// of a field.
    pub(super) fn assigns_limit(reader: &Reader<'_>) -> bool {
        let mut rest = reader.clone();
        let _ = rest.eat(",");
        rest.keyword(&["limit"]).is_some() && rest.eat("=")
    }

    /// Reads `limit` and `offset` in any order. Returns the number of records to skip, and the
    /// maximum number of the others. `None` for no maximum.
    ///
    /// # Errors
    /// Returns a message for the caller if no whole number follows.
    pub(super) fn read_page(reader: &mut Reader<'_>) -> Result<(u64, Option<u64>), String> {
        let first = Self::read_offset(reader)?;
        let limit = Self::read_limit(reader)?;
        let offset = match first {
            None => Self::read_offset(reader)?,
            found => found,
        };
        Ok((offset.unwrap_or_default(), limit))
    }

    fn read_offset(reader: &mut Reader<'_>) -> Result<Option<u64>, String> {
        if reader.keyword(&["offset", "skip"]).is_none() {
            return Ok(None);
        }
        let word = reader.peek_word();
        let Ok(offset) = word.parse() else {
            return Err(reader.error("offset takes a whole number"));
        };
        reader.eat(word);
        let _ = reader.keyword(&["rows", "row"]);
        Ok(Some(offset))
    }

    /// Returns the names of the fields by which records are sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &FieldName> {
        self.0.iter().map(|(operand, _)| &operand.name)
    }

    /// Returns true if the records keep the order of the document.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds the fields in the records.
    ///
    /// # Errors
    /// Returns a message for the caller if no record has a field.
    pub(super) fn bind(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        self.0.iter_mut().try_for_each(|(operand, _)| operand.bind(records, all))
    }

    /// Sorts records. Records with equal values keep their order, and those without a value come
    /// last. Returns notes on values of different types, and on records with equal values at the
    /// end of the first `limit` ones.
    ///
    /// # Errors
    /// Returns a message for the caller if a field holds objects only.
    pub(super) fn sort(
        &self,
        records: &RecordSet<'_>,
        ids: &mut Vec<NodeId>,
        limit: Option<u64>,
    ) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        let mut keys: Vec<Vec<SortPosition>> = ids.iter().map(|_| Vec::new()).collect();
        for (operand, _) in &self.0 {
            let mut survey = ScaleSurvey::default();
            let own = operand.without_default();
            let first = |id: &NodeId| {
                let (mut found, mut count) = (Value::Null, 0);
                own.visit(&records.outline, *id, &mut |value| {
                    count += 1;
                    if found == Value::Null {
                        found = value.into_owned();
                    }
                });
                survey.add(&found);
                if count > 1 {
                    survey.add_several();
                }
                operand.replaced(found)
            };
            let values: Vec<Value<'static>> = ids.iter().map(first).collect();
            let field = operand.to_string();
            if survey.has_only_objects() {
                return Err(format!("order by: {}", not_a_value(records, ids, &field)));
            }
            let (scale, note) = operand.sort_scale(&survey, &field);
            notes.extend(note);
            notes.extend(survey.off_scale_note(&scale, &field));
            for (key, value) in keys.iter_mut().zip(&values) {
                key.push(scale.sort_position(value));
            }
        }
        let mut sorted: Vec<_> = keys.into_iter().zip(ids.iter().copied()).collect();
        sorted.sort_by(|(left, _), (right, _)| {
            let pairs = left.iter().zip(right).zip(&self.0);
            let orders =
                pairs.map(|((left, right), (_, descending))| left.compare(right, *descending));
            orders.fold(Ordering::Equal, Ordering::then)
        });
        let positions: Vec<&Vec<SortPosition>> = sorted.iter().map(|(key, _)| key).collect();
        let is_tie = |left: &Vec<SortPosition>, right: &Vec<SortPosition>| {
            left.iter().zip(right).all(|(left, right)| left.compare(right, false).is_eq())
        };
        notes.extend(tie_note(&positions, limit, |left, right| is_tie(left, right)));
        *ids = sorted.into_iter().map(|(_, id)| id).collect();
        Ok(notes)
    }
}

/// Returns a note if the last of the first `limit` of some sorted rows is equal to rows after it.
pub(super) fn tie_note<T>(
    rows: &[T],
    limit: Option<u64>,
    is_tie: impl Fn(&T, &T) -> bool,
) -> Option<String> {
    let limit = usize::try_from(limit?).ok()?;
    let last = rows.get(limit.checked_sub(1)?)?;
    let more = rows.iter().skip(limit).take_while(|row| is_tie(last, row)).count();
    (more > 0).then(|| format!("{more} more are equal to the last of these in the order"))
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<String> = self
            .0
            .iter()
            .map(|(operand, descending)| {
                format!("{operand}{}", if *descending { " desc" } else { "" })
            })
            .collect();
        write!(f, "sorted by {}", keys.join(", "))
    }
}

/// The words that begin a stage after a pipe, as in `kind=new | sort by price desc | take 5`.
const STAGES: [&str; 13] = [
    "where",
    "order by",
    "sort by",
    "take",
    "limit",
    "head",
    "top",
    "project",
    "summarize",
    "stats",
    "count",
    "extend",
    "fields",
];

/// Returns true if a pipe and a stage are next, so that the pipe does not precede an alternative
/// value.
pub(super) fn stage_follows(reader: &Reader<'_>) -> bool {
    let mut rest = reader.clone();
    rest.eat("|") && rest.keyword(&STAGES).is_some() && rest.peek() != Some('=')
}

/// Reads `asc` or `desc` if it is next. Returns true for `desc`.
pub(super) fn read_direction(reader: &mut Reader<'_>) -> bool {
    let word = reader.keyword(&["asc", "ascending", "desc", "descending"]);
    word.is_some_and(|word| word.starts_with("desc"))
}
