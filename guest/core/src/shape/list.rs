//! A page of a list: as many items as fit, or a piece of the one that does not.

use super::chunk::trim;
use super::condense::CondenseOptions;
use super::condense::records::RecordCondenser;
use super::condensed::{condensed, with_others};
use super::item::{Item, compact};
use super::page::{Pieces, estimate_fit, fit_count};
use super::render::{RenderContext, block_text};
use super::{Body, Coverage, Excerpt};
use crate::json::scan::{ScanError, Scanner};
use crate::json::text::{Form, visible};
use crate::snapshot::index::{ListIndex, SEGMENT_BYTES};
use crate::snapshot::{Cursor, Missing, StoredSnapshot};
use crate::tokens::Weighed;

/// What is wanted of a list.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
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
const MIN_PRICED_ITEMS: usize = 4;

/// Makes a page. `items` begin with the first item asked for: all of them where [`PageRequest::all`], else at most as many as the limit; `base` is a
/// cursor into the snapshot, `taste` how items are condensed that do not fit whole.
#[must_use]
pub fn show(
    list: &ListIndex,
    form: Form,
    mut items: Vec<Item<'_>>,
    request: PageRequest,
    base: &Cursor,
    renderer: &RenderContext<'_>,
    condense_options: Option<CondenseOptions<'_>>,
) -> Excerpt {
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX).min(items.len());
    if !list.blocks && request.within == 0 {
        compact(&mut items);
    }
    let items = items.as_slice();
    let page = |count: usize| page(list, form, items.iter().take(count), request, base);
    if request.within == 0 {
        let fixed = renderer.render(&page(0)).cost;
        // How many fit, where no more than so many of them are priced.
        let fitting = |priced: usize| {
            let costs = costs(list, items.get(..limit).unwrap_or_default(), renderer, priced);
            estimate_fit(&costs, fixed, renderer.allowance)
        };
        let condense_options = condense_options.filter(|_| !list.blocks);
        // Where it is far from all of them they are condensed, and how many it is exactly does not matter.
        let may_condense = condense_options.is_some() && !request.whole;
        let few = may_condense.then(|| fitting(MIN_PRICED_ITEMS)).filter(|few| few * 2 < limit);
        let mut count = few.unwrap_or_else(|| fitting(usize::MAX));
        let fitted = |count| {
            fit_count(count, renderer.allowance, |count| renderer.render(&page(count)).cost)
        };
        // Nearly all of a page in whole items is better than all of it in pieces.
        let mostly = |count: usize| count * 10 >= limit * 9;
        if mostly(count) {
            count = fitted(count);
        }
        let condense = !request.whole && !mostly(count);
        let condense_options = condense_options.filter(|_| condense || request.all);
        let records = condense_options
            .and_then(|condense_options| RecordCondenser::new(items, condense_options));
        if let Some(excerpt) = records.as_ref().filter(|_| condense).and_then(|records| {
            condensed(list, form, items, request, base, renderer, records, count)
        }) {
            return excerpt;
        }
        count = fitted(if few.is_some() { fitting(usize::MAX) } else { count });
        if count > 0 || items.is_empty() {
            return match records.filter(|_| request.all) {
                Some(records) => {
                    let others = items.get(count..).unwrap_or_default();
                    with_others(page(count), others, renderer, &records)
                }
                None => page(count),
            };
        }
    }
    part(list, form, items, request, base, renderer)
}

/// What the first items cost, up to a full page of them; those after `priced` by what a byte of the others does.
fn costs(
    list: &ListIndex,
    items: &[Item<'_>],
    renderer: &RenderContext<'_>,
    priced: usize,
) -> Vec<u64> {
    let (mut room, mut known) = (renderer.allowance, Weighed::default());
    let costs = items.iter().enumerate().map_while(|(at, item)| {
        // Pricing stops where the page is full: an item costs at least a token for each 16 of its bytes.
        (room > 0).then_some(())?;
        let cost = known.weight(item.original.len(), at < priced, || {
            let (bytes, form) = item.read();
            let text = if list.blocks { block_text(bytes) } else { visible(bytes, form) };
            renderer.estimator.cost(&text) + u64::from(!list.blocks)
        });
        let cost = cost.saturating_mul(renderer.copies());
        room = room.saturating_sub(cost);
        Some(cost)
    });
    costs.collect()
}

pub(super) fn page<'i>(
    list: &ListIndex,
    form: Form,
    items: impl Iterator<Item = &'i Item<'i>> + Clone,
    request: PageRequest,
    base: &Cursor,
) -> Excerpt {
    let shown = items.clone().count() as u64;
    let total = list.total();
    let next = request.first + shown;
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
    let coverage = Coverage::Page {
        first: request.first,
        shown,
        total,
        page_size: request.page_size,
        lists,
        condensed: None,
    };
    let next = (next < total).then(|| Cursor {
        offset: next,
        within: 0,
        limit: request.carried_limit,
        whole: u64::from(request.whole),
        ..base.clone()
    });
    Excerpt::new(coverage, next, body)
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
    request: PageRequest,
    base: &Cursor,
    renderer: &RenderContext<'_>,
) -> Excerpt {
    let item = items.first().map_or(&[][..], |item| item.original);
    let from = usize::try_from(request.within).unwrap_or(usize::MAX).min(item.len());
    let rest = item.get(from..).unwrap_or_default();
    let total = list.total();
    let make = |length: usize| {
        let to = (from + length) as u64;
        let (offset, within) =
            if to < item.len() as u64 { (request.first, to) } else { (request.first + 1, 0) };
        let coverage = Coverage::Part {
            item: request.first,
            total,
            from: from as u64,
            to,
            bytes: item.len() as u64,
        };
        let next = (offset < total).then(|| Cursor {
            offset,
            within,
            limit: request.carried_limit,
            whole: u64::from(request.whole),
            ..base.clone()
        });
        Excerpt::new(coverage, next, Body::Text(rest.get(..length).unwrap_or(rest).to_vec(), form))
    };
    let mut room =
        renderer.allowance.saturating_sub(renderer.render(&make(0)).cost) / renderer.copies();
    loop {
        let excerpt = make(trim(rest, form, &renderer.estimator, room.max(1)));
        let cost = renderer.render(&excerpt).cost;
        if cost <= renderer.allowance || room <= 1 {
            return excerpt;
        }
        room -= (cost - renderer.allowance).div_ceil(renderer.copies()).min(room - 1).max(1);
    }
}

/// Reads the items that were asked for from a snapshot, no more than a page can hold.
///
/// # Errors
/// [`Missing`].
pub fn stored(
    stored: &StoredSnapshot<'_>,
    list: &ListIndex,
    request: PageRequest,
    allowance: u64,
) -> Result<Stretch, Missing> {
    let mark = list.mark(request.first).ok_or(Missing::Gone)?;
    // Whole items: a token is at most 16 bytes. Condensed ones are made from more.
    let bytes_a_token = if request.whole { 16 } else { 160 };
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
            request,
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
    request: PageRequest,
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
    while (items.len() as u64) < request.limit && held <= most_bytes && number < list.total() {
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
        if number >= request.first {
            held += span.len();
            items.push((at, span));
        }
        number += 1;
    }
    Some(items)
}
