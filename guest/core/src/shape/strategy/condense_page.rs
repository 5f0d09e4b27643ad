//! Shows a page of condensed items: more items, with fewer fields and shorter values.

use super::{Strategy, Task};
use crate::json::text::{Form, convert};
use crate::shape::condense::Condensed;
use crate::shape::condense::records::RecordCondenser;
use crate::shape::item::Item;
use crate::shape::list::{ListTask, MIN_ITEM_TOKENS, page};
use crate::shape::others::with_others;
use crate::shape::{Coverage, Excerpt, FieldCoverage};
use crate::snapshot::Cursor;

/// Tokens reserved for field names in the result notice, per copy of the page in the result.
const FIELD_NAME_TOKENS: u64 = 50;

/// The strategy that shows condensed items.
pub(super) struct CondensePage {
    /// True if the strategy shows all items of the lists with all their key fields, or nothing. If
    /// false, it shows a full page, else as many items as fit.
    pub all: bool,
}

impl Strategy for CondensePage {
    fn reduce(&self, task: &Task<'_>) -> Option<Excerpt> {
        let list = task.list_of_whole_items()?;
        if list.request.whole || (self.all && !list.request.all) {
            return None;
        }
        let limit = task.pricer.token_limit();
        let most = usize::try_from(limit / MIN_ITEM_TOKENS).unwrap_or(usize::MAX);
        let records = list.records()?;
        if self.all {
            // What fits is only longer than a page, so it is divided into pages.
            task.whole.as_ref().filter(|whole| whole.is_over_limit)?;
            let page = (list.items.len() <= most)
                .then(|| condensed_page(task, list, &list.items, records, true));
            return page.flatten();
        }
        let whole_items = list.whole_items().count;
        if list.is_nearly_full(whole_items) {
            return None;
        }
        // An estimate may be too high, so that fewer items fit whole than one that was tried.
        let between = std::iter::once_with(|| (list.exact_count() + 1..=whole_items).rev());
        let mut counts = item_counts(list.limit().min(most), whole_items).chain(between.flatten());
        counts.find_map(|count| {
            let (items, others) = list.items.split_at_checked(count)?;
            let page = condensed_page(task, list, items, records, false)?;
            // Fields of the shown items come before names of the others.
            let with =
                list.request.all.then(|| with_others(page.clone(), others, task.pricer, records));
            Some(with.unwrap_or(page))
        })
    }
}

/// Returns the numbers of items to try, from `most` down. Condensing is useful only if it shows
/// more than the `whole_items` that fit without it.
fn item_counts(most: usize, whole_items: usize) -> impl Iterator<Item = usize> {
    let counts = std::iter::successors(Some(most), |count| Some(count * 2 / 3));
    counts.take_while(move |count| *count > whole_items)
}

/// Returns a page of `items`, condensed until it fits the token limit. `None` if that is
/// impossible, or if `needs_keys` and not all key fields fit.
fn condensed_page(
    task: &Task<'_>,
    list: &ListTask<'_>,
    items: &[Item<'_>],
    records: &RecordCondenser<'_>,
    needs_keys: bool,
) -> Option<Excerpt> {
    let pricer = task.pricer;
    let limit = pricer.token_limit();
    let empty = Excerpt { more: true, ..list.page(0) };
    let fixed = pricer.cost(&empty) + FIELD_NAME_TOKENS;
    let tokens = limit.saturating_sub(fixed);
    pricer.shrink(limit, tokens, |tokens| {
        let fits = !needs_keys || records.keeps_key_fields(items.len(), tokens);
        let condensed = fits.then(|| records.condense(items, tokens)).flatten()?;
        let is_enough = !needs_keys || condensed.missing_keys == 0;
        is_enough.then(|| excerpt(list, items, &condensed, task.base))
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
    let page = page(list.index, list.form, items.iter(), request, base);
    let mut excerpt = Excerpt { highlights: list.statistics(), ..page };
    let is_lossless = condensed.dropped.is_empty()
        && condensed.constants.is_empty()
        && condensed.shortened == 0
        && condensed.omitted == 0;
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
