//! Operands of comparisons: fields of records, and functions of fields.

mod apply;
mod arithmetic;
mod date_format;
mod date_unit;
mod difference;
mod display;
mod length;
mod list_total;
mod names;
mod nesting;
mod replaced;
mod text_part;
mod texts;
mod units;

use self::arithmetic::Expression;
use self::list_total::ListFunction;
use self::names::{FUNCTIONS, method, part_named};
use self::nesting::is_too_deep;
use super::date::{DatePart, DayOrder};
use super::field::{FieldName, FieldPath};
use super::literal::Literal;
use super::reader::Reader;
use super::records::RecordSet;
use super::scale::{Scale, ScaleSurvey};
use super::value::Value;
use crate::json::outline::{NodeId, Outline};

/// A function of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldFunction {
    /// The number of elements of a list, members of an object, or characters of a text.
    Length,
    /// A total of the numbers of a list.
    List(ListFunction),
    /// The number of elements of a list. A value that is no list is one element.
    Count,
    Lower,
    Upper,
    /// The text without white space around it.
    Trim,
    /// A number without its sign.
    Absolute,
    /// The nearest number with this many decimals.
    Round(u32),
    Floor,
    Ceiling,
    Date(DatePart),
    /// The characters from the first index to the second, exclusive.
    Slice(usize, usize),
}

/// The maximum number of decimals for rounding, because a double has 15 significant digits.
const MAX_DECIMALS: u32 = 15;

/// A field of a record, or a function of it.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    /// The name as the caller wrote it.
    pub(super) name: FieldName,
    /// The path of the field. Empty before [`Operand::bind`] finds it.
    pub(super) field: FieldPath,
    pub(super) function: Option<FieldFunction>,
    /// The expression that computes the value. `None` if the value is a field.
    pub(super) computed: Option<Box<Expression>>,
    /// The value for records whose own value is null or absent.
    pub(super) default: Option<Box<Literal>>,
    /// The value that means null.
    pub(super) null: Option<Box<Literal>>,
    /// The order of day and month in the dates from which a function takes a part.
    pub(super) order: DayOrder,
    /// The scale of a field of amounts in a computation. `None` for numbers.
    pub(super) amounts: Option<Box<Scale>>,
}

impl Operand {
    /// Creates an operand that is a field.
    pub(super) fn new(name: FieldName) -> Self {
        let field = FieldPath::new(Vec::new());
        let (function, computed, default, null, amounts) = (None, None, None, None, None);
        let order = DayOrder::Unknown;
        Self { name, field, function, computed, default, null, order, amounts }
    }

    /// Reads an operand that is computed, such as `price * quantity`. `None`, with nothing read, if
    /// no such operand is next.
    pub(super) fn computed(reader: &mut Reader<'_>) -> Option<Self> {
        if is_too_deep(reader.rest()) {
            return None;
        }
        if let Some(text) = Self::concatenation(reader) {
            return Some(text);
        }
        let start = reader.position();
        let expression = Expression::read(reader)?;
        let name = FieldName::of_key(reader.since(start));
        Some(Self { computed: Some(Box::new(expression)), ..Self::new(name) })
    }

    /// Returns true if the value is computed by an expression.
    pub(super) fn is_computed(&self) -> bool {
        self.computed.is_some()
    }

    /// Calls `visit` with the name of each field that the operand reads.
    pub(super) fn each_name(&self, visit: &mut impl FnMut(&FieldName)) {
        match &self.computed {
            Some(expression) => expression.each_name(visit),
            None => visit(&self.name),
        }
    }

    /// Reads an operand, such as `price.total`, `length(tags)` or `created_at[:7]`.
    ///
    /// # Errors
    /// Returns a message for the caller if no operand follows, or if its function is unknown.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, String> {
        let verbatim = reader.peek_word();
        let word = verbatim.to_lowercase();
        let start = reader.position();
        if !word.is_empty() && reader.eat(verbatim) && reader.rest().starts_with('(') {
            reader.eat("(");
            let operand = Self::call(reader, &word)?;
            if let Some(operand) = operand {
                return Ok(operand);
            }
            reader.reset(start);
            return Err(reader.error(&format!(
                "{word}() is not a function of this language; it has {}; jq has more; a field of such a name is in quotes",
                "length, lower, upper, trim, abs, round, floor, ceil, year, quarter, month, week, day, hour, weekday, substr, split_part"
            )));
        }
        reader.reset(start);
        let mut name = FieldName::read(reader)?;
        let mut function = if reader.eat("[") { Some(Self::slice(reader)?) } else { None };
        // `tags.len()`, `name.toLowerCase()`
        if reader.rest().starts_with("()")
            && let Some((owner, word)) = name.clone().split_last()
            && let Some(method) = method(&word)
        {
            reader.eat("()");
            // Tables have their methods of texts in `str`.
            let column = owner.clone().split_last().filter(|(_, last)| last == "str");
            let owner = column.map_or(owner, |(column, _)| column);
            (name, function) = (owner, Some(method));
        }
        if reader.eat("::") {
            function = Self::cast(reader)?;
        }
        Ok(Self { function, ..Self::new(name) })
    }

    /// Reads the target type of a cast. `None` if the cast has no effect, as for numbers and
    /// timestamps: texts with numbers compare as numbers anyway.
    fn cast(reader: &mut Reader<'_>) -> Result<Option<FieldFunction>, String> {
        let verbatim = reader.peek_word();
        let function = match verbatim.to_lowercase().as_str() {
            "date" => Some(FieldFunction::Date(DatePart::Day)),
            "int" | "integer" | "bigint" | "smallint" | "signed" | "unsigned" | "int64"
            | "float" | "float64" | "real" | "double" | "decimal" | "numeric" | "number"
            | "timestamp" | "timestamptz" | "datetime" => None,
            _ => return Err(reader.error("a type such as int, numeric or date is expected here")),
        };
        reader.eat(verbatim);
        // `decimal(10,2)`, `double precision`, `unsigned integer`
        reader.type_size()?;
        let _ = reader.keyword(&["precision", "integer"]);
        Ok(function)
    }

    /// Reads the arguments of a function as [`Operand::call`] does, without a limit of nested ones.
    fn arguments(reader: &mut Reader<'_>, word: &str) -> Result<Option<Self>, String> {
        if date_format::FUNCTIONS.contains(&word) {
            return Self::formatted(reader, word).map(Some);
        }
        if difference::FUNCTIONS.contains(&word) {
            return Self::difference(reader, word).map(Some);
        }
        if matches!(word, "concat" | "concat_ws" | "split_part" | "substring_index" | "split") {
            return Self::text(reader, word).map(Some);
        }
        let list = list_total::FUNCTIONS.iter().find(|(name, _)| *name == word);
        if let Some((_, function)) = list.filter(|_| reader.names_records()) {
            return Self::list_total(reader, *function).map(Some);
        }
        if word == "nullif" || replaced::DEFAULTS.contains(&word) {
            return Self::replacing(reader, word).map(Some);
        }
        if word == "bin" {
            return Self::bin(reader).map(Some);
        }
        if matches!(word, "extract" | "date_part") {
            let part = match reader.quoted()? {
                Some(part) => part,
                None => {
                    let part = reader.peek_word();
                    reader.eat(part);
                    part.to_owned()
                }
            };
            let is_next = reader.keyword(&["from"]).is_some() || reader.eat(",");
            let (Some(part), true) = (part_named(&part.to_lowercase()), is_next) else {
                return Err(reader.error("write EXTRACT(MONTH FROM field)"));
            };
            let name = FieldName::read(reader)?;
            reader.close()?;
            let function = Some(FieldFunction::Date(part.as_number()));
            return Ok(Some(Self { function, ..Self::new(name) }));
        }
        if matches!(word, "cast" | "try_cast" | "safe_cast") {
            let inner = Self::read(reader)?;
            if reader.keyword(&["as"]).is_none() {
                return Err(reader.error("write CAST(field AS int)"));
            }
            let function = Self::cast(reader)?;
            if function.is_some() && (inner.function.is_some() || inner.default.is_some()) {
                return Err(reader.error("CAST to a date takes a field alone"));
            }
            reader.close()?;
            return Ok(Some(Self { function: function.or(inner.function), ..inner }));
        }
        if matches!(
            word,
            "float" | "int" | "number" | "parsefloat" | "parseint" | "tonumber" | "julianday"
        ) {
            // Texts with numbers compare as numbers, and differences of dates are days.
            let name = FieldName::read(reader)?;
            reader.close()?;
            return Ok(Some(Self::new(name)));
        }
        let sliced = matches!(word, "substr" | "substring" | "left");
        let Some((_, function)) = FUNCTIONS
            .iter()
            .find(|(name, _)| *name == word)
            .or(sliced.then_some(&("", FieldFunction::Length)))
        else {
            return Ok(None);
        };
        let operand = match Self::computed(reader).or_else(|| Self::quotient(reader)) {
            Some(computed) => computed,
            None => Self::new(FieldName::read(reader)?),
        };
        // The dimension of an array in PostgreSQL: `array_length(tags, 1)`.
        if word == "array_length" && reader.eat(",") && Self::number(reader)? != 1 {
            return Err(reader.error("array_length counts the first dimension: array_length(x, 1)"));
        }
        let mut function = *function;
        if matches!(function, FieldFunction::Round(_)) && reader.eat(",") {
            let decimals = u32::try_from(Self::number(reader)?).unwrap_or(u32::MAX);
            function = FieldFunction::Round(decimals.min(MAX_DECIMALS));
        }
        if sliced {
            let mut numbers = Vec::new();
            while reader.eat(",") {
                numbers.push(Self::number(reader)?);
            }
            function = match (word, numbers.as_slice()) {
                ("left", [length]) => FieldFunction::Slice(0, *length),
                // SQL counts characters from 1.
                ("substr" | "substring", [from]) => {
                    FieldFunction::Slice(from.saturating_sub(1), usize::MAX)
                }
                ("substr" | "substring", [from, length]) => {
                    let from = from.saturating_sub(1);
                    FieldFunction::Slice(from, from.saturating_add(*length))
                }
                _ => return Err(reader.error("write substr(field, 1, 7) or left(field, 7)")),
            };
        }
        reader.close()?;
        Ok(Some(Self { function: Some(function), ..operand }))
    }

    /// Reads the arguments of `bin(created, 1d)`. Returns the operand for that period of the date.
    fn bin(reader: &mut Reader<'_>) -> Result<Self, String> {
        let name = FieldName::read(reader)?;
        let _ = reader.eat(",");
        let word = reader.peek_word();
        let part = match word {
            "1d" => DatePart::Day,
            "1h" => DatePart::Hour,
            "1m" => DatePart::Minute,
            _ => return Err(reader.error("write bin(field, 1d), with 1d, 1h or 1m")),
        };
        reader.eat(word);
        reader.close()?;
        Ok(Self { function: Some(FieldFunction::Date(part)), ..Self::new(name) })
    }

    fn number(reader: &mut Reader<'_>) -> Result<usize, String> {
        let word = reader.peek_word();
        let Ok(number) = word.parse() else {
            return Err(reader.error("a whole number is expected here"));
        };
        reader.eat(word);
        Ok(number)
    }

    /// Reads a slice of characters after its opening bracket, such as `:7]`.
    fn slice(reader: &mut Reader<'_>) -> Result<FieldFunction, String> {
        let from = if reader.eat(":") { 0 } else { Self::number(reader)? };
        let _ = reader.eat(":");
        let until = if reader.eat("]") {
            return Ok(FieldFunction::Slice(from, usize::MAX));
        } else {
            Self::number(reader)?
        };
        if !reader.eat("]") {
            return Err(reader.error("a closing bracket is missing here"));
        }
        Ok(FieldFunction::Slice(from, until))
    }

    /// Finds the path of the field in the records.
    ///
    /// # Errors
    /// Returns a message for the caller if no record has the field.
    pub(super) fn bind(&mut self, records: &RecordSet<'_>, all: &[NodeId]) -> Result<(), String> {
        if let Some(expression) = &mut self.computed {
            expression.bind(records, all)?;
            return expression.check_percentages();
        }
        if !all.is_empty() {
            self.bind_field(records, all)?;
        }
        if let Some(FieldFunction::Date(_)) = self.function {
            self.order = self.day_order(records, all).unwrap_or(self.order);
        }
        Ok(())
    }

    /// Returns the order of day and month in the dates of the field. `None` if most of its values
    /// are no dates.
    fn day_order(&self, records: &RecordSet<'_>, all: &[NodeId]) -> Option<DayOrder> {
        let mut survey = ScaleSurvey::default();
        for id in all {
            self.field.visit(&records.outline, *id, &mut |value| survey.add(&value));
        }
        match survey.scale("").0 {
            Scale::Time { order, .. } => Some(order),
            _ => None,
        }
    }

    /// Returns the paths of the fields that the operand reads.
    pub(super) fn paths(&self) -> Vec<&FieldPath> {
        let mut paths = Vec::new();
        match &self.computed {
            Some(expression) => expression.each_field(&mut |operand| paths.push(&operand.field)),
            None => paths.push(&self.field),
        }
        paths
    }

    /// Returns the operand without its default, to find the scale of the field's own values.
    pub(super) fn without_default(&self) -> Self {
        Self { default: None, ..self.clone() }
    }

    /// Returns the scale on which the values of the operand are sorted, and a note if another one
    /// was possible. `survey` has the values without the default: a number that is the default is
    /// one of the unit of the amounts.
    pub(super) fn sort_scale(&self, survey: &ScaleSurvey, name: &str) -> (Scale, Option<String>) {
        let number = self.default.as_ref().and_then(|default| default.number());
        let of_unit = number.and_then(|_| survey.unit_scale()).map(|scale| (scale, None));
        of_unit.unwrap_or_else(|| survey.scale(name))
    }

    /// Returns true if a part of the operand is of the whole list `list`, not of one of its
    /// elements.
    pub(super) fn uses_whole(&self, list: &FieldPath) -> bool {
        let is_whole = |part: &Operand| {
            let is_total = matches!(part.function, Some(FieldFunction::List(_)));
            is_total || (part.is_length() && part.field == *list)
        };
        let Some(expression) = &self.computed else { return is_whole(self) };
        let mut found = false;
        expression.each_field(&mut |part| found |= is_whole(part));
        found
    }

    /// Removes the first `depth` steps of the field's path.
    pub(super) fn strip(&mut self, depth: usize) {
        if let Some(expression) = &mut self.computed {
            return expression.strip(depth);
        }
        self.field = FieldPath::new(self.field.steps().get(depth..).unwrap_or_default().to_vec());
    }

    /// Calls `visit` with each value of the operand in the node `id`. A null value is replaced by
    /// the operand's default, if it has one.
    pub(super) fn visit(
        &self,
        outline: &Outline<'_>,
        id: NodeId,
        visit: &mut dyn FnMut(Value<'_>),
    ) {
        self.visit_own(outline, id, &mut |value| visit(self.replaced(value)));
    }

    /// Calls `visit` with each value of the operand in the node `id`, without its default.
    pub(super) fn visit_own(
        &self,
        outline: &Outline<'_>,
        id: NodeId,
        visit: &mut dyn FnMut(Value<'_>),
    ) {
        if let Some(expression) = &self.computed {
            if let Expression::Text(text) = expression.as_ref() {
                let text = text.joined(outline, id);
                let value = text.map_or(Value::Null, |text| Value::Text(text.into()));
                return match self.function {
                    Some(function) => visit(function.apply(&value, self.order)),
                    None => visit(value),
                };
            }
            let number = expression.evaluate(outline, id);
            let value =
                number.map_or(Value::Null, |number| Value::Number(number.to_string().into()));
            return match self.function {
                Some(function) => visit(function.apply(&value, self.order)),
                None => visit(value),
            };
        }
        let Some(function) = self.function else {
            return self.field.visit(outline, id, &mut |value| visit(value));
        };
        if let FieldFunction::List(function) = function {
            return visit(self.total_of_list(function, outline, id));
        }
        if self.is_length() {
            let is_count = function == FieldFunction::Count;
            return self.field.visit_lengths(outline, id, is_count, &mut |length| {
                visit(
                    length.map_or(Value::Null, |length| Value::Number(length.to_string().into())),
                );
            });
        }
        self.field.visit(outline, id, &mut |value| visit(function.apply(&value, self.order)));
    }
}
