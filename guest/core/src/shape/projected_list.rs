//! Pages of a list of records with only the fields that the caller selected. The whole list is
//! stored, and each page is computed from it (FR-015, FR-017).

use super::Excerpt;
use super::context::ShapeContext;
use super::index::{index, list_index};
use super::item::Item;
use super::list::PageRequest;
use super::payload::Payload;
use super::plan::{ShapedPayload, show_items};
use super::pricing::ExcerptPricer;
use super::stored_list::read_items;
use crate::encoding::Stored;
use crate::fields::{Mask, Projection};
use crate::json::locate_lists::List;
use crate::json::scan::Scanner;
use crate::json::text::{Form, visible};
use crate::query::PartialProjection;
use crate::query::records::ListEnvelope;
use crate::snapshot::cursor::ALL_FIELDS;
use crate::snapshot::index::{Index, ListIndex, ProjectedList, SnapshotBody, Words};
use crate::snapshot::stored::Entry;
use crate::snapshot::{Cursor, Missing, StoredSnapshot};
use crate::tokens::OriginalCost;

impl ProjectedList {
    /// Creates an index of pages of `list`, whose records are reduced to the fields in `part`. Each
    /// page repeats the document around the list or, without an `envelope`, is a bare list.
    #[must_use]
    pub fn new(
        context: &ShapeContext<'_>,
        payload: &Payload<'_, '_>,
        list: &List,
        part: PartialProjection,
        envelope: Option<&ListEnvelope>,
    ) -> Self {
        let skeleton = envelope.map(|around| {
            // The brackets belong to the document around the items.
            vec![
                [around.before.as_slice(), b"["].concat(),
                [b"]".as_slice(), &around.after].concat(),
            ]
        });
        let bare = skeleton.is_none();
        let skeleton = skeleton.unwrap_or_default();
        let words = Words::default();
        let list = ListIndex { skeleton, bare, words, ..list_index(context, payload, &[list]) };
        Self { fields: part.fields, within: part.within, list }
    }
}

/// Returns the first page of a list that is reduced to selected fields, and the index to store for
/// later pages. `first` has those fields of the first records, as a JSON array. `cost` is the cost
/// of the payload. O(page).
#[must_use]
pub fn first(
    context: &ShapeContext<'_>,
    pricer: &ExcerptPricer<'_>,
    payload: &Payload<'_, '_>,
    cost: OriginalCost,
    list_page: ProjectedList,
    first: &[u8],
) -> ShapedPayload<'static> {
    let source = context.original.map_or("", |original| original.snapshot.as_str());
    let content = [source.as_bytes(), list_page.fields.as_bytes()].concat();
    let content = xxhash_rust::xxh3::xxh3_128(&content);
    let snapshot = context.keys.snapshot(context.scope, context.arguments, content);
    let request = context.first_page();
    let limit = usize::try_from(request.max_items(pricer.token_limit())).unwrap_or(usize::MAX);
    // The scanner reads elements after the opening bracket.
    let mut scanner = Scanner::starting_at(first, Form::Raw, 1);
    let items: Vec<Item<'_>> = std::iter::from_fn(|| scanner.next_element().ok().flatten())
        .take(limit)
        .map(|item| Item::new(0, first.get(item).unwrap_or_default(), Form::Raw))
        .collect();
    let base = Cursor::new(&snapshot, 0, context.now_ms);
    let excerpt = show_items(&list_page.list, Form::Raw, items, request, &base, pricer, None);
    let rendered = pricer.render(&excerpt);
    let structured = pricer.context.structured.cloned();
    let index =
        Index { structured, ..index(context, payload, cost, SnapshotBody::Projected(list_page)) };
    let entry = Entry { key: snapshot, value: index.to_bytes().into() };
    ShapedPayload { excerpt, rendered, entries: vec![entry], whole: None }
}

/// Returns a later page of a list that is reduced to selected fields, read from the snapshot. Its
/// records are complete if `has_all_fields`. The cursor to the next page is derived from `base`.
/// O(records on the page).
///
/// # Errors
/// Returns [`Missing`] if segments of the snapshot must be loaded first, or no longer
/// exist.
pub fn page(
    stored: &StoredSnapshot<'_>,
    list_page: &ProjectedList,
    request: PageRequest,
    has_all_fields: bool,
    base: &Cursor,
    pricer: &ExcerptPricer<'_>,
) -> Result<Excerpt, Missing> {
    // Most tokens have at most 16 bytes.
    let most = usize::try_from(pricer.token_limit().saturating_mul(16)).unwrap_or(usize::MAX);
    let max_items = request.max_items(pricer.token_limit());
    let exact = PageRequest { limit: max_items, max_records: 0, ..request };
    let items = items(stored, list_page, exact, has_all_fields, most)?;
    let items = items.iter().map(|item| Item::new(0, item, Form::Raw)).collect();
    let mut excerpt = show_items(&list_page.list, Form::Raw, items, request, base, pricer, None);
    if let Some(next) = excerpt.next.as_mut().filter(|_| has_all_fields) {
        next.whole = ALL_FIELDS;
    }
    Ok(excerpt)
}

/// Returns the selected fields of each requested record as JSON, or the whole records if
/// `has_all_fields`. Stops after the pass in which the records exceed `most` bytes. Invalid records
/// are returned unchanged.
fn items(
    stored: &StoredSnapshot<'_>,
    list_page: &ProjectedList,
    request: PageRequest,
    has_all_fields: bool,
    most: usize,
) -> Result<Vec<Vec<u8>>, Missing> {
    let mask = Mask::parse(&list_page.fields).map_err(|_| Missing::Gone)?;
    let mask = mask.descend(&list_page.within).ok_or(Missing::Gone)?;
    let form = stored.index.form;
    let mut projection = Projection::new(mask, form);
    let (mut items, mut held) = (Vec::new(), 0);
    let total = list_page.list.total();
    // The size of records is not known, only that of their selected fields. Each pass reads four
    // times as much.
    let mut stretch = 4_000u64;
    while (items.len() as u64) < request.limit && held <= most {
        let read = items.len() as u64;
        if request.first + read >= total {
            break;
        }
        let next =
            PageRequest { first: request.first + read, limit: request.limit - read, ..request };
        let (bytes, records) = read_items(stored, &list_page.list, next, stretch)?;
        for (_, record) in records {
            projection.out.clear();
            let selected = (!has_all_fields).then(|| projection.copy(&bytes, record.start));
            let item = match selected {
                Some(Ok(true)) => std::mem::take(&mut projection.out),
                Some(Ok(false)) => b"{}".to_vec(),
                // Invalid records are shown unchanged.
                Some(Err(_)) | None => {
                    visible(bytes.get(record).unwrap_or_default(), form).into_owned()
                }
            };
            held += item.len();
            items.push(item);
        }
        stretch = stretch.saturating_mul(4);
    }
    Ok(items)
}
