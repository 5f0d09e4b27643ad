//! A page of condensed items, and what tells the items after a page apart.

use super::condense::Condensed;
use super::condense::records::{IdentitySummary, RecordCondenser};
use super::item::Item;
use super::list::{PageRequest, page};
use super::render::RenderContext;
use super::{Coverage, Excerpt, FieldCoverage};
use crate::json::text::{Form, convert};
use crate::snapshot::Cursor;
use crate::snapshot::index::ListIndex;

/// Items from which they are not even tried to be condensed all together: each costs some tokens however short it is.
const MIN_ITEM_TOKENS: u64 = 3;

/// A page of condensed items: all there are, else as many as a page holds, else as many as fit; none where that is no more than `least` whole ones.
#[allow(clippy::too_many_arguments, reason = "one step of `show`, which has them all at hand")]
pub(super) fn condensed(
    list: &ListIndex,
    form: Form,
    items: &[Item<'_>],
    request: PageRequest,
    base: &Cursor,
    renderer: &RenderContext<'_>,
    records: &RecordCondenser<'_>,
    least: usize,
) -> Option<Excerpt> {
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX).min(items.len());
    let most = usize::try_from(renderer.allowance / renderer.copies() / MIN_ITEM_TOKENS)
        .unwrap_or(usize::MAX);
    let mut counts = Vec::new();
    if request.all && items.len() <= most {
        counts.push(items.len());
    }
    let mut count = limit.min(most);
    while count > least {
        counts.push(count);
        count = count * 2 / 3;
    }
    counts.dedup();
    counts.into_iter().find_map(|count| {
        let rest = items.get(count..)?;
        // Some room is left for what tells the items after a page apart.
        let spare = request.all
            && rest.len() >= MIN_OTHERS
            && renderer.allowance / renderer.copies() >= MIN_TOKENS_TO_RESERVE;
        let room = if spare { renderer.allowance * 3 / 5 } else { renderer.allowance };
        let page = condensed_page(
            list,
            form,
            items.get(..count)?,
            request,
            base,
            renderer,
            records,
            room,
        )?;
        Some(if request.all { with_others(page, rest, renderer, records) } else { page })
    })
}

#[allow(clippy::too_many_arguments, reason = "one step of `condensed`, which has them all at hand")]
fn condensed_page(
    list: &ListIndex,
    form: Form,
    items: &[Item<'_>],
    request: PageRequest,
    base: &Cursor,
    renderer: &RenderContext<'_>,
    records: &RecordCondenser<'_>,
    allowance: u64,
) -> Option<Excerpt> {
    let first = Excerpt { more: true, ..page(list, form, items.iter().take(0), request, base) };
    let mut room = allowance.saturating_sub(renderer.render(&first).cost + 50 * renderer.copies())
        / renderer.copies();
    for _ in 0..6 {
        let condensed = records.all(items, room)?;
        let excerpt = condensed_shown(list, form, items, &condensed, request, base);
        let cost = renderer.render(&excerpt).cost;
        if cost <= allowance {
            return Some(excerpt);
        }
        room = room.saturating_sub((cost - allowance).div_ceil(renderer.copies()).max(1));
        if room == 0 {
            return None;
        }
    }
    None
}

fn condensed_shown(
    list: &ListIndex,
    form: Form,
    items: &[Item<'_>],
    condensed: &Condensed,
    request: PageRequest,
    base: &Cursor,
) -> Excerpt {
    let values: Vec<Vec<u8>> = condensed
        .values
        .iter()
        .map(|value| {
            let mut out = Vec::new();
            convert(&mut out, value, Form::Raw, form);
            out
        })
        .collect();
    let items: Vec<Item<'_>> =
        items.iter().zip(&values).map(|(item, value)| Item::new(item.list, value, form)).collect();
    let mut excerpt = page(list, form, items.iter(), request, base);
    let lossless =
        condensed.dropped.is_empty() && condensed.shortened == 0 && condensed.omitted == 0;
    if lossless {
        return excerpt;
    }
    if let Coverage::Page { condensed: fields, .. } = &mut excerpt.coverage {
        *fields = Some(FieldCoverage::from(condensed));
    }
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

/// Allowances, for each half, from which there is room for the other items in short.
const MIN_TOKENS_FOR_OTHERS: u64 = 400;

/// Allowances, for each half, from which a condensed page leaves room for them.
const MIN_TOKENS_TO_RESERVE: u64 = 1_500;

/// Items after a page that are told in short, where not even so many fit.
const MIN_OTHERS: usize = 5;

/// The page, with what tells the items after it apart: all of them, or as many as there is room for.
pub(super) fn with_others(
    excerpt: Excerpt,
    others: &[Item<'_>],
    renderer: &RenderContext<'_>,
    records: &RecordCondenser<'_>,
) -> Excerpt {
    let each = renderer.allowance / renderer.copies();
    if each < MIN_TOKENS_FOR_OTHERS {
        return excerpt;
    }
    let room =
        renderer.allowance.saturating_sub(renderer.render(&excerpt).cost) / renderer.notices();
    let room = room.min(each * 2 / 5).saturating_sub(24);
    let mut count = usize::try_from(room / MIN_ITEM_TOKENS).unwrap_or(usize::MAX).min(others.len());
    // A few of them tell how many fit, about.
    let few = others.get(..PROBE_ITEMS.min(others.len())).unwrap_or_default();
    let mut all = records.identity_summarizer(others);
    if let Some(told) = all.first(few.len(), UNLIMITED_TOKENS) {
        let tokens = renderer.estimator.cost(&told.values.join(&b','));
        let fit = (room * few.len() as u64 / tokens.max(1)).saturating_mul(11) / 10;
        count = count.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1);
    }
    let mut tries = 0;
    while count >= MIN_OTHERS.min(others.len()).max(1) {
        // A part of the ids alone tells a reader nothing; all of them do, and names do.
        let telling = |told: &IdentitySummary| {
            count == others.len() || told.kept.iter().any(|name| !is_id(name))
        };
        let share = (room * few.len() as u64 / count as u64).max(1);
        if all.first(few.len(), share).is_some_and(|told| telling(&told))
            && let Some(told) = all.first(count, room).filter(telling)
        {
            let which = if count == others.len() {
                format!("The other {count}")
            } else {
                format!("The next {count}")
            };
            let list = told.values.join(&b',');
            let text = format!("{which} items in short: [{}]", String::from_utf8_lossy(&list));
            let longer = Excerpt { highlights: Some(text), ..excerpt.clone() };
            if renderer.render(&longer).cost <= renderer.allowance {
                return longer;
            }
        }
        tries += 1;
        count = if tries < MAX_CLOSE_TRIES { count * 9 / 10 } else { count * 2 / 3 };
    }
    excerpt
}

/// Counts that are tried close to the one that is expected to fit.
const MAX_CLOSE_TRIES: usize = 3;

/// Whether a field holds ids, which mean nothing to a reader.
fn is_id(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path).to_lowercase();
    matches!(name.as_str(), "id" | "_id" | "uuid" | "guid" | "number" | "iid")
}

/// Items by which the cost of the others is judged.
const PROBE_ITEMS: usize = 24;
/// More tokens than they can cost.
const UNLIMITED_TOKENS: u64 = 1_000_000;
