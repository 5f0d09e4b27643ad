//! A page of condensed items: fewer fields and shorter values, in more items.

use super::{Strategy, Task};
use crate::json::text::{Form, convert};
use crate::shape::condense::Condensed;
use crate::shape::condense::records::RecordCondenser;
use crate::shape::item::Item;
use crate::shape::list::{ListTask, MIN_ITEM_TOKENS, page};
use crate::shape::others::{MIN_OTHERS, with_others};
use crate::shape::{Coverage, Excerpt, FieldCoverage};
use crate::snapshot::Cursor;

/// Minimum token limit of a page, per copy in the result, at which tokens are reserved for
/// summaries of later items.
const MIN_TOKENS_TO_RESERVE: u64 = 1_500;

/// Tokens that are reserved for field names in the result notice, per copy of the page in the
/// result.
const FIELD_NAME_TOKENS: u64 = 50;

/// The strategy that shows a page of condensed items: all items, else a full page, else as many as
/// fit.
pub(super) struct CondensePage;

impl Strategy for CondensePage {
    fn reduce(&self, task: &Task<'_>) -> Option<Excerpt> {
        let list = task.list_of_whole_items()?;
        let whole_items = list.whole_items().count;
        if list.request.whole || list.is_nearly_full(whole_items) {
            return None;
        }
        let records = list.records()?;
        item_counts(task, list, whole_items).into_iter().find_map(|count| {
            let (items, others) = list.items.split_at_checked(count)?;
            let page = condensed_page(task, list, items, others.len(), records)?;
            let with =
                list.request.all.then(|| with_others(page.clone(), others, task.pricer, records));
            Some(with.unwrap_or(page))
        })
    }
}

/// Returns the page sizes to try, in items, largest first. Sizes up to `whole_items`, the number
/// that fits uncondensed, are left out.
fn item_counts(task: &Task<'_>, list: &ListTask<'_>, whole_items: usize) -> Vec<usize> {
    let limit = task.pricer.token_limit() / task.pricer.copies();
    let most = usize::try_from(limit / MIN_ITEM_TOKENS).unwrap_or(usize::MAX);
    let mut counts = Vec::new();
    if list.request.all && list.items.len() <= most {
        counts.push(list.items.len());
    }
    let mut count = list.limit().min(most);
    while count > whole_items {
        counts.push(count);
        count = count * 2 / 3;
    }
    counts.dedup();
    counts
}

/// Returns a page of `items`, condensed until it fits the token limit. `None` if that is
/// impossible. `others` is the number of items that follow.
fn condensed_page(
    task: &Task<'_>,
    list: &ListTask<'_>,
    items: &[Item<'_>],
    others: usize,
    records: &RecordCondenser<'_>,
) -> Option<Excerpt> {
    let pricer = task.pricer;
    let reserve = list.request.all
        && others >= MIN_OTHERS
        && pricer.token_limit() / pricer.copies() >= MIN_TOKENS_TO_RESERVE;
    let limit = if reserve { pricer.token_limit() * 3 / 5 } else { pricer.token_limit() };
    let empty = Excerpt { more: true, ..list.page(0) };
    let fixed = pricer.cost(&empty) + FIELD_NAME_TOKENS * pricer.copies();
    let tokens = limit.saturating_sub(fixed) / pricer.copies();
    pricer.shrink(limit, tokens, |tokens| {
        Some(excerpt(list, items, &records.condense(items, tokens)?, task.base))
    })
}

fn excerpt(
    list: &ListTask<'_>,
    items: &[Item<'_>],
    condensed: &Condensed,
    base: &Cursor,
) -> Excerpt {
    let convert = |value: &Vec<u8>| {
        let mut out = Vec::new();
        convert(&mut out, value, Form::Raw, list.form);
        out
    };
    let values: Vec<Vec<u8>> = condensed.values.iter().map(convert).collect();
    let items: Vec<Item<'_>> = items
        .iter()
        .zip(&values)
        .map(|(item, value)| Item::new(item.list, value, list.form))
        .collect();
    let request = list.request;
    let mut excerpt = page(list.index, list.form, items.iter(), request, base);
    let is_lossless =
        condensed.dropped.is_empty() && condensed.shortened == 0 && condensed.omitted == 0;
    if is_lossless {
        return excerpt;
    }
    if let Coverage::Page { condensed: fields, .. } = &mut excerpt.coverage {
        *fields = Some(FieldCoverage::from(condensed));
    }
    // The cursor also leads back to these items, so that they can be read whole. In it, 0 means
    // no item, so items are counted from 1.
    match &mut excerpt.next {
        Some(next) => next.first = request.first + 1,
        None => {
            excerpt.next = Some(Cursor {
                offset: request.first,
                limit: request.carried_limit,
                whole: 1,
                ..base.clone()
            });
        }
    }
    excerpt
}
