//! The parsed form of a path.

use crate::query::path::regex::PathRegex;

/// The wildcard, which is also accepted as a step of a JSON Pointer. JSON Pointer has no wildcards,
/// so there it could only be the name of a member.
pub(super) const WILDCARD: &str = "*";

/// A query: steps from a value of a document to values inside it.
#[derive(Debug, Default)]
pub(super) struct PathQuery {
    /// True if the steps begin at the document root, false if they begin at the value that a filter
    /// tests.
    pub(super) is_absolute: bool,
    pub(super) segments: Vec<Segment>,
}

impl PathQuery {
    /// Returns true if the query selects at most one value in any document.
    pub(super) fn is_singular(&self) -> bool {
        self.segments.iter().all(|segment| {
            !segment.is_deep
                && match segment.selectors.as_slice() {
                    [PathSelector::Token(token)] => token != WILDCARD,
                    [PathSelector::Name(_) | PathSelector::Index(_)] => true,
                    _ => false,
                }
        })
    }
}

/// A step of a query.
#[derive(Debug)]
pub(super) struct Segment {
    /// True if the selectors apply to the value and to all of its descendants.
    pub(super) is_deep: bool,
    pub(super) selectors: Vec<PathSelector>,
}

/// A selection among the members or elements of a value.
#[derive(Debug)]
pub(super) enum PathSelector {
    /// The member of an object.
    Name(String),
    /// The member of an object, or the element of a list at that index. [`WILDCARD`] selects all of
    /// them, if no member has this name.
    Token(String),
    /// The element of a list at this index. A negative index counts from the end.
    Index(i64),
    /// All members of an object, or all elements of a list.
    All,
    /// Elements of a list: the first index, the end index (exclusive), and the step.
    Slice { start: Option<i64>, end: Option<i64>, step: i64 },
    /// The members or elements that meet a condition.
    Filter(PathCondition),
}

/// The condition of a filter.
#[derive(Debug)]
pub(super) enum PathCondition {
    Any(Vec<PathCondition>),
    All(Vec<PathCondition>),
    Not(Box<PathCondition>),
    /// The query selects a value.
    Exists(PathQuery),
    /// The query selects a value that is true in JMESPath: not false, null, or empty.
    IsTrue(PathQuery),
    Compare(PathOperand, Comparison, PathOperand),
    /// One of the values that the query selects through lists exists or, with a comparison, meets
    /// it.
    Each(PathQuery, Option<(Comparison, PathOperand)>),
    /// A part of a text, or an element of a list.
    Part {
        text: PathOperand,
        part: PathOperand,
        place: PartPlace,
    },
    /// The text matches a regular expression, entirely or in a part.
    Matches {
        text: PathOperand,
        pattern: PathOperand,
        is_whole: bool,
        compiled: Option<Box<PathRegex>>,
    },
}

/// The place of a part in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartPlace {
    /// Anywhere. Of a list, an element.
    Anywhere,
    /// Anywhere in a text. XPath takes no lists.
    InText,
    Start,
    End,
}

/// A function of the numbers of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListTotal {
    Max,
    Min,
    Sum,
    Average,
}

/// An operator of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A value in a condition.
#[derive(Debug)]
pub(super) enum PathOperand {
    Null,
    Boolean(bool),
    /// A number as JSON.
    Number(String),
    Text(String),
    /// The value that a singular query selects.
    Value(PathQuery),
    /// `length`: the characters of a text, or the elements of a container.
    Length(Box<PathOperand>),
    /// `count`: the number of selected values.
    Count(PathQuery),
    /// `value`: the selected value, if there is exactly one.
    Only(PathQuery),
    /// `max`, `min`, `sum` and `avg` of JMESPath: a total of the selected values or, if one list is
    /// selected, of its elements.
    Total(ListTotal, PathQuery),
    /// `to_number`: the number that a text is.
    ToNumber(Box<PathOperand>),
    /// `string-length` of XPath: the number of characters, which is 0 without a value.
    TextLength(Box<PathOperand>),
}
