//! Writes selected fields: slices of the document, shortened strings, and truncation marks.

use std::borrow::Cow;

use super::CondenseOptions;
use super::long_text::LongText;
use super::schema::{FieldId, Schema, VALUE_LENGTHS};
use super::select::Selection;
use crate::decimal::Number;
use crate::json::outline::{Node, NodeId, Outline};
use crate::json::scan::Kind;
use crate::json::text::quoted;
use crate::shape::binary::describe_base64;
use crate::text::shorten::{shorten, truncation_mark};

/// The method by which [`Writer`] finds the field of a value.
pub(super) enum FieldLookup<'f> {
    /// By the id of the value, because the schema was made from the same outline.
    ByNode(&'f Schema),
    /// By the field id that the outline stores for the value, because a filter parsed it.
    InOutline,
}

impl FieldLookup<'_> {
    fn field_of(&self, id: NodeId, node: &Node) -> Option<FieldId> {
        match self {
            FieldLookup::ByNode(schema) => schema.field_of(id),
            FieldLookup::InOutline => usize::try_from(node.path).ok(),
        }
    }
}

/// The maximum length of a number in a list, in bytes.
const MAX_NUMBER_BYTES: usize = 32;

/// The maximum number of elements of a list whose least and greatest value are stated.
const MAX_RANGED: u32 = 20_000;

/// The position of a value in relation to lists.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nesting {
    /// The value is in no list, or only in lists of one element outside of other lists.
    Document,
    /// The value is in a list: it is a record, or a part of one.
    List,
    /// The value is in a list inside a record.
    Record,
}

/// Writes the selected fields of a document or record, and counts the shortened and omitted values.
pub(super) struct Writer<'w, 'a> {
    /// The parsed document or record to write.
    pub outline: &'w Outline<'a>,
    /// The fields of the document, or of all records.
    pub schema: &'w Schema,
    /// The method by which the field of a value is found.
    pub fields: FieldLookup<'w>,
    /// The fields to write, with the maximum lengths of their values.
    pub selection: &'w Selection,
    /// The options of condensing.
    pub options: &'w CondenseOptions<'w>,
    /// The long texts of the document, which are replaced by excerpts.
    pub texts: &'w [LongText<'w>],
    /// The number of values that were shortened.
    pub shortened: u64,
    /// The number of elements of lists that were left out.
    pub omitted: u64,
    /// The JSON Pointer to the first long text that was replaced by an excerpt. `None` if there is
    /// none.
    pub long_text: Option<&'w str>,
}

impl Writer<'_, '_> {
    /// Writes the value `id` as unescaped JSON: a document or, if `in_list`, a record. A record
    /// without a selected field gets its first two plain values, a document `{}`.
    pub(super) fn root(&mut self, out: &mut Vec<u8>, id: NodeId, in_list: bool) {
        let inside = if in_list { Nesting::List } else { Nesting::Document };
        if self.any(out, id, inside) {
            return;
        }
        match self.outline.node(id).filter(|node| node.children == 0 || node.closed) {
            Some(node) => self.leaf(out, node, 24),
            None => out.extend_from_slice(b"{}"),
        }
    }

    fn any(&mut self, out: &mut Vec<u8>, id: NodeId, inside: Nesting) -> bool {
        let Some(node) = self.outline.node(id) else { return false };
        let Some(at) = self.fields.field_of(id, node) else { return false };
        let container =
            !node.closed && node.children > 0 && matches!(node.kind, Kind::Object | Kind::Array);
        if !container {
            return match self.selection.cap(at) {
                Some(cap) => {
                    self.leaf(out, node, cap);
                    true
                }
                None => false,
            };
        }
        if !self.selection.is_kept(at) {
            return false;
        }
        if node.kind == Kind::Array || self.schema.is_map(at, node) {
            return self.list(out, id, inside);
        }
        self.object(out, id, inside)
    }

    fn object(&mut self, out: &mut Vec<u8>, id: NodeId, inside: Nesting) -> bool {
        let outline = self.outline;
        let start = out.len();
        out.push(b'{');
        for (child, node) in outline.children(id) {
            let before = out.len();
            self.key(out, node, before > start + 1);
            if !self.any(out, child, inside) {
                out.truncate(before);
            }
        }
        if out.len() == start + 1 && inside == Nesting::List {
            self.plain(out, id);
        }
        out.push(b'}');
        out.len() > start + 2 || inside == Nesting::List
    }

    /// Writes the first two plain values of an object, without brackets. Used for records that
    /// would otherwise be empty, because they have no selected field.
    pub(super) fn plain(&mut self, out: &mut Vec<u8>, id: NodeId) {
        let outline = self.outline;
        let plain = outline.children(id).filter(|(_, node)| node.children == 0).take(2);
        for (at, (_, node)) in plain.enumerate() {
            self.key(out, node, at > 0);
            self.leaf(out, node, 24);
        }
    }

    /// Writes a list with its first plain elements, and a mark for the others.
    pub(super) fn elements(&mut self, out: &mut Vec<u8>, id: NodeId) {
        let outline = self.outline;
        let total = outline.node(id).map_or(0, |node| node.children as usize);
        out.push(b'[');
        let mut shown = 0;
        for (_, node) in outline.children(id).take_while(|(_, node)| node.children == 0).take(4) {
            if shown > 0 {
                out.push(b',');
            }
            self.leaf(out, node, 24);
            shown += 1;
        }
        if shown < total {
            self.omitted += (total - shown) as u64;
            if shown > 0 {
                out.push(b',');
            }
            out.extend(quoted(&truncation_mark(total - shown, "items")));
        }
        out.push(b']');
    }

    #[inline]
    fn key(&self, out: &mut Vec<u8>, node: &Node, comma: bool) {
        if comma {
            out.push(b',');
        }
        self.outline.write_key(out, node);
    }

    /// Writes a list or map that is not empty. Returns false if no element has a selected field, so
    /// that the list would appear empty.
    fn list(&mut self, out: &mut Vec<u8>, id: NodeId, inside: Nesting) -> bool {
        let outline = self.outline;
        let Some(node) = outline.node(id) else { return false };
        let total = node.children as usize;
        let (limit, within) = match inside {
            Nesting::Document if total == 1 => (1, Nesting::Document),
            Nesting::Document => (self.selection.records, Nesting::List),
            _ => (self.selection.nested, Nesting::Record),
        };
        let array = node.kind == Kind::Array;
        let mut shown = if total <= limit { total } else { limit.max(1) };
        let mark = match total - shown {
            0 => String::new(),
            omitted => self.list_mark(id, omitted, if array { "items" } else { "fields" }),
        };
        let rest = outline.children(id).skip(shown);
        // A mark must not be longer than what it replaces.
        if rest.map(|(_, element)| element.span.len() + 1).sum::<usize>() <= mark.len() {
            shown = total;
        }
        // The last element of a shortened list is shown too, because it says how far the list goes.
        let (head, tail) = if shown < total && shown > 2 { (shown - 1, 1) } else { (shown, 0) };
        let opening = out.len();
        out.push(if array { b'[' } else { b'{' });
        let (start, mut any, mut dropped) = (out.len(), false, 0usize);
        for (at, (child, element)) in outline.children(id).enumerate() {
            if at == head && shown < total {
                self.omitted += (total - shown) as u64;
                if out.len() > start {
                    out.push(b',');
                }
                if !array {
                    out.extend_from_slice(b"\"...\":");
                }
                out.extend(quoted(&mark));
            }
            if at >= head && at < total - tail {
                continue;
            }
            let before = out.len();
            if array {
                if before > start {
                    out.push(b',');
                }
            } else {
                self.key(out, element, before > start);
            }
            if self.any(out, child, within) {
                any = true;
            } else {
                out.truncate(before);
                dropped += 1;
            }
        }
        // Without a mark, the list would appear to have fewer elements.
        if any && array && dropped > 0 {
            self.omitted += dropped as u64;
            out.push(b',');
            out.extend(quoted(&truncation_mark(dropped, "items")));
        }
        if any {
            out.push(if array { b']' } else { b'}' });
        } else {
            out.truncate(opening);
        }
        any
    }

    /// Returns the mark for `omitted` elements of the list `id`; `what` names the elements. If they
    /// are numbers, or pairs that end with a number, the mark has the least and the greatest of all
    /// elements.
    fn list_mark(&self, id: NodeId, omitted: usize, what: &str) -> String {
        let mark = truncation_mark(omitted, what);
        if self.outline.node(id).is_none_or(|node| node.children > MAX_RANGED) {
            return mark;
        }
        let mut range: Option<[(Number, String); 2]> = None;
        for (child, node) in self.outline.children(id) {
            let last = self.outline.children(child).last().map_or(node, |(_, last)| last);
            let Some(number) = self.number(last) else { return mark };
            let [least, most] = range.get_or_insert_with(|| [number.clone(), number.clone()]);
            if number.0.total_compare(least.0).is_lt() {
                *least = number;
            } else if number.0.total_compare(most.0).is_gt() {
                *most = number;
            }
        }
        match (mark.strip_suffix(']'), range) {
            (Some(mark), Some([least, most])) if least.0.total_compare(most.0).is_lt() => {
                format!("{mark}, {} to {}]", least.1, most.1)
            }
            _ => mark,
        }
    }

    /// Returns the value of a number, or of a string that is a number, and its text for a mark.
    /// `None` for other values.
    fn number(&self, node: &Node) -> Option<(Number, String)> {
        if node.children > 0 || node.span.len() > MAX_NUMBER_BYTES {
            return None;
        }
        let text = self.outline.decoded(&node.span).trim().to_owned();
        let number = Number::parse(&text).filter(|number| number.float.is_finite())?;
        // A number with an exponent may have hundreds of digits without it.
        let plain = number.rounded().filter(|_| !text.contains(['e', 'E']));
        Some((number, plain.unwrap_or(text)))
    }

    fn leaf(&mut self, out: &mut Vec<u8>, node: &Node, cap: usize) {
        let start = out.len();
        let long_text = self.texts.iter().find(|text| text.starts_at(node.span.start));
        // A JSON string has at least as many bytes as its text.
        let mut length = long_text.map_or(0, |text| text.text().len());
        if length <= cap {
            self.outline.write(out, node);
            length = out.len() - start;
            if length <= cap.saturating_add(2) {
                return;
            }
        }
        let keywords = self.options.keywords;
        if let Some(text) = long_text.filter(|_| cap >= VALUE_LENGTHS[4] && keywords.is_empty()) {
            self.shortened += 1;
            self.long_text = self.long_text.or(Some(text.path()));
            out.truncate(start);
            out.extend(quoted(&text.excerpt(cap, self.options.estimator)));
        } else if node.kind == Kind::String {
            let text = match long_text {
                Some(text) => Cow::Borrowed(text.text()),
                None => Cow::Owned(self.outline.decoded(&node.span)),
            };
            let short = match describe_base64(text.as_bytes()) {
                Some(what) => {
                    format!("{what}{}", truncation_mark(text.chars().count(), "characters"))
                }
                None => shorten(&text, cap, keywords),
            };
            // A truncation mark may be longer than the text that it replaces.
            out.truncate(start);
            if short.len() < text.len() {
                self.shortened += 1;
                out.extend(quoted(&short));
            } else {
                self.outline.write(out, node);
            }
        } else if node.closed {
            self.shortened += 1;
            let what = if node.kind == Kind::Object { "an object" } else { "a list" };
            out.truncate(start);
            out.extend(quoted(&format!(
                "{what} of {length} bytes{}",
                truncation_mark(length, "characters")
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CondenseOptions, DocumentCondenser};
    use crate::fields::Mask;
    use crate::json::outline::Outline;
    use crate::json::text::Form;
    use crate::tokens::Estimator;

    #[test]
    fn elements_without_selected_fields_have_a_mark() {
        let record = r#"{"id":1,"tags":[{"a":"x"},{"b":"y"},{"b":"z"},{"a":"w"}]}"#;
        let text = format!(r#"{{"rows":[{record},{record}]}}"#);
        let outline = Outline::parse(text.as_bytes(), Form::Raw, &(0..text.len())).unwrap();
        let (estimator, map) = (Estimator::default(), Mask::parse("rows.id,rows.tags.a").unwrap());
        let options = CondenseOptions { estimator: &estimator, map: Some(&map), keywords: &[] };
        let condensed =
            DocumentCondenser::new(&outline, options, &[]).unwrap().condense(1_000).unwrap();
        let shown = r#"{"id":1,"tags":[{"a":"x"},{"a":"w"}," ... [2 more items]"]}"#;
        assert_eq!(
            String::from_utf8_lossy(&condensed.values[0]),
            format!(r#"{{"rows":[{shown},{shown}]}}"#)
        );
        assert_eq!(condensed.omitted, 4);
    }
}
