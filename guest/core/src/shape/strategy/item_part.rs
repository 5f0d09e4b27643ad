//! Shows a part of an item that exceeds a page.

use super::{Strategy, Task};
use crate::json::text::Form;
use crate::shape::chunk::trim;
use crate::shape::content_block::block_text;
use crate::shape::highlight::shortened;
use crate::shape::list::ListTask;
use crate::shape::{Coverage, Excerpt, ExcerptBody};
use crate::snapshot::Cursor;
use crate::text::lines::IndexedText;
use crate::text::log_entry::severe_entries;
use crate::text::severity::Severity;
use crate::tokens::Estimator;

/// The share of the token limit, as a divisor, for the beginnings of other content blocks.
const OTHERS_SHARE: u64 = 5;
/// The maximum number of quoted bytes of another content block.
const MAX_QUOTED_BYTES: usize = 240;

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
        let estimator = &task.pricer.estimator;
        let is_first_block = list.index.blocks && from == 0;
        let limit = task.pricer.token_limit() / OTHERS_SHARE;
        let highlights = is_first_block.then(|| other_blocks(list, estimator, limit)).flatten();
        let make = |length: usize| {
            let body = ExcerptBody::Text(rest.get(..length).unwrap_or(rest).to_vec(), form);
            let part = part(list, task.base, item.len(), from..from + length, body);
            Excerpt { highlights: highlights.clone(), ..part }
        };
        Some(task.pricer.longest_prefix(make, |tokens| trim(rest, form, estimator, tokens)))
    }
}

/// Returns the first error of each content block after the first one, or else its first line, as
/// many as fit `token_limit`. `None` if there are no other blocks with text. O(n).
fn other_blocks(list: &ListTask<'_>, estimator: &Estimator, token_limit: u64) -> Option<String> {
    let mut out = "Other blocks:".to_owned();
    let mut room = token_limit.checked_sub(estimator.cost(out.as_bytes()))?;
    let heading = out.len();
    for (item, number) in list.items.iter().skip(1).zip(list.request.first + 2..) {
        let text = block_text(item.original, false);
        let lines = IndexedText::new(&text, Form::Raw);
        let filled = lines.lines().find(|line| !line.trim_ascii().is_empty());
        let Some(first) = filled else { continue };
        let entries = severe_entries(&lines).entries;
        let error = entries.into_iter().find(|entry| entry.level == Severity::Error);
        let quoted = error.map_or(first, |error| error.says);
        let line = format!("\n{number}: {}", shortened(&quoted, MAX_QUOTED_BYTES));
        let Some(rest) = room.checked_sub(estimator.cost(line.as_bytes()) + 1) else { break };
        room = rest;
        out.push_str(&line);
    }
    (out.len() > heading).then_some(out)
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
