//! Parts of stored answers for programs: records and lines in order, without a token budget.

use super::read::{ReadError, SnapshotReader};
use crate::json::scan::Scanner;
use crate::json::text::{quoted, visible};
use crate::snapshot::index::{ListIndex, SnapshotBody, TextIndex};
use crate::snapshot::stored::Loaded;
use crate::snapshot::{Missing, StoredSnapshot};
use crate::text::lines::LineSpans;

/// The size, in bytes, of stored data to read for one part. For a larger row, more is read.
const PART_BYTES: u64 = 1 << 20;
/// The size, in bytes, of stored data to read for the first part. It is smaller, because many
/// programs read a few rows only.
const FIRST_PART_BYTES: u64 = 64 << 10;

/// The error for a cursor that repeats its call instead of reading a stored answer.
const NOT_STORED: &str = "This answer is not stored: call its tool in the program instead.";

/// The part of a stored answer to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredRange {
    /// The whole answer.
    Whole,
    /// The rows from this number on, counted from 0. Contains at least one row if the answer has
    /// that many.
    Rows(u64),
}

/// A part of a stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPart {
    /// The number of all records of the longest list, or of all lines.
    pub count: u64,
    /// True for records, false for lines of a text.
    pub has_records: bool,
    /// The answer, or a JSON array of rows.
    pub data: Vec<u8>,
    /// The number of the row after the last in `data`.
    pub next: u64,
}

impl SnapshotReader<'_> {
    /// Reads a part of the answer to which the cursor `text` belongs. The position of the cursor in
    /// the answer has no effect. O(part).
    ///
    /// # Errors
    /// Returns [`ReadError`] if entries are not loaded or have expired. Also if the cursor is
    /// invalid, or repeats its call instead of reading a stored answer.
    pub fn read_stored(
        &self,
        text: &str,
        range: StoredRange,
        loaded: &Loaded,
    ) -> Result<StoredPart, ReadError> {
        let cursor = self.verify(text).map_err(ReadError::Cursor)?;
        if cursor.replay.is_some() {
            return Err(ReadError::InvalidRequest(NOT_STORED.to_owned()));
        }
        let stored = StoredSnapshot::open(&cursor.snapshot, loaded)?;
        let part = match &stored.index.body {
            SnapshotBody::List(list) => records(&stored, list, range),
            SnapshotBody::Projected(view) => records(&stored, &view.list, range),
            SnapshotBody::Text(text) => lines(&stored, text, range),
        };
        Ok(part?)
    }
}

/// Returns the number of stored bytes to read from the row `start` on.
fn part_bytes(start: u64) -> u64 {
    if start == 0 { FIRST_PART_BYTES } else { PART_BYTES }
}

fn whole(stored: &StoredSnapshot<'_>) -> Result<Vec<u8>, Missing> {
    let bytes = stored.bytes(0, stored.index.bytes)?;
    Ok(visible(&bytes, stored.index.form).into_owned())
}

fn records(
    stored: &StoredSnapshot<'_>,
    list: &ListIndex,
    range: StoredRange,
) -> Result<StoredPart, Missing> {
    let main = usize::try_from(list.main).unwrap_or(usize::MAX);
    let count = list.lists.get(main).map_or(0, |list| list.count);
    let part = |data: Vec<u8>, next: u64| StoredPart { count, has_records: true, data, next };
    let StoredRange::Rows(start) = range else { return Ok(part(whole(stored)?, count)) };
    if start >= count {
        return Ok(part(b"[]".to_vec(), count));
    }
    // Items are numbered through all lists.
    let before: u64 = list.lists.iter().take(main).map(|list| list.count).sum();
    let (first, end) = (before + start, before + count);
    let list_start = list.lists.get(main).map_or(0, |list| list.start);
    // A mark before this list would make the scanner leave an earlier one.
    let (mut item, mut offset) = (before, list_start);
    if let Some(mark) = list.mark(first).filter(|mark| mark.item > before) {
        (item, offset) = (mark.item, mark.offset);
    }
    let mut length = part_bytes(start);
    loop {
        let bytes = stored.bytes(offset, offset.saturating_add(length))?;
        let is_last = offset + bytes.len() as u64 >= stored.index.bytes;
        let mut scanner = Scanner::new(&bytes, stored.index.form);
        let (mut data, mut at) = (vec![b'['], item);
        while at < end {
            let span = scanner.next_element().ok().flatten();
            // An item that ends with the bytes may go on after them.
            let Some(span) = span.filter(|span| span.end < bytes.len() || is_last) else { break };
            if at >= first {
                if data.len() > 1 {
                    data.push(b',');
                }
                let record = bytes.get(span).unwrap_or_default();
                data.extend_from_slice(&visible(record, stored.index.form));
            }
            at += 1;
        }
        if at > first {
            data.push(b']');
            return Ok(part(data, at - before));
        }
        if is_last {
            return Err(Missing::Gone);
        }
        length = length.saturating_mul(2);
    }
}

fn lines(
    stored: &StoredSnapshot<'_>,
    text: &TextIndex,
    range: StoredRange,
) -> Result<StoredPart, Missing> {
    let count = text.lines;
    let part = |data: Vec<u8>, next: u64| StoredPart { count, has_records: false, data, next };
    let StoredRange::Rows(start) = range else { return Ok(part(whole(stored)?, count)) };
    if start >= count {
        return Ok(part(b"[]".to_vec(), count));
    }
    let mark = text.before_line(start + 1);
    let skipped = usize::try_from(start + 1 - mark.line).unwrap_or(usize::MAX);
    let mut length = part_bytes(start);
    loop {
        let bytes = stored.bytes(mark.offset, mark.offset.saturating_add(length))?;
        let is_last = mark.offset + bytes.len() as u64 >= stored.index.bytes;
        let (mut data, mut at) = (vec![b'['], start);
        for span in LineSpans::new(&bytes, stored.index.form).skip(skipped) {
            if at >= count || (span.end == bytes.len() && !is_last) {
                break;
            }
            if data.len() > 1 {
                data.push(b',');
            }
            let line = visible(bytes.get(span).unwrap_or_default(), stored.index.form);
            let line = String::from_utf8_lossy(&line);
            data.extend_from_slice(&quoted(line.trim_end_matches(['\r', '\n'])));
            at += 1;
        }
        if at > start {
            data.push(b']');
            return Ok(part(data, at));
        }
        if is_last {
            return Err(Missing::Gone);
        }
        length = length.saturating_mul(2);
    }
}
