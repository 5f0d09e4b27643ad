//! Chosen fields of a list, page for page: the list itself is kept, and what a page shows is read out of it (FR-015, FR-017).

use super::Excerpt;
use super::context::ShapeContext;
use super::index::{index, list_index};
use super::item::Item;
use super::list::{self, PageRequest};
use super::payload::Payload;
use super::plan::ShapedPayload;
use super::pricing::ExcerptPricer;
use crate::fields::{Mask, Projection};
use crate::json::scan::Scanner;
use crate::json::survey::List;
use crate::json::text::{Form, visible};
use crate::query::PartialProjection;
use crate::snapshot::index::{Body, Index, ListIndex, ProjectedList};
use crate::snapshot::stored::Entry;
use crate::snapshot::{Cursor, Missing, StoredSnapshot};
use crate::tokens::Original;

impl ProjectedList {
    /// What was chosen of a list of this payload, which is still to be kept.
    #[must_use]
    pub fn new(payload: &Payload<'_, '_>, list: &List, part: PartialProjection) -> Self {
        // Of what stands around the list nothing was chosen: a page is a list of its own.
        let list = ListIndex { skeleton: Vec::new(), bare: true, ..list_index(payload, &[list]) };
        Self { source: String::new(), fields: part.fields, within: part.within, list }
    }
}

/// The first page of a view on a payload that costs `cost`; `first` are the fields of its first records, as a list. O(page).
#[must_use]
pub fn first(
    context: &ShapeContext<'_>,
    pricer: &ExcerptPricer<'_>,
    payload: &Payload<'_, '_>,
    cost: Original,
    view: ProjectedList,
    first: &[u8],
) -> ShapedPayload<'static> {
    let content = [view.source.as_bytes(), view.fields.as_bytes()].concat();
    let content = xxhash_rust::xxh3::xxh3_128(&content);
    let snapshot = context.keys.snapshot(context.scope, context.arguments, content);
    let request = context.first_page();
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    // Elements are read one by one from behind the bracket on.
    let mut scanner = Scanner::starting_at(first, Form::Raw, 1);
    let items: Vec<Item<'_>> = std::iter::from_fn(|| scanner.next_element().ok().flatten())
        .take(limit)
        .map(|item| Item::new(0, first.get(item).unwrap_or_default(), Form::Raw))
        .collect();
    let base = Cursor::new(&snapshot, 0, context.now_ms);
    let excerpt = list::show(&view.list, Form::Raw, items, request, &base, pricer, None);
    let rendered = pricer.render(&excerpt);
    let structured = pricer.context.structured.cloned();
    let index = Index { structured, ..index(context, payload, cost, Body::Projected(view)) };
    let entry = Entry { key: snapshot, value: index.to_bytes().into() };
    ShapedPayload { excerpt, rendered, entries: vec![entry], whole: None }
}

/// A later page. Costs the records on it.
///
/// # Errors
/// [`Missing`].
pub fn page(
    stored: &StoredSnapshot<'_>,
    view: &ProjectedList,
    request: PageRequest,
    base: &Cursor,
    pricer: &ExcerptPricer<'_>,
) -> Result<Excerpt, Missing> {
    // A token is at most 16 bytes.
    let most = usize::try_from(pricer.token_limit().saturating_mul(16)).unwrap_or(usize::MAX);
    let items = items(stored, view, request, most)?;
    let items = items.iter().map(|item| Item::new(0, item, Form::Raw)).collect();
    Ok(list::show(&view.list, Form::Raw, items, request, base, pricer, None))
}

/// All of it, as JSON that is not escaped. O(list).
///
/// # Errors
/// [`Missing`].
pub fn whole(stored: &StoredSnapshot<'_>, view: &ProjectedList) -> Result<Vec<u8>, Missing> {
    let total = view.list.total();
    let request = PageRequest {
        first: 0,
        within: 0,
        limit: total,
        page_size: total,
        carried_limit: 0,
        whole: true,
        all: false,
    };
    let items = items(stored, view, request, usize::MAX)?;
    Ok([b"[".as_slice(), &items.join(&b','), b"]"].concat())
}

/// The items that were asked for, and no more than make `most` bytes.
fn items(
    stored: &StoredSnapshot<'_>,
    view: &ProjectedList,
    request: PageRequest,
    most: usize,
) -> Result<Vec<Vec<u8>>, Missing> {
    let mask = Mask::parse(&view.fields).map_err(|_| Missing::Gone)?;
    let mask = mask.at(&view.within).ok_or(Missing::Gone)?;
    let form = stored.index.form;
    let mut projection = Projection::of(mask, form);
    let (mut items, mut held) = (Vec::new(), 0);
    let total = view.list.total();
    // RecordSet are larger than what is chosen of them, nobody knows how much: ever more of them are read.
    let mut stretch = 4_000u64;
    while (items.len() as u64) < request.limit && held <= most {
        let read = items.len() as u64;
        if request.first + read >= total {
            break;
        }
        let next =
            PageRequest { first: request.first + read, limit: request.limit - read, ..request };
        let (bytes, records) = list::read_items(stored, &view.list, next, stretch)?;
        for (_, record) in records {
            projection.out.clear();
            let item = match projection.copy(&bytes, record.start) {
                Ok(true) => std::mem::take(&mut projection.out),
                Ok(false) => b"{}".to_vec(),
                // What is broken inside stays as it is.
                Err(_) => visible(bytes.get(record).unwrap_or_default(), form).into_owned(),
            };
            held += item.len();
            items.push(item);
        }
        stretch = stretch.saturating_mul(4);
    }
    Ok(items)
}
