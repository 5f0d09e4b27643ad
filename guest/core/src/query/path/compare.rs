//! Values in filters, and their comparison (RFC 9535, section 2.3.5.2.2).

use std::borrow::Cow;
use std::cmp::Ordering;

use super::syntax::Comparison;
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;

/// The maximum number of visited values and tested conditions of a path, which takes about a
/// second.
pub(super) const MAX_STEPS: usize = 10_000_000;

/// A value in a comparison of a filter.
#[derive(Clone, Debug)]
pub(super) enum Compared<'o> {
    /// A query selected no value, or a function has no result.
    Nothing,
    Null,
    Boolean(bool),
    Number(PathNumber<'o>),
    Text(Cow<'o, str>),
    /// An object or a list.
    Container(NodeId),
}

/// A number, exact if it is an integer of limited size.
#[derive(Clone, Debug)]
pub(super) struct PathNumber<'o> {
    float: f64,
    whole: Option<i128>,
    /// The text that is the number. `None` if it is computed.
    text: Option<Cow<'o, str>>,
}

impl<'o> PathNumber<'o> {
    /// Parses a JSON number.
    pub(super) fn parse(text: Cow<'o, str>) -> Option<Self> {
        let (float, whole) = (text.parse().ok()?, text.parse().ok());
        Some(Self { float, whole, text: Some(text) })
    }

    /// Parses a number that is computed.
    pub(super) fn of_result(text: &str) -> Option<Self> {
        Some(Self { float: text.parse().ok()?, whole: text.parse().ok(), text: None })
    }

    /// Creates a number from a count of elements or characters.
    #[allow(clippy::cast_precision_loss, reason = "no answer has so many values")]
    pub(super) fn of_count(count: usize) -> Self {
        Self { float: count as f64, whole: i128::try_from(count).ok(), text: None }
    }

    /// Returns the number as a double.
    pub(super) fn float(&self) -> f64 {
        self.float
    }

    /// Returns the number as an integer. `None` if it is none, or too large.
    pub(super) fn whole(&self) -> Option<i128> {
        self.whole
    }

    fn compare(&self, other: &PathNumber<'_>) -> Option<Ordering> {
        match (self.whole, other.whole) {
            (Some(one), Some(other)) => Some(one.cmp(&other)),
            _ => self.float.partial_cmp(&other.float),
        }
    }
}

impl Compared<'_> {
    /// Returns a text, or a number as a text. `None` for other values.
    pub(super) fn written(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(text.as_ref().into()),
            Self::Number(number) => Some(match (&number.text, number.whole) {
                (Some(text), _) => text.as_ref().into(),
                (None, Some(whole)) => whole.to_string().into(),
                (None, None) => number.float.to_string().into(),
            }),
            _ => None,
        }
    }
}

/// Returns the value of a node.
pub(super) fn value_of<'o>(outline: &'o Outline<'_>, id: NodeId) -> Compared<'o> {
    let Some(node) = outline.node(id) else { return Compared::Nothing };
    match node.kind {
        Kind::Object | Kind::Array => Compared::Container(id),
        Kind::String => Compared::Text(text(outline.name(&node.span))),
        Kind::Scalar => {
            let raw = text(outline.raw(node));
            match raw.as_ref() {
                "null" => Compared::Null,
                "true" => Compared::Boolean(true),
                "false" => Compared::Boolean(false),
                _ => PathNumber::parse(raw).map_or(Compared::Nothing, Compared::Number),
            }
        }
    }
}

fn text(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Returns true if a node is true in JMESPath: not false, null, or an empty text, list or object.
pub(super) fn is_true(outline: &Outline<'_>, id: NodeId) -> bool {
    match value_of(outline, id) {
        Compared::Nothing | Compared::Null => false,
        Compared::Boolean(value) => value,
        Compared::Number(_) => true,
        Compared::Text(text) => !text.is_empty(),
        Compared::Container(id) => outline.node(id).is_some_and(|node| node.children > 0),
    }
}

/// Compares two values. Values of different types are unequal, and unordered. Adds the number of
/// visited values to `steps`.
pub(super) fn compare(
    outline: &Outline<'_>,
    left: &Compared<'_>,
    comparison: Comparison,
    right: &Compared<'_>,
    steps: &mut usize,
) -> bool {
    let mut is_equal = || is_equal(outline, left, right, steps);
    let order = || match (left, right) {
        (Compared::Number(left), Compared::Number(right)) => left.compare(right),
        (Compared::Text(left), Compared::Text(right)) => Some(left.cmp(right)),
        _ => None,
    };
    match comparison {
        Comparison::Equal => is_equal(),
        Comparison::NotEqual => !is_equal(),
        Comparison::Less => order() == Some(Ordering::Less),
        Comparison::LessOrEqual => order() == Some(Ordering::Less) || is_equal(),
        Comparison::Greater => order() == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => order() == Some(Ordering::Greater) || is_equal(),
    }
}

fn is_equal(
    outline: &Outline<'_>,
    left: &Compared<'_>,
    right: &Compared<'_>,
    steps: &mut usize,
) -> bool {
    match (left, right) {
        (Compared::Nothing, Compared::Nothing) | (Compared::Null, Compared::Null) => true,
        (Compared::Boolean(left), Compared::Boolean(right)) => left == right,
        (Compared::Number(left), Compared::Number(right)) => {
            left.compare(right) == Some(Ordering::Equal)
        }
        (Compared::Text(left), Compared::Text(right)) => left == right,
        (Compared::Container(left), Compared::Container(right)) => {
            are_equal_containers(outline, *left, *right, steps)
        }
        _ => false,
    }
}

/// Compares containers with all their values. The outline bounds their depth.
fn are_equal_containers(
    outline: &Outline<'_>,
    left: NodeId,
    right: NodeId,
    steps: &mut usize,
) -> bool {
    let (Some(one), Some(other)) = (outline.node(left), outline.node(right)) else { return false };
    if one.kind != other.kind || one.children != other.children {
        return false;
    }
    // Each member of the one is searched among those of the other.
    let per_child = usize::try_from(one.children / 8 + 1).unwrap_or(usize::MAX);
    let mut equal = |one, other| {
        *steps = steps.saturating_add(per_child);
        *steps <= MAX_STEPS
            && is_equal(outline, &value_of(outline, one), &value_of(outline, other), steps)
    };
    if one.kind == Kind::Array {
        let others = outline.children(right);
        return outline.children(left).zip(others).all(|((one, _), (other, _))| equal(one, other));
    }
    outline.children(left).all(|(id, member)| {
        outline
            .member(right, &outline.decoded(&member.key))
            .is_some_and(|(other, _)| equal(id, other))
    })
}
