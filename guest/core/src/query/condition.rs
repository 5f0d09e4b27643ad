//! Conditions on records, such as `status = open AND (price.total >= 100 OR city ~ lis)`.
//!
//! As in SQL, a comparison is true, false or unknown. It is unknown if the value is null, absent or
//! of another type. Records for which the whole condition is unknown are left out and counted.

mod any_case;
mod arrays;
mod build;
mod calls;
mod correlate;
mod dates;
mod defaults;
mod diagnose;
mod dialects;
mod display;
mod elements;
mod evaluate;
mod explain;
mod filtered;
mod flags;
mod frame;
mod literal;
mod lookups;
mod lucene;
mod member;
mod names;
mod operator;
mod parse;
mod pattern;
mod pipe;
mod predicates;
mod prefix;
mod presence;
mod reversed;
mod rewritten;
mod script;
mod totals;
mod wrapper;

use std::cell::Cell;

use self::member::SoughtElement;
use self::pattern::TextPattern;
use self::rewritten::{from_list, rewritten};
use super::field::FieldName;
use super::literal::Literal;
use super::operand::Operand;
use super::order::Order;
use super::reader::Reader;
use super::records::RecordSet;
use super::scale::Scale;
use crate::json::outline::NodeId;

pub(super) use self::dialects::closure;
pub(super) use self::evaluate::Source;
pub(super) use self::frame::without_table;
pub(super) use self::totals::TotalsCondition;
pub(super) use self::wrapper::lambda;

/// The syntax of conditions, as errors show it.
pub(super) const SYNTAX: &str = "write comparisons such as status=confirmed, price.total>=100, city~lis (=, !=, <, <=, >, >=, ~ for contains, AND, OR, NOT, IN (a, b), BETWEEN a AND b, LIKE 'a%', IS NULL), with order by price desc limit 5 after them, and quote texts that contain operators or commas";

/// A condition on records, with the order and the page of the records to return.
#[derive(Debug)]
pub struct Condition {
    test: Test,
    /// True if comparisons of texts ignore case.
    ignores_case: bool,
    /// The path of the list that the condition names around itself, as in `$.items[?(@.price >
    /// 5)]`. Empty if it names none.
    list: Vec<String>,
    order: Order,
    /// The number of records to leave out at the start.
    offset: u64,
    /// The maximum number of records to return. `None` for no limit.
    limit: Option<u64>,
    /// True if the limit is written as `limit=5`, which may be a comparison.
    assigns_limit: bool,
}

/// A test of a record.
#[derive(Debug)]
pub(super) enum Test {
    All(Vec<Test>),
    Any(Vec<Test>),
    Not(Box<Test>),
    Leaf(Box<Leaf>),
    /// A test that at least one element of a list must pass.
    Element(Operand, Box<Test>),
}

/// A comparison of a field.
#[derive(Debug)]
pub(super) struct Leaf {
    operand: Operand,
    check: Check,
    /// True if the condition has the name of the field alone.
    is_flag: bool,
    /// True if the comparison is false, not unknown, without a value, as `IS TRUE` is.
    is_known: bool,
    /// True if the comparison is false, not unknown, without a value, as in JavaScript.
    is_two_valued: bool,
    /// True if the condition asks for the presence of the field.
    is_presence: bool,
    /// The word of a test such as `is missing`, which may be a value as well.
    word: Option<&'static str>,
    /// The element that the check looks for if the field is a list, as `includes` does.
    member: Option<SoughtElement>,
    /// The number that the condition writes before the operand, as the name of a field that may be
    /// meant.
    first: Option<FieldName>,
    /// True if the comparison of two fields ignores case.
    ignores_case: bool,
    /// The scale on which two fields are compared. `None` if the values determine it.
    scale: Option<Scale>,
    /// A note for the answer, if the values could be compared in another way.
    reading: Option<String>,
    /// The number of records for which the comparison was true.
    matched: Cell<u64>,
    /// The number of left-out records for which the comparison was unknown.
    unknown: Cell<u64>,
}

/// The operator and the right side of a comparison.
#[derive(Debug)]
enum Check {
    Compare(Operator, Literal),
    Between(Literal, Literal),
    In(Vec<Literal>),
    Matches(TextPattern),
    IsNull,
    /// True if the value is neither null nor an empty text, or the reverse if false.
    HasValue(bool),
    /// True if the value is a number, or a text with a number alone.
    IsNumber,
    Field(Operator, Operand),
}

/// An operator that compares two values. `!=` is the negation of `=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    AtLeast,
    AtMost,
    More,
    Less,
}

/// Records that a condition chose.
#[derive(Debug)]
pub struct ChosenRecords {
    /// The nodes of the chosen records.
    pub ids: Vec<NodeId>,
    /// The condition in words, with the number of records that could not be compared.
    pub description: String,
    /// The part of the description after the condition, for each note.
    pub notes: Vec<String>,
}

/// Returns true if an order or a page is next. Skips a condition that is always true, such as
/// `true` or `1=1`: SQL needs one before an order.
fn ends_before_order(reader: &mut Reader<'_>) -> bool {
    let is_end = |reader: &Reader<'_>| {
        reader.clone().keyword(&["order by", "sort by", "limit", "offset"]).is_some()
    };
    let mut after = reader.clone();
    let is_skipped = after.keyword(&["true"]).is_some()
        || after.eat("*")
        || (after.eat("1") && after.eat("=") && after.eat("1"));
    if is_skipped && is_end(&after) {
        *reader = after;
    }
    is_end(reader)
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// Returns a message for the caller that shows the syntax, or the limit that is exceeded.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|reason| explain::as_jq(text).unwrap_or(reason))
    }

    fn read(text: &str) -> Result<Self, String> {
        let mut reader = Reader::new("where", text)?;
        let (named, text) = match from_list(text) {
            Some((list, condition)) => (Some(list), condition),
            None => (None, text),
        };
        if named.is_some() {
            reader = Reader::new("where", text)?;
        }
        let rewritten = rewritten(text)?;
        if let Some(rewritten) = &rewritten {
            reader = Reader::new("where", rewritten)?;
        }
        let reader = &mut reader;
        let explained = |reason: String| explain::with_syntax(text, reason);
        let _ = reader.keyword(&["where"]);
        let mut test = match ends_before_order(reader) {
            true => Test::All(Vec::new()),
            false => parse::parse(reader, parse::Names::Fields).map_err(explained)?,
        };
        let order = Order::read(reader).map_err(explained)?;
        let assigns_limit = Order::assigns_limit(reader);
        let (offset, limit) = Order::read_page(reader)?;
        parse::expect_end(reader).map_err(explained)?;
        if wrapper::has_arrow_function(text) {
            test.use_two_values(false);
        }
        let list = named.unwrap_or_else(|| wrapper::list(text));
        Ok(Self { test, ignores_case: false, list, order, offset, limit, assigns_limit })
    }

    /// Returns the condition `text` with the order `order`, such as `price desc`.
    ///
    /// # Errors
    /// Returns a message for the caller if the condition is invalid, or has an order or a limit.
    pub fn with_order(text: &str, order: &str) -> Result<String, String> {
        let known = Self::parse(text)?;
        if !known.order.is_empty() || known.limit.is_some() || known.offset > 0 {
            return Err("where has an order or a limit already: leave out sort".to_owned());
        }
        Ok(format!("{} order by {order}", known.plain(text)?))
    }

    /// Returns the condition `text`, without the first `count` records that it chooses.
    ///
    /// # Errors
    /// Returns a message for the caller if the condition is invalid, or skips records already.
    pub fn with_offset(text: &str, count: u64) -> Result<String, String> {
        let known = Self::parse(text)?;
        if known.offset > 0 {
            return Err("where has an offset already: leave out offset".to_owned());
        }
        Ok(format!("{} offset {count}", known.plain(text)?))
    }

    /// Returns the condition, parsed from `text`, in the syntax of this language.
    fn plain(&self, text: &str) -> Result<String, String> {
        // The function itself tells that its comparisons have two values.
        let function = wrapper::arrow_function(text).filter(|_| self.test.has_two_values());
        let plain = match function {
            Some(function) => function.to_owned(),
            None => rewritten(text)?.unwrap_or_else(|| text.to_owned()),
        };
        Ok(match self.list.is_empty() || plain == text {
            true => plain,
            false => format!("from {} where {plain}", self.list.join(".")),
        })
    }

    /// Returns true if the condition has no order, no page and no list of its own.
    pub(super) fn is_plain(&self) -> bool {
        self.order.is_empty() && self.offset == 0 && self.limit.is_none() && self.list.is_empty()
    }

    /// Returns true if the condition has no comparison and no order, so that it only chooses a
    /// page.
    pub(super) fn is_page(&self) -> bool {
        self.comparisons() == 0 && self.order.is_empty() && self.list.is_empty()
    }

    /// Returns the number of comparisons.
    pub(super) fn comparisons(&self) -> usize {
        let mut count = 0;
        self.test.each_leaf(&mut |_| count += 1);
        count
    }

    /// Returns true if the condition names a list inside an object. That list may be outside of the
    /// records.
    pub(super) fn names_path(&self) -> bool {
        self.list.len() > 1
    }

    /// Returns the names that lead to the list of the condition. Empty if it names none.
    pub(super) fn list_names(&self) -> &[String] {
        &self.list
    }

    /// Calls `visit` with the name of each field that the condition compares or sorts by. Values
    /// without quotes, which may be fields, are left out.
    pub(super) fn each_field(&self, visit: &mut impl FnMut(&FieldName)) {
        self.test.each_field(visit);
        self.order.names().for_each(visit);
    }

    /// Calls `visit` with the name of each field that the condition may read. Includes unquoted
    /// words, which name a field if a record has it.
    pub(super) fn each_name(&self, visit: &mut impl FnMut(&FieldName)) {
        self.test.each_name(visit);
        self.order.names().for_each(&mut *visit);
        if self.assigns_limit {
            visit(&FieldName::of_key("limit"));
        }
    }

    /// Chooses the records that meet the condition.
    ///
    /// # Errors
    /// Returns a message for the caller if the condition does not apply to the records: a field is
    /// unknown, or no value has the type of a comparison.
    pub fn select(mut self, records: &RecordSet<'_>) -> Result<ChosenRecords, String> {
        if let Some(path) = records.other_list(&self.list) {
            return Err(format!(
                "where: the records are those of {}; for those of {path} give path: {path}",
                records.list_path().unwrap_or_default()
            ));
        }
        let has_limit = || FieldName::of_key("limit").find(records, &records.ids).is_some();
        if self.assigns_limit && has_limit() {
            return Err("where: limit is a field here, and the number of records: write \"limit\" = 5 in quotes for the field, or the argument limit".to_owned());
        }
        self.test.unwrap_filters(records);
        let of_prefix = self.test.strip_prefix(records);
        self.test.bind(records, &records.ids)?;
        self.order.bind(records, &records.ids)?;
        let source = &records.outline;
        let mut ids = Vec::new();
        for id in &records.ids {
            match self.test.evaluate(source, *id) {
                Some(true) => ids.push(*id),
                Some(false) => {}
                None => self.test.count_unknown(source, *id),
            }
        }
        let mut notes = self.test.diagnose(records)?;
        notes.extend(of_prefix);
        if self.ignores_case {
            notes.push("texts were compared in any case".to_owned());
        }
        notes.insert(0, self.test.to_string());
        if !self.order.is_empty() {
            let end = self.limit.map(|limit| limit.saturating_add(self.offset));
            let of_order = self.order.sort(records, &mut ids, end)?;
            notes.push(self.order.to_string());
            notes.extend(of_order);
        }
        let all = ids.len();
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX).min(all);
        ids.drain(..offset);
        if let Some(limit) = self.limit {
            ids.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        }
        if offset > 0 {
            notes.push(format!("{} of {all}, after the first {offset}", ids.len()));
        } else if ids.len() < all {
            notes.push(format!("the first {} of {all}", ids.len()));
        }
        notes.retain(|note| !note.is_empty());
        let description = notes.join("; ");
        notes.drain(..notes.len().min(1));
        Ok(ChosenRecords { ids, description, notes })
    }
}

impl Test {
    /// Creates a test that is one comparison.
    fn leaf(operand: Operand, check: Check) -> Self {
        let (matched, unknown) = (Cell::new(0), Cell::new(0));
        let ignores_case = false;
        let (scale, reading, member, first, word) = (None, None, None, None, None);
        let (is_flag, is_known, is_two_valued, is_presence) = (false, false, false, false);
        Test::Leaf(Box::new(Leaf {
            operand,
            check,
            is_flag,
            is_known,
            is_two_valued,
            is_presence,
            word,
            member,
            first,
            ignores_case,
            scale,
            reading,
            matched,
            unknown,
        }))
    }

    /// Calls `visit` with each comparison.
    fn each_leaf<'t>(&'t self, visit: &mut impl FnMut(&'t Leaf)) {
        match self {
            Test::All(tests) | Test::Any(tests) => {
                tests.iter().for_each(|test| test.each_leaf(visit));
            }
            Test::Not(test) | Test::Element(_, test) => test.each_leaf(visit),
            Test::Leaf(leaf) => visit(leaf),
        }
    }

    fn each_leaf_mut(
        &mut self,
        visit: &mut impl FnMut(&mut Leaf) -> Result<(), String>,
    ) -> Result<(), String> {
        match self {
            Test::All(tests) | Test::Any(tests) => {
                tests.iter_mut().try_for_each(|test| test.each_leaf_mut(visit))
            }
            Test::Not(test) => test.each_leaf_mut(visit),
            // Fields of an element are bound with its list.
            Test::Element(..) => Ok(()),
            Test::Leaf(leaf) => visit(leaf),
        }
    }
}

impl Operator {
    fn sign(self) -> &'static str {
        match self {
            Operator::Equal => "=",
            Operator::AtLeast => ">=",
            Operator::AtMost => "<=",
            Operator::More => ">",
            Operator::Less => "<",
        }
    }

    /// Returns the operator with its sides exchanged.
    fn flipped(self) -> Self {
        match self {
            Operator::Equal => Operator::Equal,
            Operator::AtLeast => Operator::AtMost,
            Operator::AtMost => Operator::AtLeast,
            Operator::More => Operator::Less,
            Operator::Less => Operator::More,
        }
    }

    /// Returns true if the operator is true for values in this order.
    fn accepts(self, order: std::cmp::Ordering) -> bool {
        match self {
            Operator::Equal => order.is_eq(),
            Operator::AtLeast => order.is_ge(),
            Operator::AtMost => order.is_le(),
            Operator::More => order.is_gt(),
            Operator::Less => order.is_lt(),
        }
    }
}

#[cfg(test)]
mod tests;
