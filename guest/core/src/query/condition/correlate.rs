//! Binding of conditions to records: finds the paths of fields, and the lists that they share.
//!
//! Comparisons of several fields of one list must hold for the same element. For example,
//! `type=Ready AND status=False` on the conditions of a pod must match one condition.

use super::evaluate::is_container;
use super::literal::operand_named_by;
use super::{Check, Leaf, Operator, Test};
use crate::json::outline::NodeId;
use crate::json::scan::Kind;
use crate::query::field::{FieldName, FieldPath, FieldStep};
use crate::query::operand::Operand;
use crate::query::reader::ELEMENTS_WITH_RECORD;
use crate::query::records::RecordSet;
use crate::query::scale::ScaleSurvey;

impl Test {
    /// Finds the fields of the condition in the values `all`, and the lists that they share.
    ///
    /// # Errors
    /// Returns a message for the caller if no value has a field.
    pub(super) fn bind(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        if all.is_empty() {
            return Ok(());
        }
        self.bind_elements(records, all)?;
        self.each_leaf_mut(&mut |leaf| leaf.bind(records, all))?;
        self.correlate(records, all)?;
        self.pair_fields(records, all);
        Ok(())
    }

    /// Makes comparisons between two fields of one list compare fields of the same element.
    fn pair_fields(&mut self, records: &RecordSet<'_>, all: &[NodeId]) {
        match self {
            Test::Any(tests) | Test::All(tests) => {
                tests.iter_mut().for_each(|test| test.pair_fields(records, all));
            }
            Test::Not(test) => test.pair_fields(records, all),
            Test::Element(..) => {}
            Test::Leaf(leaf) => {
                if let Some(list) = leaf.paired_list(records, all) {
                    let leaf = std::mem::replace(self, Test::All(Vec::new()));
                    *self = element(list, vec![leaf]);
                }
            }
        }
    }

    /// Finds the fields of tests on elements, such as `any(list; a=1)`, in the elements of the
    /// list in the values `all`.
    ///
    /// # Errors
    /// Returns a message for the caller if no value has such a list, or no element has a field.
    fn bind_elements(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        match self {
            Test::All(tests) | Test::Any(tests) => {
                tests.iter_mut().try_for_each(|test| test.bind_elements(records, all))
            }
            Test::Not(test) => test.bind_elements(records, all),
            Test::Leaf(_) => Ok(()),
            Test::Element(list, test) => {
                list.bind(records, all)?;
                let is_list = |id: &NodeId| {
                    records.outline.node(*id).is_some_and(|node| node.kind == Kind::Array)
                };
                if list.field.steps().is_empty() && !all.iter().any(is_list) {
                    return Err(format!(
                        "where: {} is the list of these records, not a list in each of them: for another record write id IN (SELECT …), or jq",
                        list.name.verbatim
                    ));
                }
                let mut elements = Vec::new();
                for id in all {
                    list.field.elements(&records.outline, *id, &mut |id| elements.push(id));
                }
                if elements.is_empty() {
                    return Err(format!(
                        "where: {} is not a list in any record; any() and all() test the elements of a list",
                        list.field
                    ));
                }
                let mut outside = None;
                test.each_name(&mut |name| {
                    if name.is_outside(&list.name, records, &elements) {
                        outside = Some(name.verbatim.clone());
                    }
                });
                if let Some(name) = outside {
                    return Err(format!(
                        "where: {name} does not belong to an element of {}: {ELEMENTS_WITH_RECORD}",
                        list.field
                    ));
                }
                test.bind(records, &elements)
            }
        }
    }

    /// Joins comparisons of one list that `AND` connects into one test of an element.
    fn correlate(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        match self {
            Test::Any(tests) => tests.iter_mut().try_for_each(|test| test.correlate(records, all)),
            Test::Not(test) => test.correlate(records, all),
            Test::Leaf(_) | Test::Element(..) => Ok(()),
            Test::All(tests) => {
                tests.iter_mut().try_for_each(|test| test.correlate(records, all))?;
                if !may_share_list(tests, records, all) {
                    return Ok(());
                }
                let lists: Vec<Option<FieldPath>> =
                    tests.iter().map(|test| test.shared_list(records, all)).collect();
                let mut merged: Vec<(Option<FieldPath>, Vec<Test>)> = Vec::new();
                for (test, list) in std::mem::take(tests).into_iter().zip(lists) {
                    match merged.iter_mut().find(|(known, _)| list.is_some() && *known == list) {
                        Some((_, group)) => group.push(test),
                        None => merged.push((list, vec![test])),
                    }
                }
                for (list, group) in merged {
                    match list.filter(|_| group.len() > 1) {
                        Some(list) if concerns_one_element(&group, &list)? => {
                            tests.push(element(list, group));
                        }
                        _ => tests.extend(group),
                    }
                }
                Ok(())
            }
        }
    }

    /// Returns the outermost list to which all fields of the test belong. `None` if there is no
    /// such list.
    fn shared_list(&self, records: &RecordSet<'_>, all: &[NodeId]) -> Option<FieldPath> {
        let mut lists: Vec<Option<FieldPath>> = Vec::new();
        let mut has_elements = false;
        self.each_leaf(&mut |leaf| lists.push(leaf.list(records, all)));
        self.each_element(&mut || has_elements = true);
        let first = lists.first()?.clone()?;
        (!has_elements && lists.iter().all(|list| list.as_ref() == Some(&first))).then_some(first)
    }

    fn each_element(&self, visit: &mut impl FnMut()) {
        match self {
            Test::All(tests) | Test::Any(tests) => {
                tests.iter().for_each(|test| test.each_element(visit));
            }
            Test::Not(test) => test.each_element(visit),
            Test::Leaf(_) => {}
            Test::Element(..) => visit(),
        }
    }

    /// Removes the first `depth` steps from the paths of all fields.
    fn strip_steps(&mut self, depth: usize) -> Result<(), String> {
        self.each_leaf_mut(&mut |leaf| {
            leaf.operand.strip(depth);
            if let Check::Field(_, other) = &mut leaf.check {
                other.strip(depth);
            }
            Ok(())
        })
    }

    /// Returns true if the test is a comparison with `<`, `<=`, `>`, `>=`, which different elements
    /// of a list can meet.
    fn is_range(&self) -> bool {
        let Test::Leaf(leaf) = self else { return false };
        matches!(leaf.check, Check::Compare(operator, _) if operator != Operator::Equal)
    }
}

/// Returns false if the tests cannot share a list, because their fields begin with different keys.
/// O(records): does not visit their members.
fn may_share_list(tests: &[Test], records: &RecordSet<'_>, all: &[NodeId]) -> bool {
    let mut starts: Vec<(usize, Option<FieldStep>)> = Vec::new();
    for (at, test) in tests.iter().enumerate() {
        test.each_leaf(&mut |leaf| starts.push((at, leaf.operand.field.steps().first().cloned())));
    }
    let is_shared = |(at, step): &(usize, Option<FieldStep>)| {
        starts.iter().any(|(other, start)| other != at && start == step)
    };
    let is_list =
        |id: &NodeId| records.outline.node(*id).is_some_and(|node| node.kind == Kind::Array);
    starts.iter().any(is_shared) || all.iter().any(is_list)
}

/// Creates the test that an element of `list` meets all of `tests`.
fn element(list: FieldPath, mut tests: Vec<Test>) -> Test {
    let depth = list.steps().len();
    for test in &mut tests {
        // The fields of elements begin at the element.
        let _ = test.strip_steps(depth);
    }
    let name = FieldName::of_key(&list.to_string());
    let list = Operand { field: list, ..Operand::new(name) };
    Test::Element(list, Box::new(Test::All(tests)))
}

/// Returns true if the tests must hold for one element: they compare several fields, or a range of
/// one field. False for tests of one field, which different elements may meet: `labels=bug AND
/// labels=open`.
///
/// # Errors
/// Returns a message for the caller if one field is compared twice beside another one.
fn concerns_one_element(tests: &[Test], list: &FieldPath) -> Result<bool, String> {
    let mut fields: Vec<FieldPath> = Vec::new();
    let mut repeated = false;
    for test in tests {
        let mut own: Vec<FieldPath> = Vec::new();
        test.each_leaf(&mut |leaf| {
            if !own.contains(&leaf.operand.field) {
                own.push(leaf.operand.field.clone());
            }
        });
        for field in own {
            if fields.contains(&field) {
                repeated = true;
            } else {
                fields.push(field);
            }
        }
    }
    if fields.len() < 2 {
        return Ok(tests.iter().all(Test::is_range));
    }
    let equalities = tests.iter().filter(|test| !test.is_range()).count();
    if repeated && equalities > fields.len() {
        return Err(format!(
            "where: several comparisons of one field of the list {list} can be about one element or several; name the elements: any({list}; …) AND any({list}; …)"
        ));
    }
    Ok(true)
}

impl Leaf {
    fn bind(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        self.operand.bind(records, all)?;
        self.bind_member(records, all)?;
        self.check_first(records, all)?;
        if let Check::Field(_, other) = &mut self.check {
            other.bind(records, all)?;
        } else if self.is_flag {
            self.bind_flag(records, all);
        } else {
            self.bind_word(records, all);
        }
        self.check_word(records, all)?;
        self.check_units()?;
        self.convert_durations();
        if let Some(note) = self.fit_date(records, all) {
            self.reading = Some(note);
            return Ok(());
        }
        self.choose_scale(records, all)
    }

    /// Converts durations that are compared with a difference of dates to the unit of the
    /// difference: `closed - opened > 36 hours`.
    fn convert_durations(&mut self) {
        let unit = self.operand.computed.as_ref().and_then(|expression| expression.date_unit());
        let Some(seconds) = unit.map(|unit| unit.seconds()) else { return };
        match &mut self.check {
            Check::Compare(_, literal) => literal.convert_to_time_units(seconds),
            Check::Between(least, most) => {
                least.convert_to_time_units(seconds);
                most.convert_to_time_units(seconds);
            }
            _ => {}
        }
    }

    /// Chooses the scale of an ordering comparison, or of a comparison of two fields, from all
    /// values.
    fn choose_scale(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        let (operand, mut survey) = (&self.operand, ScaleSurvey::default());
        let mut add = |operand: &Operand| {
            for id in all {
                operand.visit_own(&records.outline, *id, &mut |value| survey.add(&value));
            }
        };
        let field = operand.to_string();
        let explained = |reason: String| format!("where: {reason}");
        self.reading = match &mut self.check {
            Check::Matches(pattern) => pattern.choose_reading(|pattern| {
                all.iter().any(|id| {
                    let mut found = false;
                    operand.visit(&records.outline, *id, &mut |value| {
                        found |= value.text().is_some_and(|text| pattern.is_match(text));
                    });
                    found
                })
            }),
            Check::Compare(Operator::Equal, _) | Check::In(_) => {
                let (literals, own) = (self.check.numbers(), operand.without_default());
                let has_number = |id: &NodeId| {
                    let mut found = false;
                    own.visit(&records.outline, *id, &mut |it| found |= it.number().is_some());
                    found
                };
                if !literals.is_empty() && !all.iter().any(has_number) {
                    add(operand);
                }
                let notes = literals.into_iter().map(|it| it.fit_equality(&survey, &field));
                notes.reduce(|known, note| known.or(note)).flatten()
            }
            Check::IsNull => self.presence_note(records, all),
            Check::HasValue(_) | Check::IsNumber => None,
            Check::Compare(..) | Check::Between(..) | Check::Field(..) => {
                add(operand);
                if let Check::Field(_, other) = &self.check {
                    add(other);
                }
                self.fit(&survey, &field).map_err(explained)?
            }
        };
        let computed = self.operand.computed.as_ref();
        let units = computed.and_then(|it| it.units().or_else(|| it.null_note()));
        let units = units.or_else(|| self.operand.length_note());
        if let Some(units) = units {
            let own = self.reading.take();
            self.reading = Some(own.map_or(units.clone(), |own| format!("{own}; {units}")));
        }
        Ok(())
    }

    /// Returns an error if a computation with units is compared with a field, whose units may
    /// differ.
    fn check_units(&self) -> Result<(), String> {
        let Check::Field(_, other) = &self.check else { return Ok(()) };
        let unit = |operand: &Operand| match &operand.computed {
            Some(expression) => expression.units().map(|_| expression.unit()).transpose(),
            None => Ok(None),
        };
        let (left, right) = (unit(&self.operand)?, unit(other)?);
        let are_computed = self.operand.is_computed() && other.is_computed();
        match (left, right) {
            (None, None) => Ok(()),
            (left, right) if are_computed && left == right => Ok(()),
            _ => Err(format!(
                "where: {} and {} have different units, or none; write one computation beside a number, such as a / b > 2",
                self.operand.name.verbatim, other.name.verbatim
            )),
        }
    }

    /// Chooses the scale of an ordering comparison, or of a comparison of two fields, from the
    /// forms of all values. Returns a note for the answer if another scale was possible.
    ///
    /// # Errors
    /// Returns the reason if a literal does not have the form of the values.
    pub(super) fn fit(
        &mut self,
        survey: &ScaleSurvey,
        field: &str,
    ) -> Result<Option<String>, String> {
        match &mut self.check {
            Check::Compare(operator, literal) if *operator != Operator::Equal => {
                literal.fit(survey, field)
            }
            Check::Between(low, high) => {
                let note = low.fit(survey, field)?;
                high.fit(survey, field)?;
                Ok(note)
            }
            Check::Field(..) => {
                let (scale, note) = survey.scale(field);
                self.scale = Some(scale);
                Ok(note)
            }
            _ => Ok(None),
        }
    }

    /// Replaces an unquoted word on the right side by the field of that name, if a record has it
    /// and no value equals the word.
    fn bind_word(&mut self, records: &RecordSet<'_>, all: &[NodeId]) {
        let Check::Compare(operator, literal) = &self.check else { return };
        let Some(mut other) = operand_named_by(literal) else { return };
        // A value is found in one of the first records, mostly; that a word names no field shows
        // only after all of them.
        let is_value = |id: &NodeId| {
            let mut found = false;
            self.operand.visit(&records.outline, *id, &mut |value| {
                found |= literal.equals(&value) == Some(true);
            });
            found
        };
        if *operator == Operator::Equal && all.iter().any(is_value) {
            return;
        }
        let is_other = other.bind(records, all).is_ok()
            && (other.is_computed() || other.field != self.operand.field);
        if is_other {
            self.check = Check::Field(*operator, other);
        }
    }

    /// Returns the list to which all fields of a comparison of several fields belong. `None` if the
    /// comparison has only one field, or if there is no such list.
    fn paired_list(&self, records: &RecordSet<'_>, all: &[NodeId]) -> Option<FieldPath> {
        let mut paths = self.operand.paths();
        if let Check::Field(_, other) = &self.check {
            paths.extend(other.paths());
        }
        let (first, rest) = paths.split_first()?;
        let is_pair = rest.iter().any(|path| path != first);
        if !is_pair || self.operand.is_of_list() {
            return None;
        }
        let list = FieldPath::shared_list(&paths, &records.outline, all)?;
        let is_whole = self.operand.uses_whole(&list)
            || matches!(&self.check, Check::Field(_, other) if other.uses_whole(&list));
        (!is_whole).then_some(list)
    }

    /// Returns the list to which the field belongs. `None` if there is none, or if the comparison
    /// uses whole lists.
    fn list(&self, records: &RecordSet<'_>, all: &[NodeId]) -> Option<FieldPath> {
        if self.operand.is_computed() {
            return None;
        }
        let steps = self.operand.field.steps();
        if self.operand.is_of_list() {
            return None;
        }
        let depth = all
            .iter()
            .filter(|id| is_container(&records.outline, **id))
            .find_map(|id| self.operand.field.list_depth(&records.outline, *id))?;
        let list = FieldPath::new(steps.get(..depth)?.to_vec());
        let shares = |other: &Operand| other.field.steps().starts_with(list.steps());
        match &self.check {
            Check::Field(_, other) if !shares(other) || other.uses_whole(&list) => None,
            _ => Some(list),
        }
    }
}
