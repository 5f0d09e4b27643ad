//! Checks that the values of fields suit their totals.

use super::lists::SharedLists;
use super::{Aggregate, Group, GroupedTotals};
use crate::json::outline::NodeId;
use crate::query::known_fields::{known_fields, left_out_note, not_a_value};
use crate::query::names::join_names;
use crate::query::operand::{FieldFunction, Operand};
use crate::query::records::RecordSet;
use crate::query::scale::Scale;
use crate::query::value::{Value, quote};

/// Returns an error if a field has only objects. If `is_key`, a single object is an error, because
/// all objects would be one group.
pub(super) fn check_scalar(
    operand: &Operand,
    is_key: bool,
    records: &RecordSet<'_>,
) -> Result<(), String> {
    let (mut objects, mut values) = (false, false);
    for id in &records.ids {
        operand.visit(&records.outline, *id, &mut |value| match value {
            Value::Object => objects = true,
            Value::Null => {}
            _ => values = true,
        });
        if values && !is_key {
            return Ok(());
        }
    }
    if !objects {
        return Ok(());
    }
    let name = operand.field.to_string();
    Err(format!("aggregate: {}", not_a_value(records, &records.ids, &name)))
}

/// Returns an error if an operand takes a part of a date, but no record has a date in the field.
pub(super) fn check_dates(operand: &Operand, records: &RecordSet<'_>) -> Result<(), String> {
    if !matches!(operand.function, Some(FieldFunction::Date(_))) {
        return Ok(());
    }
    let (mut has_date, mut sample) = (false, None);
    for id in &records.ids {
        operand.visit(&records.outline, *id, &mut |part| has_date |= part != Value::Null);
        if has_date {
            return Ok(());
        }
        if sample.is_none() {
            operand.field.visit(&records.outline, *id, &mut |value| {
                let text = value.text().map(|text| text.chars().take(40).collect::<String>());
                sample = text.filter(|_| value != Value::Null);
            });
        }
    }
    let Some(sample) = sample else { return Ok(()) };
    Err(format!(
        "aggregate: no record has a date at {}; it holds {}; to group by a part of a text write count by {}[:4]",
        operand.field,
        quote(&sample),
        operand.field
    ))
}

/// Chooses the scale on which a total compares values. Returns a note if another scale was
/// possible.
pub(super) fn choose_scale(
    item: &mut Aggregate,
    records: &RecordSet<'_>,
    chosen: &[NodeId],
) -> Option<String> {
    let needs = item.function.needs_numbers();
    let operand = item.operand.as_ref().filter(|_| needs || item.function.compares())?;
    let covered = item.chosen.as_ref();
    let covers = |id: &NodeId| covered.is_none_or(|own| own.binary_search(id).is_ok());
    for id in chosen.iter().filter(|id| covers(id)) {
        operand.visit_own(&records.outline, *id, &mut |value| item.survey.add(&value));
    }
    let name = operand.to_string();
    let unit = operand.computed.as_ref().and_then(|expression| expression.date_unit());
    if let Some(unit) = unit.filter(|_| needs) {
        return Some(format!("{} is a number of {unit}", item.verbatim));
    }
    let units = operand.computed.as_ref().and_then(|expression| expression.units());
    if let Some(units) = units.or_else(|| operand.length_note()) {
        return Some(format!("{}: {units}", item.verbatim));
    }
    let of_unit = || {
        let scale = item.survey.unit_scale()?;
        let Scale::Unit { unit, .. } = &scale else { return None };
        let note = format!("{} is in {unit}, the unit of the values at {name}", item.verbatim);
        Some((scale, Some(note)))
    };
    let (scale, note) = match needs {
        true => item.survey.money_scale(&name).or_else(of_unit)?,
        false => operand.sort_scale(&item.survey, &name),
    };
    item.scale = scale;
    note
}

impl GroupedTotals {
    /// Checks that each total adds amounts of one currency only. Returns a note if groups of
    /// several currencies are compared by their numbers.
    ///
    /// # Errors
    /// Returns a message for the caller if a group has amounts of several currencies.
    pub(super) fn check_currencies(&self, groups: &[Group]) -> Result<Option<String>, String> {
        let mut note = None;
        for (at, item) in self.items.iter().enumerate() {
            let mut known: Option<&str> = None;
            for total in groups.iter().filter_map(|group| group.totals.get(at)) {
                let currency = total.currency().map_err(|(first, second)| {
                    let field = item.operand.as_ref().map_or_else(String::new, ToString::to_string);
                    format!(
                        "aggregate: {} has amounts in {first} and {second}: group by a field with the currency, such as {} by currency, or choose one with where: {field} ~ {}",
                        item.verbatim,
                        item.verbatim,
                        quote(first)
                    )
                })?;
                let is_other = known.is_some() && currency.is_some() && known != currency;
                if is_other && !(self.order.is_empty() && self.having.is_none()) {
                    note = Some(format!(
                        "groups have different currencies at {}, and were compared by their numbers",
                        item.verbatim
                    ));
                }
                known = known.or(currency);
            }
        }
        Ok(note)
    }
}

/// Returns a note about records whose value a total cannot use. `number` is the index of the
/// total's operand in `lists`.
///
/// # Errors
/// Returns a message for the caller if the total needs numbers and no record has one, or if a
/// record has too many rows.
pub(super) fn left_out(
    item: &Aggregate,
    (lists, number): (&SharedLists, usize),
    records: &RecordSet<'_>,
    chosen: &[NodeId],
) -> Result<Option<String>, String> {
    let Some(whole) = &item.operand else { return Ok(None) };
    let compares = item.function.compares();
    let needs = item.function.needs_numbers();
    if !needs && !compares {
        return Ok(None);
    }
    // Among texts, numbers come first.
    let is_money = matches!(item.scale, Scale::Currencies(_) | Scale::Unit { .. });
    let is_number = (needs && !is_money) || item.scale == Scale::Text;
    let scale = if is_number { &Scale::Number } else { &item.scale };
    let kind = scale.name();
    let (mut with, mut without, mut other, mut sample) = (0u64, 0u64, false, None);
    for id in chosen.iter().filter(|id| item.covers(**id)) {
        let mut has_number = false;
        let mut add = |value: Value<'_>| {
            let is_on_scale = scale.sort_position(&value).is_on_scale();
            has_number |= is_on_scale;
            if !is_on_scale && value != Value::Null {
                other = true;
                if sample.is_none() {
                    sample = value.text().map(|text| text.chars().take(40).collect::<String>());
                }
            }
        };
        for row in lists.rows(&records.outline, *id)? {
            let (operand, node) = lists.operand(number, whole, &row);
            if let Some(node) = node {
                operand.visit(&records.outline, node, &mut add);
            }
        }
        if has_number { with += 1 } else { without += 1 }
    }
    if needs
        && with == 0
        && let Some(units) = item.survey.several_units()
    {
        return Err(format!(
            "aggregate: the values at {0} have different units ({units}): choose one with where, such as {0} LIKE '% {1}', or convert them with jq",
            whole.field,
            units.split(", ").next().unwrap_or_default().trim_matches('\'')
        ));
    }
    if needs && with == 0 && other {
        return Err(format!(
            "aggregate: no record has a number at {}; it holds {}; convert it with jq",
            whole.field,
            quote(&sample.unwrap_or_default())
        ));
    }
    let has_number = || {
        records.ids.iter().any(|id| {
            let mut found = false;
            whole.visit(&records.outline, *id, &mut |value| found |= value.number().is_some());
            found
        })
    };
    if with == 0 && without > 0 && whole.is_computed() && lists.is_empty() && !has_number() {
        return Err(format!(
            "aggregate: {whole} is a number in no record; + - * / and % take numbers, so compute with other values, such as dates, in jq"
        ));
    }
    // Texts have a lowest and a highest one, too.
    if without == 0 || with == 0 {
        return Ok(None);
    }
    Ok(Some(left_out_note(without, kind, whole)))
}

/// Returns the error for selected fields that occur in no record.
#[must_use]
pub(in crate::query) fn no_field(records: &RecordSet<'_>, fields: &str) -> String {
    let known = if records.is_list {
        known_fields(records, &records.ids)
    } else {
        known_fields(records, &[records.root])
    };
    format!("there is no field {fields}; there are: {}", join_names(&known, 40))
}
