//! Reading the items of a list from a stored snapshot.

use super::list::PageRequest;
use crate::json::Span;
use crate::json::scan::Scanner;
use crate::json::text::Form;
use crate::snapshot::index::{ItemMark, ListIndex, SEGMENT_BYTES};
use crate::snapshot::{Missing, StoredSnapshot};

/// Bytes of a snapshot. For each item in them, the index of its list and its span.
pub type StoredItems = (Vec<u8>, Vec<(usize, Span)>);

/// The limits of the data to read for a page.
#[derive(Clone, Copy)]
struct MaxItems {
    /// The maximum number of bytes of the items of a page.
    bytes: usize,
    /// The maximum number of items of a page that grows.
    items: u64,
    /// The maximum number of bytes of the items of a page that grows.
    whole_bytes: usize,
}

/// The bytes of a snapshot from the start of an item on.
struct Window<'w> {
    bytes: &'w [u8],
    form: Form,
    /// The item at which the window begins.
    start: ItemMark,
    /// True if the window reaches the end of the snapshot.
    is_last: bool,
}

/// Reads the requested items from a snapshot. Stops soon after they exceed the amount that fits
/// `token_limit`.
///
/// # Errors
/// Returns [`Missing`] if segments of the snapshot must be loaded first, or no longer
/// exist.
pub fn read_items(
    stored: &StoredSnapshot<'_>,
    list: &ListIndex,
    request: PageRequest,
    token_limit: u64,
) -> Result<StoredItems, Missing> {
    let start = list.mark(request.first).ok_or(Missing::Gone)?;
    // Most tokens have at most 16 bytes. A condensed item is made from about ten times its size.
    let token_bytes = if request.whole { 16 } else { 160 };
    let bytes_of =
        |tokens: u64| usize::try_from(token_limit.saturating_mul(tokens)).unwrap_or(usize::MAX);
    let max_bytes = bytes_of(token_bytes);
    let max = MaxItems {
        bytes: max_bytes,
        items: request.max_items(token_limit),
        // Only items that fit uncondensed make a page grow.
        whole_bytes: bytes_of(16),
    };
    let mut length = (SEGMENT_BYTES + max_bytes / 2) as u64;
    loop {
        let bytes = stored.bytes(start.offset, start.offset.saturating_add(length))?;
        let is_last = start.offset + bytes.len() as u64 >= stored.index.bytes;
        let window = Window { bytes: &bytes, form: stored.index.form, start, is_last };
        match window.items(list, request, max) {
            Some(items) => return Ok((bytes, items)),
            None if is_last => return Err(Missing::Gone),
            None => length = length.saturating_mul(2),
        }
    }
}

impl Window<'_> {
    /// Returns the list index and span of each requested item, up to `max`. `None` if the window
    /// ends before that.
    fn items(
        &self,
        list: &ListIndex,
        request: PageRequest,
        max: MaxItems,
    ) -> Option<Vec<(usize, Span)>> {
        // Items are numbered through all lists. `before` are those of the lists before this one.
        let (mut at, mut before) = (0usize, 0u64);
        while list.lists.get(at).is_some_and(|list| before + list.count <= self.start.item) {
            before += list.lists.get(at)?.count;
            at += 1;
        }
        let mut scanner = Scanner::new(self.bytes, self.form);
        let (mut number, mut held, mut items) = (self.start.item, 0, Vec::new());
        let has_room = |count: u64, held: usize| {
            (count < request.limit && held <= max.bytes)
                || (count < max.items && held <= max.whole_bytes)
        };
        while has_room(items.len() as u64, held) && number < list.total() {
            while number >= before + list.lists.get(at)?.count {
                before += list.lists.get(at)?.count;
                at += 1;
                let start = list.lists.get(at)?.start.checked_sub(self.start.offset)?;
                if start > self.bytes.len() as u64 {
                    return None;
                }
                let start = usize::try_from(start).ok()?;
                scanner = Scanner::starting_at(self.bytes, self.form, start);
            }
            // An item that ends with the window may go on after it.
            let span = scanner.next_element().ok().flatten();
            let span = span.filter(|span| span.end < self.bytes.len() || self.is_last)?;
            if number >= request.first {
                held += span.len();
                items.push((at, span));
            }
            number += 1;
        }
        Some(items)
    }
}
