//! Reads all values of a document into the fields of its schema.

use super::{
    FieldId, FieldPosition, LIST_LENGTHS, MAX_DISTINCT_VALUES, MAX_FIELDS, MIN_MAP_CONTAINERS,
    Schema, VALUE_LENGTHS,
};
use crate::json::outline::{Node, NodeId, Outline};
use crate::json::scan::Kind;
use crate::text::shorten::is_prose;
use crate::tokens::{Estimator, WordCache};

/// The minimum number of members with which an object of plain values is treated as a map: its keys
/// are data, like the elements of a list.
const MIN_MAP_VALUES: u32 = 128;

/// The number of leading values of a field that are all priced. Later values are priced at
/// intervals, up to a limit, and the cost of the rest is estimated.
const PRICED_VALUES: u64 = 8;
/// The interval at which later values of a field are priced.
const PRICING_STRIDE: u64 = 4;
/// The number of values of a field after which no further value is priced.
const MAX_PRICED_VALUES: u64 = 256;
const MAX_PRICED_BYTES: u64 = 4_096;

/// Assigns every value of a document to a field of its schema, and adds its count and cost there.
/// `root` is the field of the document itself. Ends early if the schema has more than
/// [`MAX_FIELDS`] fields. O(n log fields).
pub(super) fn all(
    schema: &mut Schema,
    outline: &Outline<'_>,
    estimator: &Estimator,
    root: FieldId,
) {
    let words = WordCache::default();
    Visitor { schema, outline, estimator, words, raw: Vec::new() }.visit(0, root, false);
}

/// A walk through all values of a document, which adds them to the fields of its schema.
struct Visitor<'v, 'a> {
    schema: &'v mut Schema,
    outline: &'v Outline<'a>,
    estimator: &'v Estimator,
    words: WordCache,
    /// A buffer for the unescaped bytes of the value that is being priced.
    raw: Vec<u8>,
}

impl Visitor<'_, '_> {
    fn visit(&mut self, id: NodeId, at: FieldId, in_list: bool) {
        let outline = self.outline;
        let Some(node) = outline.node(id) else { return };
        if self.schema.fields.len() > MAX_FIELDS {
            return;
        }
        if let Some(of) = self.schema.field_ids.get_mut(id) {
            *of = u32::try_from(at).unwrap_or(u32::MAX);
        }
        if node.kind != Kind::Object && node.kind != Kind::Array
            || node.closed
            || node.children == 0
        {
            return self.leaf(node, at);
        }
        let Some(field) = self.schema.fields.get_mut(at) else { return };
        let (level, nested) = (field.level, field.nested);
        let is_list = node.kind == Kind::Array || is_map(outline, id, node);
        field.container = true;
        field.map |= is_list && node.kind == Kind::Object;
        field.count += 1;
        if is_list {
            for (total, most) in field.elements.iter_mut().zip(LIST_LENGTHS) {
                *total += u64::from(node.children).min(most as u64);
            }
        }
        // The only element of a list is no record among others: the lists inside it are of records.
        let has_records = is_list && (in_list || node.children > 1);
        for (child_id, child) in outline.children(id) {
            let child_at = if is_list {
                // Each member of a map has another key, so keys are costs of values, not of the
                // field.
                let (name, cost): (&[u8], u64) = match node.kind {
                    Kind::Array => (b"[]", 0),
                    _ => (b"*", self.estimate_cost(&outline.inner(&child.key))),
                };
                let position = FieldPosition {
                    level: level + u32::from(in_list),
                    nested: nested || in_list,
                    is_record: has_records,
                };
                let child_at = self.schema.field(Some(at), name, position, 0);
                if let Some(field) = self.schema.fields.get_mut(child_at) {
                    for total in &mut field.costs {
                        *total += cost;
                    }
                }
                child_at
            } else {
                let key = outline.inner(&child.key);
                match self.schema.child(at, &key) {
                    Some(known) => known,
                    None => {
                        let mut whole = Vec::new();
                        outline.write_key(&mut whole, child);
                        let cost = self.estimate_cost(&whole);
                        let position = FieldPosition { level: level + 1, nested, is_record: false };
                        self.schema.field(Some(at), &key, position, cost)
                    }
                }
            };
            self.visit(child_id, child_at, in_list || has_records);
        }
    }

    /// Returns the cost of a JSON value's text, in 1/[`crate::tokens::COST_SCALE`] token.
    fn estimate_cost(&mut self, text: &[u8]) -> u64 {
        self.estimator.scaled_cost_in(&mut self.words, text)
    }

    fn leaf(&mut self, node: &Node, at: FieldId) {
        let raw = self.outline.raw_in(&mut self.raw, node);
        let Some(field) = self.schema.fields.get_mut(at) else { return };
        let each = field.count < PRICED_VALUES
            || field.count < MAX_PRICED_VALUES && field.count.is_multiple_of(PRICING_STRIDE);
        let exactly = each && field.cost_model.bytes() < MAX_PRICED_BYTES;
        let estimate = || self.estimator.scaled_cost_in(&mut self.words, raw);
        let cost = field.cost_model.estimate_cost(raw.len(), exactly, estimate);
        field.count += 1;
        field.values += 1;
        if field.distinct.len() < MAX_DISTINCT_VALUES {
            field.distinct.insert(xxhash_rust::xxh3::xxh3_64(raw));
        }
        field.empty += u64::from(matches!(raw, b"null" | b"\"\"" | b"{}" | b"[]" | b"false"));
        // Characters between the quotes.
        let length = if node.kind == Kind::String { raw.len().saturating_sub(2) } else { 0 };
        field.numbers += u64::from(matches!(raw.first(), Some(b'-' | b'0'..=b'9')));
        if node.kind == Kind::String {
            field.dates += u64::from(is_date(raw));
            field.strings += 1;
            field.characters += length as u64;
            field.phrases += u64::from((12..=300).contains(&length) && has_words(raw));
            field.links += u64::from(raw.starts_with(b"\"http"));
            field.opaque += u64::from(has_hash(raw));
            field.prose += u64::from(length > 60 && (is_prose(raw) || has_lines(raw)));
        }
        let of_character = cost / length.max(1) as u64;
        for (total, cap) in field.costs.iter_mut().zip(VALUE_LENGTHS) {
            // A truncation mark of about six tokens replaces the end of a shortened value.
            let short = if length > cap {
                of_character.saturating_mul(cap as u64) + 6 * crate::tokens::COST_SCALE
            } else {
                cost
            };
            *total += short.min(cost.max(crate::tokens::COST_SCALE)) + field.key_cost;
        }
    }
}

/// Returns true if a JSON string begins with a date, such as `2026-01-31`.
fn is_date(raw: &[u8]) -> bool {
    let Some(date) = raw.get(1..11) else { return false };
    date.iter().enumerate().all(|(at, byte)| match at {
        4 | 7 => *byte == b'-',
        _ => byte.is_ascii_digit(),
    })
}

/// Returns true if a short JSON string consists mostly of a hash: at least 24 consecutive
/// hexadecimal digits, some of them letters.
fn has_hash(raw: &[u8]) -> bool {
    const MIN_DIGITS: usize = 24;
    const MAX_BYTES: usize = 160;
    raw.len() <= MAX_BYTES
        && raw.split(|byte| !byte.is_ascii_hexdigit()).any(|run| {
            run.len() >= MIN_DIGITS.max(raw.len() / 2)
                && run.iter().any(u8::is_ascii_digit)
                && run.iter().any(u8::is_ascii_alphabetic)
        })
}

/// Returns true if a JSON string has several words: letters with single spaces between them.
fn has_words(raw: &[u8]) -> bool {
    let is_between = |window: &[u8]| match window {
        [before, b' ', after] => before.is_ascii_graphic() && after.is_ascii_alphabetic(),
        // Scripts without spaces.
        [first, _, _] => *first >= 0xe3,
        _ => false,
    };
    raw.windows(3).filter(|window| is_between(window)).nth(1).is_some()
}

/// Returns true if a JSON string is a text of several lines with words (source code), or of many
/// short lines (numbers). The lines of encoded data are longer.
fn has_lines(raw: &[u8]) -> bool {
    const SAMPLE_BYTES: usize = 1_000;
    const MIN_SHORT_LINES: usize = 17;
    let head = raw.get(..SAMPLE_BYTES).unwrap_or(raw);
    let spaces = head.iter().filter(|byte| **byte == b' ').count();
    let lines = memchr::memmem::find_iter(head, b"\\n").count();
    spaces > 2 && lines > 2 || lines >= MIN_SHORT_LINES
}

/// Returns true if an object is treated as a map. It then has at least 128 members, or at least 16
/// of one kind: mostly objects, mostly lists, or mostly with keys that are data, such as versions
/// and dates.
#[must_use]
fn is_map(outline: &Outline<'_>, id: NodeId, node: &Node) -> bool {
    if node.kind != Kind::Object || node.children < MIN_MAP_CONTAINERS {
        return false;
    }
    let count = |kind: Kind| outline.children(id).filter(|(_, child)| child.kind == kind).count();
    let most = node.children as usize * 4 / 5;
    let is_data =
        |key: &[u8]| key.iter().any(|byte| matches!(byte, b'0'..=b'9' | b'/' | b'.' | b'@' | b' '));
    count(Kind::Object).max(count(Kind::Array)) >= most
        || node.children >= MIN_MAP_VALUES
        || outline.children(id).filter(|(_, child)| is_data(&outline.inner(&child.key))).count()
            >= most
}
