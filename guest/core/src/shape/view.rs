//! Chosen fields of a list, page for page: the list itself is kept, and what a page shows is read out of it (FR-015, FR-017).

use super::Shown;
use super::item::Item;
use super::list::{self, Ask};
use super::payload::Payload;
use super::plan::{Cut, Setting, first_page, list_index};
use super::project::{Mask, Projection};
use super::render::Frame;
use crate::json::scan::Scanner;
use crate::json::survey::List;
use crate::json::text::{Form, visible};
use crate::query::Part;
use crate::snapshot::index::{Body, Index, ListIndex, View};
use crate::snapshot::stored::Entry;
use crate::snapshot::{Cursor, Missing, Stored};
use crate::tokens::Original;

impl View {
    /// What was chosen of a list of this payload, which is still to be kept.
    #[must_use]
    pub fn chosen(payload: &Payload<'_, '_>, list: &List, part: Part) -> Self {
        // Of what stands around the list nothing was chosen: a page is a list of its own.
        let list = ListIndex { skeleton: Vec::new(), bare: true, ..list_index(payload, &[list]) };
        Self { of: String::new(), fields: part.fields, within: part.within, list }
    }
}

/// The first page of a view on a payload that costs `cost`; `first` are the fields of its first records, as a list. O(page).
#[must_use]
pub fn first(
    setting: &Setting<'_>,
    frame: &Frame<'_>,
    payload: &Payload<'_, '_>,
    cost: Original,
    view: View,
    first: &[u8],
) -> Cut<'static> {
    let content = [view.of.as_bytes(), view.fields.as_bytes()].concat();
    let content = xxhash_rust::xxh3::xxh3_128(&content);
    let snapshot = setting.keys.snapshot(setting.scope, setting.arguments, content);
    let ask = first_page(setting);
    let limit = usize::try_from(ask.limit).unwrap_or(usize::MAX);
    // Elements are read one by one from behind the bracket on.
    let mut scanner = Scanner::starting_at(first, Form::Raw, 1);
    let items: Vec<Item<'_>> = std::iter::from_fn(|| scanner.next_element().ok().flatten())
        .take(limit)
        .map(|item| Item::new(0, first.get(item).unwrap_or_default(), Form::Raw))
        .collect();
    let base = Cursor::new(&snapshot, 0, setting.now_ms);
    let shown = list::show(&view.list, Form::Raw, items, ask, &base, frame, None);
    let halves = frame.halves(&shown);
    let index = Index {
        endpoint: setting.name.to_owned(),
        form: payload.form,
        bytes: payload.bytes.len() as u64,
        expires_ms: setting.expires_ms(),
        tokens: cost.tokens,
        sampled: cost.sampled,
        structured: frame.structured.cloned(),
        body: Body::View(view),
    };
    let entry = Entry { key: snapshot, value: index.to_bytes().into() };
    Cut { shown, halves, entries: vec![entry], whole: None }
}

/// A later page. Costs the records on it.
///
/// # Errors
/// [`Missing`].
pub fn page(
    stored: &Stored<'_>,
    view: &View,
    ask: Ask,
    base: &Cursor,
    frame: &Frame<'_>,
) -> Result<Shown, Missing> {
    // A token is at most 16 bytes.
    let most = usize::try_from(frame.allowance.saturating_mul(16)).unwrap_or(usize::MAX);
    let items = items(stored, view, ask, most)?;
    let items = items.iter().map(|item| Item::new(0, item, Form::Raw)).collect();
    Ok(list::show(&view.list, Form::Raw, items, ask, base, frame, None))
}

/// All of it, as JSON that is not escaped. O(list).
///
/// # Errors
/// [`Missing`].
pub fn whole(stored: &Stored<'_>, view: &View) -> Result<Vec<u8>, Missing> {
    let total = view.list.total();
    let ask = Ask {
        first: 0,
        within: 0,
        limit: total,
        page_size: total,
        carried_limit: 0,
        whole: true,
        all: false,
    };
    let items = items(stored, view, ask, usize::MAX)?;
    Ok([b"[".as_slice(), &items.join(&b','), b"]"].concat())
}

/// The items that were asked for, and no more than make `most` bytes.
fn items(stored: &Stored<'_>, view: &View, ask: Ask, most: usize) -> Result<Vec<Vec<u8>>, Missing> {
    let mask = Mask::parse(&view.fields).map_err(|_| Missing::Gone)?;
    let mask = mask.at(&view.within).ok_or(Missing::Gone)?;
    let form = stored.index.form;
    let mut projection = Projection::of(mask, form);
    let (mut items, mut held) = (Vec::new(), 0);
    let total = view.list.total();
    // Records are larger than what is chosen of them, nobody knows how much: ever more of them are read.
    let mut stretch = 4_000u64;
    while (items.len() as u64) < ask.limit && held <= most {
        let read = items.len() as u64;
        if ask.first + read >= total {
            break;
        }
        let next = Ask { first: ask.first + read, limit: ask.limit - read, ..ask };
        let (bytes, records) = list::stored(stored, &view.list, next, stretch)?;
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
