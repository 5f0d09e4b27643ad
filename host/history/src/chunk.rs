//! Chunks: all cells of a minute, hour or day, packed in one blob.
//!
//! A row for each cell would take 100 bytes, and a microsecond to read. A packed cell takes 25
//! bytes and 40 ns. A chunk contains its cells in order of series and revision. Each cell consists
//! of
//!
//! - the difference of its series to that of the cell before, its revision, and the length of
//!   the rest;
//! - a bit for each sum that is not zero, and these sums;
//! - the histograms of latency, tokens, and upstreams' time. The histogram of tokens is omitted
//!   after a single call, and that of upstreams' time after fewer than two tool calls. The sums
//!   contain the same information then.
//!
//! All numbers have variable lengths.

use std::cmp::Ordering;

use crate::cell::{SUMS, Sum, Values};
use crate::varint;

/// The names under which the calls of a cell are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ChunkKey {
    /// The id in the table `series`, which identifies upstream, tool, client and outcome.
    pub(crate) series: u64,
    pub(crate) revision: u64,
}

/// A cell in a chunk, whose values are not read yet.
#[derive(Clone, Copy)]
pub(crate) struct PackedCell<'c> {
    pub(crate) key: ChunkKey,
    body: &'c [u8],
}

impl PackedCell<'_> {
    /// Adds the sums of the cell to `values`. Also adds the histograms if `has_histograms` is true.
    /// Ignores damaged parts.
    pub(crate) fn add_to(&self, values: &mut Values, has_histograms: bool) {
        let _ = self.read(values, has_histograms);
    }

    fn read(&self, values: &mut Values, has_histograms: bool) -> Option<()> {
        let mut rest = self.body;
        let present = varint::read(&mut rest)?;
        let mut sums = [0_i64; SUMS];
        for (at, sum) in sums.iter_mut().enumerate() {
            if present & (1 << at) != 0 {
                *sum = i64::try_from(varint::read(&mut rest)?).unwrap_or(i64::MAX);
            }
        }
        for (value, more) in values.sums.iter_mut().zip(sums) {
            *value = value.saturating_add(more);
        }
        if !has_histograms {
            return Some(());
        }
        let number = |sum| sums.get(sum as usize).map_or(0, |sum| sum.unsigned_abs());
        let [latency, tokens, upstream] = &mut values.histograms;
        latency.merge_written(&mut rest)?;
        match is_single(&sums) {
            true => tokens.add(number(Sum::TokensBefore)),
            false => tokens.merge_written(&mut rest)?,
        }
        match number(Sum::ToolCalls) {
            0 => {}
            1 => upstream.add(number(Sum::UpstreamMicros)),
            _ => upstream.merge_written(&mut rest)?,
        }
        Some(())
    }
}

fn is_single(sums: &[i64; SUMS]) -> bool {
    sums.get(Sum::Calls as usize) == Some(&1)
}

/// Iterates over the cells of a chunk. Stops at damaged data.
pub(crate) struct Cells<'c> {
    rest: &'c [u8],
    series: u64,
}

/// Returns the cells of a chunk.
pub(crate) fn cells(chunk: &[u8]) -> Cells<'_> {
    Cells { rest: chunk, series: 0 }
}

impl<'c> Iterator for Cells<'c> {
    type Item = PackedCell<'c>;

    fn next(&mut self) -> Option<Self::Item> {
        self.series = self.series.checked_add(varint::read(&mut self.rest)?)?;
        let revision = varint::read(&mut self.rest)?;
        let length = usize::try_from(varint::read(&mut self.rest)?).ok()?;
        let (body, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(PackedCell { key: ChunkKey { series: self.series, revision }, body })
    }
}

/// Writes a chunk, cell by cell.
#[derive(Default)]
pub(crate) struct ChunkWriter {
    bytes: Vec<u8>,
    series: u64,
    body: Vec<u8>,
}

impl ChunkWriter {
    /// Appends a cell. Keys must be in ascending order.
    pub(crate) fn push(&mut self, key: ChunkKey, values: &Values) {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        let filled = || values.sums.iter().enumerate().filter(|(_, sum)| **sum > 0);
        varint::write(&mut body, filled().fold(0, |bits, (at, _)| bits | 1 << at));
        filled().for_each(|(_, sum)| varint::write(&mut body, sum.unsigned_abs()));
        let [latency, tokens, upstream] = &values.histograms;
        latency.write(&mut body);
        if !is_single(&values.sums) {
            tokens.write(&mut body);
        }
        if values.get(Sum::ToolCalls) > 1 {
            upstream.write(&mut body);
        }
        self.push_packed(key, &body);
        self.body = body;
    }

    fn push_packed(&mut self, key: ChunkKey, body: &[u8]) {
        varint::write(&mut self.bytes, key.series.saturating_sub(self.series));
        varint::write(&mut self.bytes, key.revision);
        varint::write(&mut self.bytes, body.len() as u64);
        self.bytes.extend_from_slice(body);
        self.series = key.series;
    }

    /// Returns the bytes of the chunk.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Merges two chunks. O(bytes of both). Cells that only one chunk has are copied.
pub(crate) fn merge(one: &[u8], other: &[u8]) -> Vec<u8> {
    let mut merged = ChunkWriter::default();
    merged.bytes.reserve(one.len() + other.len());
    let (mut left, mut right) = (cells(one).peekable(), cells(other).peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(left), Some(right)) => left.key.cmp(&right.key),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return merged.finish(),
        };
        let cell = if order == Ordering::Greater { right.next() } else { left.next() };
        let Some(cell) = cell else { return merged.finish() };
        let Some(same) = right.next_if(|_| order == Ordering::Equal) else {
            merged.push_packed(cell.key, cell.body);
            continue;
        };
        let mut values = Values::default();
        cell.add_to(&mut values, true);
        same.add_to(&mut values, true);
        merged.push(cell.key, &values);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::event::Event;

    /// A call: its series, revision, and numbers.
    type Call = (u64, u64, u64, u64, bool);

    fn calls() -> impl Strategy<Value = Call> {
        (0_u64..40, 0_u64..3, 0_u64..1 << 40, 0_u64..9_000, any::<bool>())
    }

    fn pack(calls: &[Call]) -> (Vec<u8>, BTreeMap<ChunkKey, Values>) {
        let mut cells: BTreeMap<ChunkKey, Values> = BTreeMap::new();
        for (series, revision, tokens_before, latency_us, is_read) in calls.iter().copied() {
            let values = cells.entry(ChunkKey { series, revision }).or_default();
            let event = Event {
                tokens_before,
                bytes_before: tokens_before * 4,
                tokens_sent: tokens_before / 2,
                latency_us,
                upstream_us: (series % 2 == 0).then_some(latency_us / 2),
                is_tool_failure: tokens_before % 3 == 0,
                ..Event::default()
            };
            if is_read { values.follow_up(&event) } else { values.call(&event) }
        }
        let mut writer = ChunkWriter::default();
        cells.iter().for_each(|(key, values)| writer.push(*key, values));
        (writer.finish(), cells)
    }

    fn unpack(chunk: &[u8]) -> BTreeMap<ChunkKey, Values> {
        let read = |cell: PackedCell<'_>| {
            let mut values = Values::default();
            cell.add_to(&mut values, true);
            (cell.key, values)
        };
        cells(chunk).map(read).collect()
    }

    proptest! {
        #[test]
        fn merged_chunk_has_the_cells_of_both(
            one in prop::collection::vec(calls(), 0..60),
            other in prop::collection::vec(calls(), 0..60),
        ) {
            let (packed, expected) = pack(&one);
            prop_assert_eq!(&unpack(&packed), &expected);
            let (all, expected) = pack(&[one, other.clone()].concat());
            let merged = merge(&packed, &pack(&other).0);
            prop_assert_eq!(unpack(&merged), expected);
            prop_assert_eq!(merged, all);
        }

        #[test]
        fn damaged_chunks_do_not_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let merged = merge(&bytes, &bytes);
            prop_assert!(cells(&merged).count() <= 2 * cells(&bytes).count());
        }
    }
}
