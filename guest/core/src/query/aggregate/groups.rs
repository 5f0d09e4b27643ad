//! Groups of records with their totals: computes, sorts and writes them.

use std::collections::{BTreeMap, BTreeSet};

use super::lists::{Row, SharedLists};
use super::total::{Key, Total, write_value};
use super::{Group, GroupedTotals, MAX_GROUPS};
use crate::json::outline::{NodeId, Outline};
use crate::json::text::quoted;
use crate::query::condition::Source;
use crate::query::field::FieldPath;
use crate::query::operand::Operand;
use crate::query::order::tie_note;
use crate::query::records::RecordSet;
use crate::query::scale::{Scale, ScaleSurvey, SortPosition, with_currency};
use crate::query::value::Value;

impl GroupedTotals {
    pub(super) fn group(&self, key: Vec<Key>) -> Group {
        Group { key, totals: self.items.iter().map(|_| Total::default()).collect(), rows: 0 }
    }

    /// Returns the groups of the records `chosen`, with their totals.
    pub(super) fn groups(
        &self,
        records: &RecordSet<'_>,
        chosen: &[NodeId],
        lists: &SharedLists,
    ) -> Result<Vec<Group>, String> {
        let mut groups: BTreeMap<Vec<Key>, Group> = BTreeMap::new();
        let outline = &records.outline;
        for id in chosen {
            let mut seen = BTreeSet::new();
            for row in lists.rows(outline, *id)? {
                let keys = self.keys(outline, lists, &row);
                if self.has_rows && keys.len() > 1 {
                    return Err(self.not_one_value());
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
                    group.rows += 1;
                    let items = self.items.iter().zip(&mut group.totals).enumerate();
                    for (at, (item, total)) in items {
                        if !item.covers(*id) {
                            continue;
                        }
                        let Some(operand) = &item.operand else {
                            // A record counts once, however many of its elements are in a group.
                            if lists.is_empty()
                                || lists.counts_elements()
                                || seen.insert((key.clone(), at, None))
                            {
                                total.count += 1;
                            }
                            continue;
                        };
                        let (operand, node) = lists.operand(self.by.len() + at, operand, &row);
                        let is_new = lists.is_empty()
                            || lists.counts_elements()
                            || seen.insert((key.clone(), at, node));
                        if let Some(node) = node.filter(|_| is_new) {
                            let mut count = 0;
                            operand.visit(outline, node, &mut |value| {
                                count += 1;
                                total.add(item.function, &item.scale, &value, *id);
                            });
                            if self.has_rows && count > 1 {
                                return Err(self.not_one_value());
                            }
                        }
                    }
                }
            }
        }
        if self.has_rows && groups.values().any(|group| group.rows > 1) {
            return Err(format!(
                "aggregate: several records are equal in the columns that are not computed: add a column that identifies each record to {}",
                self.verbatim
            ));
        }
        Ok(groups.into_values().collect())
    }

    /// Returns the error for columns of which a record has several values.
    fn not_one_value(&self) -> String {
        format!(
            "aggregate: a record has several values in a column of {}: use jq for columns of lists",
            self.verbatim
        )
    }

    /// Returns the keys of the groups to which a row belongs. A row with several values of a field
    /// belongs to several groups.
    fn keys(&self, outline: &Outline<'_>, lists: &SharedLists, row: &Row) -> Vec<Vec<Key>> {
        let mut keys: Vec<Vec<Key>> = vec![Vec::new()];
        for (at, operand) in self.by.iter().enumerate() {
            let mut found = BTreeSet::new();
            let (operand, node) = lists.operand(at, operand, row);
            if let Some(node) = node {
                operand.visit(outline, node, &mut |value| {
                    // One more is an error.
                    if found.len() <= MAX_GROUPS {
                        found.insert(Key::new(&value));
                    }
                });
            }
            if found.is_empty() {
                found.insert(Key::Null);
            }
            keys = keys
                .iter()
                .flat_map(|key| {
                    found
                        .iter()
                        .map(move |next| [key.as_slice(), std::slice::from_ref(next)].concat())
                })
                // One more is an error.
                .take(MAX_GROUPS + 1)
                .collect();
        }
        keys
    }

    /// Sorts groups: as the caller requests, or the largest first. Compares totals by the same
    /// rules as the values of records.
    pub(super) fn sort(
        &self,
        groups: &mut Vec<Group>,
        values: impl Fn(&Group) -> Vec<Value<'static>>,
        notes: &mut Vec<String>,
    ) {
        let columns: Vec<(usize, bool)> = self
            .order
            .iter()
            .filter_map(|key| match self.column(&key.name)? {
                Column::Key(at) => Some((at, key.descending)),
                Column::Total(at) => Some((self.by.len() + at, key.descending)),
            })
            .collect();
        let counted = self.visible().find(|(_, item)| item.is_plain()).map(|(at, _)| at);
        let size = |group: &Group| {
            let total = counted.and_then(|at| group.totals.get(at));
            total.map_or(group.rows, |total| total.count)
        };
        let rows: Vec<Vec<Value<'static>>> = groups.iter().map(values).collect();
        let scales: Vec<(Scale, usize, bool)> = columns
            .iter()
            .map(|(at, descending)| {
                let total = at.checked_sub(self.by.len()).and_then(|at| self.items.get(at));
                if let Some(total) = total {
                    return (total.scale.clone(), *at, *descending);
                }
                let mut survey = ScaleSurvey::default();
                rows.iter().filter_map(|row| row.get(*at)).for_each(|value| survey.add(value));
                let name = self.by.get(*at).map_or_else(String::new, ToString::to_string);
                let (scale, note) = survey.scale(&name);
                notes.extend(note);
                (scale, *at, *descending)
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
        let order = |(left, one): &(Vec<SortPosition>, Group),
                     (right, other): &(Vec<SortPosition>, Group)| {
            let pairs = left.iter().zip(right).zip(&scales);
            let orders =
                pairs.map(|((left, right), (.., descending))| left.compare(right, *descending));
            let order = orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then);
            match columns.is_empty() {
                true => size(other).cmp(&size(one)),
                false => order,
            }
        };
        sorted.sort_by(&order);
        let limit = self.limit.and_then(|limit| u64::try_from(limit).ok());
        notes.extend(tie_note(&sorted, limit, |left, right| order(left, right).is_eq()));
        groups.extend(sorted.into_iter().map(|(_, group)| group));
    }

    /// Appends the total of item `at` to `out` as JSON, with at most `limit` distinct values.
    pub(super) fn write_total(
        &self,
        group: &Group,
        at: usize,
        records: &RecordSet<'_>,
        limit: Option<usize>,
        out: &mut Vec<u8>,
    ) {
        let Some((item, total)) = self.items.get(at).zip(group.totals.get(at)) else { return };
        match &item.expression {
            Some(expression) => {
                let value = self.value(group, at);
                match (expression.currency(group), value.text()) {
                    (Some(currency), Some(number)) => {
                        out.extend(quoted(&with_currency(number, currency)));
                    }
                    _ => write_value(&value, out),
                }
            }
            None => total.write(item.function, records, limit, out),
        }
    }

    /// Returns the name of key number `at` in the result. Parts of one field have the names of
    /// their functions.
    fn key_name(&self, at: usize, operand: &Operand) -> String {
        let name = &operand.name.verbatim;
        let is_same = self.by.iter().filter(|other| other.name.verbatim == *name).count() > 1;
        let alias = self.names.get(at).cloned().flatten();
        alias.unwrap_or_else(|| if is_same { operand.to_string() } else { name.clone() })
    }

    /// Writes the groups as an object if each has one key and one visible total, and the keys
    /// differ as texts. Otherwise writes a list of objects. `smaller` is the number of smaller
    /// groups to report as omitted.
    pub(super) fn write(
        &self,
        groups: &[Group],
        smaller: usize,
        records: &RecordSet<'_>,
        out: &mut Vec<u8>,
    ) {
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
                    out.extend(quoted(&self.key_name(at, operand)));
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
                self.write_total(group, at, records, None, out);
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

/// A column of the table of groups, by its index among the keys or the totals.
pub(super) enum Column {
    Key(usize),
    Total(usize),
}

/// The keys and totals of groups, for conditions on them.
pub(super) struct GroupTable<'s> {
    pub(super) segment: &'s GroupedTotals,
    pub(super) rows: Vec<Vec<Value<'static>>>,
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
