//! Shows a part of an item that exceeds a page.

use super::{Strategy, Task};
use crate::json::text::Form;
use crate::shape::chunk::trim;
use crate::shape::list::ListTask;
use crate::shape::{Coverage, Excerpt, ExcerptBody};
use crate::snapshot::Cursor;

/// The strategy that shows a part of the first requested item as text, as many bytes as fit.
pub(super) struct ItemPart;

impl Strategy for ItemPart {
    fn reduce(&self, task: &Task<'_>) -> Option<Excerpt> {
        let list = task.list()?;
        let form: Form = list.form;
        // Offsets count bytes of the item as it was received, so it is not minified here.
        let item = list.items.first().map_or(&[][..], |item| item.original);
        let from = usize::try_from(list.request.within).unwrap_or(usize::MAX).min(item.len());
        let rest = item.get(from..).unwrap_or_default();
        let make = |length: usize| {
            let body = ExcerptBody::Text(rest.get(..length).unwrap_or(rest).to_vec(), form);
            part(list, task.base, item.len(), from..from + length, body)
        };
        let estimator = &task.pricer.estimator;
        Some(task.pricer.longest_prefix(make, |tokens| trim(rest, form, estimator, tokens)))
    }
}

/// Returns the excerpt for the bytes `range` of the first requested item, which has `bytes` bytes.
/// Its cursor leads to the byte after the range or, at the end, to the next item.
fn part(
    list: &ListTask<'_>,
    base: &Cursor,
    bytes: usize,
    range: std::ops::Range<usize>,
    body: ExcerptBody,
) -> Excerpt {
    let (request, total) = (list.request, list.index.total());
    let (from, to, bytes) = (range.start as u64, range.end as u64, bytes as u64);
    let (offset, within) = if to < bytes { (request.first, to) } else { (request.first + 1, 0) };
    let next = (offset < total).then(|| Cursor {
        offset,
        within,
        limit: request.carried_limit,
        whole: u64::from(request.whole),
        ..base.clone()
    });
    Excerpt::new(Coverage::Part { item: request.first, total, from, to, bytes }, next, body)
}
