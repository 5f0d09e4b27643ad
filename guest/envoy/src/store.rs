//! A cursor store in Envoy's shared data, which neither removes nor expires values.
//!
//! The store is a set-associative cache. A key belongs to one set. A set has a directory, which is
//! changed by compare-and-swap, and a slot for each value. If a set has no room for a new entry,
//! the entry evicts the oldest ones. The store therefore never exceeds its size, a read costs a
//! directory and a value, and workers need no lock.

use proxy_wasm::hostcalls::{get_shared_data, set_shared_data};
use xxhash_rust::xxh3::xxh3_128;

/// The number of sets in the set-associative store.
const SETS: usize = 64;
/// The number of slots in a set, each for one value. The set's directory has an entry for each.
const WAYS: usize = 32;
/// Size, in bytes, of a directory entry: tag (16), then expiry, time of writing and length (8
/// each).
const ENTRY_BYTES: usize = 40;
/// Maximum number of compare-and-swap attempts to change a directory that other workers change too.
const MAX_SWAP_ATTEMPTS: usize = 16;

/// The cursor store in Envoy's shared data, organized like a set-associative cache.
#[derive(Clone, Copy)]
pub(crate) struct Slots {
    /// Maximum total size of the values in a set, in bytes.
    set_bytes: usize,
}

/// A directory entry, which describes the value in one slot. The default describes a free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    tag: u128,
    expires_ms: u64,
    written_ms: u64,
    bytes: u64,
}

/// The error of a write. The value is too large for a set, or other workers kept changing the set.
#[derive(Debug)]
pub(crate) struct Full;

impl Slots {
    /// Creates a store for values of at most `bytes` bytes in total.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { set_bytes: bytes / SETS }
    }

    /// Returns the value of a key. `None` if it is not stored.
    pub(crate) fn get(self, key: &str, now_ms: u64) -> Option<Vec<u8>> {
        self.get_written_since(key, 0, now_ms)
    }

    /// Returns the value of a key. `None` if it is not stored, or was written before the time
    /// `since_ms`.
    pub(crate) fn get_written_since(
        self,
        key: &str,
        since_ms: u64,
        now_ms: u64,
    ) -> Option<Vec<u8>> {
        let (set, tag) = locate(key);
        let (directory, _) = read_directory(set);
        let is_wanted = |entry: &Entry| {
            entry.tag == tag && entry.expires_ms > now_ms && entry.written_ms >= since_ms
        };
        let way = directory.iter().position(is_wanted)?;
        let mut value = get_shared_data(&slot_key(set, way)).ok()?.0?;
        // Directory and value are separate reads. Another worker may have replaced the value
        // between them, so the value carries its tag at its end.
        let tag_start = value.len().checked_sub(size_of::<u128>())?;
        let found = value.split_off(tag_start);
        (found == tag.to_le_bytes()).then_some(value)
    }

    pub(crate) fn put(
        self,
        key: &str,
        value: &[u8],
        expires_ms: u64,
        now_ms: u64,
    ) -> Result<(), Full> {
        let (set, tag) = locate(key);
        let entry = Entry { tag, expires_ms, written_ms: now_ms, bytes: value.len() as u64 };
        let (way, emptied) =
            change(set, |directory| make_room(directory, entry, self.set_bytes, now_ms))?;
        for way in emptied {
            let _ = set_shared_data(&slot_key(set, way), Some(&[]), None);
        }
        let value = [value, &tag.to_le_bytes()].concat();
        set_shared_data(&slot_key(set, way), Some(&value), None).map_err(|_| Full)
    }

    pub(crate) fn extend(self, key: &str, expires_ms: u64) {
        let (set, tag) = locate(key);
        let _ = change(set, |directory| {
            for entry in directory.iter_mut().filter(|entry| entry.tag == tag) {
                entry.expires_ms = entry.expires_ms.max(expires_ms);
            }
            Some(())
        });
    }
}

/// Adds an entry to the directory of a set whose values have at most `bytes` bytes in total.
/// Returns the entry's slot and the slots of evicted entries. Returns `None` if the entry is too
/// large.
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
        let is_expired = old.bytes > 0 && old.expires_ms <= now_ms;
        if is_expired || old.tag == entry.tag {
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

/// Changes the directory of `set` with `update`, by compare-and-swap. Retries if another worker
/// changed it meanwhile. Fails if `update` returns `None`.
fn change<T>(
    set: usize,
    mut update: impl FnMut(&mut [Entry; WAYS]) -> Option<T>,
) -> Result<T, Full> {
    for _ in 0..MAX_SWAP_ATTEMPTS {
        let (mut directory, cas) = read_directory(set);
        let done = update(&mut directory).ok_or(Full)?;
        if set_shared_data(&directory_key(set), Some(&encode(&directory)), cas).is_ok() {
            return Ok(done);
        }
    }
    Err(Full)
}

/// Returns the set to which a key belongs, and the key's tag: a hash that identifies the key in its
/// set.
fn locate(key: &str) -> (usize, u128) {
    let tag = xxh3_128(key.as_bytes());
    ((tag % SETS as u128) as usize, tag)
}

fn directory_key(set: usize) -> String {
    format!("context-guard.{set}")
}

fn slot_key(set: usize, way: usize) -> String {
    format!("context-guard.{set}.{way}")
}

fn read_directory(set: usize) -> ([Entry; WAYS], Option<u32>) {
    let (bytes, cas) = get_shared_data(&directory_key(set)).unwrap_or_default();
    (decode(&bytes.unwrap_or_default()), cas)
}

fn decode(bytes: &[u8]) -> [Entry; WAYS] {
    let mut directory = [Entry::default(); WAYS];
    for (entry, bytes) in directory.iter_mut().zip(bytes.chunks_exact(ENTRY_BYTES)) {
        let (tag, rest) = bytes.split_at(size_of::<u128>());
        let number =
            |offset: usize| rest.get(offset..offset + 8)?.try_into().ok().map(u64::from_le_bytes);
        if let (Ok(tag), Some(expires_ms), Some(written_ms), Some(bytes)) =
            (tag.try_into(), number(0), number(8), number(16))
        {
            *entry = Entry { tag: u128::from_le_bytes(tag), expires_ms, written_ms, bytes };
        }
    }
    directory
}

fn encode(directory: &[Entry; WAYS]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(WAYS * ENTRY_BYTES);
    for entry in directory {
        bytes.extend(entry.tag.to_le_bytes());
        for number in [entry.expires_ms, entry.written_ms, entry.bytes] {
            bytes.extend(number.to_le_bytes());
        }
    }
    bytes
}
