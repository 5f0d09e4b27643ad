//! Totals (aggregates) over all records, such as `count by status, sum(price.total),
//! distinct(city)`. They cover all records, including those that an excerpt hides.

mod check;
mod dialects;
mod distinct;
mod expression;
mod filtered;
mod frame;
mod functions;
mod groups;
mod item;
mod lists;
mod parse;
mod spreadsheet;
mod total;
mod unnest;

pub(super) use self::check::no_field;
use self::check::{check_dates, check_scalar, choose_scale, left_out};
use self::expression::TotalExpression;
pub(crate) use self::filtered::split;
pub(super) use self::functions::is_function as is_total;
use self::functions::spread_note;
use self::groups::{Column, GroupTable};
use self::lists::{SharedLists, outer_list};
use self::total::{AggregateFunction, Key, Total};
use super::code::outside_quotes;
use super::condition::{Condition, TotalsCondition};
use super::field::{FieldName, FieldPath};
use super::names::join_names;
use super::objects;
use super::operand::Operand;
use super::reader::Reader;
use super::records::RecordSet;
use super::scale::{Scale, ScaleSurvey};
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

/// A segment of the expression: totals that share the same groups.
#[derive(Debug)]
struct GroupedTotals {
    items: Vec<Aggregate>,
    by: Vec<Operand>,
    /// The names of the keys in the result. `None` for the text of the field.
    names: Vec<Option<String>>,
    /// The list of which each element counts, instead of each record. `None` for records.
    unwound: Option<Operand>,
    having: Option<TotalsCondition>,
    order: Vec<SortKey>,
    limit: Option<usize>,
    /// True if each record must be a group of its own.
    has_rows: bool,
    verbatim: String,
}

/// A total (aggregate) of the values of a field. The default is the number of records.
#[derive(Debug, Default)]
struct Aggregate {
    function: AggregateFunction,
    /// The field. `None` for the number of records, and for a number that is computed.
    operand: Option<Operand>,
    /// The computation of a number from other totals. `None` for the other totals.
    expression: Option<TotalExpression>,
    /// The condition on the records of this total. `None` once `chosen` has them, or if there is no
    /// condition.
    condition: Option<Condition>,
    /// The records that meet the condition, in the order of the document. `None` without a
    /// condition.
    chosen: Option<Vec<NodeId>>,
    /// The scale on which values are compared. `survey` has the forms of the values that determine
    /// it.
    scale: Scale,
    survey: ScaleSurvey,
    verbatim: String,
    alias: Option<String>,
}

/// A total or field that sorts the groups.
#[derive(Debug)]
struct SortKey {
    name: String,
    descending: bool,
}

/// A group of records, with one total for each item of the segment.
struct Group {
    key: Vec<Key>,
    totals: Vec<Total>,
    /// The number of records or, with a shared list, of its elements.
    rows: u64,
}

impl Aggregate {
    fn new(function: AggregateFunction, operand: Option<Operand>) -> Self {
        Self { function, operand, ..Self::default() }
    }

    /// Chooses the records that meet the condition of the total. Returns a note if some could not
    /// be compared.
    ///
    /// # Errors
    /// Returns a message for the caller if the condition does not apply to the records.
    fn choose(&mut self, records: &RecordSet<'_>) -> Result<Option<String>, String> {
        let Some(condition) = self.condition.take() else { return Ok(None) };
        if let Some(list) = self.operand.as_ref().and_then(|own| outer_list(own, records)) {
            let mut is_shared = false;
            condition.each_name(&mut |name| {
                let path = name.find(records, &records.ids);
                is_shared |= path.is_some_and(|path| {
                    let own = FieldPath::shared_list(&[&path], &records.outline, &records.ids);
                    own.as_ref() == Some(&list)
                });
            });
            if is_shared {
                return Err(format!(
                    "aggregate: the condition of {} chooses records, and its field and that of the total are of elements of {list}: choose the list with path, or use jq",
                    self.verbatim
                ));
            }
        }
        let chosen = condition.select(records)?;
        let mut ids = chosen.ids;
        ids.sort_unstable();
        self.chosen = Some(ids);
        let notes = (!chosen.notes.is_empty()).then(|| chosen.notes.join("; "));
        Ok(notes.map(|notes| format!("{}: {notes}", self.verbatim)))
    }

    /// Returns true if the total covers the record `id`.
    fn covers(&self, id: NodeId) -> bool {
        self.chosen.as_ref().is_none_or(|chosen| chosen.binary_search(&id).is_ok())
    }

    /// Returns true if the total is of all records, and not computed from others.
    fn is_plain(&self) -> bool {
        self.expression.is_none() && self.condition.is_none() && self.chosen.is_none()
    }

    /// Returns the name of the total in the result: the alias, or the expression.
    fn label(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.verbatim)
    }

    /// Returns true if `name`, as [`plain_name`] returns it, is the alias or the text of this
    /// total.
    fn has_name(&self, name: &str) -> bool {
        let is_all = self.is_plain() && self.operand.is_none();
        self.alias.as_ref().is_some_and(|alias| alias.eq_ignore_ascii_case(name))
            || plain_name(&self.verbatim).eq_ignore_ascii_case(name)
            || (is_all && name.eq_ignore_ascii_case("count(*)"))
    }

    /// Returns true if `name` is that of the function of this total.
    fn has_function(&self, name: &str) -> bool {
        let function = self.verbatim.split('(').next().unwrap_or_default();
        self.is_plain() && function.trim().eq_ignore_ascii_case(name)
    }
}

/// Returns the text of a total without white space outside of quotes.
fn plain_name(text: &str) -> String {
    let outside: Vec<usize> = outside_quotes(text).map(|(at, _)| at).collect();
    let is_space = |at: usize, c: char| c.is_whitespace() && outside.binary_search(&at).is_ok();
    text.char_indices().filter(|(at, c)| !is_space(*at, *c)).map(|(_, c)| c).collect()
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
            let flat = unnest::rewritten(text)?;
            let named = unnest::with_aliases(flat.as_deref().unwrap_or(text));
            named.or(flat).or_else(|| frame::totals(text)).or_else(|| dialects::totals(text))
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
            let lists = segment.unwound.iter();
            let operands = segment.by.iter().chain(items).chain(lists);
            operands.for_each(|operand| operand.each_name(visit));
            let conditions = segment.items.iter().filter_map(|item| item.condition.as_ref());
            conditions.for_each(|condition| condition.each_name(visit));
        }
    }

    /// Makes comparisons of texts in the conditions of totals ignore case.
    #[must_use]
    pub fn in_any_case(mut self) -> Self {
        for item in self.0.iter_mut().flat_map(|segment| &mut segment.items) {
            item.condition = item.condition.take().map(Condition::in_any_case);
        }
        self
    }

    /// Returns true if some totals are grouped.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        self.0.iter().any(|segment| !segment.by.is_empty())
    }

    /// Returns true if the totals name no field, so that they apply to any values.
    #[must_use]
    pub fn has_no_fields(&self) -> bool {
        let has_field = |item: &Aggregate| item.operand.is_some() || item.condition.is_some();
        !self.has_groups()
            && !self.0.iter().any(|segment| segment.unwound.is_some())
            && !self.0.iter().any(|segment| segment.items.iter().any(has_field))
    }

    /// Computes the totals over the records `chosen` of `records`. Returns a JSON object with a
    /// member for each total. Lists at most `limit` groups, and never more than 1,000. If `limit`
    /// is 0, the other groups are counted. Fields must occur in `records`, and may be absent in all
    /// chosen ones. O(records).
    ///
    /// # Errors
    /// Returns a message for the caller if no record has a requested field, or if totals cannot be
    /// computed: of objects, of several currencies, or of more than 200,000 groups.
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
    /// Adds the totals that only `having` or `order by` names. They have an empty label and are not
    /// shown.
    fn add_hidden_items(&mut self) -> Result<(), String> {
        if let Some(mut having) = self.having.take() {
            having.bind(|name| self.column(name).is_some());
            self.having = Some(having);
        }
        let mut names: Vec<String> = self.order.iter().map(|key| key.name.clone()).collect();
        if let Some(having) = &self.having {
            names.extend(having.names().iter().map(|name| name.verbatim.clone()));
        }
        for name in names {
            if self.column(&name).is_none() {
                let mut reader = Reader::new("aggregate", &name)?;
                let item = expression::read(&mut reader, &mut self.items).ok();
                let Some(item) = item.filter(|_| reader.is_at_end()) else {
                    let known: Vec<String> =
                        self.visible().map(|(_, item)| item.label().to_owned()).collect();
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

    /// Returns the column that `name` refers to: a field of the groups, a total, a column number
    /// from 1, or a word such as `value` or `key`. `None` if there is no such column.
    fn column(&self, name: &str) -> Option<Column> {
        let name = plain_name(name);
        let name = name.as_str();
        let is_name = |known: &Option<String>| {
            known.as_ref().is_some_and(|known| plain_name(known).eq_ignore_ascii_case(name))
        };
        if let Some(at) = self.names.iter().position(is_name) {
            return Some(Column::Key(at));
        }
        let is_key = |field: &Operand| plain_name(&field.name.verbatim).eq_ignore_ascii_case(name);
        if let Some(at) = self.by.iter().position(is_key) {
            return Some(Column::Key(at));
        }
        let named = self.items.iter().position(|item| item.has_name(name));
        let by_function = || self.items.iter().position(|item| item.has_function(name));
        if let Some(at) = named.or_else(by_function) {
            return Some(Column::Total(at));
        }
        if let Ok(number) = name.parse::<usize>() {
            let at = number.checked_sub(1)?;
            return match at.checked_sub(self.by.len()) {
                None => Some(Column::Key(at)),
                Some(at) => self.visible().nth(at).map(|(at, _)| Column::Total(at)),
            };
        }
        match name.to_lowercase().as_str() {
            "value" | "total" => self.visible().next().map(|(at, _)| Column::Total(at)),
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
        if let Some(list) = &mut self.unwound {
            list.bind(records, &records.ids)?;
        }
        for operand in &self.by {
            check_scalar(operand, true, records)?;
            check_dates(operand, records)?;
        }
        for item in &self.items {
            if let Some(operand) =
                item.operand.as_ref().filter(|_| item.function != AggregateFunction::Count)
            {
                let is_key = matches!(
                    item.function,
                    AggregateFunction::Distinct | AggregateFunction::CountDistinct
                );
                check_scalar(operand, is_key, records)?;
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
            notes.extend(item.choose(records)?);
            notes.extend(spread_note(&item.verbatim));
            notes.extend(choose_scale(item, records, chosen));
        }
        if let Some(mut having) = self.having.take() {
            notes.extend(having.fit(|name| {
                let Column::Total(at) = self.column(name)? else { return None };
                let item = self.items.get(at).filter(|item| item.function.compares());
                item.map(|item| &item.survey)
            })?);
            self.having = Some(having);
        }
        let mut lists = SharedLists::find(&self.by, &self.items, records);
        if let Some(list) = &self.unwound {
            lists.unwind(list, (&self.by, &self.items), records)?;
        }
        if let Some(item) = self.items.iter().find(|item| item.chosen.is_some())
            && !lists.is_empty()
        {
            return Err(format!(
                "aggregate: {} chooses records, and the groups are elements of a list: give the condition as where, choose the list with path, or use jq",
                item.verbatim
            ));
        }
        notes.extend(lists.note(self.items.iter().any(|item| item.operand.is_none())));
        let mut groups = self.groups(records, chosen, &lists)?;
        notes.extend(self.check_currencies(&groups)?);
        self.check_expressions(&groups)?;
        for (at, item) in self.items.iter().enumerate() {
            notes.extend(left_out(item, (&lists, self.by.len() + at), records, chosen)?);
        }
        if self.by.is_empty() {
            let group = groups.pop().unwrap_or_else(|| self.group(Vec::new()));
            for (at, item) in self.visible() {
                out.push(b',');
                out.extend(quoted(item.label()));
                out.push(b':');
                self.write_total(&group, at, records, self.limit, out);
                let total = group.totals.get(at);
                notes.extend(total.and_then(|total| total.limit_note(item.function, self.limit)));
            }
            return Ok(());
        }
        let values = |group: &Group| -> Vec<Value<'static>> {
            let totals = (0..self.items.len()).map(|at| self.value(group, at));
            group.key.iter().map(Key::value).chain(totals).collect()
        };
        if let Some(having) = &self.having {
            let table = GroupTable { segment: self, rows: groups.iter().map(values).collect() };
            notes.extend(having.check(&table, groups.len())?);
            let mut at = 0;
            groups.retain(|_| {
                at += 1;
                having.holds(&table, at - 1)
            });
        }
        self.sort(&mut groups, values, notes);
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
}

#[cfg(test)]
mod tests;
