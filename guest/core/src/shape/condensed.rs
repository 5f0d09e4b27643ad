//! A page of condensed items, and what tells the items after a page apart.

use super::condense::Condensed;
use super::condense::records::{Records, Told};
use super::item::Item;
use super::list::{Ask, page};
use super::render::Frame;
use super::{Facts, Fields, Shown};
use crate::json::text::{Form, convert};
use crate::snapshot::Cursor;
use crate::snapshot::index::ListIndex;

/// Items from which they are not even tried to be condensed all together: each costs some tokens however short it is.
const LEAST_ITEM: u64 = 3;

/// A page of condensed items: all there are, else as many as a page holds, else as many as fit; none where that is no more than `least` whole ones.
#[allow(clippy::too_many_arguments, reason = "one step of `show`, which has them all at hand")]
pub(super) fn condensed(
    list: &ListIndex,
    form: Form,
    items: &[Item<'_>],
    ask: Ask,
    base: &Cursor,
    frame: &Frame<'_>,
    records: &Records<'_>,
    least: usize,
) -> Option<Shown> {
    let limit = usize::try_from(ask.limit).unwrap_or(usize::MAX).min(items.len());
    let most = usize::try_from(frame.allowance / frame.copies() / LEAST_ITEM).unwrap_or(usize::MAX);
    let mut counts = Vec::new();
    if ask.all && items.len() <= most {
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
        let spare = ask.all
            && rest.len() >= LEAST_OTHERS
            && frame.allowance / frame.copies() >= ROOM_TO_SPARE;
        let room = if spare { frame.allowance * 3 / 5 } else { frame.allowance };
        let page =
            condensed_page(list, form, items.get(..count)?, ask, base, frame, records, room)?;
        Some(if ask.all { with_others(page, rest, frame, records) } else { page })
    })
}

#[allow(clippy::too_many_arguments, reason = "one step of `condensed`, which has them all at hand")]
fn condensed_page(
    list: &ListIndex,
    form: Form,
    items: &[Item<'_>],
    ask: Ask,
    base: &Cursor,
    frame: &Frame<'_>,
    records: &Records<'_>,
    allowance: u64,
) -> Option<Shown> {
    let first = Shown { more: true, ..page(list, form, items.iter().take(0), ask, base) };
    let mut room =
        allowance.saturating_sub(frame.halves(&first).cost + 50 * frame.copies()) / frame.copies();
    for _ in 0..6 {
        let condensed = records.all(items, room)?;
        let shown = condensed_shown(list, form, items, &condensed, ask, base);
        let cost = frame.halves(&shown).cost;
        if cost <= allowance {
            return Some(shown);
        }
        room = room.saturating_sub((cost - allowance).div_ceil(frame.copies()).max(1));
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
    ask: Ask,
    base: &Cursor,
) -> Shown {
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
    let mut shown = page(list, form, items.iter(), ask, base);
    let lossless =
        condensed.dropped.is_empty() && condensed.shortened == 0 && condensed.omitted == 0;
    if lossless {
        return shown;
    }
    if let Facts::Page { condensed: fields, .. } = &mut shown.facts {
        *fields = Some(Fields::from(condensed));
    }
    match &mut shown.next {
        Some(next) => next.first = ask.first + 1,
        None => {
            shown.next = Some(Cursor {
                offset: ask.first,
                limit: ask.carried_limit,
                whole: 1,
                ..base.clone()
            });
        }
    }
    shown
}

/// Allowances, for each half, from which there is room for the other items in short.
const ROOM_FOR_OTHERS: u64 = 400;

/// Allowances, for each half, from which a condensed page leaves room for them.
const ROOM_TO_SPARE: u64 = 1_500;

/// Items after a page that are told in short, where not even so many fit.
const LEAST_OTHERS: usize = 5;

/// The page, with what tells the items after it apart: all of them, or as many as there is room for.
pub(super) fn with_others(
    shown: Shown,
    others: &[Item<'_>],
    frame: &Frame<'_>,
    records: &Records<'_>,
) -> Shown {
    let each = frame.allowance / frame.copies();
    if each < ROOM_FOR_OTHERS {
        return shown;
    }
    let room = frame.allowance.saturating_sub(frame.halves(&shown).cost) / frame.notices();
    let room = room.min(each * 2 / 5).saturating_sub(24);
    let mut count = usize::try_from(room / LEAST_ITEM).unwrap_or(usize::MAX).min(others.len());
    // A few of them tell how many fit, about.
    let few = others.get(..PROBE.min(others.len())).unwrap_or_default();
    let mut all = records.telling(others);
    if let Some(told) = all.first(few.len(), ANY_COST) {
        let tokens = frame.estimator.cost(&told.values.join(&b','));
        let fit = (room * few.len() as u64 / tokens.max(1)).saturating_mul(11) / 10;
        count = count.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1);
    }
    let mut tries = 0;
    while count >= LEAST_OTHERS.min(others.len()).max(1) {
        // A part of the ids alone tells a reader nothing; all of them do, and names do.
        let telling =
            |told: &Told| count == others.len() || told.kept.iter().any(|name| !is_id(name));
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
            let longer = Shown { highlights: Some(text), ..shown.clone() };
            if frame.halves(&longer).cost <= frame.allowance {
                return longer;
            }
        }
        tries += 1;
        count = if tries < NEAR { count * 9 / 10 } else { count * 2 / 3 };
    }
    shown
}

/// Counts that are tried close to the one that is expected to fit.
const NEAR: usize = 3;

/// Whether a field holds ids, which mean nothing to a reader.
fn is_id(path: &str) -> bool {
    let name = path.rsplit('.').next().unwrap_or(path).to_lowercase();
    matches!(name.as_str(), "id" | "_id" | "uuid" | "guid" | "number" | "iid")
}

/// Items by which the cost of the others is judged.
const PROBE: usize = 24;
/// More tokens than they can cost.
const ANY_COST: u64 = 1_000_000;
