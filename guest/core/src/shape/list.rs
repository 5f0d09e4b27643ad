//! A page of a list: as many items as fit, or a piece of the one that does not.

use super::chunk::trim;
use super::condense::Taste;
use super::condense::records::Records;
use super::condensed::{condensed, with_others};
use super::item::{Item, compact};
use super::page::{Pieces, fit, may_fit};
use super::render::{Frame, block_text};
use super::{Body, Facts, Shown};
use crate::json::scan::{ScanError, Scanner};
use crate::json::text::{Form, visible};
use crate::snapshot::index::{ListIndex, SEGMENT_BYTES};
use crate::snapshot::{Cursor, Missing, Stored};
use crate::tokens::Weighed;

/// What is wanted of a list.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The first item.
    pub first: u64,
    /// Bytes of it that were already shown.
    pub within: u64,
    /// The most items.
    pub limit: u64,
    /// Items a page, as reported.
    pub page_size: u64,
    /// What later cursors say of the limit: 0 for the policy's own.
    pub carried_limit: u64,
    /// Whether items must be whole: what does not fit goes to the next page.
    pub whole: bool,
    /// Whether more items than a page may be shown, where all of them fit when condensed.
    pub all: bool,
}

/// A stretch of a snapshot, and the items in it.
pub type Stretch = (Vec<u8>, Vec<(usize, crate::json::Span)>);

/// Items that are priced where it need not be known well what the others cost.
const PRICED: usize = 4;

/// Makes a page. `items` begin with the first item asked for: all of them where [`Ask::all`], else at most as many as the limit; `base` is a
/// cursor into the snapshot, `taste` how items are condensed that do not fit whole.
#[must_use]
pub fn show(
    list: &ListIndex,
    form: Form,
    mut items: Vec<Item<'_>>,
    ask: Ask,
    base: &Cursor,
    frame: &Frame<'_>,
    taste: Option<Taste<'_>>,
) -> Shown {
    let limit = usize::try_from(ask.limit).unwrap_or(usize::MAX).min(items.len());
    if !list.blocks && ask.within == 0 {
        compact(&mut items);
    }
    let items = items.as_slice();
    let page = |count: usize| page(list, form, items.iter().take(count), ask, base);
    if ask.within == 0 {
        let fixed = frame.halves(&page(0)).cost;
        // How many fit, where no more than so many of them are priced.
        let fitting = |priced: usize| {
            let costs = costs(list, items.get(..limit).unwrap_or_default(), frame, priced);
            may_fit(&costs, fixed, frame.allowance)
        };
        let taste = taste.filter(|_| !list.blocks);
        // Where it is far from all of them they are condensed, and how many it is exactly does not matter.
        let may_condense = taste.is_some() && !ask.whole;
        let few = may_condense.then(|| fitting(PRICED)).filter(|few| few * 2 < limit);
        let mut count = few.unwrap_or_else(|| fitting(usize::MAX));
        let fit = |count| fit(count, frame.allowance, |count| frame.halves(&page(count)).cost);
        // Nearly all of a page in whole items is better than all of it in pieces.
        let mostly = |count: usize| count * 10 >= limit * 9;
        if mostly(count) {
            count = fit(count);
        }
        let condense = !ask.whole && !mostly(count);
        let taste = taste.filter(|_| condense || ask.all);
        let records = taste.and_then(|taste| Records::of(items, taste));
        if let Some(shown) = records
            .as_ref()
            .filter(|_| condense)
            .and_then(|records| condensed(list, form, items, ask, base, frame, records, count))
        {
            return shown;
        }
        count = fit(if few.is_some() { fitting(usize::MAX) } else { count });
        if count > 0 || items.is_empty() {
            return match records.filter(|_| ask.all) {
                Some(records) => {
                    let others = items.get(count..).unwrap_or_default();
                    with_others(page(count), others, frame, &records)
                }
                None => page(count),
            };
        }
    }
    part(list, form, items, ask, base, frame)
}

/// What the first items cost, up to a full page of them; those after `priced` by what a byte of the others does.
fn costs(list: &ListIndex, items: &[Item<'_>], frame: &Frame<'_>, priced: usize) -> Vec<u64> {
    let (mut room, mut known) = (frame.allowance, Weighed::default());
    let costs = items.iter().enumerate().map_while(|(at, item)| {
        // Pricing stops where the page is full: an item costs at least a token for each 16 of its bytes.
        (room > 0).then_some(())?;
        let cost = known.weight(item.original.len(), at < priced, || {
            let (bytes, form) = item.read();
            let text = if list.blocks { block_text(bytes) } else { visible(bytes, form) };
            frame.estimator.cost(&text) + u64::from(!list.blocks)
        });
        let cost = cost.saturating_mul(frame.copies());
        room = room.saturating_sub(cost);
        Some(cost)
    });
    costs.collect()
}

pub(super) fn page<'i>(
    list: &ListIndex,
    form: Form,
    items: impl Iterator<Item = &'i Item<'i>> + Clone,
    ask: Ask,
    base: &Cursor,
) -> Shown {
    let shown = items.clone().count() as u64;
    let total = list.total();
    let next = ask.first + shown;
    let lists = if list.lists.len() < 2 {
        Vec::new()
    } else {
        per_list(list, items.clone().map(|item| item.list))
    };
    let body = if list.blocks {
        let blocks: Vec<&[u8]> = items.map(Item::bytes).collect();
        Body::Blocks(blocks.join(&b','))
    } else {
        Body::Page(Pieces::new(list, form, items.map(|item| (item.list, item.bytes()))))
    };
    let facts = Facts::Page {
        first: ask.first,
        shown,
        total,
        page_size: ask.page_size,
        lists,
        condensed: None,
    };
    let next = (next < total).then(|| Cursor {
        offset: next,
        within: 0,
        limit: ask.carried_limit,
        whole: u64::from(ask.whole),
        ..base.clone()
    });
    Shown::new(facts, next, body)
}

fn per_list(
    list: &ListIndex,
    shown: impl Iterator<Item = usize> + Clone,
) -> Vec<(String, u64, u64)> {
    let count = |at: usize| shown.clone().filter(|list| *list == at).count() as u64;
    list.lists
        .iter()
        .enumerate()
        .map(|(at, list)| (list.path.clone(), count(at), list.count))
        .collect()
}

/// A piece of an item that is larger than a page, as text: of the item as it came, in whose bytes its place is counted.
fn part(
    list: &ListIndex,
    form: Form,
    items: &[Item<'_>],
    ask: Ask,
    base: &Cursor,
    frame: &Frame<'_>,
) -> Shown {
    let item = items.first().map_or(&[][..], |item| item.original);
    let from = usize::try_from(ask.within).unwrap_or(usize::MAX).min(item.len());
    let rest = item.get(from..).unwrap_or_default();
    let total = list.total();
    let make = |length: usize| {
        let to = (from + length) as u64;
        let (offset, within) =
            if to < item.len() as u64 { (ask.first, to) } else { (ask.first + 1, 0) };
        let facts =
            Facts::Part { item: ask.first, total, from: from as u64, to, bytes: item.len() as u64 };
        let next = (offset < total).then(|| Cursor {
            offset,
            within,
            limit: ask.carried_limit,
            whole: u64::from(ask.whole),
            ..base.clone()
        });
        Shown::new(facts, next, Body::Text(rest.get(..length).unwrap_or(rest).to_vec(), form))
    };
    let mut room = frame.allowance.saturating_sub(frame.halves(&make(0)).cost) / frame.copies();
    loop {
        let shown = make(trim(rest, form, &frame.estimator, room.max(1)));
        let cost = frame.halves(&shown).cost;
        if cost <= frame.allowance || room <= 1 {
            return shown;
        }
        room -= (cost - frame.allowance).div_ceil(frame.copies()).min(room - 1).max(1);
    }
}

/// Reads the items that were asked for from a snapshot, no more than a page can hold.
///
/// # Errors
/// [`Missing`].
pub fn stored(
    stored: &Stored<'_>,
    list: &ListIndex,
    ask: Ask,
    allowance: u64,
) -> Result<Stretch, Missing> {
    let mark = list.mark(ask.first).ok_or(Missing::Gone)?;
    // Whole items: a token is at most 16 bytes. Condensed ones are made from more.
    let bytes_a_token = if ask.whole { 16 } else { 160 };
    let most_bytes = usize::try_from(allowance.saturating_mul(bytes_a_token)).unwrap_or(usize::MAX);
    let mut length = (SEGMENT_BYTES + most_bytes / 2) as u64;
    loop {
        let bytes = stored.bytes(mark.offset, mark.offset.saturating_add(length))?;
        let whole = mark.offset + bytes.len() as u64 >= stored.index.bytes;
        match window(
            &bytes,
            stored.index.form,
            list,
            mark.item,
            mark.offset,
            ask,
            most_bytes,
            whole,
        ) {
            Some(items) => return Ok((bytes, items)),
            None if whole => return Err(Missing::Gone),
            None => length = length.saturating_mul(2),
        }
    }
}

/// The items that were asked for; none where the window ends before they do.
#[allow(clippy::too_many_arguments, reason = "one step of `stored`, which has them all at hand")]
fn window(
    bytes: &[u8],
    form: Form,
    list: &ListIndex,
    item: u64,
    offset: u64,
    ask: Ask,
    most_bytes: usize,
    whole: bool,
) -> Option<Vec<(usize, crate::json::Span)>> {
    let (mut at, mut before) = (0usize, 0u64);
    while list.lists.get(at).is_some_and(|list| before + list.count <= item) {
        before += list.lists.get(at)?.count;
        at += 1;
    }
    let mut scanner = Scanner::new(bytes, form);
    let (mut number, mut held, mut items) = (item, 0, Vec::new());
    while (items.len() as u64) < ask.limit && held <= most_bytes && number < list.total() {
        while number >= before + list.lists.get(at)?.count {
            before += list.lists.get(at)?.count;
            at += 1;
            let start = list.lists.get(at)?.start.checked_sub(offset)?;
            if start > bytes.len() as u64 {
                return None;
            }
            scanner = Scanner::starting_at(bytes, form, usize::try_from(start).ok()?);
        }
        let span = match scanner.next_element() {
            Ok(Some(span)) if span.end < bytes.len() || whole => span,
            Ok(_) | Err(ScanError::Syntax(_) | ScanError::TooDeep) => return None,
        };
        if number >= ask.first {
            held += span.len();
            items.push((at, span));
        }
        number += 1;
    }
    Some(items)
}
