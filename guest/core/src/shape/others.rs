//! Highlights of a page: the names and ids of the items after the page.

use std::collections::BTreeMap;

use super::condense::records::{IdentitySummary, RecordCondenser};
use super::item::Item;
use super::list::MIN_ITEM_TOKENS;
use super::pricing::ExcerptPricer;
use super::{Coverage, Excerpt};
use crate::text::line_breaks::without_line_breaks;

/// Minimum token limit of a page, per copy in the result, for summaries of the items after the
/// page.
const MIN_TOKENS_FOR_OTHERS: u64 = 400;

/// Minimum number of summarized items after a page. If fewer summaries fit, none is shown, unless
/// fewer items follow.
const MIN_OTHERS: usize = 5;

/// Tokens reserved for the heading above the summaries.
const HEADING_TOKENS: u64 = 24;

/// The failed attempt from which on the number of summarized items shrinks by a third. Earlier ones
/// shrink it by a tenth.
const MAX_CLOSE_TRIES: usize = 3;

/// The number of items that are summarized first, to estimate the number of summaries that fit.
const PROBE_ITEMS: usize = 24;

/// A number of tokens that summaries of [`PROBE_ITEMS`] items never reach.
const UNLIMITED_TOKENS: u64 = 1_000_000;

/// Adds highlights to a page: summaries of `others`, the items after it, by their identifying
/// fields. Adds as many summaries as fit. Returns the page unchanged if too few fit.
pub(super) fn with_others(
    page: Excerpt,
    others: &[Item<'_>],
    pricer: &ExcerptPricer<'_>,
    records: &RecordCondenser<'_>,
) -> Excerpt {
    let each = pricer.token_limit();
    if each < MIN_TOKENS_FOR_OTHERS {
        return page;
    }
    let tokens = pricer.remaining(&page) / pricer.context.notices();
    let tokens = tokens.min(each * 2 / 5).saturating_sub(HEADING_TOKENS);
    let most = usize::try_from(tokens / MIN_ITEM_TOKENS).unwrap_or(usize::MAX);
    let mut count = most.min(others.len());
    let probe = PROBE_ITEMS.min(others.len());
    let lists = list_names(&page);
    let in_turn = (lists.len() > 1).then(|| in_turn(others));
    let others = in_turn.as_deref().unwrap_or(others);
    let mut summarizer = records.identity_summarizer(others);
    if let Some(summary) = summarizer.summarize(probe, UNLIMITED_TOKENS) {
        let cost = pricer.estimator.cost(&summary.values.join(&b','));
        // A tenth more than estimated: too many cost one more try, too few cost items.
        let fit = (tokens * probe as u64 / cost.max(1)).saturating_mul(11) / 10;
        count = count.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1);
    }
    let mut tries = 0;
    while count >= MIN_OTHERS.min(others.len()).max(1) {
        // The ids of some items say nothing to a reader; names do, and so do the ids of all items.
        let says_enough = |summary: &IdentitySummary| {
            count == others.len() || summary.fields.iter().any(|name| !is_id(name))
        };
        // The first items are tried first, with their share of the tokens: that costs little.
        let share = (tokens * probe as u64 / count as u64).max(1);
        if summarizer.summarize(probe, share).is_some_and(|summary| says_enough(&summary))
            && let Some(summary) = summarizer.summarize(count, tokens).filter(says_enough)
        {
            let others = text(&summary, others, &lists);
            let parts = page.highlights.iter().map(String::as_str).chain([others.as_str()]);
            let highlights = Some(parts.collect::<Vec<_>>().join("\n"));
            let longer = Excerpt { highlights, ..page.clone() };
            if pricer.fits(&longer) {
                return longer;
            }
        }
        tries += 1;
        count = if tries < MAX_CLOSE_TRIES { count * 9 / 10 } else { count * 2 / 3 };
    }
    page
}

/// Returns the paths of the lists of a page. Empty if the page has only one list.
fn list_names(page: &Excerpt) -> Vec<&str> {
    match &page.coverage {
        Coverage::Page { lists, .. } => lists.iter().map(|(path, ..)| path.as_str()).collect(),
        _ => Vec::new(),
    }
}

/// Returns the items of several lists alternately: the first of each list, then the second, and so
/// on. Each list is then represented. O(n log n).
fn in_turn<'i>(items: &[Item<'i>]) -> Vec<Item<'i>> {
    let mut counts = BTreeMap::new();
    let turn = |item: &Item<'i>| {
        let count = counts.entry(item.list).or_insert(0_usize);
        *count += 1;
        (*count, item.list)
    };
    let turns: Vec<_> = items.iter().map(turn).collect();
    let mut order: Vec<_> = turns.into_iter().zip(items).collect();
    order.sort_by_key(|(turn, _)| *turn);
    order.into_iter().map(|(_, item)| item.clone()).collect()
}

/// Returns the text with the summaries of the first of `others`, grouped under the names of their
/// lists if there are several.
fn text(summary: &IdentitySummary, others: &[Item<'_>], lists: &[&str]) -> String {
    let count = summary.values.len();
    let which = if count == others.len() { "other" } else { "next" };
    let join = |values: &[&[u8]]| format!("[{}]", String::from_utf8_lossy(&values.join(&b',')));
    if lists.len() < 2 {
        let values: Vec<&[u8]> = summary.values.iter().map(Vec::as_slice).collect();
        return format!("The {which} {count} items in short: {}", join(&values));
    }
    let of_list = |(list, name): (usize, &&str)| {
        let values = summary.values.iter().zip(others);
        let values = values.filter(|(_, item)| item.list == list);
        let values: Vec<&[u8]> = values.map(|(value, _)| value.as_slice()).collect();
        let name = without_line_breaks((*name).to_owned());
        (!values.is_empty()).then(|| format!("{name} {}", join(&values)))
    };
    let parts: Vec<String> = lists.iter().enumerate().filter_map(of_list).collect();
    format!("The {which} items in short: {}", parts.join("; "))
}

/// Returns true if a field path ends with the name of an id, such as `id` or `uuid`. A reader
/// learns nothing about an item from an id alone.
fn is_id(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path).to_lowercase();
    matches!(name.as_str(), "id" | "_id" | "uuid" | "guid" | "number" | "iid")
}
