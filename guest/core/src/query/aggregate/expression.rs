//! Numbers that are computed from totals: `sum(a) / sum(b)`, `round(100.0 * count(*) FILTER (WHERE
//! a > 5) / count(*), 1)`.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = factor { ("*" | "/" | "%") factor }
//! factor  = ( number | total | "(" sum ")" | function "(" sum { "," number } ")" ) [ "::" type ]
//! ```

use std::cmp::Ordering;

use super::item::{self, Reading, syntax};
use super::total::AggregateFunction;
use super::{Aggregate, Group, GroupedTotals};
use crate::query::reader::Reader;
use crate::query::scale::Scale;
use crate::query::value::{Number, Value};

/// Functions of a number that is computed from totals.
const FUNCTIONS: [&str; 6] = ["round", "coalesce", "ifnull", "nvl", "nullif", "cast"];

/// An expression whose value is a number. Totals are indices of the items of a segment.
#[derive(Clone, Debug)]
pub(super) enum TotalExpression {
    Number(Number),
    Total(usize),
    Binary(char, Box<TotalExpression>, Box<TotalExpression>),
    /// A number, rounded to this many decimals.
    Round(Box<TotalExpression>, i32),
    /// A number, or this one if there is none.
    OrElse(Box<TotalExpression>, Number),
    /// A number, or none if it is this one.
    NullIf(Box<TotalExpression>, Number),
}

/// Returns true if an expression of totals is next that begins with no total.
pub(super) fn is_next(reader: &Reader<'_>) -> bool {
    let rest = reader.rest().trim_start();
    let word = reader.peek_word();
    let begins = rest.starts_with('(')
        || rest.starts_with(|c: char| c.is_ascii_digit())
        || FUNCTIONS.iter().any(|known| known.eq_ignore_ascii_case(word));
    begins && read(&mut reader.clone(), &mut Vec::new()).is_ok()
}

/// Reads a total, or an expression of totals. Adds the totals of an expression to `items`, as
/// hidden ones.
///
/// # Errors
/// Returns a message for the caller that shows the position and the reason.
pub(super) fn read(
    reader: &mut Reader<'_>,
    items: &mut Vec<Aggregate>,
) -> Result<Aggregate, String> {
    reader.skip_space();
    let start = reader.position();
    let known = items.len();
    let expression = TotalExpression::sum(reader, items)?;
    if items.len() == known {
        return Err(syntax(&reader.error("a total is expected here")));
    }
    let mut total = match expression {
        TotalExpression::Total(_) => items.pop().unwrap_or_default(),
        expression => Aggregate { expression: Some(expression), ..Aggregate::default() },
    };
    total.verbatim = reader.since(start).to_owned();
    total.alias = item::alias(reader)?;
    Ok(total)
}

impl TotalExpression {
    fn sum(reader: &mut Reader<'_>, items: &mut Vec<Aggregate>) -> Result<Self, String> {
        let mut left = Self::product(reader, items)?;
        while let Some(operator) = operator(reader, &['+', '-']) {
            reader.count_part()?;
            let right = Self::product(reader, items)?;
            left = Self::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn product(reader: &mut Reader<'_>, items: &mut Vec<Aggregate>) -> Result<Self, String> {
        let mut left = Self::factor(reader, items)?;
        while let Some(operator) = operator(reader, &['*', '/', '%']) {
            reader.count_part()?;
            let right = Self::factor(reader, items)?;
            left = Self::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn factor(reader: &mut Reader<'_>, items: &mut Vec<Aggregate>) -> Result<Self, String> {
        let value = Self::plain(reader, items)?;
        while reader.eat("::") {
            number_type(reader)?;
        }
        Ok(value)
    }

    fn plain(reader: &mut Reader<'_>, items: &mut Vec<Aggregate>) -> Result<Self, String> {
        reader.skip_space();
        if let Some(number) = number(reader) {
            return Ok(Self::Number(number));
        }
        if reader.eat("(") {
            reader.enter()?;
            let inner = Self::sum(reader, items)?;
            reader.leave();
            reader.close()?;
            return Ok(inner);
        }
        let start = reader.position();
        let word = reader.peek_word();
        if let Some(name) = FUNCTIONS.iter().find(|known| known.eq_ignore_ascii_case(word)) {
            reader.eat(word);
            if reader.eat("(") {
                reader.enter()?;
                let inner = Self::sum(reader, items)?;
                reader.leave();
                return Self::function(name, inner, reader);
            }
            reader.reset(start);
        }
        let mut add = |total: Aggregate| {
            items.push(Aggregate { alias: Some(String::new()), ..total });
            Self::Total(items.len() - 1)
        };
        Ok(match item::read(reader)? {
            Reading::Total(total) => add(total),
            Reading::OrZero(total) => Self::OrElse(Box::new(add(total)), Number::of_float(0.0)),
            Reading::Share(factor, total) => {
                let counted = add(total);
                let all = add(Aggregate::default());
                let share = Self::Binary('/', Box::new(counted), Box::new(all));
                match factor == 1.0 {
                    true => share,
                    false => {
                        let factor = Box::new(Self::Number(Number::of_float(factor)));
                        Self::Binary('*', factor, Box::new(share))
                    }
                }
            }
        })
    }

    /// Reads the other arguments of a function of `inner`.
    fn function(name: &str, inner: Self, reader: &mut Reader<'_>) -> Result<Self, String> {
        if name == "cast" {
            if reader.keyword(&["as"]).is_none() {
                return Err(reader.error("write CAST(total AS float)"));
            }
            number_type(reader)?;
            reader.close()?;
            return Ok(inner);
        }
        let argument = match reader.eat(",") {
            true => Some(number(reader).ok_or_else(|| reader.error("a number is expected here"))?),
            false => None,
        };
        reader.close()?;
        let inner = Box::new(inner);
        Ok(match (name, argument) {
            ("round", decimals) => {
                #[allow(clippy::cast_possible_truncation, reason = "clamped before")]
                let decimals = decimals.map_or(0.0, |number| number.float).clamp(0.0, 15.0) as i32;
                Self::Round(inner, decimals)
            }
            ("nullif", Some(number)) => Self::NullIf(inner, number),
            (_, Some(number)) => Self::OrElse(inner, number),
            (_, None) => return Err(reader.error(&format!("write {name}(total, 0)"))),
        })
    }

    /// Returns the value, with `total` for the value of each total. Null if a total is null or no
    /// number, or if the result is not finite.
    fn value(&self, total: &impl Fn(usize) -> Value<'static>) -> Value<'static> {
        let operand = |expression: &Self| expression.value(total).number();
        let result = match self {
            Self::Number(number) => Some(*number),
            Self::Total(at) => return total(*at),
            Self::OrElse(inner, other) => match inner.value(total) {
                Value::Null => Some(*other),
                value => return value,
            },
            Self::NullIf(inner, null) => {
                operand(inner).filter(|number| !number.compare(*null).is_some_and(Ordering::is_eq))
            }
            Self::Round(inner, decimals) => operand(inner).map(|number| {
                let factor = 10f64.powi(*decimals);
                Number::of_float((number.float * factor).round() / factor)
            }),
            Self::Binary(operator, left, right) => operand(left)
                .zip(operand(right))
                .and_then(|(left, right)| left.computed(*operator, right)),
        };
        result.map_or(Value::Null, Number::value)
    }

    /// Returns the currency of the value for a group. `None` if it is a plain number.
    pub(super) fn currency<'g>(&self, group: &'g Group) -> Option<&'g str> {
        match self {
            Self::Number(_) => None,
            Self::Total(at) => group.totals.get(*at)?.currency().ok()?,
            Self::Round(inner, _) | Self::OrElse(inner, _) | Self::NullIf(inner, _) => {
                inner.currency(group)
            }
            Self::Binary(operator, left, right) => {
                match (operator, left.currency(group), right.currency(group)) {
                    // A ratio, or a price times a price.
                    ('*' | '/', Some(_), Some(_)) | ('/', None, Some(_)) => None,
                    (_, left, right) => left.or(right),
                }
            }
        }
    }

    /// Returns two currencies whose amounts are added for a group. `None` if there are none.
    fn mixed<'g>(&self, group: &'g Group) -> Option<(&'g str, &'g str)> {
        match self {
            Self::Number(_) | Self::Total(_) => None,
            Self::Round(inner, _) | Self::OrElse(inner, _) | Self::NullIf(inner, _) => {
                inner.mixed(group)
            }
            Self::Binary(_, left, right) => {
                let both = left.currency(group).zip(right.currency(group));
                both.filter(|(left, right)| left != right)
                    .or_else(|| left.mixed(group))
                    .or_else(|| right.mixed(group))
            }
        }
    }

    /// Returns the unit of the value, which is empty for a number without one.
    ///
    /// # Errors
    /// Returns two units whose amounts are added.
    fn unit(&self, items: &[Aggregate]) -> Result<String, (String, String)> {
        match self {
            Self::Number(_) => Ok(String::new()),
            Self::Total(at) => {
                Ok(match items.get(*at).map(|item| (&item.scale, &item.expression)) {
                    Some((_, Some(expression))) => expression.unit(items)?,
                    Some((Scale::Unit { unit, .. }, _)) => unit.clone(),
                    _ => String::new(),
                })
            }
            Self::Round(inner, _) | Self::OrElse(inner, _) | Self::NullIf(inner, _) => {
                inner.unit(items)
            }
            Self::Binary(operator, left, right) => {
                let is_number = |side: &Self| matches!(side, Self::Number(_));
                let has_number = is_number(left) || is_number(right);
                let (left, right) = (left.unit(items)?, right.unit(items)?);
                match operator {
                    '+' | '-' if left != right && !has_number => Err((left, right)),
                    '*' | '/' if !left.is_empty() && !right.is_empty() => {
                        Ok(format!("{left} {operator} {right}"))
                    }
                    _ => Ok(if left.is_empty() { right } else { left }),
                }
            }
        }
    }

    /// Calls `visit` with each total.
    fn each_total(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Self::Number(_) => {}
            Self::Total(at) => visit(*at),
            Self::Round(inner, _) | Self::OrElse(inner, _) | Self::NullIf(inner, _) => {
                inner.each_total(visit);
            }
            Self::Binary(_, left, right) => {
                left.each_total(visit);
                right.each_total(visit);
            }
        }
    }
}

impl GroupedTotals {
    /// Returns the value of item `at` for a group, for sorting and conditions.
    pub(super) fn value(&self, group: &Group, at: usize) -> Value<'static> {
        let Some(item) = self.items.get(at) else { return Value::Null };
        match &item.expression {
            Some(expression) => expression.value(&|at| self.value(group, at)),
            None => group.totals.get(at).map_or(Value::Null, |total| total.value(item.function)),
        }
    }

    /// Checks that expressions compute with numbers only.
    ///
    /// # Errors
    /// Returns a message for the caller if a total in an expression is a text.
    pub(super) fn check_expressions(&self, groups: &[Group]) -> Result<(), String> {
        for item in &self.items {
            let Some(expression) = &item.expression else { continue };
            let mut result = Ok(());
            expression.each_total(&mut |at| {
                let text = groups.iter().find_map(|group| match self.value(group, at) {
                    Value::Text(text) => Some(text),
                    _ => None,
                });
                let total = self.items.get(at);
                let is_record = total.is_some_and(|total| {
                    matches!(
                        total.function,
                        AggregateFunction::MinRecord | AggregateFunction::MaxRecord
                    )
                });
                if let Some(total) = total.filter(|_| text.is_some() || is_record) {
                    result = Err(format!(
                        "aggregate: {} computes with numbers, and {} is none; ask for it alone, or compute with jq",
                        item.verbatim, total.verbatim
                    ));
                }
            });
            result?;
            if let Err((one, other)) = expression.unit(&self.items) {
                let name = |unit: String| if unit.is_empty() { "no unit".to_owned() } else { unit };
                return Err(format!(
                    "aggregate: {} adds amounts in {} and {}: ask for each total alone",
                    item.verbatim,
                    name(one),
                    name(other)
                ));
            }
            if let Some((one, other)) = groups.iter().find_map(|group| expression.mixed(group)) {
                return Err(format!(
                    "aggregate: {} computes with amounts in {one} and {other}: ask for each total alone",
                    item.verbatim
                ));
            }
        }
        Ok(())
    }
}

/// Reads the type of a cast, such as `float` or `decimal(10, 2)`, which does not change a number.
fn number_type(reader: &mut Reader<'_>) -> Result<(), String> {
    let word = reader.peek_word();
    let known = ["float", "float8", "float64", "real", "double", "decimal", "numeric", "number"];
    if !known.contains(&word.to_lowercase().as_str()) {
        return Err(reader.error(
            "a type such as float or numeric is expected here; to round, write round(total)",
        ));
    }
    reader.eat(word);
    let _ = reader.keyword(&["precision"]);
    reader.type_size()
}

/// Reads a number such as `100.0`. `None`, with nothing read, if none is next.
fn number(reader: &mut Reader<'_>) -> Option<Number> {
    reader.skip_space();
    let rest = reader.rest();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let digits = rest.get(..end)?;
    let number = Number::parse_plain(digits)?;
    let is_end = !rest.get(end..)?.starts_with(|c: char| c.is_alphabetic() || "_-:".contains(c));
    (is_end && reader.eat(digits)).then_some(number)
}

/// Reads one of `operators`. `None` if none of them is next.
fn operator(reader: &mut Reader<'_>, operators: &[char]) -> Option<char> {
    let rest = reader.rest().trim_start();
    let operator = rest.chars().next().filter(|next| operators.contains(next))?;
    reader.skip_space();
    reader.next();
    Some(operator)
}
