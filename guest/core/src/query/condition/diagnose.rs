//! Explains conditions that match nothing, or leave records out.

use std::cmp::Ordering;

use super::{Check, Leaf, Operator, Test};
use crate::json::outline::NodeId;
use crate::query::known_fields::{left_out_note, not_a_value};
use crate::query::literal::Literal;
use crate::query::names::join_names;
use crate::query::records::RecordSet;
use crate::query::scale::Scale;
use crate::query::value::{Number, Value, quote};

/// The maximum number of distinct values of a field that a note lists.
pub(super) const MAX_NAMED_VALUES: usize = 8;
/// The maximum length, in characters, of a value in a note.
const MAX_NAMED_CHARS: usize = 40;

/// Statistics about the values of a field in all records.
#[derive(Default)]
struct Values {
    nulls: u64,
    objects: u64,
    booleans: u64,
    numbers: u64,
    /// The number of texts that are not numbers.
    texts: u64,
    /// The number of values that the check can compare.
    comparable: u64,
    /// True if a value meets the check.
    has_match: bool,
    /// For each literal of the check, true if a value equals it.
    exact: Vec<bool>,
    /// For each literal of the check, a value that equals it except for its case.
    folded: Vec<Option<String>>,
    /// True if a value begins with the date that is the literal of the check.
    begins: bool,
    /// The number of values that contain the literal of the check, and are longer.
    contains: u64,
    /// Distinct values, for a note.
    samples: Vec<String>,
}

impl Test {
    /// Returns notes about records that were left out, and about values that occur in no record.
    ///
    /// # Errors
    /// Returns a message for the caller if a comparison can never be true. Its field then has no
    /// value of its type, or has its value in another case.
    pub(super) fn diagnose(&self, records: &RecordSet<'_>) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        self.diagnose_in(records, &records.ids, false, &mut notes)?;
        notes.dedup();
        Ok(notes)
    }

    fn diagnose_in(
        &self,
        records: &RecordSet<'_>,
        all: &[NodeId],
        is_negated: bool,
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        match self {
            Test::Any(tests) => tests
                .iter()
                .filter(|test| !test.is_empty_text() || !tests.iter().any(Test::is_null_test))
                .try_for_each(|test| test.diagnose_in(records, all, is_negated, notes)),
            Test::All(tests) => {
                tests.iter().try_for_each(|test| test.diagnose_in(records, all, is_negated, notes))
            }
            Test::Not(test) => test.diagnose_in(records, all, !is_negated, notes),
            Test::Leaf(leaf) => leaf.diagnose(records, all, is_negated, notes),
            Test::Element(list, test) => {
                let mut elements = Vec::new();
                for id in all {
                    list.field.elements(&records.outline, *id, &mut |id| elements.push(id));
                }
                test.diagnose_in(records, &elements, is_negated, notes)
            }
        }
    }
}

impl Test {
    fn is_empty_text(&self) -> bool {
        matches!(self, Test::Leaf(leaf) if leaf.is_empty_text())
    }

    fn is_null_test(&self) -> bool {
        matches!(self, Test::Leaf(leaf) if matches!(leaf.check, Check::IsNull))
    }
}

impl Leaf {
    /// Returns a note about values that an equality leaves out, although they are the same amount,
    /// time or version in another spelling: `60m` beside `1h`. `None` if there are none.
    fn other_spellings(&self, records: &RecordSet<'_>, all: &[NodeId]) -> Option<String> {
        let Check::Compare(Operator::Equal, literal) = &self.check else { return None };
        let is_typed =
            matches!(literal.scale(), Scale::Amount(_) | Scale::Time { .. } | Scale::Version);
        if !is_typed || self.matched.get() == 0 || self.operand.function.is_some() {
            return None;
        }
        let (mut count, mut sample) = (0u64, String::new());
        for id in all {
            self.operand.visit_own(&records.outline, *id, &mut |value| {
                let is_same = literal.order(&value) == Some(Ordering::Equal);
                if is_same && literal.equals(&value) == Some(false) {
                    count += 1;
                    sample = value.text().unwrap_or_default().to_owned();
                }
            });
        }
        (count > 0).then(|| {
            format!(
                "{count} more are equal in another spelling, such as {}: for all write {field} >= {literal} AND {field} <= {literal}",
                quote(&sample),
                field = self.operand
            )
        })
    }

    fn diagnose(
        &self,
        records: &RecordSet<'_>,
        all: &[NodeId],
        is_negated: bool,
        notes: &mut Vec<String>,
    ) -> Result<(), String> {
        if let Check::Matches(pattern) = &self.check {
            pattern.check_budget()?;
            notes.extend(pattern.case_note(self.matched.get() == 0));
        }
        // A list may match although some of its values occur in no record. A comparison may not
        // have been evaluated, because another one decided.
        let is_list = matches!(self.check, Check::In(_));
        if (self.matched.get() == 0 || is_list) && !all.is_empty() {
            let values = self.values(records, all);
            if is_list || !values.has_match {
                let has_flag = self.is_flag && !matches!(self.check, Check::HasValue(_));
                if has_flag && values.booleans == 0 {
                    return Err(format!(
                        "where: {0} alone is a condition, but no record has true or false at {0}: compare it, such as {0} IS NULL",
                        self.operand
                    ));
                }
                self.check_values(&values, records, all)?;
                if self.is_empty_text() && values.nulls > 0 && !is_negated {
                    return Err(format!(
                        "where: no record has an empty text at {0}, and {1} have no value: write {0} IS NULL",
                        self.operand, values.nulls
                    ));
                }
                notes.extend(self.absent_value(&values));
            }
        }
        notes.extend(self.check_dates(records, all)?);
        notes.extend(self.other_spellings(records, all));
        notes.extend(self.reading.clone());
        if self.is_known && is_negated && !matches!(self.check, Check::IsNull) {
            let mut nulls = 0u64;
            for id in all {
                self.operand.visit(&records.outline, *id, &mut |value| {
                    nulls += u64::from(value == Value::Null);
                });
            }
            if nulls > 0 {
                notes.push(format!(
                    "IS NOT includes {nulls} without a value at {}; != leaves them out",
                    self.operand
                ));
            }
        }
        if self.is_two_valued && is_negated {
            let is_unknown = |id: &&NodeId| self.compared(&records.outline, **id).is_none();
            let unknown = all.iter().filter(is_unknown).count();
            if unknown > 0 {
                notes.push(format!(
                    "the negation includes {unknown} without a value at {}, as in JavaScript; NOT leaves them out",
                    self.operand
                ));
            }
        }
        let unknown = self.unknown.get();
        if let Check::Field(_, other) = &self.check
            && usize::try_from(unknown).is_ok_and(|unknown| unknown > 0 && unknown == all.len())
            // In elements, `unknown` also counts records without the list.
            && all.iter().all(|id| self.compared(&records.outline, *id).is_none())
        {
            return Err(format!(
                "where: no record has values at {} and {other} that can be compared: compare each with a value, or convert them with jq",
                self.operand
            ));
        }
        // A record without a value does not equal one, so that it is left out anyway.
        let is_ordered = matches!(&self.check, Check::Between(..) | Check::Field(..))
            || matches!(&self.check, Check::Compare(operator, _) if *operator != Operator::Equal);
        // `NOT open` leaves out records without a value, as SQL does, and other languages do not.
        let is_false = self.is_flag && self.literals().iter().any(|text| text.text == "false");
        if unknown > 0 && (is_negated || is_ordered || is_false) {
            let kind = match &self.check {
                Check::Compare(operator, literal) if *operator != Operator::Equal => kind(literal),
                Check::Between(literal, _) => kind(literal),
                Check::Matches(_) => "text",
                _ => "value",
            };
            notes.push(left_out_note(unknown, kind, &self.operand));
        }
        Ok(())
    }

    fn literals(&self) -> Vec<&Literal> {
        match &self.check {
            Check::Compare(_, literal) => vec![literal],
            Check::Between(low, high) => vec![low, high],
            Check::In(list) => list.iter().collect(),
            Check::Matches(_)
            | Check::IsNull
            | Check::HasValue(_)
            | Check::IsNumber
            | Check::Field(..) => Vec::new(),
        }
    }

    fn values(&self, records: &RecordSet<'_>, all: &[NodeId]) -> Values {
        let mut found = Values::default();
        let literals = self.literals();
        found.exact.resize(literals.len(), false);
        found.folded.resize(literals.len(), None);
        let lower: Vec<String> =
            literals.iter().map(|literal| literal.text.to_lowercase()).collect();
        let is_letter = |c: &char| c.is_alphabetic();
        let searched = match (&self.check, lower.as_slice()) {
            (Check::Compare(Operator::Equal, _), [text])
                if text.chars().filter(is_letter).count() > 2 =>
            {
                Some(text)
            }
            _ => None,
        };
        for id in all {
            self.operand.visit(&records.outline, *id, &mut |value| {
                match &value {
                    Value::Null => found.nulls += 1,
                    Value::Object => found.objects += 1,
                    Value::Bool(_) => found.booleans += 1,
                    value if value.number().is_some() => found.numbers += 1,
                    _ => found.texts += 1,
                }
                let result = self.check.test(&value);
                found.comparable += u64::from(result.is_some());
                found.has_match |= result == Some(true);
                let Some(text) = value.text() else { return };
                let folded_text = text.to_lowercase();
                found.contains += u64::from(searched.is_some_and(|searched| {
                    text.len() > searched.len() && folded_text.contains(searched)
                }));
                let flags = found.exact.iter_mut().zip(&mut found.folded);
                for ((literal, lower), (exact, folded)) in literals.iter().zip(&lower).zip(flags) {
                    if literal.equals(&value) == Some(true) {
                        *exact = true;
                    } else if folded.is_none() && folded_text == *lower {
                        *folded = Some(text.to_owned());
                    }
                    found.begins |= is_date(&literal.text)
                        && text.len() > literal.text.len()
                        && text.starts_with(&literal.text);
                }
                let sample: String = text.chars().take(MAX_NAMED_CHARS).collect();
                if found.samples.len() <= MAX_NAMED_VALUES && !found.samples.contains(&sample) {
                    found.samples.push(sample);
                }
            });
        }
        found
    }

    /// Returns an error if the comparison can never be true because of the type or case of its
    /// value.
    fn check_values(
        &self,
        values: &Values,
        records: &RecordSet<'_>,
        all: &[NodeId],
    ) -> Result<(), String> {
        let field = &self.operand;
        let present = values.booleans + values.numbers + values.texts;
        if matches!(self.check, Check::IsNull | Check::HasValue(_) | Check::IsNumber) {
            return Ok(());
        }
        if field.is_computed() && present == 0 {
            return Err(format!(
                "where: {field} is a number in no record; + - * / and % take numbers, so compute with other values, such as dates, in jq"
            ));
        }
        if values.objects > 0 && present == 0 {
            return Err(format!("where: {}", not_a_value(records, all, &field.to_string())));
        }
        if let Check::Compare(_, literal) | Check::Between(literal, _) = &self.check
            && !matches!(self.check, Check::Compare(Operator::Equal, _))
            && values.comparable == 0
            && present > 0
        {
            let has_text = all.iter().any(|id| {
                let mut found = false;
                field.field.visit_whole(&records.outline, *id, &mut |node| {
                    found |= node.is_some_and(|id| records.outline.member(id, "#text").is_some());
                });
                found
            });
            let numbers = match has_text && field.function.is_none() && !field.is_computed() {
                true => format!("; for the numbers in any unit write {field}.#text"),
                false => String::new(),
            };
            // `83.50 CHF` beside 100 is `100 CHF`.
            let amount = values.samples.first().and_then(|sample| literal.in_unit_of(sample));
            return Err(format!(
                "where: no record has {} at {field} to compare with {literal}; it holds {}{}",
                with_article(kind(literal)),
                join_names(&quoted(&values.samples), MAX_NAMED_VALUES),
                match amount {
                    Some(amount) => {
                        format!("; for one of the units write it, such as {amount}{numbers}")
                    }
                    None => "; write a value of that form, or convert it with jq".to_owned(),
                }
            ));
        }
        if matches!(self.check, Check::Compare(Operator::Equal, _) | Check::In(_)) {
            let flags = values.exact.iter().zip(&values.folded);
            for (literal, (exact, folded)) in self.literals().into_iter().zip(flags) {
                let Some(right) = folded.as_ref().filter(|_| !exact) else { continue };
                return Err(format!(
                    "where: no record has {} at {field}; did you mean {field}={}?",
                    quote(&literal.text),
                    quote(right)
                ));
            }
        }
        if let Check::Compare(Operator::Equal, literal) = &self.check {
            if values.begins {
                return Err(format!(
                    "where: {field} has times, such as {}; for a whole day write date({field})={literal}",
                    quote(values.samples.first().map_or("", String::as_str))
                ));
            }
            if values.contains > 0 {
                return Err(format!(
                    "where: no record has {0} at {field}, but {1} contain it: write {field} ~ {0}",
                    quote(&literal.text),
                    values.contains
                ));
            }
            let is_flag = ["0", "1", "yes", "no", "y", "n", "on", "off"]
                .contains(&literal.text.to_lowercase().as_str());
            if is_flag && values.booleans > 0 && values.numbers + values.texts == 0 {
                return Err(format!(
                    "where: {field} is true or false; write {field}=true or {field}=false"
                ));
            }
            if literal.is_call() {
                return Err(format!(
                    "where: no record has the text {} at {field}, and values are no calls: write the value itself, or {field} IS NULL for absent values",
                    quote(&literal.text)
                ));
            }
            let number = literal.number().filter(|_| !literal.is_quoted);
            let padded = values.samples.iter().find(|sample| {
                let digits = sample.trim_start_matches('0');
                let is_padded = sample.starts_with('0') && !digits.starts_with('.');
                let own = Number::parse_plain(digits).filter(|_| is_padded);
                own.zip(number)
                    .is_some_and(|(own, number)| own.compare(number) == Some(Ordering::Equal))
            });
            if let Some(padded) = padded {
                return Err(format!(
                    "where: {field} holds texts such as {0}: write {field} = {0}",
                    quote(padded)
                ));
            }
            let is_nothing =
                ["none", "nil", "undefined", "missing", "absent", "unset", "nan", "na"]
                    .contains(&literal.text.to_lowercase().as_str());
            if is_nothing && !literal.is_quoted {
                return Err(format!(
                    "where: no record has the text {} at {field}; for absent values write {field} IS NULL",
                    quote(&literal.text)
                ));
            }
        }
        Ok(())
    }

    /// Returns a note if the value of an equality occurs in no record.
    fn absent_value(&self, values: &Values) -> Option<String> {
        if !matches!(self.check, Check::Compare(Operator::Equal, _) | Check::In(_)) {
            return None;
        }
        let literals = self.literals().into_iter().zip(&values.exact);
        let absent: Vec<String> = literals
            .filter(|(_, exact)| !**exact)
            .map(|(literal, _)| literal.to_string())
            .take(MAX_NAMED_VALUES)
            .collect();
        if absent.is_empty() {
            return None;
        }
        let absent = absent.join(" or ");
        let more = values.samples.len() > MAX_NAMED_VALUES;
        let samples: Vec<String> =
            quoted(&values.samples).into_iter().take(MAX_NAMED_VALUES).collect();
        let more = if more { " and others" } else { "" };
        (!samples.is_empty()).then(|| {
            format!(
                "no record has {absent} at {}; it has {}{more}",
                self.operand,
                samples.join(", ")
            )
        })
    }
}

fn quoted(samples: &[String]) -> Vec<String> {
    samples.iter().map(|sample| quote(sample)).collect()
}

/// Returns the name of the type with which a literal is compared, for a note.
pub(super) fn kind(literal: &Literal) -> &'static str {
    match literal.scale() {
        Scale::Text => "comparable text",
        scale => scale.name(),
    }
}

fn with_article(kind: &str) -> String {
    format!("{} {kind}", if kind.starts_with('a') { "an" } else { "a" })
}

fn is_date(text: &str) -> bool {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let dashes = text.matches('-').count();
    matches!((digits, dashes, text.len()), (8, 2, 10) | (6, 1, 7))
}
