//! Selects the values of a document that match a path.

mod functions;

use super::compare::{Compared, MAX_STEPS, PathNumber, compare, is_true, value_of};
use super::syntax::{PathCondition, PathOperand, PathQuery, PathSelector, Segment, WILDCARD};
use crate::json::outline::{Node, NodeId, Outline};
use crate::json::scan::Kind;
use crate::query::path::regex::PathRegex;

/// The maximum number of values that a path may select.
const MAX_SELECTED: usize = 100_000;
/// The maximum cost of all regular expression searches of a path, in the units of
/// `PathRegex::cost`.
const MAX_SEARCH_COST: usize = 1 << 30;

/// The evaluation of a path on a document.
pub(super) struct Evaluation<'e, 'a> {
    outline: &'e Outline<'a>,
    root: NodeId,
    steps: usize,
    search_cost: usize,
}

impl<'e, 'a> Evaluation<'e, 'a> {
    pub(super) fn new(outline: &'e Outline<'a>, root: NodeId) -> Self {
        Self { outline, root, steps: 0, search_cost: 0 }
    }

    /// Returns the values that `segments` select from `start`.
    ///
    /// # Errors
    /// Returns a message for the caller if there are too many values or steps.
    pub(super) fn select(
        &mut self,
        segments: &'e [Segment],
        start: NodeId,
    ) -> Result<Vec<NodeId>, String> {
        let mut at = vec![start];
        for segment in segments {
            let mut next = Vec::new();
            for id in at {
                // The descendants of a node follow it, in document order.
                let end = self.outline.node(id).map_or(id, |node| node.end);
                let last = if segment.is_deep { end } else { id + 1 };
                for id in id..last {
                    for selector in &segment.selectors {
                        self.apply(selector, id, &mut next)?;
                    }
                    if next.len() > MAX_SELECTED {
                        return Err(format!(
                            "the path selects more than {MAX_SELECTED} values: select fewer, or use where or jq"
                        ));
                    }
                }
            }
            at = next;
        }
        Ok(at)
    }

    /// Counts a step. Fails if there are too many.
    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err("the path needs too many steps on this answer: select fewer values, without .. in filters, or use where or jq".to_owned());
        }
        Ok(())
    }

    /// Appends the values that a selector selects among the children of `id` to `out`.
    fn apply(
        &mut self,
        selector: &'e PathSelector,
        id: NodeId,
        out: &mut Vec<NodeId>,
    ) -> Result<(), String> {
        self.step()?;
        let outline = self.outline;
        let Some(node) = outline.node(id) else { return Ok(()) };
        if node.closed {
            return Err("the answer is nested deeper than 64 levels there: use jq".to_owned());
        }
        // Members and elements are found one after the other.
        self.steps += usize::try_from(node.children).unwrap_or(usize::MAX) / 8;
        let element = |index: usize| outline.children(id).nth(index).map(|(child, _)| child);
        match (selector, node.kind) {
            (PathSelector::Name(name) | PathSelector::Token(name), Kind::Object)
                if name != WILDCARD || outline.member(id, name).is_some() =>
            {
                out.extend(outline.member(id, name).map(|(child, _)| child));
            }
            (PathSelector::Token(name), Kind::Object | Kind::Array) if name == WILDCARD => {
                out.extend(outline.children(id).map(|(child, _)| child));
            }
            (PathSelector::Token(name), Kind::Array) => {
                // RFC 6901, section 4: no leading zeros.
                let is_index = name == "0" || !name.starts_with(['0', '+']);
                out.extend(name.parse().ok().filter(|_| is_index).and_then(element));
            }
            (PathSelector::Index(index), Kind::Array) => {
                out.extend(usize::try_from(from_end(*index, node)).ok().and_then(element));
            }
            (PathSelector::All, Kind::Object | Kind::Array) => {
                out.extend(outline.children(id).map(|(child, _)| child));
            }
            (PathSelector::Slice { start, end, step }, Kind::Array) => {
                self.slice(id, node, (*start, *end, *step), out);
            }
            (PathSelector::Filter(condition), Kind::Object | Kind::Array) => {
                for (child, _) in outline.children(id) {
                    if self.holds(condition, child)? {
                        out.push(child);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Appends the elements of a slice to `out` (RFC 9535, section 2.3.4.2.2).
    fn slice(
        &self,
        id: NodeId,
        node: &Node,
        (start, end, step): (Option<i64>, Option<i64>, i64),
        out: &mut Vec<NodeId>,
    ) {
        if step == 0 {
            return;
        }
        let count = i64::from(node.children);
        let elements: Vec<NodeId> = self.outline.children(id).map(|(child, _)| child).collect();
        let bound = |index: i64, least, most| from_end(index, node).clamp(least, most);
        let (first, after) = if step > 0 {
            let start = bound(start.unwrap_or(0), 0, count);
            (start, bound(end.unwrap_or(count), 0, count))
        } else {
            let start = bound(start.unwrap_or(count - 1), -1, count - 1);
            (start, end.map_or(-1, |end| bound(end, -1, count - 1)))
        };
        let mut at = first;
        while if step > 0 { at < after } else { at > after } {
            out.extend(usize::try_from(at).ok().and_then(|at| elements.get(at)));
            at = at.saturating_add(step);
        }
    }

    /// Returns true if a value meets a condition.
    fn holds(&mut self, condition: &'e PathCondition, id: NodeId) -> Result<bool, String> {
        self.step()?;
        Ok(match condition {
            PathCondition::Any(parts) => {
                for part in parts {
                    if self.holds(part, id)? {
                        return Ok(true);
                    }
                }
                false
            }
            PathCondition::All(parts) => {
                for part in parts {
                    if !self.holds(part, id)? {
                        return Ok(false);
                    }
                }
                true
            }
            PathCondition::Not(condition) => !self.holds(condition, id)?,
            PathCondition::Exists(query) => !self.query(query, id)?.is_empty(),
            PathCondition::IsTrue(query) => {
                let found = self.query(query, id)?;
                found.into_iter().any(|id| is_true(self.outline, id))
            }
            PathCondition::Each(query, comparison) => self.each(query, comparison.as_ref(), id)?,
            PathCondition::Part { text, part, place } => self.has_part((text, part, *place), id)?,
            PathCondition::Compare(left, comparison, right) => {
                let (left, right) = (self.value(left, id)?, self.value(right, id)?);
                compare(self.outline, &left, *comparison, &right, &mut self.steps)
            }
            PathCondition::Matches { text, pattern, is_whole, compiled } => {
                let Compared::Text(text) = self.value(text, id)? else { return Ok(false) };
                if let Some(compiled) = compiled {
                    return self.search(compiled, &text);
                }
                let Compared::Text(pattern) = self.value(pattern, id)? else { return Ok(false) };
                // A text of the document that is no expression matches nothing.
                self.steps = self.steps.saturating_add(pattern.len());
                match PathRegex::new(&pattern, *is_whole) {
                    Ok(pattern) => self.search(&pattern, &text)?,
                    Err(_) => false,
                }
            }
        })
    }

    fn search(&mut self, pattern: &PathRegex, text: &str) -> Result<bool, String> {
        let cost = pattern.cost(text.len());
        self.search_cost = self.search_cost.saturating_add(cost);
        if self.search_cost > MAX_SEARCH_COST {
            return Err("match and search would read too much of this answer: use grep, or a shorter pattern".to_owned());
        }
        Ok(pattern.is_match(text))
    }

    fn query(&mut self, query: &'e PathQuery, id: NodeId) -> Result<Vec<NodeId>, String> {
        self.select(&query.segments, if query.is_absolute { self.root } else { id })
    }

    fn value(&mut self, operand: &'e PathOperand, id: NodeId) -> Result<Compared<'e>, String> {
        let outline = self.outline;
        let only = |found: Vec<NodeId>| match found.as_slice() {
            [id] => value_of(outline, *id),
            _ => Compared::Nothing,
        };
        Ok(match operand {
            PathOperand::Null => Compared::Null,
            PathOperand::Boolean(value) => Compared::Boolean(*value),
            PathOperand::Number(text) => {
                let number = PathNumber::parse(text.as_str().into());
                number.map_or(Compared::Nothing, Compared::Number)
            }
            PathOperand::Text(text) => Compared::Text(text.as_str().into()),
            PathOperand::Value(query) | PathOperand::Only(query) => only(self.query(query, id)?),
            PathOperand::Count(query) => {
                Compared::Number(PathNumber::of_count(self.query(query, id)?.len()))
            }
            PathOperand::Length(operand) => match self.value(operand, id)? {
                Compared::Text(text) => {
                    Compared::Number(PathNumber::of_count(text.chars().count()))
                }
                Compared::Container(id) => {
                    let count = outline.node(id).map_or(0, |node| node.children);
                    Compared::Number(PathNumber::of_count(usize::try_from(count).unwrap_or(0)))
                }
                _ => Compared::Nothing,
            },
            PathOperand::Total(total, query) => self.total(*total, query, id)?,
            PathOperand::ToNumber(operand) => Self::to_number(&self.scalar(operand, id)?),
            PathOperand::TextLength(operand) => Self::text_length(&self.scalar(operand, id)?)?,
        })
    }
}

/// Converts an index that may be negative, which counts from the end, to one from the start.
fn from_end(index: i64, list: &Node) -> i64 {
    if index < 0 { i64::from(list.children) + index } else { index }
}
