//! Shared data as a cursor store: slots in sets, since Envoy removes nothing and expires nothing.
//!
//! A set is a directory of its entries, changed by compare-and-swap, and a value for each. A key belongs to one set; there the oldest entries give way. So no more than the bytes
//! that were allowed are ever held, a read costs a directory and a value, and workers need no lock.

use proxy_wasm::hostcalls::{get_shared_data, set_shared_data};
use xxhash_rust::xxh3::xxh3_128;

/// Sets of slots.
const SETS: usize = 64;
/// Slots of a set.
const WAYS: usize = 32;
/// Bytes of an entry in a directory: tag, expiry, when it was written, length.
const ENTRY: usize = 40;
/// How often a directory is tried that others change at the same time.
const TRIES: usize = 16;

/// The slots.
#[derive(Clone, Copy)]
pub(crate) struct Slots {
    /// Bytes that the values of a set may take.
    bytes_of_set: usize,
}

/// A slot in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    tag: u128,
    expires_ms: u64,
    written_ms: u64,
    bytes: u64,
}

/// The store is full of what may not give way, or changes too fast.
#[derive(Debug)]
pub(crate) struct Full;

impl Slots {
    /// Slots for this many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes_of_set: bytes / SETS }
    }

    pub(crate) fn get(self, key: &str, now_ms: u64) -> Option<Vec<u8>> {
        let (set, tag) = place(key);
        let (directory, _) = read(set);
        let way =
            directory.iter().position(|entry| entry.tag == tag && entry.expires_ms > now_ms)?;
        let mut value = get_shared_data(&slot(set, way)).ok()?.0?;
        // Another value may have come here since.
        let at = value.len().checked_sub(size_of::<u128>())?;
        let found = value.split_off(at);
        (found == tag.to_le_bytes()).then_some(value)
    }

    pub(crate) fn put(
        self,
        key: &str,
        value: &[u8],
        expires_ms: u64,
        now_ms: u64,
    ) -> Result<(), Full> {
        let (set, tag) = place(key);
        let entry = Entry { tag, expires_ms, written_ms: now_ms, bytes: value.len() as u64 };
        let (way, emptied) =
            change(set, |directory| make_room(directory, entry, self.bytes_of_set, now_ms))?;
        for way in emptied {
            let _ = set_shared_data(&slot(set, way), Some(&[]), None);
        }
        let value = [value, &tag.to_le_bytes()].concat();
        set_shared_data(&slot(set, way), Some(&value), None).map_err(|_| Full)
    }

    pub(crate) fn extend(self, key: &str, expires_ms: u64) {
        let (set, tag) = place(key);
        let _ = change(set, |directory| {
            for entry in directory.iter_mut().filter(|entry| entry.tag == tag) {
                entry.expires_ms = entry.expires_ms.max(expires_ms);
            }
            Some(())
        });
    }
}

/// Where an entry goes, and which slots are emptied for it.
fn make_room(
    directory: &mut [Entry; WAYS],
    entry: Entry,
    bytes: usize,
    now_ms: u64,
) -> Option<(usize, Vec<usize>)> {
    if entry.bytes > bytes as u64 {
        return None;
    }
    let mut emptied = Vec::new();
    for (way, old) in directory.iter_mut().enumerate() {
        let is_over = old.bytes > 0 && old.expires_ms <= now_ms;
        if is_over || old.tag == entry.tag {
            *old = Entry::default();
            emptied.push(way);
        }
    }
    loop {
        let free = directory.iter().position(|old| *old == Entry::default());
        let used: u64 = directory.iter().map(|old| old.bytes).sum();
        if let Some(way) = free.filter(|_| used + entry.bytes <= bytes as u64) {
            *directory.get_mut(way)? = entry;
            emptied.retain(|other| *other != way);
            return Some((way, emptied));
        }
        let taken = directory.iter().enumerate().filter(|(_, old)| **old != Entry::default());
        let (oldest, _) = taken.min_by_key(|(_, old)| old.written_ms)?;
        *directory.get_mut(oldest)? = Entry::default();
        emptied.push(oldest);
    }
}

/// Changes a directory, again and again until nobody else did in between.
fn change<T>(set: usize, mut by: impl FnMut(&mut [Entry; WAYS]) -> Option<T>) -> Result<T, Full> {
    for _ in 0..TRIES {
        let (mut directory, cas) = read(set);
        let done = by(&mut directory).ok_or(Full)?;
        if set_shared_data(&name(set), Some(&bytes(&directory)), cas).is_ok() {
            return Ok(done);
        }
    }
    Err(Full)
}

fn place(key: &str) -> (usize, u128) {
    let tag = xxh3_128(key.as_bytes());
    ((tag % SETS as u128) as usize, tag)
}

fn name(set: usize) -> String {
    format!("context-guard.{set}")
}

fn slot(set: usize, way: usize) -> String {
    format!("context-guard.{set}.{way}")
}

fn read(set: usize) -> ([Entry; WAYS], Option<u32>) {
    let (bytes, cas) = get_shared_data(&name(set)).unwrap_or_default();
    (entries(&bytes.unwrap_or_default()), cas)
}

fn entries(bytes: &[u8]) -> [Entry; WAYS] {
    let mut directory = [Entry::default(); WAYS];
    for (entry, bytes) in directory.iter_mut().zip(bytes.chunks_exact(ENTRY)) {
        let (tag, rest) = bytes.split_at(size_of::<u128>());
        let number = |at: usize| rest.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        if let (Ok(tag), Some(expires_ms), Some(written_ms), Some(bytes)) =
            (tag.try_into(), number(0), number(8), number(16))
        {
            *entry = Entry { tag: u128::from_le_bytes(tag), expires_ms, written_ms, bytes };
        }
    }
    directory
}

fn bytes(directory: &[Entry; WAYS]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(WAYS * ENTRY);
    for entry in directory {
        bytes.extend(entry.tag.to_le_bytes());
        for number in [entry.expires_ms, entry.written_ms, entry.bytes] {
            bytes.extend(number.to_le_bytes());
        }
    }
    bytes
}
