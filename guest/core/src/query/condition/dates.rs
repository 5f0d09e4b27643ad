//! Checks comparisons of parts of dates, such as `month(created) = 5`.

use super::{Check, Leaf, Operator};
use crate::json::outline::NodeId;
use crate::query::date;
use crate::query::literal::Literal;
use crate::query::operand::FieldFunction;
use crate::query::records::RecordSet;
use crate::query::scale::{Scale, ScaleSurvey};
use crate::query::value::quote;

impl Leaf {
    /// Makes an equality with a date that no value is written as compare times: `2024-05-01 10:00`
    /// is `2024-05-01T10:00:00Z`. Returns a note for the answer. `None` if a value is written so,
    /// or if no value is that time.
    pub(super) fn fit_date(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Option<String> {
        let Check::Compare(Operator::Equal, literal) = &self.check else { return None };
        if !matches!(literal.scale(), Scale::Time { .. }) || self.operand.function.is_some() {
            return None;
        }
        let is_month = date::is_month(&literal.text);
        let (mut survey, mut is_written, mut has_time) = (ScaleSurvey::default(), false, false);
        for id in all {
            self.operand.visit_own(&records.outline, *id, &mut |value| {
                is_written |= literal.equals(&value) == Some(true);
                has_time |= value.text().is_some_and(|text| match is_month {
                    true => !date::is_month(text),
                    false => text.contains(':'),
                });
                survey.add(&value);
            });
        }
        let field = self.operand.to_string();
        let is_dates = matches!(survey.scale(&field).0, Scale::Time { .. });
        // A day is no time of that day, and a month no day.
        if is_written || !is_dates || (has_time && !literal.text.contains(':')) {
            return None;
        }
        let mut bound = literal.clone();
        bound.fit(&survey, &field).ok()?;
        let note = format!("{literal} was compared as a time with those at {field}");
        let check = Check::Between(bound.clone(), bound);
        let mut has_match = false;
        for id in all {
            self.operand.visit_own(&records.outline, *id, &mut |value| {
                has_match |= check.test(&value) == Some(true);
            });
        }
        if !has_match {
            return None;
        }
        self.check = check;
        Some(note)
    }

    /// Returns a note about values that are not dates, if the comparison is of a part of a date.
    ///
    /// # Errors
    /// Returns a message for the caller if no value is a date, or if a literal does not have the
    /// form of the dates' parts.
    pub(super) fn check_dates(
        &self,
        records: &RecordSet<'_>,
        all: &[NodeId],
    ) -> Result<Option<String>, String> {
        let operand = &self.operand;
        let Some(function @ FieldFunction::Date(part)) = operand.function else { return Ok(None) };
        if operand.is_computed() || matches!(self.check, Check::IsNull) {
            return Ok(None);
        }
        let (mut dates, mut others, mut other) = (0u64, 0u64, None);
        let mut forms: Vec<(String, String)> = Vec::new();
        for id in all {
            operand.field.visit(&records.outline, *id, &mut |value| {
                let part = function.apply(&value, operand.order);
                let Some(text) = value.text() else { return };
                let Some(part) = part.text() else {
                    others += 1;
                    other.get_or_insert_with(|| text.chars().take(40).collect::<String>());
                    return;
                };
                dates += 1;
                let form = form(part);
                if !forms.iter().any(|(known, _)| *known == form) {
                    forms.push((form, part.to_owned()));
                }
            });
        }
        let name = &operand.field;
        if dates == 0 && others > 0 {
            return Err(format!(
                "where: no record has an ISO date, or an epoch, at {name}; it holds {}: compare texts, such as {name} ~ '2013', or convert them with jq",
                quote(&other.unwrap_or_default())
            ));
        }
        let has_form = |literal: &&&Literal| {
            let own = form(&literal.text);
            forms.iter().any(|(form, _)| *form == own)
        };
        let literals = match &self.check {
            Check::Compare(Operator::Equal, literal) => vec![literal],
            Check::In(list) => list.iter().collect(),
            _ => Vec::new(),
        };
        let mut wrong = literals.iter().filter(|literal| !has_form(literal));
        if let Some((literal, (_, sample))) = wrong.next().zip(forms.first()) {
            return Err(format!(
                "where: {}({name}) is written as {}, so that it never equals {literal}",
                part.name(),
                quote(sample)
            ));
        }
        let (values, are) = if others == 1 { ("value", "is") } else { ("values", "are") };
        Ok(other.map(|other| {
            format!(
                "{others} {values} at {name}, such as {}, {are} no dates that can be read, and their records were left out",
                quote(&other)
            )
        }))
    }
}

/// Returns the pattern of a text: each run of digits as `0`, each run of letters as `a`.
fn form(text: &str) -> String {
    let mut form = String::new();
    for sign in text.chars() {
        let kind = match sign {
            sign if sign.is_ascii_digit() => '0',
            sign if sign.is_alphabetic() => 'a',
            sign => sign,
        };
        if !form.ends_with(kind) || !kind.is_alphanumeric() {
            form.push(kind);
        }
    }
    form
}

#[cfg(test)]
mod tests {
    use super::form;

    #[test]
    fn forms_of_parts_of_dates() {
        for (text, expected) in
            [("2025-Q3", "0-a0"), ("3", "0"), ("2025-06-01T10", "0-0-0a0"), ("Monday", "a")]
        {
            assert_eq!(form(text), expected, "{text}");
        }
    }
}
