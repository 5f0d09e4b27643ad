//! Totals over all records, such as `count by status, sum(price.total), distinct(city)`. They are
//! correct although an excerpt hides rows.

mod check;
mod filtered;
mod frame;
mod parse;
mod total;

use std::collections::BTreeMap;

pub(super) use self::check::no_field;
use self::check::{check_dates, check_scalar, choose_scale, left_out};
pub(crate) use self::filtered::split;
use self::total::{AggregateFunction, Key, Total, write_value};
use super::condition::{Source, TotalsCondition};
use super::field::{FieldName, FieldPath};
use super::names::join_names;
use super::objects;
use super::operand::Operand;
use super::reader::Reader;
use super::records::RecordSet;
use super::scale::{Scale, ScaleSurvey, SortPosition};
use super::value::Value;
use crate::json::outline::NodeId;
use crate::json::text::quoted;

/// The maximum number of groups that a result lists.
const MAX_LISTED_GROUPS: usize = 1_000;
/// The maximum number of groups. More would take too much memory.
const MAX_GROUPS: usize = 200_000;

/// The totals that a caller requests over all records, such as `count by status, sum(price.total)`.
#[derive(Debug)]
pub struct Aggregates(Vec<GroupedTotals>);

/// Totals over the same groups.
#[derive(Debug)]
struct GroupedTotals {
    items: Vec<Aggregate>,
    by: Vec<Operand>,
    having: Option<TotalsCondition>,
    order: Vec<SortKey>,
    limit: Option<usize>,
    verbatim: String,
}

/// A total of the values of a field.
#[derive(Debug)]
struct Aggregate {
    function: AggregateFunction,
    /// The field. None for the number of records.
    operand: Option<Operand>,
    /// The scale on which values are compared.
    scale: Scale,
    verbatim: String,
    alias: Option<String>,
}

/// A total or field by which groups are sorted.
#[derive(Debug)]
struct SortKey {
    name: String,
    descending: bool,
}

/// A group of records, with a total for each item of its segment.
struct Group {
    key: Vec<Key>,
    totals: Vec<Total>,
}

impl Aggregate {
    /// Returns the name of the total in the result.
    fn label(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.verbatim)
    }

    /// Returns true if `name`, without white space, means this total.
    fn has_name(&self, name: &str) -> bool {
        let plain: String = self.verbatim.split_whitespace().collect();
        let function = plain.split('(').next().unwrap_or_default();
        self.alias.as_ref().is_some_and(|alias| alias.eq_ignore_ascii_case(name))
            || plain.eq_ignore_ascii_case(name)
            || function.eq_ignore_ascii_case(name)
            || (self.operand.is_none() && name.eq_ignore_ascii_case("count(*)"))
    }
}

impl Aggregates {
    /// Parses the totals that a caller requests, separated by commas.
    ///
    /// # Errors
    /// Returns a message for the caller that shows the syntax, or the limit that is exceeded.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader::new("aggregate", text)?;
        let rewritten = if objects::is_object(text) || objects::is_pipeline(text) {
            Some(objects::totals(text)?)
        } else {
            frame::totals(text)
        };
        if let Some(rewritten) = &rewritten {
            reader = Reader::new("aggregate", rewritten)?;
        }
        let mut segments = parse::parse(&mut reader)?;
        segments.iter_mut().try_for_each(GroupedTotals::add_hidden_items)?;
        Ok(Self(segments))
    }

    /// Calls `visit` with the name of each field that the totals read.
    pub(super) fn each_name(&self, visit: &mut impl FnMut(&FieldName)) {
        for segment in &self.0 {
            let items = segment.items.iter().filter_map(|item| item.operand.as_ref());
            segment.by.iter().chain(items).for_each(|operand| operand.each_name(visit));
        }
    }

    /// Returns true if a total groups the records.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        self.0.iter().any(|segment| !segment.by.is_empty())
    }

    /// Returns true if the totals name no field, so that any values can be counted.
    #[must_use]
    pub fn has_no_fields(&self) -> bool {
        let has_field = |item: &Aggregate| item.operand.is_some();
        !self.has_groups() && !self.0.iter().any(|segment| segment.items.iter().any(has_field))
    }

    /// Computes the totals over the records `chosen` of `records`, as a JSON object with a member
    /// for each total. At most `limit` groups are listed, if it is not 0. Fields must occur in
    /// `records`, and may be absent in all chosen ones. O(records).
    ///
    /// # Errors
    /// Returns a message for the caller if no record has a requested field.
    pub fn run(
        mut self,
        records: &RecordSet<'_>,
        chosen: &[NodeId],
        limit: u64,
    ) -> Result<Vec<u8>, String> {
        let mut out = format!("{{\"records\":{}", chosen.len()).into_bytes();
        let mut notes = Vec::new();
        for segment in &mut self.0 {
            segment.bind(records)?;
            if limit > 0 {
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                segment.limit = Some(segment.limit.map_or(limit, |own| own.min(limit)));
            }
            segment.run(records, chosen, &mut out, &mut notes)?;
        }
        if !notes.is_empty() {
            notes.dedup();
            let notes: Vec<Vec<u8>> = notes.iter().map(|note| quoted(note)).collect();
            out.extend_from_slice(b",\"notes\":[");
            out.extend(notes.join(&b','));
            out.push(b']');
        }
        out.push(b'}');
        Ok(out)
    }
}

impl GroupedTotals {
    /// Adds the totals that only `having` or `order by` names. The first `visible` items are shown.
    fn add_hidden_items(&mut self) -> Result<(), String> {
        let mut names: Vec<String> = self.order.iter().map(|key| key.name.clone()).collect();
        if let Some(having) = &self.having {
            names.extend(having.names().iter().map(|name| name.verbatim.clone()));
        }
        for name in names {
            if self.column(&name).is_none() {
                let mut reader = Reader::new("aggregate", &name)?;
                let item = parse::item(&mut reader).ok().filter(|_| reader.is_at_end());
                let Some(item) = item else {
                    let known: Vec<String> =
                        self.items.iter().map(|item| item.label().to_owned()).collect();
                    return Err(format!(
                        "aggregate: {name} is neither a total nor a field of {:?}; name one of {}",
                        self.verbatim,
                        join_names(&known, 8)
                    ));
                };
                // The reader of results ignores items whose label is empty.
                self.items.push(Aggregate { alias: Some(String::new()), ..item });
            }
        }
        Ok(())
    }

    /// Returns the column that a name means: a total, the field of a group, or a number from 1.
    fn column(&self, name: &str) -> Option<Column> {
        if let Some(at) = self.by.iter().position(|field| {
            field.name.verbatim.split_whitespace().collect::<String>().eq_ignore_ascii_case(name)
        }) {
            return Some(Column::Key(at));
        }
        if let Some(at) = self.items.iter().position(|item| item.has_name(name)) {
            return Some(Column::Total(at));
        }
        if let Ok(number) = name.parse::<usize>() {
            let at = number.checked_sub(1)?;
            return match at.checked_sub(self.by.len()) {
                None => Some(Column::Key(at)),
                Some(at) => (at < self.items.len()).then_some(Column::Total(at)),
            };
        }
        match name.to_lowercase().as_str() {
            "value" | "total" => Some(Column::Total(0)),
            "key" | "name" | "group" => Some(Column::Key(0)),
            _ => None,
        }
    }

    fn visible(&self) -> impl Iterator<Item = (usize, &Aggregate)> {
        self.items.iter().enumerate().filter(|(_, item)| item.alias.as_deref() != Some(""))
    }

    fn bind(&mut self, records: &RecordSet<'_>) -> Result<(), String> {
        for operand in
            self.by.iter_mut().chain(self.items.iter_mut().filter_map(|item| item.operand.as_mut()))
        {
            operand.bind(records, &records.ids)?;
        }
        for operand in &self.by {
            check_scalar(operand, records)?;
            check_dates(operand, records)?;
        }
        for item in &self.items {
            if let Some(operand) =
                item.operand.as_ref().filter(|_| item.function != AggregateFunction::Count)
            {
                check_scalar(operand, records)?;
            }
        }
        Ok(())
    }

    fn run(
        &mut self,
        records: &RecordSet<'_>,
        chosen: &[NodeId],
        out: &mut Vec<u8>,
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        for item in &mut self.items {
            notes.extend(choose_scale(item, records, chosen));
        }
        let mut groups = self.groups(records, chosen)?;
        for item in &self.items {
            notes.extend(left_out(item, records, chosen)?);
        }
        if self.by.is_empty() {
            let group = groups.pop().unwrap_or_else(|| self.group(Vec::new()));
            for (at, item) in self.visible() {
                out.push(b',');
                out.extend(quoted(item.label()));
                out.push(b':');
                if let Some(total) = group.totals.get(at) {
                    total.write(item.function, records, out);
                }
            }
            return Ok(());
        }
        let values = |group: &Group| -> Vec<Value<'static>> {
            let totals = self.items.iter().zip(&group.totals);
            let totals = totals.map(|(item, total)| total.value(item.function));
            group.key.iter().map(Key::value).chain(totals).collect()
        };
        if let Some(having) = &self.having {
            let table = GroupTable { segment: self, rows: groups.iter().map(values).collect() };
            let mut at = 0;
            groups.retain(|_| {
                at += 1;
                having.holds(&table, at - 1)
            });
        }
        self.sort(&mut groups, values);
        let total = groups.len();
        let limit = self.limit.unwrap_or(usize::MAX).min(MAX_LISTED_GROUPS);
        let left_out = total.saturating_sub(limit);
        if left_out > 0 && self.limit.is_some() {
            notes.push(format!("the first {limit} of {total} groups are shown"));
        }
        groups.truncate(limit);
        out.push(b',');
        out.extend(quoted(&self.verbatim));
        out.push(b':');
        let smaller = if self.limit.is_some() { 0 } else { left_out };
        self.write(&groups, smaller, records, out);
        Ok(())
    }

    fn group(&self, key: Vec<Key>) -> Group {
        Group { key, totals: self.items.iter().map(|_| Total::default()).collect() }
    }

    fn groups(&self, records: &RecordSet<'_>, chosen: &[NodeId]) -> Result<Vec<Group>, String> {
        let mut groups: BTreeMap<Vec<Key>, Group> = BTreeMap::new();
        let outline = &records.outline;
        for id in chosen {
            // A record with several values of a field is in several groups.
            let mut keys: Vec<Vec<Key>> = vec![Vec::new()];
            for operand in &self.by {
                let mut found = Vec::new();
                operand.visit(outline, *id, &mut |value| {
                    let key = Key::new(&value);
                    if !found.contains(&key) {
                        found.push(key);
                    }
                });
                if found.is_empty() {
                    found.push(Key::Null);
                }
                keys = keys
                    .iter()
                    .flat_map(|key| {
                        found
                            .iter()
                            .map(move |next| [key.as_slice(), std::slice::from_ref(next)].concat())
                    })
                    .take(MAX_GROUPS)
                    .collect();
            }
            for key in keys {
                if !groups.contains_key(&key) {
                    if groups.len() >= MAX_GROUPS {
                        return Err(format!(
                            "aggregate: {:?} has more than {MAX_GROUPS} groups; group by fewer fields",
                            self.verbatim
                        ));
                    }
                    groups.insert(key.clone(), self.group(key.clone()));
                }
                let Some(group) = groups.get_mut(&key) else { continue };
                for (item, total) in self.items.iter().zip(&mut group.totals) {
                    match &item.operand {
                        None => total.count += 1,
                        Some(operand) => operand.visit(outline, *id, &mut |value| {
                            total.add(item.function, &item.scale, &value, *id);
                        }),
                    }
                }
            }
        }
        Ok(groups.into_values().collect())
    }

    /// Sorts groups: as the caller requests, or the largest first.
    fn sort(&self, groups: &mut Vec<Group>, values: impl Fn(&Group) -> Vec<Value<'static>>) {
        let columns: Vec<(usize, bool)> = self
            .order
            .iter()
            .filter_map(|key| match self.column(&key.name)? {
                Column::Key(at) => Some((at, key.descending)),
                Column::Total(at) => Some((self.by.len() + at, key.descending)),
            })
            .collect();
        let size = |group: &Group| group.totals.first().map_or(0, |total| total.count);
        let rows: Vec<Vec<Value<'static>>> = groups.iter().map(values).collect();
        let scales: Vec<(Scale, usize, bool)> = columns
            .iter()
            .map(|(at, descending)| {
                let mut survey = ScaleSurvey::default();
                rows.iter().filter_map(|row| row.get(*at)).for_each(|value| survey.add(value));
                (survey.scale("").0, *at, *descending)
            })
            .collect();
        let positions = |row: &Vec<Value<'static>>| -> Vec<SortPosition> {
            let position = |(scale, at, _): &(Scale, usize, bool)| {
                scale.sort_position(row.get(*at).unwrap_or(&Value::Null))
            };
            scales.iter().map(position).collect()
        };
        let mut sorted: Vec<(Vec<SortPosition>, Group)> =
            rows.iter().map(positions).zip(std::mem::take(groups)).collect();
        sorted.sort_by(|(left, one), (right, other)| {
            let pairs = left.iter().zip(right).zip(&scales);
            let orders =
                pairs.map(|((left, right), (.., descending))| left.compare(right, *descending));
            let order = orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then);
            match columns.is_empty() {
                true => size(other).cmp(&size(one)),
                false => order,
            }
        });
        groups.extend(sorted.into_iter().map(|(_, group)| group));
    }

    /// Writes groups: an object if each has one key and one total, or else a list of objects.
    fn write(&self, groups: &[Group], smaller: usize, records: &RecordSet<'_>, out: &mut Vec<u8>) {
        let names: std::collections::BTreeSet<String> =
            groups.iter().filter_map(|group| group.key.first()).map(Key::name).collect();
        let is_map =
            self.by.len() == 1 && self.visible().count() == 1 && names.len() == groups.len();
        out.push(if is_map { b'{' } else { b'[' });
        for (at, group) in groups.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            if is_map {
                out.extend(quoted(&group.key.first().map(Key::name).unwrap_or_default()));
                out.push(b':');
            } else {
                out.push(b'{');
                for (at, (operand, key)) in self.by.iter().zip(&group.key).enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    out.extend(quoted(&operand.name.verbatim));
                    out.push(b':');
                    write_value(&key.value(), out);
                }
            }
            for (at, item) in self.visible() {
                if !is_map {
                    out.push(b',');
                    out.extend(quoted(item.label()));
                    out.push(b':');
                }
                if let Some(total) = group.totals.get(at) {
                    total.write(item.function, records, out);
                }
            }
            if !is_map {
                out.push(b'}');
            }
        }
        if smaller > 0 {
            let note = format!("\"...\":\"{smaller} smaller groups\"");
            let note = if is_map { format!(",{note}") } else { format!(",{{{note}}}") };
            out.extend_from_slice(note.as_bytes());
        }
        out.push(if is_map { b'}' } else { b']' });
    }
}

/// A column of a table of groups.
enum Column {
    Key(usize),
    Total(usize),
}

/// The values of groups, for conditions on them.
struct GroupTable<'s> {
    segment: &'s GroupedTotals,
    rows: Vec<Vec<Value<'static>>>,
}

impl Source for GroupTable<'_> {
    fn visit(&self, operand: &Operand, id: NodeId, visit: &mut dyn FnMut(Value<'_>)) {
        let column = match self.segment.column(&operand.name.verbatim) {
            Some(Column::Key(at)) => Some(at),
            Some(Column::Total(at)) => Some(self.segment.by.len() + at),
            None => None,
        };
        let value = column.and_then(|at| self.rows.get(id)?.get(at));
        visit(value.cloned().unwrap_or(Value::Null));
    }

    fn elements(&self, _: &FieldPath, _: NodeId, _: &mut dyn FnMut(NodeId)) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
