//! Shows a page of whole items.

use super::{Strategy, Task};
use crate::shape::Excerpt;
use crate::shape::others::with_others;

/// The strategy that shows list items unchanged, as many as fit the token limit.
pub(super) struct Page {
    /// True if the strategy applies in two cases only: the page is nearly full, or the items must
    /// not be condensed. A nearly full page of whole items is better than one of condensed items.
    pub nearly_full: bool,
}

impl Strategy for Page {
    fn reduce(&self, task: &Task<'_>) -> Option<Excerpt> {
        let list = task.list_of_whole_items()?;
        let estimate = list.whole_items();
        if self.nearly_full && !list.request.whole && !list.is_nearly_full(estimate.count) {
            return None;
        }
        let count = list.exact_count();
        if count == 0 && !list.items.is_empty() {
            return None;
        }
        let count = list.grown_count(count);
        let page = list.page(count);
        Some(match list.records().filter(|_| list.request.all) {
            Some(records) => {
                let others = list.items.get(count..).unwrap_or_default();
                with_others(page, others, task.pricer, records)
            }
            None => page,
        })
    }
}
