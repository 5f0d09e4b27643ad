//! Paths of fields in records.

use super::{FieldStep, element};
use crate::json::outline::{NodeId, Outline};
use crate::json::scan::Kind;
use crate::query::reader::is_word_character;
use crate::query::value::Value;

/// The path of a field in records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::query) struct FieldPath {
    steps: Vec<FieldStep>,
}

impl FieldPath {
    /// Creates a path from its steps.
    pub(in crate::query) fn new(steps: Vec<FieldStep>) -> Self {
        Self { steps }
    }

    /// Creates a path from the keys that lead to the field.
    #[cfg(test)]
    pub(in crate::query) fn of_keys(keys: impl Iterator<Item = String>) -> Self {
        Self { steps: keys.map(FieldStep::Key).collect() }
    }

    /// Returns the steps to the field.
    pub(in crate::query) fn steps(&self) -> &[FieldStep] {
        &self.steps
    }

    /// Calls `visit` with each value of the field in the node `id`. An absent field has the value
    /// null, and an empty list has no value. The value of an XML element with attributes is its
    /// text, with its unit or currency.
    pub(in crate::query) fn visit<'o>(
        &self,
        outline: &'o Outline<'_>,
        id: NodeId,
        visit: &mut impl FnMut(Value<'o>),
    ) {
        visit_nodes(outline, id, &self.steps, false, &mut |id| {
            let node = id.and_then(|id| outline.node(id));
            let of_element = id.filter(|_| node.is_some_and(|node| node.kind == Kind::Object));
            let text = of_element.and_then(|id| own_text(outline, id));
            visit(
                text.unwrap_or_else(|| node.map_or(Value::Null, |node| Value::new(outline, node))),
            );
        });
    }

    /// Calls `visit` with the length of each value of the field in the node `id`: the elements of a
    /// list, the members of an object, or the characters of a text. If `is_count`, the length of a
    /// value that is neither a list nor null is 1, or 0 if it is empty. The length of other values
    /// is `None`.
    pub(in crate::query) fn visit_lengths(
        &self,
        outline: &Outline<'_>,
        id: NodeId,
        is_count: bool,
        visit: &mut impl FnMut(Option<u64>),
    ) {
        visit_nodes(outline, id, &self.steps, true, &mut |id| {
            let node = id.and_then(|id| outline.node(id));
            visit(node.and_then(|node| match node.kind {
                Kind::Scalar if outline.raw(node).as_ref() == b"null" => None,
                Kind::String if is_count => {
                    Some(u64::from(!outline.decoded(&node.span).is_empty()))
                }
                Kind::Object if is_count => Some(u64::from(node.children > 0)),
                Kind::Scalar if is_count => Some(1),
                Kind::String => Some(outline.decoded(&node.span).chars().count() as u64),
                Kind::Array | Kind::Object => Some(u64::from(node.children)),
                Kind::Scalar => None,
            }));
        });
    }

    /// Calls `visit` with the node of each value of the field in the node `id`, or with `None` if
    /// it is absent. A list at the end of the path is one value.
    pub(in crate::query) fn visit_whole(
        &self,
        outline: &Outline<'_>,
        id: NodeId,
        visit: &mut impl FnMut(Option<NodeId>),
    ) {
        visit_nodes(outline, id, &self.steps, true, visit);
    }

    /// Returns the number of leading steps to a list whose elements have the rest of the steps.
    /// `None` if the path passes no list in the node `id`.
    pub(in crate::query) fn list_depth(&self, outline: &Outline<'_>, id: NodeId) -> Option<usize> {
        let mut at = id;
        for (depth, step) in self.steps.iter().enumerate() {
            match (outline.node(at)?.kind, step) {
                (Kind::Array, FieldStep::Key(_)) => return Some(depth),
                (Kind::Array, FieldStep::Index(index)) => at = element(outline, at, *index)?,
                (_, FieldStep::Key(key)) => at = outline.member(at, key)?.0,
                _ => return None,
            }
        }
        (outline.node(at)?.kind == Kind::Array).then_some(self.steps.len())
    }

    /// Returns the outermost list through which all of `paths` lead in the nodes `ids`. `None` if
    /// there is no such list. O(values) in the worst case.
    pub(in crate::query) fn shared_list(
        paths: &[&Self],
        outline: &Outline<'_>,
        ids: &[NodeId],
    ) -> Option<Self> {
        let mut list: Option<Self> = None;
        for path in paths {
            let depth = ids.iter().find_map(|id| {
                let is_container = outline.node(*id)?.kind != Kind::Scalar;
                path.list_depth(outline, *id).filter(|_| is_container)
            })?;
            let own = Self::new(path.steps.get(..depth)?.to_vec());
            if list.get_or_insert_with(|| own.clone()) != &own {
                return None;
            }
        }
        list
    }

    /// Calls `visit` with each element of the list at this field in the node `id`, or with the
    /// object there. Returns false if the field is neither.
    pub(in crate::query) fn elements(
        &self,
        outline: &Outline<'_>,
        id: NodeId,
        visit: &mut impl FnMut(NodeId),
    ) -> bool {
        let mut at = id;
        for step in &self.steps {
            let next = match step {
                FieldStep::Key(key) => outline.member(at, key).map(|(child, _)| child),
                FieldStep::Index(index) => element(outline, at, *index),
            };
            let Some(next) = next else { return false };
            at = next;
        }
        match outline.node(at).map(|node| node.kind) {
            Some(Kind::Array) => outline.children(at).for_each(|(child, _)| visit(child)),
            // Converters and APIs write a list of one element as the element.
            Some(Kind::Object) => visit(at),
            _ => return false,
        }
        true
    }

    /// Calls `visit` with the node of each value of the field in the node `id`, or with `None` if
    /// the field is absent. Visits the elements of lists, not the lists.
    pub(in crate::query) fn visit_elements(
        &self,
        outline: &Outline<'_>,
        id: NodeId,
        visit: &mut impl FnMut(Option<NodeId>),
    ) {
        visit_nodes(outline, id, &self.steps, false, visit);
    }
}

impl std::fmt::Display for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                FieldStep::Index(index) => write!(f, "[{index}]")?,
                FieldStep::Key(key) => {
                    let dot = if at > 0 { "." } else { "" };
                    let is_plain =
                        key.chars().all(|c| is_word_character(c) || "-/@#$.:".contains(c));
                    if is_plain && !key.is_empty() {
                        write!(f, "{dot}{key}")?;
                    } else {
                        write!(f, "{dot}{key:?}")?;
                    }
                }
            }
        }
        if self.steps.is_empty() { write!(f, "value") } else { Ok(()) }
    }
}

/// Returns the value of an XML element that has attributes and a text only: the text, with its unit
/// or currency if an attribute states it. `None` for other values.
fn own_text<'o>(outline: &'o Outline<'_>, id: NodeId) -> Option<Value<'o>> {
    let (text, _) = outline.member(id, "#text")?;
    let mut unit = None;
    for (child, node) in outline.children(id) {
        let key = outline.decoded(&node.key);
        let name = key.strip_prefix('@').map(str::to_lowercase);
        match name.as_deref() {
            Some("currency" | "currencyid" | "currencycode" | "unit" | "units" | "uom") => {
                unit = outline.node(child).map(|node| Value::new(outline, node));
            }
            None if key != "#text" => return None,
            _ => {}
        }
    }
    let value = Value::new(outline, outline.node(text)?);
    let unit = unit.as_ref().and_then(Value::text);
    Some(match value.text().zip(unit) {
        Some((text, unit)) => Value::Text(format!("{text} {unit}").into()),
        None => value,
    })
}

/// Calls `visit` with the node of each value at `steps`, or with `None` if it is absent. Visits the
/// elements of a list at the end of the path or, if `keeps_lists`, the list itself.
fn visit_nodes(
    outline: &Outline<'_>,
    id: NodeId,
    steps: &[FieldStep],
    keeps_lists: bool,
    visit: &mut impl FnMut(Option<NodeId>),
) {
    let Some(node) = outline.node(id) else { return visit(None) };
    match (node.kind, steps.split_first()) {
        (Kind::Array, Some((FieldStep::Index(index), rest))) => {
            match element(outline, id, *index) {
                Some(child) => visit_nodes(outline, child, rest, keeps_lists, visit),
                None => visit(None),
            }
        }
        (Kind::Array, first) if first.is_some() || !keeps_lists => {
            outline
                .children(id)
                .for_each(|(child, _)| visit_nodes(outline, child, steps, keeps_lists, visit));
        }
        (Kind::Object, Some((FieldStep::Key(key), rest))) => match outline.member(id, key) {
            Some((child, _)) => visit_nodes(outline, child, rest, keeps_lists, visit),
            None => visit(None),
        },
        (_, None) => visit(Some(id)),
        _ => visit(None),
    }
}
