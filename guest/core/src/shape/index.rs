//! Indexes of stored payloads: the positions at which their pages and chunks begin.

use super::context::ShapeContext;
use super::payload::Payload;
use super::range;
use crate::json::locate_lists::{DocumentInfo, List};
use crate::json::scan::Kind;
use crate::snapshot::Placement;
use crate::snapshot::index::{Index, ItemMark, ListIndex, ListMark, SEGMENT_BYTES, SnapshotBody};
use crate::tokens::OriginalCost;

/// Returns the snapshot name and the index of a payload that is stored whole, while the client
/// receives a transformation of it. `placement` is the payload's position in structured content, or
/// `None` if it is text content.
#[must_use]
pub(super) fn payload_index(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    cost: OriginalCost,
    placement: Option<Placement>,
) -> (String, Index) {
    let lists = payload.survey.map(|survey| pageable_lists(context, payload, survey));
    let lists = lists.unwrap_or_default();
    let body = if lists.is_empty() {
        let limit = context.limits.budget(1).allowance();
        SnapshotBody::Text(range::text_index(context, &payload.lined(), limit))
    } else {
        SnapshotBody::List(list_index(context, payload, &lists))
    };
    snapshot_index(context, payload, cost, placement, body)
}

/// Returns the snapshot name and the index to store with a payload. `body` has the positions of its
/// lists or chunks.
pub(super) fn snapshot_index(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    cost: OriginalCost,
    placement: Option<Placement>,
    body: SnapshotBody,
) -> (String, Index) {
    let placement = match (&body, placement) {
        // A part of a document's text is no value that the output schema accepts.
        (SnapshotBody::Text(_), Some(Placement::Whole)) => Some(Placement::Document),
        (_, placement) => placement,
    };
    let content = xxhash_rust::xxh3::xxh3_128(payload.bytes);
    let snapshot = context.keys.snapshot(context.scope, context.arguments, content);
    (snapshot, Index { structured: placement, ..index(context, payload, cost, body) })
}

/// Returns the index to store with a payload, without its position in structured content, which
/// [`snapshot_index`] adds.
pub(super) fn index(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    cost: OriginalCost,
    body: SnapshotBody,
) -> Index {
    Index {
        upstream: context.upstream.to_owned(),
        endpoint: context.name.to_owned(),
        form: payload.form,
        bytes: payload.bytes.len() as u64,
        expires_ms: context.expires_ms(),
        tokens: cost.tokens,
        sampled: cost.sampled,
        structured: None,
        original: context.original.cloned(),
        body,
    }
}

/// Returns the lists of a payload to divide into pages: the one that policy names, or those that
/// make up most of the payload. Empty if no lists do, or if the rest of the document is too large
/// to repeat on every page.
pub(super) fn pageable_lists<'s>(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    survey: &'s DocumentInfo,
) -> Vec<&'s List> {
    let whole = survey.root.len();
    let bytes = |lists: &[&List]| lists.iter().map(|list| list.span.len()).sum::<usize>();
    let filled = || survey.lists.iter().filter(|list| !list.items.is_empty());
    let dominant = survey
        .longest()
        .filter(|longest| !longest.items.is_empty() && longest.span.len() * 2 >= whole);
    let lists: Vec<&List> = match (&context.limits.items_path, dominant) {
        (Some(path), _) => {
            survey.lists.iter().find(|list| list.path == *path).into_iter().collect()
        }
        (None, Some(longest)) => {
            filled().filter(|list| list.span.len() * 8 >= longest.span.len()).collect()
        }
        // Several lists may dominate together.
        (None, None) if bytes(&survey.lists.iter().collect::<Vec<_>>()) * 2 >= whole => {
            filled().filter(|list| list.span.len() * 16 >= whole).collect()
        }
        (None, None) => Vec::new(),
    };
    let around = whole.saturating_sub(bytes(&lists));
    if payload.blocks || has_room_around(context, around) { lists } else { Vec::new() }
}

/// Returns the maximum size, in bytes, of the words before or after a document on every page.
pub(super) fn max_word_bytes(context: &ShapeContext<'_>) -> usize {
    let room = context.limits.budget_for(context.options.pages, context.budget).allowance();
    // Words have about four bytes a token, and a token has at least one.
    usize::try_from(room / 4).unwrap_or(usize::MAX)
}

/// Returns true if every page of a list can include the document around the list, which has
/// `around` bytes.
pub(super) fn has_room_around(context: &ShapeContext<'_>, around: usize) -> bool {
    let around = u64::try_from(around).unwrap_or(u64::MAX);
    // A token has three or more bytes in most JSON.
    let room = context.limits.budget_for(context.options.pages, context.budget).allowance();
    around / 3 <= room / 6
}

/// The size, in bytes, of a bracket in raw or escaped JSON.
const BRACKET_BYTES: usize = 1;

pub(super) fn list_index(
    context: &ShapeContext<'_>,
    payload: &Payload<'_, '_>,
    lists: &[&List],
) -> ListIndex {
    let Some(survey) = payload.survey else { return ListIndex::default() };
    let mut index = ListIndex {
        blocks: payload.blocks,
        bare: survey.kind == Kind::Array,
        words: payload.words(max_word_bytes(context)),
        ..ListIndex::default()
    };
    let mut at = survey.root.start;
    for (number, list) in lists.iter().enumerate() {
        // JSON Lines have no brackets.
        let bracket = if survey.is_lines { 0 } else { BRACKET_BYTES };
        let (open, close) = (list.span.start + bracket, list.span.end - bracket);
        index.skeleton.push(payload.bytes.get(at..open).unwrap_or_default().to_vec());
        index.lists.push(ListMark {
            path: list.path.join("."),
            start: open as u64,
            count: list.items.len() as u64,
        });
        at = close;
        if lists
            .get(usize::try_from(index.main).unwrap_or(0))
            .is_some_and(|main| main.span.len() < list.span.len())
        {
            index.main = number as u64;
        }
    }
    index.skeleton.push(payload.bytes.get(at..survey.root.end).unwrap_or_default().to_vec());
    let items = lists.iter().flat_map(|list| list.items.iter());
    let mut segment = None;
    for (item, span) in items.enumerate() {
        let here = span.start / SEGMENT_BYTES;
        if segment != Some(here) {
            segment = Some(here);
            index.marks.push(ItemMark { item: item as u64, offset: span.start as u64 });
        }
    }
    index
}
