//! Units of amounts in computations: `ascent / length > 400` with values such as `3.3 km`.

use super::Operand;
use super::arithmetic::Expression;
use crate::json::outline::NodeId;
use crate::query::records::RecordSet;
use crate::query::scale::{Scale, ScaleSurvey};
use crate::query::value::{Number, Value};

impl Operand {
    /// Finds the unit of the amounts of a field, if all of them have the same.
    ///
    /// # Errors
    /// Returns a message for the caller if they have several units.
    pub(super) fn bind_unit(
        &mut self,
        records: &RecordSet<'_>,
        all: &[NodeId],
    ) -> Result<(), String> {
        if self.function.is_some() || self.is_computed() {
            return Ok(());
        }
        let mut survey = ScaleSurvey::default();
        for id in all {
            self.field.visit(&records.outline, *id, &mut |value| survey.add(&value));
        }
        if let Some(units) = survey.several_units() {
            return Err(format!(
                "{} has amounts of different units ({units}), which cannot be computed with: choose one of them, or convert them with jq",
                self.field
            ));
        }
        self.amounts = survey.unit_scale().map(Box::new);
        Ok(())
    }

    /// Returns the number of a value of the field, without its unit. `None` if it has none.
    pub(super) fn number_of(&self, value: &Value<'_>) -> Option<Number> {
        let Some(scale) = &self.amounts else { return value.number() };
        Number::parse(&scale.amount_of(value)?.0)
    }

    /// Returns the unit of the amounts of the field. Empty for numbers.
    fn unit(&self) -> &str {
        self.amounts.as_deref().map_or("", Scale::unit)
    }
}

impl Expression {
    /// Returns the unit of the value, which is empty for a number without one.
    ///
    /// # Errors
    /// Returns a message for the caller if amounts of different units are added.
    pub(in crate::query) fn unit(&self) -> Result<String, String> {
        match self {
            Expression::Number(_) | Expression::Difference(..) | Expression::Text(_) => {
                Ok(String::new())
            }
            Expression::Field(operand) => Ok(match &operand.computed {
                Some(expression) => expression.unit()?,
                None => operand.unit().to_owned(),
            }),
            Expression::Binary(operator, left, right) => {
                let is_number = |side: &Expression| matches!(side, Expression::Number(_));
                let has_number = is_number(left) || is_number(right);
                let (left, right) = (left.unit()?, right.unit()?);
                if left == "%" && self.is_scaled() {
                    return Ok(String::new());
                }
                match operator {
                    '+' | '-' if left != right && !has_number => {
                        let name = |unit: &str| match unit {
                            "" => "no unit".to_owned(),
                            unit => unit.to_owned(),
                        };
                        Err(format!(
                            "amounts in {} and {} cannot be added: convert them with jq",
                            name(&left),
                            name(&right)
                        ))
                    }
                    '*' | '/' if !left.is_empty() && !right.is_empty() => {
                        Ok(format!("{left} {operator} {right}"))
                    }
                    _ => Ok(if left.is_empty() { right } else { left }),
                }
            }
        }
    }

    /// Checks that percentages are multiplied and divided as parts of 100:
    /// `price * discount / 100`, `price * (discount / 100)`.
    ///
    /// # Errors
    /// Returns a message for the caller if a product with a percentage is 100 times too big, or a
    /// quotient too small.
    pub(super) fn check_percentages(&self) -> Result<(), String> {
        let Expression::Binary(operator, left, right) = self else { return Ok(()) };
        if self.is_scaled()
            && let Expression::Binary(_, left, right) = left.as_ref()
        {
            left.check_percentages()?;
            return right.check_percentages();
        }
        left.check_percentages()?;
        right.check_percentages()?;
        let is_number = |side: &Expression| matches!(side, Expression::Number(_));
        // `1 - discount`, but not `100 - discount`
        let is_one =
            |side: &Expression| matches!(side, Expression::Number(it) if it.float.abs() <= 1.0);
        let is_clear = match operator {
            '*' | '/' => is_number(left) || is_number(right),
            _ => !is_one(left) && !is_one(right),
        };
        let (left, right) = (left.unit()?, right.unit()?);
        let is_ratio = *operator == '/' && left == right;
        if is_clear || is_ratio || (left != "%" && right != "%") {
            return Ok(());
        }
        Err("an amount in % is a part of 100: divide it, such as price * (1 - discount / 100)"
            .to_owned())
    }

    /// Returns true if the value is a part of 100.
    fn is_scaled(&self) -> bool {
        let Expression::Binary(operator, _, right) = self else { return false };
        let Expression::Number(number) = right.as_ref() else { return false };
        matches!((operator, number.float), ('/', 100.0) | ('*', 0.01))
    }

    /// Returns a note on the units of the fields. `None` if no field has a unit.
    pub(in crate::query) fn units(&self) -> Option<String> {
        let mut units: Vec<String> = Vec::new();
        self.each_field(&mut |operand| {
            let unit = operand.unit();
            let text = format!("{} is in {unit}", operand.field);
            if !unit.is_empty() && !units.contains(&text) {
                units.push(text);
            }
        });
        (!units.is_empty()).then(|| units.join(", "))
    }
}
